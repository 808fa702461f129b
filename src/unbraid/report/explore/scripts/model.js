// SPDX-License-Identifier: Apache-2.0
// The view of one model: its image under the hand, what its latents do and hold, what it rebuilds.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const STORED = "This network cannot run in the page, so only its stored traversals are shown: "
    + "each moves one latent away from the typical code and holds the others there.";

  // A standard normal number (Box and Muller 1958).
  function normal() {
    const radius = Math.sqrt(-2 * Math.log(1 - Math.random()));
    return radius * Math.cos(2 * Math.PI * Math.random());
  }

  // Where there is no standard normal prior, every latent is drawn from its own codes.
  ui.drawCode = (live) => {
    const { codes } = live.model.arrays;
    if (live.record.measure === "kl" || !codes) return live.typical.map(normal);
    const [rows, columns] = codes.shape;
    return live.typical.map((_, latent) =>
      codes.data[Math.floor(Math.random() * rows) * columns + latent]);
  };

  function part(id, title, words, content) {
    return ui.element("section", { class: `model-part ${id}-part`, "aria-labelledby": id },
      ui.element("h3", { id }, title), ui.element("p", { class: "hint" }, words), content);
  }

  // Everything shown of one model; thrown away when another is shown.
  class Shown {
    #input = null;
    #named = [];

    constructor(area, context, model, key) {
      Object.assign(this, { area, context, model, key });
      this.live = ui.liveModel(model, context.population.image);
      this.work = ui.idleWork();
      this.canvas = ui.imageCanvas(this.live.image, "Image decoded from the sliders' code",
        { class: "pixels live-image" });
      this.shownInput = ui.imageCanvas(this.live.image, "The input, as the model is given it",
        { class: "pixels input-image" });
      this.inputWords = ui.element("p", { class: "input-words" });
      this.spoken = ui.element("p", { class: "unseen live-words", "aria-live": "polite" });
      this.live.on("frame", () => this.#paint());
      this.live.on("settled", () => this.#speak());
      this.parts = this.#parts();
      this.live.reset();
    }

    rename() {
      this.#named.forEach((one) => one.rename());
    }

    stop() {
      this.live.stop();
      this.work.stop();
      this.choice?.stop();
    }

    #parts() {
      const parts = [this.#about(), this.#hands()];
      const { record, arrays } = this.model;
      if (ui.inOrder(record).active.length) parts.push(this.#strips());
      if (arrays.information && record.factors.length) parts.push(this.#information());
      if (this.live.runs && arrays.codes && this.context.samples.count) {
        parts.push(this.#reconstructions());
      }
      parts.push(part("curves-title", "How training went",
        "Point at a curve for its values. First steps far off the rest may lie off the scale.",
        ui.curves(record.curves).element));
      return parts;
    }

    #about() {
      const { active, unused } = ui.inOrder(this.model.record);
      const all = ui.counted(active.length + unused.length, "latent");
      const words = `${active.length} of ${all} ${active.length === 1 ? "is" : "are"} active.`;
      return ui.element("div", {}, ui.element("p", { class: "model-about" }, words),
        this.live.runs ? null : ui.element("p", { class: "note stored-only" }, STORED));
    }

    // The image stays in sight while the sliders beside it scroll.
    #hands() {
      const rename = (latent, name) => this.#rename(latent, name);
      this.panel = ui.sliderPanel(this.live, { rename });
      this.#named.push(this.panel);
      const controls = ui.element("div", { class: "controls" }, this.panel.element);
      if (this.context.population.names_kept === false) controls.append(ui.element("p",
        { class: "hint" }, "Names stay on this page until it is closed."));
      if (this.live.runs) controls.append(this.#choices());
      return ui.element("section", { class: "model-part hands", "aria-label": "Latents by hand" },
        this.#stage(), controls);
    }

    #choices() {
      const given = (pixels, words, sample) => this.#give(pixels, words, sample);
      this.choice = ui.inputChoice(this.area, this.context, given);
      return this.choice.element;
    }

    #stage() {
      const buttons = ui.element("div", { class: "stage-buttons" },
        ui.button("Typical code", { class: "quiet-button typical-code",
          click: () => this.live.reset() }));
      const stage = ui.element("div", { class: "stage" }, this.canvas);
      if (this.live.runs) {
        buttons.append(...this.#draws());
        stage.append(this.#inputPlace());
      }
      stage.append(buttons, this.spoken);
      return stage;
    }

    #draws() {
      const drawn = this.model.record.measure === "kl" ? "Random draw from the prior"
        : "Random code";
      const image = ui.button("Random image of the data", {
        class: "quiet-button random-image", click: () => this.choice.random(),
      });
      const code = ui.button(drawn, { class: "quiet-button random-code", click: () => {
        this.#forgetInput();
        this.live.setCode(ui.drawCode(this.live));
      } });
      return this.context.samples.count ? [image, code] : [code];
    }

    #inputPlace() {
      this.#forgetInput();
      return ui.element("div", { class: "input-place" }, this.shownInput, this.inputWords);
    }

    #forgetInput() {
      this.choice?.forget();
      this.#input = null;
      this.shownInput.classList.add("empty");
      this.inputWords.textContent = "No input: choose an image to see what the model makes of it.";
    }

    #strips() {
      const strips = ui.strips(this.live, this.work);
      this.#named.push(strips);
      return part("strips-title", "What each latent does", this.live.runs
        ? "Every row moves one latent around the sliders' code. Choose a frame to go there."
        : "Every row moves one latent from low to high. Choose a frame to go there.",
      strips.element);
    }

    #information() {
      const table = ui.informationTable(this.model);
      this.#named.push(table);
      return part("information-title", "Where the factors are",
        "The share of each factor's information (mutual information over entropy, as in MIG) that "
        + "each latent holds; what two latents hold may be the same.", table.element);
    }

    #reconstructions() {
      const made = ui.reconstructions(this.context, this.live, this.work,
        (sample) => this.choice.sample(sample));
      return part("reconstructions-title", "Reconstructions",
        "Above, images of the data; below, decoded from their codes, and the mean absolute "
          + "difference. Choose one to set the sliders to its code.", made.element);
    }

    // A sample has a stored code; any other image is encoded here.
    #give(pixels, words, sample) {
      const { height, width, channels } = this.live.image;
      const stored = sample !== null && this.model.arrays.codes;
      const code = stored ? this.live.codeOf(sample) : this.live.encode(pixels);
      this.#input = { pixels: Float32Array.from(pixels), words };
      this.shownInput.classList.remove("empty");
      unbraid.paint(this.shownInput, pixels, height, width, channels);
      this.live.setCode(code);
      return ui.distanceWords(this.live, code);
    }

    #paint() {
      const { height, width, channels } = this.live.image;
      unbraid.paint(this.canvas, this.live.pixels, height, width, channels);
      if (this.#input === null) return;
      const difference = ui.meanDifference(this.#input.pixels, this.live.pixels);
      this.inputWords.replaceChildren(ui.element("strong", {}, this.#input.words),
        ` and this image differ by ${ui.fixed(difference, 3)} on average.`);
      this.inputWords.dataset.difference = String(difference);
    }

    // For who listens: said once the hand has let go, not while it moves.
    #speak() {
      this.spoken.textContent = this.#input === null ? "The image was redrawn."
        : this.inputWords.textContent;
    }

    async #rename(latent, name) {
      await this.context.rename(this.key, latent, name);
      this.rename();
    }
  }

  unbraid.modelView = (element, context) => {
    let shown = null;
    const view = {
      show(model, key, name) {
        view.clear();
        shown = new Shown(element, context, model, key);
        element.setAttribute("aria-label", `Model ${name}`);
        element.dataset.key = key;
        element.append(...shown.parts);
      },
      clear() {
        shown?.stop();
        shown = null;
        delete element.dataset.key;
        element.replaceChildren();
      },
      redraw() {}, // every colour is the style sheet's
    };
    element.classList.add("model-view");
    element.setAttribute("role", "group");
    context.onNames((key) => {
      if (shown?.key === key) shown.rename();
    });
    return view;
  };
})();
