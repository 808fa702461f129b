// SPDX-License-Identifier: Apache-2.0
// The axes of the scatter: where they run, their ticks and names, and strips for missing values.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const INSET = 11; // dots at the ends of an axis stay whole
  const STRIP = 22;
  const TICKS = 11;
  const TITLE = 12;
  ui.stripWidth = STRIP;

  ui.scatterFrame = (shared, context, width, height) => {
    context.font = `${TICKS}px ${shared.theme.font}`;
    const [x, y] = [shared.axes.x, shared.axes.y].map((key) => {
      const column = shared.columns.get(key);
      return { column, scale: shared.scale(column) };
    });
    const bottom = height - 40 - (y.column.missing ? STRIP : 0);
    const yTicks = y.scale.ticks(Math.max(2, Math.round(bottom / 56)), INSET / bottom);
    const words = [...yTicks.map(y.scale.word), ...(y.column.missing ? ["missing"] : [])];
    const widest = Math.max(14, ...words.map((word) => context.measureText(word).width));
    const labels = Math.min(widest, width * 0.22, 130);
    const left = Math.ceil(labels) + 28 + (x.column.missing ? STRIP : 0);
    const right = width - 10;
    const most = Math.round((right - left) / (x.column.category ? 26 : 80));
    const xTicks = x.scale.ticks(Math.max(2, most), INSET / (right - left));
    return {
      width, height, left, right, top: 12, bottom, labels,
      x: axis(x, left + INSET, right - INSET, left - STRIP, xTicks),
      y: axis(y, bottom - INSET, 12 + INSET, bottom, yTicks),
    };
  };

  // An axis runs from pixel *from* to *to*; missing values lie in the strip that begins at *strip*.
  function axis({ column, scale }, from, to, strip, ticks) {
    const at = (number) => from + scale.at(number) * (to - from);
    const fraction = (pixel) => (pixel - from) / (to - from);
    const pixel = 1 / Math.abs(to - from);
    const reach = Math.min(scale.reach, (column.category ? 40 : 8) * pixel);
    return { column, scale, from, to, strip, ticks, at, fraction, pixel, reach };
  }

  ui.drawScatterAxes = (context, frame, theme) => {
    const { left, right, top, bottom } = frame;
    drawStrips(context, frame, theme);
    context.lineWidth = 1;
    context.strokeStyle = theme.rule;
    context.beginPath();
    for (const at of frame.y.ticks.map(frame.y.at)) line(context, left, at, right, at);
    for (const at of frame.x.ticks.map(frame.x.at)) line(context, at, bottom, at, top);
    context.stroke();
    context.globalAlpha = 0.45;
    context.strokeStyle = theme.muted;
    context.beginPath();
    line(context, left, bottom, right, bottom);
    line(context, left, top, left, bottom);
    context.stroke();
    context.globalAlpha = 1;
    drawLabels(context, frame, theme);
    drawTitles(context, frame, theme);
  };

  // Half a pixel makes a line of one pixel sharp.
  function line(context, x1, y1, x2, y2) {
    context.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
    context.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
  }

  function drawStrips(context, frame, theme) {
    const { left, right, top, bottom, x, y } = frame;
    context.font = `${TICKS - 1}px ${theme.font}`;
    context.fillStyle = theme.wash;
    if (x.column.missing) context.fillRect(x.strip + 1, top, STRIP - 3, frame.y.strip - top);
    if (y.column.missing) context.fillRect(left, y.strip + 3, right - left, STRIP - 4);
    if (x.column.missing && y.column.missing) {
      context.fillRect(x.strip + 1, y.strip + 3, STRIP - 3, STRIP - 4);
    }
    context.fillStyle = theme.muted;
    context.textBaseline = "middle";
    if (!x.column.missing) return;
    context.save();
    context.translate(x.strip + STRIP / 2 - 0.5, top + 6);
    context.rotate(-Math.PI / 2);
    context.textAlign = "right";
    context.fillText("missing", 0, 0);
    context.restore();
  }

  function drawLabels(context, frame, theme) {
    const { x, y, labels } = frame;
    context.font = `${TICKS}px ${theme.font}`;
    context.fillStyle = theme.muted;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const edge = labels + 20;
    const put = (word, at) => context.fillText(ui.cut(context, word, labels), edge, at);
    for (const tick of y.ticks) put(y.scale.word(tick), y.at(tick));
    if (y.column.missing) put("missing", y.strip + STRIP / 2 + 1);
    context.textAlign = "center";
    context.textBaseline = "top";
    drawAcross(context, frame, y.column.missing ? y.strip + STRIP + 3 : frame.bottom + 6);
  }

  // Labels along the bottom leave out those that would run into their neighbours.
  function drawAcross(context, { x, left, right }, top) {
    const [first, second] = x.ticks.map(x.at);
    const room = second === undefined ? right - left : second - first - 8;
    let free = -Infinity;
    for (const tick of x.ticks) {
      const word = x.scale.word(tick);
      const shown = x.column.category ? ui.cut(context, word, Math.max(20, room)) : word;
      const half = context.measureText(shown).width / 2;
      const at = Math.min(x.at(tick), right + 8 - half);
      if (at - half < free) continue;
      context.fillText(shown, at, top);
      free = at + half + 8;
    }
  }

  function drawTitles(context, frame, theme) {
    const { left, right, top, bottom, height, x, y } = frame;
    context.font = `600 ${TITLE}px ${theme.font}`;
    context.fillStyle = theme.ink;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    const across = ui.cut(context, ui.title(x.column, x.scale), right - left);
    context.fillText(across, (left + right) / 2, height - 4);
    context.save();
    context.translate(11, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(ui.cut(context, ui.title(y.column, y.scale), bottom - top), 0, 0);
    context.restore();
  }

  ui.title = ({ label, better }, scale) => {
    const arrow = { higher: "\u00a0↑", lower: "\u00a0↓" }[better] ?? "";
    return `${label}${arrow}${scale.log ? " (log)" : ""}`;
  };
})();
