// SPDX-License-Identifier: Apache-2.0
// Two models side by side: matched latents, one input for both, what one found and not the other.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const SAMPLES = 12;

  // Everything shown of two models; thrown away when another is chosen. Sides are "A" and "B".
  class Compared {
    constructor(area, context, sides) {
      Object.assign(this, { area, context, sides });
      const { image } = context.population;
      this.found = unbraid.matching.match(sides.A.model, sides.B.model);
      this.lives = { A: ui.liveModel(sides.A.model, image), B: ui.liveModel(sides.B.model, image) };
      this.stage = ui.compareStage(this.lives.A, this.lives.B);
      this.panels = { A: this.#panel("A"), B: this.#panel("B") };
      this.partners = { A: this.#partners("a", "b"), B: this.#partners("b", "a") };
      this.summary = ui.element("p", { class: "compare-summary" });
      this.table = ui.element("div", { class: "scroll", tabindex: 0, role: "region",
        "aria-label": "Correlations of latents" });
      this.choice = ui.inputChoice(area, context, (...input) => this.#give(...input));
      this.parts = this.#parts();
      this.rename();
    }

    // Lines need their place on the page first.
    begin() {
      const { kept } = ui.matchedLatents(this.found);
      this.links = ui.links(this.columns, this.panels.A.rows, this.panels.B.rows, kept);
      if (this.context.samples.count && this.#running().length) this.choice.sample(0);
      else this.#each((live) => live.reset());
    }

    stop() {
      this.#each((live) => live.stop());
      this.links?.stop();
      this.choice.stop();
    }

    // Both models are given the same image; returns what it means to their codes.
    #give(pixels, words, sample) {
      this.stage.setInput(pixels, words);
      const told = this.#running().map((side) => {
        const live = this.lives[side];
        const stored = sample !== null && live.model.arrays.codes;
        const code = stored ? live.codeOf(sample) : live.encode(pixels);
        live.setCode(code);
        return `${side}: ${ui.distanceWords(live, code)}`;
      });
      return told.join(" ");
    }

    rename() {
      const [modelA, modelB] = [this.sides.A.model, this.sides.B.model];
      this.panels.A.rename();
      this.panels.B.rename();
      this.summary.textContent = ui.matchSentence(this.found, modelA, modelB);
      if (this.found.r?.length && this.found.latentsB.length) {
        this.table.replaceChildren(ui.correlationTable(this.found, modelA, modelB));
      }
      this.links?.draw();
    }

    #each(act) {
      [this.lives.A, this.lives.B].forEach(act);
    }

    #running() {
      return ["A", "B"].filter((side) => this.lives[side].runs);
    }

    #panel(side) {
      const { key } = this.sides[side];
      return ui.sliderPanel(this.lives[side], {
        side, unused: false, moved: (latent, value) => this.#move(side, latent, value),
        rename: (latent, name) => this.#rename(key, latent, name),
      });
    }

    // For every latent with a partner: which one, and its code for a code of this one.
    #partners(own, other) {
      const { kept } = ui.matchedLatents(this.found);
      const codes = (side) => this.sides[side.toUpperCase()].model.arrays.codes;
      return new Map(kept.map((pair) => [pair[own], {
        latent: pair[other],
        value: unbraid.matching.partnerOf(codes(own), pair[own], codes(other), pair[other], pair.r),
      }]));
    }

    #move(side, latent, value) {
      const partner = this.partners[side].get(latent);
      const other = side === "A" ? "B" : "A";
      this.lives[side].move(latent, value);
      if (this.linked.checked && partner) {
        this.lives[other].move(partner.latent, partner.value(this.lives[side].code[latent]));
      }
    }

    #parts() {
      ui.showPartners(this.found, this.panels.A.rows, this.panels.B.rows);
      return [this.summary, ...this.#storedOnly(), this.#hands(), this.#inputs(),
        ...(this.found.r === null ? [] : [this.#correlations()])];
    }

    #storedOnly() {
      const stored = ["A", "B"].filter((side) => !this.lives[side].runs);
      if (!stored.length) return [];
      const words = `Model ${stored.join(" and model ")} cannot run in the page: only stored `
        + "traversals are shown of it, and it cannot be given an input.";
      return [ui.element("p", { class: "note stored-only" }, words)];
    }

    #hands() {
      this.linked = ui.element("input", { type: "checkbox", class: "link-latents", checked: true });
      this.columns = ui.element("div", { class: "compare-columns" },
        this.#column("A"), this.#column("B"));
      return ui.element("section", { class: "model-part compare-hands",
        "aria-label": "Latents of both models by hand" }, this.stage.element, this.stage.below,
      ui.element("div", { class: "compare-buttons" },
        ui.button("Typical codes", { class: "quiet-button typical-code",
          click: () => this.#each((live) => live.reset()) }),
        this.context.samples.count && this.#running().length
          ? ui.button("Random image of the data", { class: "quiet-button random-image",
            click: () => this.choice.random() }) : null,
        ui.element("label", { class: "check" }, this.linked, "link matched latents")),
      this.columns);
    }

    #column(side) {
      return ui.element("div", { class: "compare-column", "data-slot": side.toLowerCase() },
        ui.element("h3", {}, ui.element("i", { class: "side-mark" }, side),
          ui.element("bdi", {}, this.sides[side].name)),
        this.panels[side].element);
    }

    #inputs() {
      if (!this.#running().length) return "";
      return ui.element("section", { class: "model-part shared-part",
        "aria-label": "Shared input" }, ui.element("h3", {}, "One input for both"),
      ui.element("p", { class: "hint" }, "Both models encode it and decode it again."),
      this.#samples(), this.choice.element);
    }

    #samples() {
      const { samples, population } = this.context;
      const { height, width, channels } = population.image;
      const one = (sample) => {
        const canvas = ui.imageCanvas(population.image, "", { role: false, "aria-label": null });
        unbraid.paint(canvas, samples.pixels(sample), height, width, channels);
        return ui.button("", {
          class: "pair", "aria-label": `Give both models sample ${sample}`,
          title: `sample ${sample}`, "data-sample": sample, click: () => this.choice.sample(sample),
        }, canvas);
      };
      return ui.element("div", { class: "pairs" },
        ...ui.spreadSamples(samples.count, SAMPLES).map(one));
    }

    #correlations() {
      return ui.element("section", { class: "model-part", "aria-label": "Correlations" },
        ui.element("h3", {}, "Every latent of A against every latent of B"),
        ui.element("p", { class: "hint" }, "Absolute rank correlation of the codes of the same "
          + "images. Outlined pairs are matched; dashed ones are too weak to count."),
        this.table);
    }

    async #rename(key, latent, name) {
      await this.context.rename(key, latent, name);
      this.rename();
    }
  }

  unbraid.compareView = (element, context) => {
    let shown = null;
    const view = {
      show(modelA, keyA, nameA, modelB, keyB, nameB) {
        view.clear();
        shown = new Compared(element, context, {
          A: { model: modelA, key: keyA, name: nameA },
          B: { model: modelB, key: keyB, name: nameB },
        });
        element.append(...shown.parts);
        shown.begin();
      },
      clear() {
        shown?.stop();
        shown = null;
        element.replaceChildren();
      },
      redraw: () => shown?.links?.draw(),
    };
    element.classList.add("compare-view");
    context.onNames((key) => {
      if (shown && [shown.sides.A.key, shown.sides.B.key].includes(key)) shown.rename();
    });
    return view;
  };
})();
