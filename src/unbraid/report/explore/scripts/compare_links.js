// SPDX-License-Identifier: Apache-2.0
// Lines between the matched latents of two models, in the gutter between their sliders.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  class Links {
    #lines = [];

    // *rows* are the slider rows of each side by latent; *pairs* those worth a line.
    constructor(area, rowsA, rowsB, pairs) {
      Object.assign(this, { area, rowsA, rowsB });
      this.picture = ui.drawing("svg", { class: "compare-links", "aria-hidden": "true" });
      area.append(this.picture);
      this.#lines = pairs.map((pair) => this.#make(pair));
      this.watch = new ResizeObserver(() => this.draw());
      this.watch.observe(area);
    }

    stop() {
      this.watch.disconnect();
    }

    draw() {
      const box = this.area.getBoundingClientRect();
      this.picture.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
      for (const line of this.#lines) this.#lay(line, box);
    }

    #make(pair) {
      const strength = Math.abs(pair.r);
      const line = ui.drawing("path", { class: "link-line" });
      line.style.setProperty("--width", `${1 + 4 * (strength - 0.5)}px`);
      line.style.setProperty("--strength", strength ** 2);
      const text = ui.drawing("text", { class: "link-words" }, ui.fixed(pair.r, 2));
      const group = ui.drawing("g", {
        class: `link${pair.r < 0 ? " against" : ""}`, "data-a": pair.a, "data-b": pair.b,
        "data-r": pair.r,
      }, line, text);
      this.picture.append(group);
      this.#light(this.rowsA.get(pair.a).element, group);
      this.#light(this.rowsB.get(pair.b).element, group);
      return { pair, line, text };
    }

    // The line of the latent that one points at or has in hand stands out.
    #light(row, group) {
      for (const [kind, lit] of [["pointerenter", true], ["pointerleave", false],
        ["focusin", true], ["focusout", false]]) {
        row.addEventListener(kind, () => group.classList.toggle("lit", lit));
      }
    }

    #lay({ pair, line, text }, box) {
      const from = this.rowsA.get(pair.a).element.getBoundingClientRect();
      const to = this.rowsB.get(pair.b).element.getBoundingClientRect();
      const [left, right] = [from.right - box.left + 6, to.left - box.left - 6];
      const [high, low] = [from, to].map((one) => one.top + one.height / 2 - box.top);
      const middle = (left + right) / 2;
      line.setAttribute("d",
        `M${left} ${high}C${middle} ${high} ${middle} ${low} ${right} ${low}`);
      text.setAttribute("x", left + 4);
      text.setAttribute("y", high - 5);
    }
  }

  ui.links = (area, rowsA, rowsB, pairs) => new Links(area, rowsA, rowsB, pairs);
})();
