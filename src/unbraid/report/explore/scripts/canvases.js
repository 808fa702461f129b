// SPDX-License-Identifier: Apache-2.0
// Canvases that are drawn on by hand: their size, the page's colours, texts that fit.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const COLOURS = ["ink", "muted", "rule", "paper", "wash", "link", "accent"];
  const MARKS = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `mark-${number}`);

  // Let a canvas have so many CSS pixels, sharp on dense screens; returns its empty context.
  ui.fit = (canvas, width, height) => {
    const dense = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = Math.max(1, Math.round(width * dense));
    canvas.height = Math.max(1, Math.round(height * dense));
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(dense, 0, 0, dense, 0, 0);
    return context;
  };

  ui.wipe = (canvas) => {
    const context = canvas.getContext("2d");
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.restore();
    return context;
  };

  // The page's colours as canvases understand them, whatever CSS functions the variables hold.
  ui.theme = (element) => {
    const probe = element.appendChild(ui.element("span", { hidden: true }));
    const read = (name) => {
      probe.style.color = `var(--${name})`;
      return window.getComputedStyle(probe).color;
    };
    const theme = Object.fromEntries(COLOURS.map((name) => [name, read(name)]));
    theme.marks = MARKS.map(read);
    theme.font = window.getComputedStyle(element).fontFamily;
    probe.remove();
    return theme;
  };

  // The longest beginning of a text that fits into a width, with an ellipsis where it is cut.
  ui.cut = (context, text, width) => {
    if (context.measureText(text).width <= width) return text;
    const letters = Array.from(text); // by code point, so that no emoji is halved
    let [fits, tooLong] = [0, letters.length];
    while (tooLong - fits > 1) {
      const middle = (fits + tooLong) >> 1;
      const shorter = `${letters.slice(0, middle).join("")}…`;
      if (context.measureText(shorter).width <= width) fits = middle;
      else tooLong = middle;
    }
    return fits ? `${letters.slice(0, fits).join("").trimEnd()}…` : "";
  };
})();
