// SPDX-License-Identifier: Apache-2.0
// Parallel coordinates: a line for every model through all chosen columns, each of which can be
// brushed. Three canvases: all lines faintly, those that filters leave, and what points at some.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const HEIGHT = 276;
  const [TOP, BOTTOM] = [50, 34]; // room for names above, and for the strip of missing values below
  const NARROWEST = 68;
  const END = 7; // pixels between the ends of an axis and its extreme values

  ui.parallel = (shared) => {
    const canvases = ["all", "lines", "above"].map((name) => (
      ui.element("canvas", { class: `population-parallel-${name}`, "aria-hidden": "true" })));
    const axes = ui.element("div", { class: "population-axes" });
    const inner = ui.element("div", { class: "population-parallel-inner" }, ...canvases, axes);
    const nothing = ui.element("p", { class: "population-hint" },
      "No column is chosen, or none varies: choose some under Columns.");
    const element = ui.element("div", {
      class: "population-parallel", role: "group", tabindex: "0",
      "aria-label": "Parallel coordinates; ranges can also be typed under Filters",
    }, inner, nothing);
    const parallel = { element, inner, nothing, axes, canvases, frame: null, brush: null };
    parallel.place = () => place(parallel, shared);
    parallel.draw = () => draw(parallel, shared);
    parallel.point = () => point(parallel, shared);
    listen(parallel, shared);
    return parallel;
  };

  // --- where things are
  function place(parallel, shared) {
    const columns = shared.listed();
    parallel.inner.hidden = columns.length === 0;
    parallel.nothing.hidden = columns.length > 0;
    const room = Math.max(120, parallel.element.clientWidth);
    const width = Math.max(room, columns.length * NARROWEST);
    const spacing = width / Math.max(1, columns.length);
    parallel.inner.style.width = `${width}px`;
    parallel.canvases.forEach((canvas) => ui.fit(canvas, width, HEIGHT));
    const from = HEIGHT - BOTTOM - END;
    const to = TOP + END;
    const axes = columns.map((column, number) => {
      const scale = shared.scale(column);
      return {
        column, scale, x: Math.round((number + 0.5) * spacing), y: heights(column, scale),
        ticks: scale.ticks(5, 0.02), fraction: (at) => (at - from) / (to - from),
      };
    });
    parallel.frame = { width, spacing, axes };
    placeHandles(parallel, spacing);
    drawAll(parallel, shared);
  }

  const pixel = (fraction) => HEIGHT - BOTTOM - END - fraction * (HEIGHT - TOP - BOTTOM - 2 * END);
  const STRIP = HEIGHT - BOTTOM / 2;

  function heights({ numbers }, scale) {
    return Float32Array.from(numbers, (number) => (
      Number.isNaN(number) ? STRIP : pixel(scale.at(number))));
  }

  // The handles are elements, so that a finger on one brushes and beside it scrolls the page.
  function placeHandles({ axes, frame }, spacing) {
    axes.replaceChildren(...frame.axes.map(({ column, scale, x }) => {
      const title = column.remark ? `${column.label}: ${column.remark}` : column.label;
      const words = ui.words(breakable(ui.title(column, { log: false })));
      const log = ui.element("span", { class: "log" }, scale.log ? " log" : "");
      const name = ui.element("span", { class: "name", title }, words, log);
      const handle = ui.element("div", { class: "population-axis", "data-key": column.key }, name);
      handle.append(ui.element("div", { class: "grip" }));
      handle.style.left = `${x - spacing / 2}px`;
      handle.style.width = `${spacing}px`;
      return handle;
    }));
  }

  // Long words may break where a syllable roughly ends; a soft hyphen shows only there.
  function breakable(text) {
    const syllable = /([aeiouy][^aeiouy]?)(?=[^aeiouy][aeiouyl])/gi;
    return text.replace(/[a-z]{9,}/gi, (word) => word.replace(syllable, "$1\u00ad"));
  }

  // --- lines
  function trace(context, axes, row) {
    axes.forEach(({ x, y }, number) => {
      if (number) context.lineTo(x, y[row]);
      else context.moveTo(x, y[row]);
    });
  }

  // The background of a filtered population changes only with the axes.
  function drawAll({ canvases, frame }, shared) {
    const context = ui.wipe(canvases[0]);
    context.strokeStyle = shared.theme.muted;
    context.globalAlpha = 0.1;
    context.lineWidth = 1;
    for (let row = 0; row < shared.count; row += 1) {
      context.beginPath();
      trace(context, frame.axes, row);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  function draw({ canvases, frame }, shared) {
    const { filters: { shown, shownCount }, looks, population: { rows } } = shared;
    canvases[0].hidden = shownCount === shared.count;
    const context = ui.wipe(canvases[1]);
    context.lineWidth = shownCount > 300 ? 1 : 1.3;
    context.globalAlpha = Math.min(0.85, Math.max(0.16, 5 / Math.sqrt(Math.max(1, shownCount))));
    for (let row = 0; row < shared.count; row += 1) {
      if (!shown[row]) continue;
      context.strokeStyle = looks.fill[row];
      const dashed = rows.status[row] === "collapsed";
      if (dashed) context.setLineDash([3, 3]);
      context.beginPath();
      trace(context, frame.axes, row);
      context.stroke();
      if (dashed) context.setLineDash([]);
    }
    context.globalAlpha = 1;
    drawAxes(context, frame, shared.theme);
  }

  function drawAxes(context, { axes, spacing }, theme) {
    context.font = `10.5px ${theme.font}`;
    context.textBaseline = "middle";
    context.lineJoin = "round";
    for (const { column, scale, x, ticks } of axes) {
      context.strokeStyle = theme.muted;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x + 0.5, TOP);
      context.lineTo(x + 0.5, HEIGHT - BOTTOM);
      context.stroke();
      if (column.missing) drawWord(context, theme, "missing", x, STRIP, "center");
      for (const tick of ticks) {
        const word = ui.cut(context, scale.word(tick), 0.8 * spacing);
        drawWord(context, theme, word, x + 5, pixel(scale.at(tick)), "left");
      }
    }
  }

  // A halo of paper keeps words legible on a thousand lines.
  function drawWord(context, theme, word, x, y, align) {
    context.textAlign = align;
    context.lineWidth = 3.5;
    context.strokeStyle = theme.paper;
    context.strokeText(word, x, y);
    context.fillStyle = theme.muted;
    context.fillText(word, x, y);
  }

  // --- what points at lines
  function point({ canvases, frame, brush }, shared) {
    const context = ui.wipe(canvases[2]);
    const { hovered, chosen, theme, filters: { byColumn } } = shared;
    for (const axis of frame.axes) {
      const filter = byColumn.get(axis.column.key);
      if (filter) drawFilter(context, axis, filter, theme, brush?.axis === axis);
    }
    for (const [row, colour] of [[chosen.b, theme.marks[1]], [chosen.a, theme.marks[0]]]) {
      if (row >= 0) strong(context, frame, row, colour, theme, 2.2);
    }
    if (hovered >= 0) strong(context, frame, hovered, theme.ink, theme, 1.8);
  }

  function strong(context, { axes }, row, colour, theme, width) {
    for (const [thick, stroke] of [[width + 2.5, theme.paper], [width, colour]]) {
      context.beginPath();
      trace(context, axes, row);
      context.lineWidth = thick;
      context.strokeStyle = stroke;
      context.stroke();
    }
    context.fillStyle = colour;
    for (const { x, y } of axes) context.fillRect(x - 2.5, y[row] - 2.5, 5, 5);
  }

  function drawFilter(context, { column, scale, x }, filter, theme, active) {
    const { values, missing } = ui.stretches(column, scale, filter);
    const clamp = (fraction) => Math.min(HEIGHT - BOTTOM, Math.max(TOP, pixel(fraction)));
    const room = column.steps.length ? 4 : 0; // so that one step alone is a box as well
    const boxes = values.map(([from, to]) => [clamp(to) - room, clamp(from) + room]);
    if (missing) boxes.push([STRIP - 9, STRIP + 9]);
    context.strokeStyle = theme.link;
    context.fillStyle = theme.link;
    context.lineWidth = active ? 2 : 1.2;
    for (const [top, bottom] of boxes) {
      context.globalAlpha = 0.16;
      context.fillRect(x - 6, top, 13, bottom - top);
      context.globalAlpha = 1;
      context.strokeRect(x - 5.5, top, 12, Math.max(2, bottom - top));
    }
  }

  // --- the hand
  function listen(parallel, shared) {
    const on = (name, act) => parallel.inner.addEventListener(name, act);
    on("pointerdown", (event) => {
      const axis = axisOf(parallel, event);
      if (!axis || event.button !== 0 || !event.isPrimary) return;
      parallel.brush = { axis, from: at(parallel, event).y, moved: false };
      event.target.setPointerCapture?.(event.pointerId);
    });
    on("pointermove", (event) => move(parallel, shared, event));
    on("pointerup", (event) => {
      const { brush } = parallel;
      parallel.brush = null;
      if (brush?.moved) filterBy(brush, at(parallel, event).y, shared, false);
    });
    on("pointercancel", () => { parallel.brush = null; });
    on("pointerleave", () => parallel.brush || shared.hover(-1));
    on("dblclick", (event) => {
      const axis = axisOf(parallel, event);
      if (!axis) return;
      shared.filters.set(axis.column.key, null);
      shared.filtered(false);
    });
    on("click", (event) => {
      const row = axisOf(parallel, event) ? -1 : nearest(parallel, shared, at(parallel, event));
      if (row >= 0) shared.pick(row, event.shiftKey ? "b" : "a");
    });
  }

  function at({ inner }, event) {
    const box = inner.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  function axisOf({ frame }, event) {
    const key = event.target.closest?.(".grip")?.parentElement.dataset.key;
    return key === undefined ? null : frame.axes.find(({ column }) => column.key === key);
  }

  function move(parallel, shared, event) {
    const { brush } = parallel;
    const here = at(parallel, event);
    if (!brush) {
      if (event.pointerType !== "touch") shared.hover(nearest(parallel, shared, here));
    } else if (brush.moved || Math.abs(here.y - brush.from) > 3) {
      brush.moved = true;
      filterBy(brush, here.y, shared, true);
    }
  }

  function filterBy({ axis, from }, to, shared, dragging) {
    const [upper, lower] = [Math.min(from, to), Math.max(from, to)];
    const edge = HEIGHT - BOTTOM;
    const touched = { values: upper < edge, missing: axis.column.missing > 0 && lower > edge };
    const room = { pixel: 1 / Math.abs(pixel(1) - pixel(0)), reach: 0 };
    const ends = [axis.fraction(lower), axis.fraction(upper)];
    const filter = ui.brushed(axis.column, axis.scale, ends, room, touched);
    shared.filters.set(axis.column.key, filter);
    shared.filtered(dragging);
  }

  // The shown line nearest above or below a point between two axes.
  function nearest({ frame }, { filters: { shown }, count }, { x, y }) {
    const { axes } = frame;
    const after = axes.findIndex((axis) => axis.x >= x);
    if (after < 1) return -1;
    const [left, right] = [axes[after - 1], axes[after]];
    const part = (x - left.x) / (right.x - left.x);
    let [best, distance] = [-1, 6];
    for (let row = 0; row < count; row += 1) {
      if (!shown[row]) continue;
      const away = Math.abs(left.y[row] + part * (right.y[row] - left.y[row]) - y);
      if (away < distance) [best, distance] = [row, away];
    }
    return best;
  }
})();
