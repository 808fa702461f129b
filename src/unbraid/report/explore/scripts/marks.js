// SPDX-License-Identifier: Apache-2.0
// How a model looks as a mark: colour, shape, size and what became of its training.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const scratch = document.createElement("canvas").getContext("2d");
  const VIRIDIS = ["440154", "482475", "414487", "355f8d", "2a788e", "21918c", "22a884", "44bf70",
    "7ad151", "bddf26", "fde725"].map((hex) => channels(`#${hex}`));
  const STEPS = 64; // so few colours let marks be kept and drawn again
  const SHAPES = 8;

  // Any colour as a canvas writes it; what is no colour becomes grey.
  function parseColour(text) {
    scratch.fillStyle = "#808080";
    scratch.fillStyle = String(text);
    return scratch.fillStyle;
  }

  function channels(colour) {
    const text = parseColour(colour);
    if (!text.startsWith("#")) return text.match(/[\d.]+/g).slice(0, 3).map(Number);
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  }

  function luminance(colour) {
    const light = channels(colour).map((channel) => {
      const part = channel / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  }

  ui.contrast = (one, other) => {
    const [dark, bright] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };

  // A colour somebody gave, moved towards the ink until it can be seen on this paper.
  ui.legible = (colour, { ink, paper }) => {
    const [own, dark] = [colour, ink].map(channels);
    for (const share of [0, 0.15, 0.3, 0.45]) {
      const mix = own.map((one, at) => Math.round(one + share * (dark[at] - one)));
      const mixed = `rgb(${mix.join()})`;
      if (ui.contrast(mixed, paper) >= 2) return mixed;
    }
    return ink;
  };

  // From violet to yellow; the end that would drown in the paper is left out.
  ui.viridis = (fraction, paper) => {
    const [from, to] = luminance(paper) > 0.4 ? [0, 0.88] : [0.16, 1];
    const step = Math.round(Math.min(1, Math.max(0, fraction)) * STEPS) / STEPS;
    const at = (from + step * (to - from)) * (VIRIDIS.length - 1);
    const first = Math.min(VIRIDIS.length - 2, Math.floor(at));
    const mix = (channel) => VIRIDIS[first][channel]
      + (at - first) * (VIRIDIS[first + 1][channel] - VIRIDIS[first][channel]);
    return `rgb(${[0, 1, 2].map((channel) => Math.round(mix(channel))).join(",")})`;
  };

  // Levels of a category differ in colour and shape: after eight the pairs go on being new.
  ui.level = (number, theme) => {
    const round = Math.floor(number / SHAPES);
    return { fill: theme.marks[number % SHAPES], shape: (number + round) % SHAPES };
  };

  // Colour, shape and radius of every model under the chosen columns.
  ui.looks = (shared, width) => {
    const { count, axes } = shared;
    const colours = colourRule(shared);
    const sizes = sizeRule(shared, baseRadius(count, width));
    const looks = { fill: new Array(count), shape: new Uint8Array(count), radius: [] };
    for (let row = 0; row < count; row += 1) {
      const { fill, shape } = colours(row);
      looks.fill[row] = fill;
      looks.shape[row] = shape;
      looks.radius[row] = axes.size === "none" ? sizes.base : sizes.of(row);
    }
    return looks;
  };

  function baseRadius(count, width) {
    const crowd = Math.min(1, Math.max(0, Math.log10(count / 40) / 1.7));
    return (5.4 - 2 * crowd) * (width < 520 ? 0.88 : 1);
  }

  function colourRule(shared) {
    const { population, theme } = shared;
    if (shared.axes.colour === "setting") {
      const colours = population.settings.map(({ colour }) => ui.legible(colour, theme));
      return (row) => ({ fill: colours[population.rows.setting[row]] ?? theme.muted, shape: 0 });
    }
    const column = shared.columns.get(shared.axes.colour);
    const scale = shared.scale(column);
    return (row) => {
      const number = column.numbers[row];
      if (Number.isNaN(number)) return { fill: theme.muted, shape: 0 };
      if (column.category) return ui.level(number, theme);
      return { fill: ui.viridis(scale.at(number), theme.paper), shape: 0 };
    };
  }

  // The area, not the radius, is what the eye compares.
  function sizeRule(shared, base) {
    const column = shared.columns.get(shared.axes.size);
    if (!column) return { base };
    const scale = shared.scale(column);
    const radius = (fraction) => base * Math.sqrt(0.3 + 3.4 * fraction);
    const fraction = (row) => Math.round(scale.at(column.numbers[row]) * 24) / 24;
    return { base, radius, of: (row) => radius(fraction(row) || 0) };
  }
  ui.sizeRule = (shared, width) => sizeRule(shared, baseRadius(shared.count, width));

  function polygon(context, x, y, radius, corners, turn) {
    for (let corner = 0; corner < corners; corner += 1) {
      const angle = turn + (corner * 2 * Math.PI) / corners;
      context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
    }
    context.closePath();
  }

  function star(context, x, y, radius) {
    for (let corner = 0; corner < 10; corner += 1) {
      const angle = -Math.PI / 2 + (corner * Math.PI) / 5;
      const out = corner % 2 ? radius * 0.55 : radius * 1.3;
      context.lineTo(x + out * Math.cos(angle), y + out * Math.sin(angle));
    }
    context.closePath();
  }

  function plus(context, x, y, radius) {
    const [long, thin] = [radius * 1.15, radius * 0.42];
    const quarter = [[thin, -thin], [long, -thin], [long, thin], [thin, thin]];
    for (const [cos, sin] of [[1, 0], [0, 1], [-1, 0], [0, -1]]) {
      for (const [a, b] of quarter) context.lineTo(x + a * cos - b * sin, y + a * sin + b * cos);
    }
    context.closePath();
  }

  const OUTLINES = [
    (context, x, y, radius) => context.arc(x, y, radius, 0, 2 * Math.PI),
    (context, x, y, radius) => polygon(context, x, y, radius * 1.22, 4, Math.PI / 4),
    (context, x, y, radius) => polygon(context, x, y, radius * 1.3, 3, -Math.PI / 2),
    (context, x, y, radius) => polygon(context, x, y, radius * 1.28, 4, 0),
    star,
    (context, x, y, radius) => polygon(context, x, y, radius * 1.3, 3, Math.PI / 2),
    (context, x, y, radius) => polygon(context, x, y, radius * 1.15, 6, 0),
    plus,
  ];

  // Collapsed: hollow with a dashed rim. Diverged: a cross. A rim keeps marks apart, or, where a
  // colour hardly differs from the paper, shows them at all.
  ui.drawMark = (context, mark, theme, x, y) => {
    context.beginPath();
    if (mark.status === "diverged") {
      const arm = mark.radius * 0.85;
      context.moveTo(x - arm, y - arm);
      context.lineTo(x + arm, y + arm);
      context.moveTo(x - arm, y + arm);
      context.lineTo(x + arm, y - arm);
      stroke(context, mark.fill, 1.8);
      return;
    }
    OUTLINES[mark.shape](context, x, y, mark.radius);
    const hollow = mark.status === "collapsed";
    context.fillStyle = hollow ? theme.paper : mark.fill;
    context.fill();
    const faint = ui.contrast(mark.fill, theme.paper) < 1.9;
    if (hollow) context.setLineDash([2.4, 1.8]);
    stroke(context, hollow ? mark.fill : faint ? theme.muted : theme.paper, hollow ? 1.5 : 0.8);
    context.setLineDash([]);
  };

  function stroke(context, colour, width) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }

  // Marks are drawn once each way and then copied: thousands of them take a few milliseconds.
  ui.stamps = (theme) => {
    const kept = new Map();
    const dense = Math.min(window.devicePixelRatio || 1, 2);
    function make(mark) {
      const half = Math.ceil(mark.radius * 1.4) + 2;
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = 2 * half * dense;
      const context = canvas.getContext("2d");
      context.scale(dense, dense);
      ui.drawMark(context, mark, theme, half, half);
      return { canvas, half };
    }
    return (context, mark, x, y) => {
      const key = `${mark.fill} ${mark.shape} ${mark.status} ${mark.radius}`;
      let stamp = kept.get(key);
      if (!stamp) kept.set(key, (stamp = make(mark)));
      const { canvas, half } = stamp;
      context.drawImage(canvas, x - half, y - half, 2 * half, 2 * half);
    };
  };
})();
