// SPDX-License-Identifier: Apache-2.0
// The scatter: every model a dot. Three canvases: axes, marks, and what points at some of them.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  ui.scatter = (shared) => {
    const axes = ui.element("canvas", { class: "population-scatter-axes" });
    const dots = ui.element("canvas", { class: "population-dots" });
    const above = ui.element("canvas", {
      class: "population-scatter-input", tabindex: "0", role: "application",
      "aria-roledescription": "scatter plot", "aria-describedby": "population-hint",
    });
    const element = ui.element("div", { class: "population-plot" }, axes, dots, above);
    const scatter = { element, input: above, frame: null, x: [], y: [], brush: null };
    scatter.place = () => place(scatter, shared, [axes, dots, above]);
    scatter.draw = () => draw(scatter, shared, dots);
    scatter.point = () => point(scatter, shared, ui.wipe(above));
    return scatter;
  };

  // --- where things are
  function place(scatter, shared, canvases) {
    const width = Math.max(120, scatter.element.clientWidth);
    const height = Math.round(Math.min(470, Math.max(300, width * 0.56)));
    scatter.element.style.height = `${height}px`;
    const [context] = canvases.map((canvas) => ui.fit(canvas, width, height));
    const frame = ui.scatterFrame(shared, context, width, height);
    ui.drawScatterAxes(context, frame, shared.theme);
    scatter.frame = frame;
    scatter.x = positions(shared, frame.x, 0.618034);
    scatter.y = positions(shared, frame.y, 0.754878);
    scatter.stamp = ui.stamps(shared.theme);
    const [x, y] = [frame.x.column.label, frame.y.column.label];
    scatter.input.setAttribute("aria-label", `Scatter of ${shared.count} models: ${y} over ${x}`);
  }

  // Dots of one value would hide each other: a spread that is always the same sets them apart.
  function positions(shared, { column, from, to, strip, at, reach }, step) {
    const places = new Float32Array(shared.count);
    for (let row = 0; row < shared.count; row += 1) {
      const spread = 2 * (((row + 1) * step) % 1) - 1;
      const number = column.numbers[row];
      if (Number.isNaN(number)) places[row] = strip + ui.stripWidth / 2 + spread * 5;
      else places[row] = at(number) + spread * reach * (to - from);
    }
    return places;
  }

  // --- the marks
  function draw(scatter, shared, canvas) {
    const context = ui.wipe(canvas);
    drawLeftOut(context, scatter, shared);
    const { looks, filters: { shown }, population: { rows } } = shared;
    const someOpen = rows.model.some(Boolean); // else all would be faint, which says nothing
    for (let row = 0; row < shared.count; row += 1) {
      if (!shown[row]) continue;
      context.globalAlpha = someOpen && !rows.model[row] ? 0.38 : 0.92;
      const mark = { ...shared.mark(row), radius: looks.radius[row] };
      scatter.stamp(context, mark, scatter.x[row], scatter.y[row]);
    }
    context.globalAlpha = 1;
  }

  // What filters leave out stays as a faint background; one path for all of it is quick.
  function drawLeftOut(context, { x, y }, { filters: { shown }, theme, count }) {
    context.beginPath();
    for (let row = 0; row < count; row += 1) {
      if (!shown[row]) context.rect(x[row] - 1.2, y[row] - 1.2, 2.4, 2.4);
    }
    context.globalAlpha = 0.28;
    context.fillStyle = theme.muted;
    context.fill();
    context.globalAlpha = 1;
  }

  // --- what points at marks
  function point(scatter, shared, context) {
    const { theme, hovered, chosen } = shared;
    drawFilters(context, scatter, shared);
    drawSetting(context, scatter, shared);
    if (hovered >= 0) ring(context, scatter, shared, hovered, theme.ink, 3);
    if (chosen.b >= 0) badge(context, scatter, shared, chosen.b, "B", theme.marks[1]);
    if (chosen.a >= 0) badge(context, scatter, shared, chosen.a, "A", theme.marks[0]);
    if (scatter.brush) drawBrush(context, scatter.brush, theme);
    // The others step back while the models of one setting are looked at.
    scatter.element.classList.toggle("population-pointing", siblings(shared).length > 1);
  }

  function siblings({ hovered, hoveredSetting, population: { rows }, filters, count }) {
    const setting = hovered >= 0 ? rows.setting[hovered] : hoveredSetting;
    if (setting < 0) return [];
    const found = [];
    for (let row = 0; row < count; row += 1) {
      if (rows.setting[row] === setting && (filters.shown[row] || row === hovered)) found.push(row);
    }
    return found.length < count ? found : [];
  }

  // Lines from a dot to its siblings; beyond some sixty they would only hide them.
  function drawSetting(context, scatter, shared) {
    const { hovered, theme } = shared;
    const rows = siblings(shared);
    if (hovered >= 0 && rows.length <= 60) {
      context.strokeStyle = theme.ink;
      context.globalAlpha = 0.4;
      context.lineWidth = 1;
      context.beginPath();
      for (const row of rows) {
        context.moveTo(scatter.x[hovered], scatter.y[hovered]);
        context.lineTo(scatter.x[row], scatter.y[row]);
      }
      context.stroke();
      context.globalAlpha = 1;
    }
    const marked = hovered >= 0 && !rows.length ? [hovered] : rows;
    for (const row of marked) {
      const mark = { ...shared.mark(row), radius: shared.looks.radius[row] + 0.8 };
      scatter.stamp(context, mark, scatter.x[row], scatter.y[row]);
    }
  }

  function ring(context, scatter, shared, row, colour, gap) {
    const radius = shared.looks.radius[row] + gap;
    for (const [width, stroke] of [[4, shared.theme.paper], [2, colour]]) {
      context.beginPath();
      context.arc(scatter.x[row], scatter.y[row], radius, 0, 2 * Math.PI);
      context.lineWidth = width;
      context.strokeStyle = stroke;
      context.stroke();
    }
    return radius;
  }

  function badge(context, scatter, shared, row, letter, colour) {
    const mark = { ...shared.mark(row), radius: shared.looks.radius[row] };
    scatter.stamp(context, mark, scatter.x[row], scatter.y[row]);
    const radius = ring(context, scatter, shared, row, colour, 4);
    const { width } = scatter.frame;
    const side = scatter.x[row] > width - 30 ? -1 : 1;
    const [x, y] = [scatter.x[row] + side * (radius + 5), Math.max(9, scatter.y[row] - radius - 3)];
    context.beginPath();
    context.arc(x, y, 8, 0, 2 * Math.PI);
    context.fillStyle = colour;
    context.fill();
    context.lineWidth = 1.5;
    context.strokeStyle = shared.theme.paper;
    context.stroke();
    context.fillStyle = shared.theme.paper;
    context.font = `700 10.5px ${shared.theme.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(letter, x, y + 0.5);
  }

  // The filters of the two columns, as the rectangles they leave.
  function drawFilters(context, scatter, shared) {
    const { frame } = scatter;
    const { byColumn } = shared.filters;
    const [x, y] = [frame.x, frame.y].map((one) => byColumn.get(one.column.key));
    if (scatter.brush || (!x && !y)) return;
    context.strokeStyle = shared.theme.link;
    context.lineWidth = 1;
    context.setLineDash([4, 3]);
    for (const [x1, x2] of pixels(frame.x, x, frame.left, frame.right)) {
      for (const [y1, y2] of pixels(frame.y, y, frame.top, frame.bottom)) {
        context.strokeRect(x1 + 0.5, y1 + 0.5, x2 - x1, y2 - y1);
      }
    }
    context.setLineDash([]);
  }

  function pixels(axis, filter, low, high) {
    const { values, missing } = ui.stretches(axis.column, axis.scale, filter);
    const room = axis.column.steps.length ? axis.reach + 6 * axis.pixel : 0;
    const inside = (fraction) => {
      const pixel = axis.from + fraction * (axis.to - axis.from);
      return Math.round(Math.min(high, Math.max(low, pixel)));
    };
    const found = values.map(([from, to]) => (
      [from - room, to + room].map(inside).sort((a, b) => a - b)));
    if (filter && missing) found.push([axis.strip + 1, axis.strip + ui.stripWidth - 2]);
    return found;
  }

  function drawBrush(context, { x1, y1, x2, y2 }, theme) {
    context.fillStyle = theme.link;
    context.globalAlpha = 0.1;
    context.fillRect(x1, y1, x2 - x1, y2 - y1);
    context.globalAlpha = 1;
    context.strokeStyle = theme.link;
    context.lineWidth = 1;
    context.strokeRect(Math.round(x1) + 0.5, Math.round(y1) + 0.5, x2 - x1, y2 - y1);
  }
})();
