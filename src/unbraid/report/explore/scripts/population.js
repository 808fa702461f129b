// SPDX-License-Identifier: Apache-2.0
// The population view: every model a dot, with filters that hold in the scatter, the parallel
// coordinates, the table and the legend alike. It is put together here.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const MOST_COLUMNS = 12;
  const SETTLED = 120; // milliseconds after which a brush that rests also fills the table

  unbraid.populationView = (element, population, { choose }) => {
    element.classList.add("population");
    if (population.rows.key.length === 0) return emptyView(element);
    const shared = makeShared(element, population, choose);
    const view = build(element, shared);
    shared.changed = scheduler(shared, view);
    view.redraw();
    new ResizeObserver(() => resized(element, shared)).observe(element);
    return {
      select: (a, b) => select(shared, a, b),
      state: () => stateOf(shared),
      restore: (state) => restore(shared, state, view),
      redraw: view.redraw,
      // Where the dot of a model stands on the page, for who wants to point at it.
      place: (key) => placeOf(shared, view.scatter, key),
    };
  };

  function emptyView(element) {
    const words = ui.element("p", { class: "population-empty" }, "This run has no models yet.");
    element.replaceChildren(words);
    const nothing = () => {};
    const place = () => null;
    return { select: nothing, state: () => ({}), restore: nothing, redraw: nothing, place };
  }

  // --- what all parts know
  function makeShared(element, population, choose) {
    const columns = ui.columns(population);
    const { rows } = population;
    const shared = {
      element, population, columns, choose, count: rows.key.length,
      index: new Map(rows.key.map((key, row) => [key, row])),
      flipped: new Set(), sort: { key: null, descending: false }, chosen: { a: -1, b: -1 },
      hovered: -1, explained: true, hoveredSetting: -1, theme: ui.theme(element), looks: null,
    };
    shared.axes = startAxes(population.start ?? {}, columns);
    shared.chosenColumns = defaultColumns(columns, shared.axes);
    shared.filters = ui.filters(shared);
    shared.isLog = ({ key, log }) => log !== shared.flipped.has(key);
    shared.scale = (column) => ui.scale(column, shared.isLog(column));
    shared.mark = (row) => ({
      fill: shared.looks.fill[row], shape: shared.looks.shape[row], status: rows.status[row],
    });
    const inOrder = (keep) => [...columns.values()].filter(({ key }) => keep(key));
    shared.listed = () => inOrder((key) => shared.chosenColumns.has(key));
    shared.tabled = () => {
      const onAxes = new Set(Object.values(shared.axes));
      return inOrder((key) => shared.chosenColumns.has(key) || onAxes.has(key));
    };
    return shared;
  }

  function startAxes(start, columns) {
    const known = [...columns.values()];
    const likely = [...known.filter(({ varies }) => varies), ...known];
    const x = columns.has(start.x) ? start.x : likely[0].key;
    const other = likely.find(({ key, group }) => key !== x && group === "score")
      ?? likely.find(({ key }) => key !== x) ?? likely[0];
    return {
      x, y: columns.has(start.y) ? start.y : other.key,
      colour: columns.has(start.colour) ? start.colour : "setting",
      size: columns.has(start.size) ? start.size : "none",
    };
  }

  // Columns that vary, those on axes first, as many as fit side by side.
  function defaultColumns(columns, axes) {
    const onAxes = new Set([axes.x, axes.y, axes.colour, axes.size]);
    const vary = [...columns.values()].filter(({ varies }) => varies).map(({ key }) => key);
    const first = vary.filter((key) => onAxes.has(key));
    const rest = vary.filter((key) => !onAxes.has(key));
    return new Set([...first, ...rest].slice(0, MOST_COLUMNS));
  }

  // --- the page
  function build(element, shared) {
    const view = makeParts(shared);
    const quiet = { class: "population-quiet population-live", "aria-live": "polite" };
    const live = ui.element("p", quiet);
    const hint = ui.element("p", { class: "population-hint", id: "population-hint" },
      "Click a dot for model A, Shift-click for model B. By keyboard: arrow keys move from dot to "
      + "dot, Enter and Shift+Enter choose.");
    const { scatter, tooltip, legend } = view;
    const plot = box("stage", box("scatter", scatter.element, tooltip.element), legend.element);
    const folded = box("folded", view.columnChoice.element, view.form.element);
    element.replaceChildren(
      view.controls.element, view.chips.element, plot, hint,
      heading("Parallel coordinates", "drag along an axis to filter, double-click to let go"),
      view.parallel.element, folded, heading("Models", ""), view.table.element, live,
    );
    connect(element, shared, view, live);
    return view;
  }

  function box(name, ...inside) {
    return ui.element("div", { class: `population-${name}` }, ...inside);
  }

  function heading(title, words) {
    const hint = words ? [" ", ui.element("span", {}, words)] : [];
    return ui.element("h3", { class: "population-heading" }, title, ...hint);
  }

  function makeParts(shared) {
    const scatter = ui.scatter(shared);
    const view = {
      scatter, tooltip: ui.tooltip(shared, scatter), legend: ui.legend(shared),
      parallel: ui.parallel(shared), table: ui.table(shared), chips: ui.chips(shared),
      controls: ui.axisControls(shared), columnChoice: ui.columnChoice(shared),
      form: ui.filterForm(shared),
    };
    ui.scatterInput(scatter, shared);
    return view;
  }

  // --- what happens when something changes
  // Each kind of work at most once a frame, in this order.
  function work(shared, view) {
    return {
      look: () => { shared.looks = ui.looks(shared, view.scatter.element.clientWidth); },
      place: () => { view.scatter.place(); view.parallel.place(); },
      draw: () => { view.scatter.draw(); view.parallel.draw(); },
      point: () => {
        view.scatter.point();
        view.parallel.point();
        view.tooltip.update();
      },
      mark: () => view.table.mark(),
      chips: () => view.chips.update(),
      controls: () => { view.controls.update(); view.columnChoice.update(); },
      legend: () => view.legend.build(),
      counts: () => { view.legend.update(); view.form.update(); },
      table: () => view.table.update(),
    };
  }

  function scheduler(shared, view) {
    const jobs = work(shared, view);
    const waiting = new Set();
    const run = () => {
      for (const [name, job] of Object.entries(jobs)) if (waiting.delete(name)) job();
    };
    view.redraw = () => {
      shared.theme = ui.theme(shared.element);
      Object.keys(jobs).forEach((name) => waiting.add(name));
      run();
    };
    return (...names) => {
      if (!waiting.size) window.requestAnimationFrame(run);
      names.forEach((name) => waiting.add(name));
    };
  }

  function resized(element, shared) {
    const width = element.clientWidth;
    if (!width || width === shared.width) return;
    shared.width = width;
    shared.changed("look", "place", "draw", "point");
  }

  function connect(element, shared, view, live) {
    let settling = 0;
    const changed = () => new CustomEvent("populationchange", { bubbles: true });
    const tell = () => element.dispatchEvent(changed());
    shared.say = (words) => { live.textContent = words; };
    const settle = () => {
      view.table.toStart();
      shared.changed("counts", "table");
      shared.say(`${shared.filters.shownCount} of ${shared.count} models shown`);
      tell();
    };
    shared.filtered = (dragging) => {
      shared.changed("draw", "point", "chips");
      window.clearTimeout(settling);
      if (dragging) settling = window.setTimeout(settle, SETTLED);
      else settle();
    };
    shared.sorted = () => { view.table.toStart(); shared.changed("table"); tell(); };
    shared.replaced = () => {
      shared.changed("look", "place", "draw", "point", "controls", "legend", "table");
      tell();
    };
    connectChoices(shared, element);
  }

  function connectChoices(shared, element) {
    const { key } = shared.population.rows;
    shared.setAxis = (axis, column) => { shared.axes[axis] = column; shared.replaced(); };
    shared.toggleLog = (column) => {
      if (!shared.flipped.delete(column)) shared.flipped.add(column);
      shared.replaced();
    };
    shared.chooseColumn = (column, wanted) => {
      shared.chosenColumns[wanted ? "add" : "delete"](column);
      shared.replaced();
    };
    shared.hover = (row, explained = true) => {
      if (row === shared.hovered) return;
      shared.hovered = row;
      shared.explained = explained;
      shared.changed("point", "mark");
      element.dataset.hovered = row < 0 ? "" : key[row];
    };
    shared.hoverSetting = (setting) => {
      if (setting === shared.hoveredSetting) return;
      shared.hoveredSetting = setting;
      shared.changed("point");
    };
    shared.pick = (row, slot) => shared.choose(key[row], slot);
  }

  // --- what the page asks of the view
  function select(shared, a, b) {
    const row = (key) => shared.index.get(key) ?? -1;
    shared.chosen = { a: row(a), b: row(b) };
    shared.changed("point", "mark");
  }

  function placeOf(shared, { x, y, input }, key) {
    const row = shared.index.get(key);
    if (row === undefined) return null;
    const box = input.getBoundingClientRect();
    return { x: box.left + x[row], y: box.top + y[row], shown: shared.filters.shown[row] === 1 };
  }

  function stateOf({ axes, flipped, chosenColumns, sort, filters }) {
    return {
      axes: { ...axes }, flipped: [...flipped], columns: [...chosenColumns], sort: { ...sort },
      filters: filters.state(), settings: [...filters.hidden.setting],
      statuses: [...filters.hidden.status],
    };
  }

  // A state may come from an address that somebody wrote: what is unknown in it is left out.
  function restore(shared, state, view) {
    const { columns } = shared;
    const { axes, flipped, columns: chosen, sort, filters, settings, statuses } = state ?? {};
    const known = (keys) => (Array.isArray(keys) ? keys : null)?.filter((key) => columns.has(key));
    const chosenAxes = Object.entries(axes ?? {}).filter(([axis, key]) => (
      columns.has(key) || key === { colour: "setting", size: "none" }[axis]));
    const start = { ...shared.population.start, ...Object.fromEntries(chosenAxes) };
    shared.axes = startAxes(start, columns);
    shared.flipped = new Set(known(flipped) ?? []);
    shared.chosenColumns = new Set(known(chosen) ?? defaultColumns(columns, shared.axes));
    const sortable = columns.has(sort?.key) || [":name", ":status"].includes(sort?.key);
    shared.sort = sortable ? { key: sort.key, descending: sort.descending === true }
      : { key: null, descending: false };
    shared.filters.restore(filters, settings, statuses);
    view.redraw();
  }
})();
