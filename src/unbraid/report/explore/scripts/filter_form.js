// SPDX-License-Identifier: Apache-2.0
// Every brush by keyboard: from and to of each column, in a folded form.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const MISSING = [["no", "known"], ["too", "or missing"], ["only", "missing"]];

  ui.filterForm = (shared) => {
    const summary = ui.element("summary", {}, "Filters by number");
    const element = ui.element("details", { class: "population-form" }, summary);
    let lines = null;
    const update = () => element.open && lines?.forEach((line) => line.update());
    // Forty columns are many fields: they are made when somebody asks for them.
    element.addEventListener("toggle", () => {
      if (!element.open) return;
      if (!lines) {
        lines = [...shared.columns.values()].map((column) => makeLine(shared, column));
        element.append(ui.element("div", { class: "lines" }, ...lines.map(({ box }) => box)));
      }
      update();
    });
    return { element, update };
  };

  function makeLine(shared, column) {
    const { label, key } = column;
    const make = column.category ? levelField : numberField;
    const [from, to] = ["from", "to"].map((end) => make(column, end));
    const choices = MISSING.map(([value, words]) => ui.element("option", { value }, words));
    const about = { "data-end": "missing", "aria-label": `${label} known or missing` };
    const missing = ui.element("select", about, ...choices);
    const box = ui.element("div", { class: "line", role: "group", "data-key": key },
      ui.words(label, { class: "name", title: label }), from, to);
    if (column.missing) box.append(missing);
    box.addEventListener("change", (event) => {
      const before = shared.filters.byColumn.get(key);
      const filter = event.target === missing ? rest(column, before, missing.value)
        : ends(column, before, from.value, to.value);
      shared.filters.set(key, filter);
      shared.filtered(false);
    });
    const update = () => show(column, shared.filters.byColumn.get(key), from, to, missing);
    return { box, update };
  }

  function numberField({ label, low, high, missing, numbers }, end) {
    const known = missing < numbers.length;
    const hint = known ? ui.significant(end === "from" ? low : high, 4).replace("−", "-") : "";
    return ui.element("input", {
      type: "number", step: "any", "data-end": end, "aria-label": `${label} ${end}`,
      placeholder: hint, disabled: !known,
    });
  }

  function levelField({ label, levels }, end) {
    const options = levels.map((level, number) => ui.element("option", { value: number }, level));
    return ui.element("select", { "data-end": end, "aria-label": `${label} ${end}` },
      ui.element("option", { value: "" }, end === "from" ? "first" : "last"), ...options);
  }

  function rest(column, before, missing) {
    const open = column.category ? { levels: new Set(column.levels) } : { low: null, high: null };
    return { ...(before ?? open), missing };
  }

  // A range leaves out models without a value, as a brush does, until told otherwise.
  function ends(column, before, from, to) {
    if (from === "" && to === "") return null;
    const missing = (before?.missing ?? "no") === "no" ? "no" : "too";
    return { ...(column.category ? levels(column, from, to) : range(from, to)), missing };
  }

  function range(from, to) {
    const [low, high] = [from, to].map((end) => (end === "" ? null : Number(end)));
    return low !== null && high !== null && low > high ? { low: high, high: low } : { low, high };
  }

  function levels(column, from, to) {
    const first = from === "" ? 0 : Number(from);
    const last = to === "" ? column.levels.length - 1 : Number(to);
    const [low, high] = [Math.min(first, last), Math.max(first, last)];
    return { levels: new Set(column.levels.slice(low, high + 1)) };
  }

  function show(column, filter, from, to, missing) {
    missing.value = filter?.missing ?? "too";
    if (!column.category) {
      from.value = filter?.low ?? "";
      to.value = filter?.high ?? "";
      return;
    }
    const kept = column.levels.map((level, at) => (filter?.levels?.has(level) ? at : -1));
    const numbers = kept.filter((at) => at >= 0);
    from.value = filter && numbers.length ? numbers[0] : "";
    to.value = filter && numbers.length ? numbers[numbers.length - 1] : "";
  }
})();
