// SPDX-License-Identifier: Apache-2.0
// Two models' images of one input, and where the three of them differ.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const IMAGES = [["input", "input"], ["a", "A"], ["b", "B"]];
  const DIFFERENCES = [
    ["a-b", "|A − B|"], ["a-input", "|A − input|"], ["b-input", "|B − input|"],
  ];

  class CompareStage {
    #figures = new Map();
    #input = null;

    constructor(liveA, liveB) {
      Object.assign(this, { image: liveA.image, lives: [liveA, liveB] });
      const figure = ([part, title]) => this.#figure(part, title);
      this.scale = ui.element("p", { class: "hint difference-scale" });
      this.spoken = ui.element("p", { class: "unseen compare-words", "aria-live": "polite" });
      this.element = ui.element("div", { class: "compare-stage" },
        ui.element("div", { class: "compare-images" }, ...IMAGES.map(figure)),
        ui.element("div", { class: "compare-differences" }, ...DIFFERENCES.map(figure)));
      this.below = ui.element("div", { class: "scale-row" },
        ui.element("i", { class: "magma-bar", "aria-hidden": "true" }), this.scale, this.spoken);
      for (const live of this.lives) {
        live.on("frame", () => this.#paint());
        live.on("settled", () => this.#speak());
      }
    }

    setInput(pixels, words) {
      this.#input = Float32Array.from(pixels);
      this.#show("input", this.#input);
      const { words: told } = this.#figures.get("input");
      told.textContent = words;
    }

    #figure(part, title) {
      const label = part.includes("-") ? `Difference ${title}`
        : part === "input" ? "The input of both models" : `Image decoded by model ${title}`;
      const canvas = ui.imageCanvas(this.image, label, { "data-part": part });
      const words = ui.element("span", { class: "stage-words", "data-part": part });
      this.#figures.set(part, { canvas, words });
      return ui.element("figure", { class: "stage-figure", "data-part": part }, canvas,
        ui.element("figcaption", {}, ui.element("strong", {}, title), words));
    }

    #show(part, pixels) {
      const { height, width, channels } = this.image;
      unbraid.paint(this.#figures.get(part).canvas, pixels, height, width, channels);
    }

    #paint() {
      const [a, b] = this.lives.map((live) => live.pixels);
      this.#show("a", a);
      this.#show("b", b);
      const pairs = { "a-b": [a, b] };
      if (this.#input) {
        pairs["a-input"] = [a, this.#input];
        pairs["b-input"] = [b, this.#input];
      }
      this.#paintDifferences(pairs);
    }

    // One scale for all of them, or colours could not be compared.
    #paintDifferences(pairs) {
      const found = Object.entries(pairs).map(([part, [one, other]]) =>
        [part, ui.differences(one, other, this.image.channels)]);
      const largest = Math.max(...found.map(([, values]) =>
        values.reduce((most, value) => Math.max(most, value), 0)));
      const top = ui.roundTop(largest);
      for (const [part, values] of found) {
        const { canvas, words } = this.#figures.get(part);
        const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
        ui.paintDifferences(canvas, values, top);
        words.textContent = `mean ${ui.fixed(mean, 3)}`;
        words.dataset.value = String(mean);
      }
      this.scale.textContent = `Differences from 0 (black) to ${top} (light), `
        + "where 1 is black against white.";
    }

    #speak() {
      const told = DIFFERENCES.map(([part, title]) =>
        [title, this.#figures.get(part).words.textContent]).filter(([, words]) => words);
      this.spoken.textContent = told.map((one) => one.join(": ")).join("; ");
    }
  }

  ui.compareStage = (liveA, liveB) => new CompareStage(liveA, liveB);
})();
