// SPDX-License-Identifier: Apache-2.0
// What is chosen above the plots: columns of axes, colour and size, and the list of filters.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const GROUPS = { setting: "Settings", score: "Scores", training: "Training" };
  const CHOICES = [["x", "Across", null], ["y", "Up", null],
    ["colour", "Colour", "setting"], ["size", "Size", "none"]];

  // Columns by group, in the order of the population.
  function grouped(columns) {
    const groups = new Map();
    for (const column of columns) {
      const name = GROUPS[column.group] ?? "Others";
      groups.set(name, [...(groups.get(name) ?? []), column]);
    }
    return groups;
  }

  // --- axes, colour, size
  ui.axisControls = (shared) => {
    const boxes = CHOICES.map(([axis, label, first]) => axisChoice(shared, axis, label, first));
    const attributes = { class: "population-controls" };
    const element = ui.element("div", attributes, ...boxes.map(({ box }) => box));
    return { element, update: () => boxes.forEach((one) => one.update()) };
  };

  function axisChoice(shared, axis, label, first) {
    const select = ui.element("select", { "data-axis": axis });
    if (first) select.append(ui.element("option", { value: first }, first));
    for (const [name, columns] of grouped(shared.columns.values())) {
      const options = columns.map(({ key, label: words }) => (
        ui.element("option", { value: key }, words)));
      select.append(ui.element("optgroup", { label: name }, ...options));
    }
    const log = ui.element("button", {
      type: "button", class: "population-log", "data-log": axis,
      "aria-label": `${label}: logarithmic`,
    }, "log");
    select.addEventListener("change", () => shared.setAxis(axis, select.value));
    log.addEventListener("click", () => shared.toggleLog(shared.axes[axis]));
    const box = ui.element("div", { class: "population-choice" },
      ui.element("label", {}, ui.element("span", {}, label), select), log);
    const update = () => {
      select.value = shared.axes[axis];
      const column = shared.columns.get(select.value);
      log.hidden = select.value === first || !column?.wide;
      if (column) log.setAttribute("aria-pressed", String(shared.isLog(column)));
    };
    return { box, update };
  }

  // --- filters as chips
  ui.chips = (shared) => {
    const count = ui.element("strong", { class: "population-count" });
    // The list takes the focus of a chip that goes.
    const list = ui.element("ul", { class: "population-filters", tabindex: "-1" });
    const clear = ui.element("button", { type: "button", class: "population-clear" }, "clear all");
    clear.addEventListener("click", () => {
      shared.filters.clear();
      shared.filtered(false);
      list.focus();
    });
    const element = ui.element("div", { class: "population-chips" }, count, list, clear);
    return {
      element,
      update() {
        const listed = shared.filters.listed();
        count.textContent = `${shared.filters.shownCount} of ${shared.count} models shown`;
        const words = "Drag over dots or along an axis to filter.";
        const nothing = ui.element("li", { class: "population-hint" }, words);
        list.replaceChildren(...listed.map((filter) => chip(shared, list, filter)));
        if (!listed.length) list.append(nothing);
        clear.hidden = listed.length === 0;
      },
    };
  };

  function chip(shared, list, { key, words, remove }) {
    const button = ui.element("button", {
      type: "button", "data-key": key, "aria-label": `remove the filter ${words}`, title: words,
    }, ui.words(words), ui.element("span", { "aria-hidden": "true" }, "×"));
    button.addEventListener("click", () => {
      remove();
      shared.filtered(false);
      list.focus();
    });
    return ui.element("li", {}, button);
  }

  // --- which columns
  ui.columnChoice = (shared) => {
    const summary = ui.element("summary", {});
    const element = ui.element("details", { class: "population-columns" }, summary);
    const boxes = [];
    for (const [name, columns] of grouped(shared.columns.values())) {
      const labels = columns.map((column) => {
        const box = ui.element("input", { type: "checkbox", "data-key": column.key });
        box.addEventListener("change", () => shared.chooseColumn(column.key, box.checked));
        boxes.push(box);
        const title = column.remark || null;
        return ui.element("label", { title }, box, ui.words(column.label));
      });
      element.append(ui.element("fieldset", {}, ui.element("legend", {}, name), ...labels));
    }
    return {
      element,
      update() {
        boxes.forEach((box) => { box.checked = shared.chosenColumns.has(box.dataset.key); });
        summary.textContent = `Columns (${shared.chosenColumns.size} of ${boxes.length})`;
      },
    };
  };
})();
