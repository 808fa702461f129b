// SPDX-License-Identifier: Apache-2.0
// The factors of the data as sliders: they choose the image that is encoded.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const CHOICES = 6;
  const OFFLINE = "This page is not served, so the nearest of its stored samples is taken.";

  const isNumber = (text) => text.trim() !== "" && Number.isFinite(Number(text));

  // A slider, or a list of choices where there are few values and they are words. A factor of very
  // many values has no labels: their numbers are shown.
  function control(factor, index, changed) {
    const id = ui.freshId("factor");
    const usual = { id, "data-factor": index, "aria-label": factor.name };
    const shown = ui.element("output", { for: id, class: "factor-value" });
    const label = (value) => factor.values[value] ?? String(value);
    const labels = Array.from({ length: Math.min(factor.size, CHOICES) }, (_, at) => label(at));
    const words = factor.size <= CHOICES && !labels.every(isNumber);
    const input = words
      ? ui.element("select", { ...usual, class: "factor-choice", change: changed },
        ...labels.map((text, value) => ui.element("option", { value }, text)))
      : ui.element("input", { ...usual, type: "range", class: "factor-slider", min: 0,
        max: factor.size - 1, step: 1, input: changed });
    const show = () => {
      shown.textContent = words ? "" : label(Number(input.value));
      if (!words) input.setAttribute("aria-valuetext", shown.textContent);
    };
    return { input, show, element: ui.element("div", { class: "factor-row" },
      ui.element("label", { for: id, title: factor.name }, factor.name), input, shown) };
  }

  // The image of the chosen factors. While one is awaited, newer choices wait; the last of them is
  // asked for next. What was forgotten meanwhile is not given any more.
  class FactorSliders {
    #controls = new Map();
    #asking = false;
    #waiting = false;
    #turn = 0;

    // asked() is called with every choice, given(pixels, words) with its image.
    constructor(context, { asked, given }) {
      const { factors, mode } = context.population;
      Object.assign(this, { context, asked, given });
      this.values = factors.map((factor) => Math.floor((factor.size - 1) / 2));
      factors.forEach((factor, index) => {
        if (factor.size > 1) this.#controls.set(index, this.#control(factor, index));
      });
      this.error = ui.element("p", { class: "problem", role: "alert", hidden: true });
      this.element = ui.element("div", { class: "factor-sliders" },
        ...Array.from(this.#controls.values(), (one) => one.element), this.error,
        mode === "served" ? null : ui.element("p", { class: "hint" }, OFFLINE));
      this.follow(this.values);
    }

    // Shows the factors of an image that was chosen by other means.
    follow(values) {
      this.forget();
      this.#controls.forEach((one, index) => {
        if (Number.isInteger(values?.[index])) this.values[index] = values[index];
        one.input.value = String(this.values[index]);
        one.show();
      });
    }

    forget() {
      this.#turn += 1;
      this.#waiting = false;
    }

    #control(factor, index) {
      const made = control(factor, index, () => {
        this.values[index] = Number(made.input.value);
        made.show();
        this.asked();
        this.#ask();
      });
      return made;
    }

    async #ask() {
      this.#waiting = this.#asking;
      if (this.#asking) return;
      this.#asking = true;
      const turn = this.#turn;
      const [pixels, problem] = await this.context.factorImage([...this.values])
        .then((found) => [found, null], (error) => [null, error]);
      this.#asking = false;
      if (turn === this.#turn) this.#take(pixels, problem);
      if (this.#waiting) this.#ask();
    }

    #take(pixels, problem) {
      this.error.hidden = pixels !== null;
      if (pixels !== null) this.given(pixels, "the image with these factors");
      else this.error.textContent = `There is no image with these factors: ${ui.reason(problem)}`;
    }
  }

  ui.factorSliders = (context, told) => new FactorSliders(context, told);
})();
