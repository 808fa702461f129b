// SPDX-License-Identifier: Apache-2.0
// Traversal strips: one latent moved from low to high around the current code, in idle moments.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const FRAMES = 9;
  const SHOWN = 12;

  class Strip {
    #drawn = null;

    constructor(live, latent) {
      Object.assign(this, { live, latent });
      this.count = live.runs ? FRAMES : live.frames();
      this.frames = Array.from({ length: this.count }, (_, frame) => this.#makeFrame(frame));
      this.label = ui.element("div", { class: "strip-label" });
      const row = { class: "strip-frames", role: "group", keydown: (event) => this.#key(event) };
      this.row = ui.element("div", row, ...this.frames.map((one) => one.element));
      this.row.style.setProperty("--frames", this.count);
      this.element = ui.element("div", { class: "strip-row", "data-latent": latent },
        this.label, this.row);
      this.rename();
      this.mark();
    }

    rename() {
      const { record, model } = this.live;
      const name = ui.nameOf(model, this.latent);
      const [carried] = record.latents[this.latent].factors;
      this.label.replaceChildren(ui.element("strong", {}, name || `latent ${this.latent}`),
        ui.element("small", {}, (name ? `latent ${this.latent}, ` : "")
          + ui.sizeWords(record, this.latent)));
      if (carried) {
        this.label.append(ui.element("small", {}, `${carried[0]} ${ui.fixed(carried[1], 2)}`));
      }
      this.row.setAttribute("aria-label", `Traversal of ${ui.latentWords(model, this.latent)}`);
    }

    // The frame nearest to the current code; it alone is a tab stop, arrows reach the others.
    mark() {
      const { low, high } = this.live.range(this.latent);
      const share = (this.live.code[this.latent] - low) / (high - low);
      const near = Math.max(0, Math.min(this.count - 1, Math.round(share * (this.count - 1))));
      this.frames.forEach((one, frame) => {
        one.element.toggleAttribute("data-current", frame === near);
        one.element.tabIndex = frame === near ? 0 : -1;
      });
    }

    // What the images depend on: the code without this latent.
    jobs() {
      const rest = Float32Array.from(this.live.code);
      rest[this.latent] = 0;
      const drawn = this.live.runs ? rest.join() : "stored";
      if (drawn === this.#drawn) return [];
      this.#drawn = null;
      this.element.setAttribute("aria-busy", "true");
      const paints = this.frames.map((one, frame) => () => this.#paint(rest, frame));
      return [...paints, () => this.#done(drawn)];
    }

    #done(drawn) {
      this.#drawn = drawn;
      this.element.setAttribute("aria-busy", "false");
    }

    #value(frame) {
      return this.live.at(this.latent, frame / (this.count - 1));
    }

    #paint(code, frame) {
      const { height, width, channels } = this.live.image;
      const moved = Float32Array.from(code);
      moved[this.latent] = this.#value(frame);
      const pixels = this.live.runs ? this.live.decode(moved)
        : this.live.storedFrame(this.latent, frame);
      unbraid.paint(this.frames[frame].canvas, pixels, height, width, channels);
    }

    #makeFrame(frame) {
      const label = `latent ${this.latent} at ${ui.fixed(this.#value(frame), 2)}`;
      const canvas = ui.imageCanvas(this.live.image, label, { role: false, "aria-label": null });
      const chosen = () => {
        this.live.move(this.latent, this.#value(frame));
        this.live.settle(this.latent);
      };
      const made = ui.button("", {
        class: "strip-frame", "aria-label": label, title: label, click: chosen,
        "data-latent": this.latent, "data-frame": frame,
      }, canvas);
      return { element: made, canvas };
    }

    #key(event) {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -this.count, End: this.count }[event.key];
      if (!by) return;
      event.preventDefault();
      const at = this.frames.findIndex((one) => one.element === document.activeElement);
      const to = Math.max(0, Math.min(this.count - 1, at + by));
      this.frames[to].element.focus();
    }
  }

  const ends = () => ui.element("div", { class: "strip-ends", "aria-hidden": "true" },
    ui.element("span", {}, "low"), ui.element("span", {}, "high"));

  // The strips of many latents are folded away: made and drawn once they are opened.
  function folded(live, latents, opened) {
    const box = ui.element("div", { class: "strips" });
    const part = ui.element("details", { class: "strips-more", toggle: () => {
      if (!part.open || box.childElementCount) return;
      const strips = latents.map((latent) => new Strip(live, latent));
      box.append(...strips.map((strip) => strip.element));
      opened(strips);
    } }, ui.element("summary", {}, ui.counted(latents.length, "more latent")), box);
    return part;
  }

  ui.strips = (live, work) => {
    const { active } = ui.inOrder(live.record);
    const strips = active.slice(0, SHOWN).map((latent) => new Strip(live, latent));
    const shown = strips.map((strip) => strip.element);
    const more = active.length <= SHOWN ? null : folded(live, active.slice(SHOWN), (others) => {
      strips.push(...others);
      redraw(null);
    });

    // The strip of the latent that was touched comes first.
    function redraw(first) {
      const order = [...strips].sort((a, b) => (b.latent === first) - (a.latent === first));
      work.replace("strips", order.flatMap((strip) => strip.jobs()));
    }

    // While a hand moves, the strips wait: the image that it moves comes first.
    function moved(latent) {
      work.replace("strips", []);
      strips.forEach((strip) => {
        if (latent === null || strip.latent === latent) strip.mark();
      });
    }

    live.on("moved", moved);
    live.on("settled", redraw);
    return {
      rename: () => strips.forEach((strip) => strip.rename()),
      element: ui.element("div", { class: "strips" }, ends(),
        ...shown, more),
    };
  };
})();
