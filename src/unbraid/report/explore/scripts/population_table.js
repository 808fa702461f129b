// SPDX-License-Identifier: Apache-2.0
// The table of shown models: sorted by any column, fifty rows at a time.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const PAGE = 50;
  const WORDS = new Intl.Collator("en", { numeric: true });
  const NAME = { key: ":name", label: "model", text: true, better: "none" };
  const STATUS = { key: ":status", label: "training", text: true, better: "none" };

  ui.table = (shared) => {
    const head = ui.element("thead");
    const body = ui.element("tbody");
    const caption = ui.element("caption", { class: "population-quiet" }, "The models shown");
    const table = ui.element("table", {}, caption, head, body);
    const scroll = ui.element("div", {
      class: "population-rows", role: "region", tabindex: "0", "aria-label": "Table of models",
    }, table);
    const pager = makePager((step) => turn(made, shared, step));
    const element = ui.element("div", { class: "population-table" }, scroll, pager.element);
    const made = { element, scroll, head, body, pager, page: 0, rows: [] };
    listen(made, shared);
    made.update = () => update(made, shared);
    made.mark = () => mark(made, shared);
    made.toStart = () => { made.page = 0; };
    return made;
  };

  function makePager(turnBy) {
    const words = ui.element("span", { class: "population-page" });
    const button = (name, text, step) => {
      const one = ui.element("button", { type: "button", class: name }, text);
      one.addEventListener("click", () => turnBy(step));
      return one;
    };
    const [before, after] = [button("earlier", "← earlier", -1), button("later", "later →", 1)];
    const attributes = { class: "population-pager", "aria-label": "Pages of the table" };
    const element = ui.element("nav", attributes, before, words, after);
    return { element, words, before, after };
  }

  function turn(made, shared, step) {
    made.page += step;
    made.scroll.scrollTop = 0;
    update(made, shared);
  }

  // --- order
  function sorted(shared) {
    const rows = [];
    for (let row = 0; row < shared.count; row += 1) if (shared.filters.shown[row]) rows.push(row);
    const { key, descending } = shared.sort;
    if (key === null) return rows;
    const compare = comparison(shared, key, descending ? -1 : 1);
    return rows.sort((a, b) => compare(a, b) || a - b);
  }

  // What has no value stays last either way.
  function comparison({ population: { rows }, columns }, key, side) {
    const texts = { ":name": rows.name, ":status": rows.status }[key];
    if (texts) return (a, b) => side * WORDS.compare(texts[a], texts[b]);
    const { numbers } = columns.get(key);
    return (a, b) => {
      const [x, y] = [numbers[a], numbers[b]];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return side * (x - y);
    };
  }

  function sortBy(shared, key, better) {
    const { sort } = shared;
    const again = sort.key === key;
    shared.sort = { key, descending: again ? !sort.descending : better === "higher" };
    shared.sorted();
  }

  // --- rows
  function update(made, shared) {
    made.rows = sorted(shared);
    const pages = Math.max(1, Math.ceil(made.rows.length / PAGE));
    made.page = Math.min(pages - 1, Math.max(0, made.page));
    const columns = shared.tabled();
    updateHead(made, shared, columns);
    const best = new Map(columns.map((column) => [column.key, bestRow(shared, column)]));
    const page = made.rows.slice(made.page * PAGE, (made.page + 1) * PAGE);
    made.body.replaceChildren(...page.map((row) => line(shared, columns, best, row)));
    updatePager(made, pages);
    mark(made, shared);
  }

  // The heads are made anew only with new columns: sorting must not take the focus off a button.
  function updateHead({ head }, { sort }, columns) {
    const all = [NAME, STATUS, ...columns];
    const signature = JSON.stringify(all.map(({ key }) => key));
    if (head.dataset.columns !== signature) {
      const words = ui.element("span", { class: "population-quiet" }, "open as model A or B");
      const choose = ui.element("th", { scope: "col", class: "choose" }, words);
      head.replaceChildren(ui.element("tr", {}, choose, ...all.map(headCell)));
      head.dataset.columns = signature;
    }
    all.forEach(({ key }, number) => {
      const cell = head.rows[0].cells[number + 1];
      if (key !== sort.key) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", sort.descending ? "descending" : "ascending");
    });
  }

  function headCell(column) {
    const kind = column.text || column.category ? null : "number";
    const label = ui.title(column, { log: false });
    const button = ui.element("button", {
      type: "button", "data-key": column.key, title: column.remark || null,
    }, ui.words(label));
    return ui.element("th", { scope: "col", class: kind }, button);
  }

  // The one trained model that no other equals; a collapsed one is never best.
  function bestRow({ population: { rows }, filters: { shown }, count }, column) {
    const { numbers, better, category } = column;
    if (category || !["higher", "lower"].includes(better)) return -1;
    const side = better === "higher" ? 1 : -1;
    let [best, alone] = [-1, true];
    for (let row = 0; row < count; row += 1) {
      if (!shown[row] || rows.status[row] !== "trained" || Number.isNaN(numbers[row])) continue;
      const lead = best < 0 ? 1 : side * (numbers[row] - numbers[best]);
      if (lead === 0) alone = false;
      if (lead > 0) [best, alone] = [row, true];
    }
    return alone ? best : -1;
  }

  function line(shared, columns, best, row) {
    const { theme, population: { rows, settings } } = shared;
    const swatch = ui.element("i", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = ui.legible(settings[rows.setting[row]]?.colour, theme);
    const words = ui.words(rows.name[row]);
    const name = ui.element("th", { scope: "row", title: rows.name[row] }, swatch, words);
    const cells = columns.map((column) => cell(column, row, best.get(column.key) === row));
    const status = ui.element("td", { class: "status" }, statusWord(rows.status[row]));
    return ui.element("tr", { "data-key": rows.key[row], "data-row": row },
      ui.element("td", { class: "choose" }, ...chooseButtons(rows, row)), name, status, ...cells);
  }

  function statusWord(status) {
    return status === "trained" ? String(status) : ui.element("em", {}, ui.words(status));
  }

  function chooseButtons(rows, row) {
    return ["a", "b"].map((slot) => ui.element("button", {
      type: "button", "data-slot": slot, "aria-pressed": "false",
      "aria-label": `${rows.name[row]} as model ${slot.toUpperCase()}`,
    }, slot.toUpperCase()));
  }

  function cell(column, row, isBest) {
    const known = !Number.isNaN(column.numbers[row]);
    const kinds = [column.category ? "" : "number", known ? "" : "none", isBest ? "best" : ""];
    const attributes = { class: kinds.filter(Boolean).join(" ") || null };
    if (!known) return ui.element("td", { ...attributes, title: "missing" }, "–");
    const [value, error] = ui.shown(column, row).split(" ± ");
    const children = column.category ? [ui.words(ui.shown(column, row))] : [value];
    if (!column.category && error) {
      children.push(ui.element("span", { class: "error" }, ` ± ${error}`));
    }
    const title = isBest ? "best of the trained models shown" : null;
    return ui.element("td", { ...attributes, title }, ...children);
  }

  function updatePager({ pager, page, rows }, pages) {
    const to = Math.min(rows.length, (page + 1) * PAGE);
    pager.element.hidden = pages === 1;
    pager.words.textContent = `${page * PAGE + 1} to ${to} of ${rows.length}`;
    pager.before.disabled = page === 0;
    pager.after.disabled = page === pages - 1;
  }

  // Which rows are A, B and pointed at, without making them anew.
  function mark({ body }, { chosen, hovered }) {
    for (const line of body.rows) {
      const row = Number(line.dataset.row);
      line.classList.toggle("is-a", row === chosen.a);
      line.classList.toggle("is-b", row === chosen.b);
      line.classList.toggle("is-hovered", row === hovered);
      for (const button of line.querySelectorAll("[data-slot]")) {
        button.setAttribute("aria-pressed", String(chosen[button.dataset.slot] === row));
      }
    }
  }

  // --- the hand
  function listen({ head, body }, shared) {
    head.addEventListener("click", (event) => {
      const key = event.target.closest("button")?.dataset.key;
      if (key === undefined) return;
      sortBy(shared, key, shared.columns.get(key)?.better);
    });
    const rowOf = (event) => Number(event.target.closest?.("tr")?.dataset.row ?? -1);
    body.addEventListener("click", (event) => {
      const button = event.target.closest("[data-slot]");
      const slot = button?.dataset.slot ?? (event.shiftKey ? "b" : "a");
      if (rowOf(event) >= 0) shared.pick(rowOf(event), slot);
    });
    // Shift and a click would select the text between two rows.
    body.addEventListener("mousedown", (event) => event.shiftKey && event.preventDefault());
    body.addEventListener("pointerover", (event) => {
      if (event.pointerType !== "touch") shared.hover(rowOf(event), false);
    });
    body.addEventListener("pointerleave", () => shared.hover(-1));
  }
})();
