// SPDX-License-Identifier: Apache-2.0
// What a dot is, in words: the box beside it, and the sentence for those who listen.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  // The columns that the scatter shows a model by, each once.
  function chosenColumns({ axes, columns }) {
    const keys = new Set([axes.x, axes.y, axes.colour, axes.size]);
    return [...keys].map((key) => columns.get(key)).filter(Boolean);
  }

  function circumstances({ population: { rows, settings } }, row) {
    const setting = settings[rows.setting[row]]?.label;
    const seed = rows.seed[row];
    const known = (value) => value !== null && value !== undefined && value !== "";
    return [setting, known(seed) ? `seed ${seed}` : null, rows.status[row]].filter(known);
  }

  ui.spoken = (shared, row) => {
    const values = chosenColumns(shared).map((one) => `${one.label} ${ui.shown(one, row)}`);
    const name = shared.population.rows.name[row];
    return [name, ...circumstances(shared, row), ...values].join("; ");
  };

  ui.tooltip = (shared, scatter) => {
    const attributes = { class: "population-tooltip", role: "tooltip", hidden: true };
    const element = ui.element("div", attributes);
    return {
      element,
      update() {
        const row = shared.hovered;
        element.hidden = row < 0 || !shared.explained || scatter.brush !== null;
        if (element.hidden) return;
        element.replaceChildren(...describe(shared, row));
        element.dataset.key = shared.population.rows.key[row];
        beside(element, scatter, row);
      },
    };
  };

  function describe(shared, row) {
    const { rows } = shared.population;
    const list = ui.element("dl");
    for (const column of chosenColumns(shared)) {
      list.append(
        ui.element("dt", {}, ui.words(column.label)),
        ui.element("dd", {}, ui.words(ui.shown(column, row))),
      );
      if (!column.remark) continue;
      list.append(ui.element("dd", { class: "remark" }, ui.words(column.remark)));
    }
    const about = circumstances(shared, row).map((text) => ui.words(text, { class: "part" }));
    const name = ui.element("strong", {}, ui.words(rows.name[row]));
    const closed = rows.model[row] === false ? "Cannot be opened: its weights are not here." : "";
    const words = ui.element("p", { class: "closed" }, closed);
    return [name, ui.element("p", {}, ...about), words, list];
  }

  // Right of the dot and above it where there is room, and never outside the plot's width.
  function beside(element, { frame, x, y }, row) {
    const { offsetWidth: width, offsetHeight: height } = element;
    const right = x[row] + 14 + width <= frame.width;
    const left = right ? x[row] + 14 : Math.max(0, x[row] - 14 - width);
    const above = y[row] - height - 10;
    element.style.left = `${Math.min(left, Math.max(0, frame.width - width))}px`;
    element.style.top = `${above >= -40 ? above : y[row] + 14}px`;
  }
})();
