// SPDX-License-Identifier: Apache-2.0
// One slider a latent: those that say most first, unused ones folded away.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  // One latent's title, what it carries, its size, and its slider.
  class Row {
    constructor(live, latent, options) {
      Object.assign(this, { live, latent, options });
      const { low, high } = live.range(latent);
      this.digits = high - low < 0.05 ? 4 : high - low < 0.5 ? 3 : 2;
      this.id = ui.freshId("latent");
      this.name = ui.latentName(live.model, latent, this.id, options);
      this.output = ui.element("output", { class: "latent-value", for: this.id });
      this.input = this.#makeInput();
      this.note = ui.element("span", { class: "latent-note" });
      this.element = ui.element("li", { class: "latent-row", "data-latent": latent },
        this.#makeHead(), this.#makeSlide());
      this.show();
      this.rename();
    }

    // The thumb stays within the range; the number beside it tells the code itself.
    show() {
      const value = this.live.code[this.latent];
      const { low, high } = this.live.range(this.latent);
      const beyond = value < low - 1e-6 || value > high + 1e-6;
      this.input.value = String(value);
      const shown = ui.fixed(value, this.digits);
      this.output.textContent = shown;
      this.output.dataset.value = String(value);
      this.element.classList.toggle("beyond", beyond);
      const words = beyond ? `${shown}, beyond the usual range` : shown;
      this.input.setAttribute("aria-valuetext", words);
    }

    rename() {
      const name = ui.nameOf(this.live.model, this.latent);
      const words = `latent ${this.latent}${name ? `, ${name}` : ""}`;
      const { side } = this.options;
      this.input.setAttribute("aria-label", side ? `${words}, model ${side}` : words);
      this.name.show();
    }

    #reset() {
      this.options.moved(this.latent, this.live.typical[this.latent]);
      this.live.settle(this.latent);
    }

    #makeInput() {
      const { low, high } = this.live.range(this.latent);
      const moved = () => this.options.moved(this.latent, Number(this.input.value));
      return ui.element("input", {
        type: "range", id: this.id, class: "latent-slider", "data-latent": this.latent,
        min: low, max: high, step: (high - low) / this.live.steps(),
        input: moved, change: () => this.live.settle(this.latent),
        dblclick: () => this.#reset(),
      });
    }

    #makeHead() {
      const { record } = this.live;
      const { factors } = record.latents[this.latent];
      const carried = factors.map(([name, share]) => `${name} ${ui.fixed(share, 2)}`).join(", ");
      return ui.element("div", { class: "latent-head" }, this.name.element,
        ui.element("span", { class: "latent-carries", title: carried }, carried),
        this.note, this.#makeSize());
    }

    #makeSize() {
      const { record } = this.live;
      const largest = Math.max(...record.latents.map((one) => one.size), 1e-12);
      const bar = ui.element("i", { class: "latent-bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", record.latents[this.latent].size / largest);
      return ui.element("span", { class: "latent-size" }, bar,
        ui.sizeWords(record, this.latent));
    }

    #makeSlide() {
      const { low, high } = this.live.range(this.latent);
      const label = `Latent ${this.latent} back to the typical code`;
      const back = ui.button("", {
        class: "icon-button latent-reset", "aria-label": label, title: label,
        "data-latent": this.latent, click: () => this.#reset(),
      }, ui.icon("back"));
      return ui.element("div", { class: "latent-slide" },
        ui.element("span", { class: "latent-end", title: "1% of the data's codes lie below" },
          ui.fixed(low, this.digits)),
        this.input,
        ui.element("span", { class: "latent-end", title: "1% of the data's codes lie above" },
          ui.fixed(high, this.digits)),
        this.output, back);
    }
  }

  function unusedPart(rows) {
    return ui.element("details", { class: "unused-latents" },
      ui.element("summary", {}, ui.counted(rows.length, "unused latent")),
      ui.element("p", { class: "hint" }, "Moving them hardly changes the image."),
      ui.element("ol", { class: "latent-rows" }, ...rows.map((row) => row.element)));
  }

  // options: rename(latent, name) -> Promise; moved(latent, value) where a move does more than to
  // move this model; unused: false leaves the unused latents out; side: "A" or "B".
  ui.sliderPanel = (live, options) => {
    const { active, unused } = ui.inOrder(live.record);
    const full = { moved: (latent, value) => live.move(latent, value), ...options };
    const row = (latent) => new Row(live, latent, full);
    const [used, folded] = [active.map(row), full.unused === false ? [] : unused.map(row)];
    const rows = new Map([...used, ...folded].map((one) => [one.latent, one]));
    const none = "No latent is active: moving them hardly changes the image.";
    live.on("moved", (latent) => {
      if (latent === null) rows.forEach((one) => one.show());
      else rows.get(latent)?.show();
    });
    return {
      rows,
      rename: () => rows.forEach((one) => one.rename()),
      element: ui.element("div", { class: "latent-panel" },
        used.length ? null : ui.element("p", { class: "hint no-active" }, none),
        ui.element("ol", { class: "latent-rows" }, ...used.map((one) => one.element)),
        folded.length ? unusedPart(folded) : null),
    };
  };
})();
