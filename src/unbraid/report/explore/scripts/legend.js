// SPDX-License-Identifier: Apache-2.0
// The legend: what colours, shapes and sizes mean, and switches for settings, levels and statuses.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const MOST_LEVELS = 60;

  ui.legend = (shared) => {
    const element = ui.element("aside", { class: "population-legend", "aria-label": "Legend" });
    const switches = []; // what counts and pressed states are written into
    element.addEventListener("pointerover", (event) => shared.hoverSetting(settingOf(event)));
    element.addEventListener("pointerleave", () => shared.hoverSetting(-1));
    element.addEventListener("focusin", (event) => shared.hoverSetting(settingOf(event)));
    element.addEventListener("focusout", () => shared.hoverSetting(-1));
    return {
      element,
      // Built anew when columns or colours change; filters only change what it says.
      build() {
        switches.length = 0;
        const sections = [
          colourKey(shared, switches), sizeKey(shared), statusKey(shared, switches),
          settingKey(shared, switches),
        ];
        element.replaceChildren(...sections.filter(Boolean));
        drawMarks(element, shared);
        this.update();
      },
      update: () => update(shared, switches),
    };
  };

  function settingOf(event) {
    return Number(event.target.closest?.("[data-setting]")?.dataset.setting ?? -1);
  }

  function section(title, name, ...children) {
    const heading = ui.element("h3", {}, ui.words(title));
    return ui.element("section", { class: `population-${name}` }, heading, ...children);
  }

  // --- one switch
  function makeSwitch(shared, switches, wanted) {
    const { kind, value, label, attributes, mark, rows, all, toggle } = wanted;
    const count = ui.element("span", { class: "count" });
    const button = ui.element("button", {
      type: "button", class: "population-switch", title: label, ...attributes,
    }, mark, ui.words(label, { class: "label" }), count);
    button.addEventListener("click", () => {
      toggle(button.getAttribute("aria-pressed") === "true");
      shared.filtered(false);
    });
    const item = ui.element("li", {}, button);
    if (all.length > 2) {
      const only = ui.element("button", {
        type: "button", class: "only", "aria-label": `only ${label}`, ...attributes,
      }, "only");
      only.addEventListener("click", () => {
        shared.filters.only(kind, all, value);
        shared.filtered(false);
      });
      item.append(only);
    }
    switches.push({ button, count, kind, value, rows });
    return item;
  }

  function update({ filters }, switches) {
    for (const { button, count, isOff, kind, value, rows } of switches) {
      const off = isOff ? isOff() : filters.hidden[kind].has(value);
      button.setAttribute("aria-pressed", String(!off));
      const shown = rows.reduce((sum, row) => sum + filters.shown[row], 0);
      count.textContent = shown === rows.length ? `${shown}` : `${shown}/${rows.length}`;
    }
  }

  function rowsBy(values) {
    const found = new Map();
    values.forEach((value, row) => {
      if (!found.has(value)) found.set(value, []);
      found.get(value).push(row);
    });
    return found;
  }

  // A mark in the legend is a small canvas, drawn as the scatter draws it.
  function markCanvas(mark) {
    const canvas = ui.element("canvas", { class: "mark", "aria-hidden": "true" });
    canvas.mark = mark;
    return canvas;
  }

  function drawMarks(element, { theme }) {
    for (const canvas of element.querySelectorAll("canvas.mark")) {
      const context = ui.fit(canvas, 15, 15);
      const mark = { radius: 4.6, shape: 0, status: "trained", ...canvas.mark };
      ui.drawMark(context, mark, theme, 7.5, 7.5);
    }
  }

  // --- settings and statuses
  function settingKey(shared, switches) {
    const { settings, rows } = shared.population;
    if (settings.length < 2) return null;
    const members = rowsBy(rows.setting);
    const all = settings.map((_, number) => number);
    const list = ui.element("div", { class: "groups" });
    for (const [name, numbers] of grouped(settings)) {
      if (name) list.append(groupHead(shared, switches, name, numbers, members));
      const items = numbers.map((number) => makeSwitch(shared, switches, {
        kind: "setting", value: number, all, rows: members.get(number) ?? [],
        label: shortened(settings[number].label, name), mark: settingMark(shared, number),
        attributes: { "data-setting": number },
        toggle: (off) => shared.filters.toggle("setting", [number], off),
      }));
      list.append(ui.element("ul", {}, ...items));
    }
    return section(`Settings (${settings.length})`, "settings", list);
  }

  function settingMark({ axes, population: { settings }, theme }, number) {
    if (axes.colour !== "setting") return markCanvas({ fill: theme.muted });
    return markCanvas({ fill: ui.legible(settings[number].colour, theme) });
  }

  // Settings of one objective share what stands before the first comma: "β-VAE, β = 4".
  function grouped(settings) {
    const beginning = ({ label }) => String(label).split(", ", 1)[0];
    const groups = rowsBy(settings.map(beginning));
    const alone = [...groups.values()].every((numbers) => numbers.length === 1);
    const numbers = settings.map((_, number) => number);
    return alone ? [["", numbers]] : [...groups].map(([name, some]) => (
      some.length > 1 ? [name, some] : ["", some]));
  }

  function shortened(label, group) {
    const rest = group ? String(label).slice(group.length + 2) : String(label);
    return rest || String(label);
  }

  function groupHead(shared, switches, name, numbers, members) {
    const rows = numbers.flatMap((number) => members.get(number) ?? []);
    const { setting: hidden } = shared.filters.hidden;
    const count = ui.element("span", { class: "count" });
    const button = ui.element("button", {
      type: "button", class: "population-group", "aria-pressed": "true", title: name,
    }, ui.words(name, { class: "label" }), count);
    const isOff = () => numbers.every((number) => hidden.has(number));
    button.addEventListener("click", () => {
      shared.filters.toggle("setting", numbers, !isOff());
      shared.filtered(false);
    });
    switches.push({ button, count, isOff, rows });
    return button;
  }

  function statusKey(shared, switches) {
    const { rows } = shared.population;
    const statuses = rowsBy(rows.status);
    const closed = rows.model.some(Boolean) && !rows.model.every(Boolean);
    if (statuses.size < 2 && statuses.has("trained") && !closed) return null;
    const all = [...statuses.keys()];
    const items = all.map((status) => makeSwitch(shared, switches, {
      kind: "status", value: status, all, rows: statuses.get(status), label: String(status),
      mark: markCanvas({ fill: shared.theme.ink, status }), attributes: { "data-status": status },
      toggle: (off) => shared.filters.toggle("status", [status], off),
    }));
    const list = ui.element("ul", {}, ...items);
    const note = ui.element("p", { class: "aside" }, "Fainter: cannot be opened.");
    return section("Training", "statuses", ...(closed ? [list, note] : [list]));
  }

  // --- colour and size
  function colourKey(shared, switches) {
    const column = shared.columns.get(shared.axes.colour);
    if (!column || shared.axes.colour === "setting") return null;
    const body = column.category ? levelKey(shared, switches, column) : [colourBar(shared, column)];
    const title = ui.title(column, shared.scale(column));
    return section(title, "colours", ...body, missingKey(shared, column));
  }

  function missingKey({ theme }, column) {
    if (!column.missing) return "";
    const mark = markCanvas({ fill: theme.muted });
    return ui.element("p", { class: "aside" }, mark, `missing (${column.missing})`);
  }

  function levelKey(shared, switches, column) {
    const rows = rowsBy(Array.from(column.numbers));
    const items = column.levels.slice(0, MOST_LEVELS).map((level, number) => {
      const item = makeSwitch(shared, switches, {
        label: level, mark: markCanvas(ui.level(number, shared.theme)), all: [],
        rows: rows.get(number), attributes: { "data-level": level },
        toggle: (off) => toggleLevel(shared, column, level, off),
      });
      switches.at(-1).isOff = () => isLevelOff(shared, column, level);
      return item;
    });
    const more = column.levels.length - items.length;
    const list = ui.element("ul", {}, ...items);
    return more > 0 ? [list, ui.element("p", { class: "aside" }, `and ${more} more`)] : [list];
  }

  function isLevelOff({ filters: { byColumn } }, column, level) {
    const filter = byColumn.get(column.key);
    return filter !== undefined && (filter.missing === "only" || !filter.levels.has(level));
  }

  function toggleLevel({ filters }, column, level, off) {
    const before = filters.byColumn.get(column.key) ?? { levels: column.levels, missing: "too" };
    const levels = new Set(before.missing === "only" ? [] : before.levels);
    if (off) levels.delete(level);
    else levels.add(level);
    filters.set(column.key, { levels, missing: before.missing === "no" ? "no" : "too" });
  }

  function colourBar({ theme, ...shared }, column) {
    const scale = shared.scale(column);
    const canvas = ui.element("canvas", { class: "bar", "aria-hidden": "true" });
    const context = ui.fit(canvas, 150, 10);
    for (let at = 0; at < 150; at += 1) {
      context.fillStyle = ui.viridis(at / 149, theme.paper);
      context.fillRect(at, 0, 1.5, 10);
    }
    const known = Number.isFinite(column.low);
    const ends = known ? [scale.value(0), scale.value(0.5), scale.value(1)] : [];
    const words = ends.map((end) => ui.element("span", {}, ui.significant(end, 3)));
    const labels = ui.element("span", { class: "ends" }, ...words);
    return ui.element("div", { class: "bar-box" }, canvas, labels);
  }

  function sizeKey(shared) {
    const column = shared.columns.get(shared.axes.size);
    if (!column || shared.axes.size === "none" || !column.varies) return null;
    const rule = ui.sizeRule(shared, 1000);
    const scale = shared.scale(column);
    const items = [0, 0.5, 1].map((fraction) => {
      const canvas = ui.element("canvas", { class: "size", "aria-hidden": "true" });
      const radius = rule.radius(fraction);
      const context = ui.fit(canvas, 2 * radius + 2, 2 * radius + 2);
      const mark = { radius, fill: shared.theme.muted, shape: 0, status: "trained" };
      ui.drawMark(context, mark, shared.theme, radius + 1, radius + 1);
      const number = scale.value(fraction);
      const word = column.category ? column.levels[number] : ui.significant(number, 3);
      return ui.element("li", {}, canvas, ui.words(word));
    });
    const list = ui.element("ul", { class: "sizes" }, ...items);
    return section(`Size: ${ui.title(column, scale)}`, "size-key", list);
  }
})();
