// SPDX-License-Identifier: Apache-2.0
// The hand on the scatter: pointing, choosing and brushing by pointer, and all of it by keyboard.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const DRAG = 5; // pixels: less is a click with an unsteady hand
  const REACH = { mouse: 12, pen: 16, touch: 24 };

  ui.scatterInput = (scatter, shared) => {
    const { input } = scatter;
    const hand = { start: null };
    const on = (name, act) => input.addEventListener(name, act);
    on("pointerdown", (event) => {
      if (event.button !== 0 || !event.isPrimary) return;
      hand.start = at(input, event);
      input.setPointerCapture?.(event.pointerId);
    });
    on("pointermove", (event) => move(hand, scatter, shared, event));
    on("pointerup", (event) => up(hand, scatter, shared, event));
    on("pointercancel", () => { // the browser took the gesture for scrolling
      hand.start = null;
      scatter.brush = null;
      shared.changed("point");
    });
    on("pointerleave", () => hand.start || shared.hover(-1));
    on("dblclick", (event) => under(scatter, shared, event) < 0 && forget(scatter, shared));
    on("keydown", (event) => key(scatter, shared, event));
    on("focus", () => {
      if (!input.matches(":focus-visible") || shared.hovered >= 0) return;
      visit(scatter, shared, first(shared));
    });
    on("blur", () => shared.hover(-1));
  };

  function at(input, event) {
    const box = input.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  function under(scatter, shared, event) {
    return nearest(scatter, shared, at(scatter.input, event), REACH[event.pointerType] ?? 12);
  }

  function move({ start }, scatter, shared, event) {
    if (!start) {
      if (event.pointerType !== "touch") shared.hover(under(scatter, shared, event));
      return;
    }
    const here = at(scatter.input, event);
    if (!scatter.brush && Math.hypot(here.x - start.x, here.y - start.y) < DRAG) return;
    shared.hover(-1);
    scatter.brush = rectangle(scatter.frame, start, here);
    filterBy(scatter, shared, true);
  }

  function up(hand, scatter, shared, event) {
    if (!hand.start) return;
    hand.start = null;
    if (scatter.brush) {
      filterBy(scatter, shared, false);
      scatter.brush = null;
      return;
    }
    const row = under(scatter, shared, event);
    shared.hover(row);
    if (row >= 0) shared.pick(row, event.shiftKey ? "b" : "a");
  }

  // The nearest dot that filters show; one that they left out is out of reach.
  function nearest(scatter, { filters: { shown }, looks, count }, { x, y }, reach) {
    let [best, distance] = [-1, Infinity];
    for (let row = 0; row < count; row += 1) {
      if (!shown[row]) continue;
      const away = Math.hypot(scatter.x[row] - x, scatter.y[row] - y) - looks.radius[row];
      if (away < distance && away < reach - 4) [best, distance] = [row, away];
    }
    return best;
  }

  // --- brushing
  function rectangle(frame, from, to) {
    const left = frame.x.column.missing ? frame.x.strip : frame.left;
    const bottom = frame.y.column.missing ? frame.y.strip + ui.stripWidth : frame.bottom;
    const x = [from.x, to.x].map((one) => Math.min(frame.right, Math.max(left, one)));
    const y = [from.y, to.y].map((one) => Math.min(bottom, Math.max(frame.top, one)));
    return {
      x1: Math.min(...x), x2: Math.max(...x), y1: Math.min(...y), y2: Math.max(...y),
    };
  }

  function filterBy({ frame, brush }, shared, dragging) {
    const { x1, x2, y1, y2 } = brush;
    const { x, y, left, bottom } = frame;
    const across = { values: x2 > left, missing: x.column.missing > 0 && x1 < left };
    const up = { values: y1 < bottom, missing: y.column.missing > 0 && y2 > bottom };
    const one = (axis, ends, touched) => ui.brushed(
      axis.column, axis.scale, ends.map(axis.fraction), axis, touched,
    );
    // One column on both axes can have only one filter: that of the horizontal one.
    if (y.column !== x.column) shared.filters.set(y.column.key, one(y, [y2, y1], up));
    shared.filters.set(x.column.key, one(x, [x1, x2], across));
    shared.filtered(dragging);
  }

  function forget({ frame: { x, y } }, shared) {
    shared.filters.set(x.column.key, null);
    shared.filters.set(y.column.key, null);
    shared.filtered(false);
  }

  // --- keyboard
  function first({ chosen, filters: { shown } }) {
    return chosen.a >= 0 && shown[chosen.a] ? chosen.a : -1;
  }

  // Rows from left to right (or from bottom to top), as the arrow keys walk them.
  function order(scatter, { filters: { shown }, count }, vertical) {
    const [major, minor] = vertical ? [scatter.y, scatter.x] : [scatter.x, scatter.y];
    const side = vertical ? -1 : 1;
    const rows = Array.from({ length: count }, (_, row) => row).filter((row) => shown[row]);
    return rows.sort((a, b) => side * (major[a] - major[b]) || minor[a] - minor[b] || a - b);
  }

  function visit(scatter, shared, row) {
    const rows = order(scatter, shared, false);
    if (!rows.length) return;
    const next = row < 0 ? rows[0] : row;
    shared.hover(next);
    shared.say(`${ui.spoken(shared, next)}. Dot ${rows.indexOf(next) + 1} of ${rows.length}.`);
  }

  const STEPS = {
    ArrowRight: [false, 1], ArrowLeft: [false, -1], ArrowUp: [true, 1], ArrowDown: [true, -1],
  };

  function key(scatter, shared, event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const rows = order(scatter, shared, STEPS[event.key]?.[0] ?? false);
    const now = rows.indexOf(shared.hovered);
    if (event.key in STEPS && rows.length) {
      const next = now < 0 ? 0 : now + STEPS[event.key][1];
      visit(scatter, shared, rows[Math.min(rows.length - 1, Math.max(0, next))]);
    } else if (event.key === "Home") visit(scatter, shared, rows[0] ?? -1);
    else if (event.key === "End") visit(scatter, shared, rows[rows.length - 1] ?? -1);
    else if (event.key === "Enter" && shared.hovered >= 0) {
      shared.pick(shared.hovered, event.shiftKey ? "b" : "a");
    } else if (event.key === "Escape") shared.hover(-1);
    else return;
    event.preventDefault();
  }
})();
