// SPDX-License-Identifier: Apache-2.0
// Elements of the page, made without HTML text: what a user named is never read as markup.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const SVG = "http://www.w3.org/2000/svg";
  const ICONS = {
    pencil: "M2 14l.8-3.4L10.6 2.8a1.4 1.4 0 0 1 2 0l.6.6a1.4 1.4 0 0 1 0 2L5.4 13.2z",
    back: "M3.2 8a4.8 4.8 0 1 0 1.6-3.6M5 1.6v3h3",
  };
  let ids = 0;

  // An attribute that is a function listens; true has no value; false and null leave it out, as
  // null does a child. Texts among the children become text nodes.
  function fill(made, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(name, value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null) made.setAttribute(name, String(value));
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  ui.element = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);

  // The same of a drawing (SVG).
  ui.drawing = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);

  ui.icon = (name) => ui.drawing("svg", { viewBox: "0 0 16 16", class: "icon",
    "aria-hidden": "true" }, ui.drawing("path", { d: ICONS[name] }));

  ui.button = (text, attributes = {}, ...children) => {
    const usual = { type: "button", class: "quiet-button" };
    return ui.element("button", { ...usual, ...attributes }, ...children, text || null);
  };

  // A name or label of a user, which may be written from right to left.
  ui.words = (text, attributes = {}) => ui.element("bdi", attributes, String(text));

  // A canvas with the image's own pixels; the style sheet enlarges it.
  ui.imageCanvas = (image, label, attributes = {}) => {
    const usual = { width: image.width, height: image.height, class: "pixels" };
    return ui.element("canvas", { ...usual, role: "img", "aria-label": label, ...attributes });
  };

  ui.freshId = (word) => `${word}-${(ids += 1)}`;

  // The error of a promise that anyone may have rejected, as a sentence's end.
  ui.reason = (error) => String(error?.message || error || "no reason was given");
})();
