// SPDX-License-Identifier: Apache-2.0
// A model in the hands: its current code, and the image decoded from it once a frame.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  // Three things are told: "moved" when the code changes (with the latent, or null for all of
  // them), "frame" when an image was decoded, "settled" when the hand has let go.
  class LiveModel {
    #told = { moved: [], frame: [], settled: [] };
    #frame = null;
    #settling = false;
    #touched = null;
    #spreads = null;

    constructor(model, image) {
      this.model = model;
      this.record = model.record;
      this.image = image;
      this.runs = model.network !== null && model.network !== undefined;
      this.strips = model.arrays.strips ?? null;
      this.typical = Float32Array.from(model.arrays.typical.data);
      this.code = Float32Array.from(this.typical);
      this.pixels = new Float32Array(image.height * image.width * image.channels);
      const { active } = ui.inOrder(this.record);
      this.#touched = active[0] ?? 0;
    }

    on(kind, told) {
      this.#told[kind].push(told);
    }

    // A range to move in, also where all codes are the same.
    range(latent) {
      const { low, high } = this.record.latents[latent];
      return high > low ? { low, high } : { low: low - 1, high: low + 1 };
    }

    // Steps of a slider: a hundredth of its range, or the frames that are stored.
    steps() {
      return this.runs ? 100 : this.frames() - 1;
    }

    frames() {
      return this.strips === null ? 2 : this.strips.shape[1];
    }

    at(latent, share) {
      const { low, high } = this.range(latent);
      return low + (high - low) * share;
    }

    // Mean and standard deviation of the data's codes.
    spread(latent) {
      const { codes } = this.model.arrays;
      this.#spreads ??= this.record.latents.map((_, number) =>
        codes ? ui.spread(codes, number) : { mean: this.typical[number], deviation: 1 });
      return this.#spreads[latent];
    }

    codeOf(sample) {
      const { data, shape } = this.model.arrays.codes;
      return data.slice(sample * shape[1], (sample + 1) * shape[1]);
    }

    encode(pixels) {
      return Float32Array.from(this.model.network.encode(pixels).mean);
    }

    move(latent, value) {
      if (this.runs) this.code[latent] = value;
      else this.#moveStored(latent, value);
      this.#tell("moved", this.runs ? latent : null);
      this.#askFrame();
    }

    settle(latent = null) {
      this.#settling = { latent };
      this.#askFrame();
    }

    setCode(code) {
      this.code.set(code);
      this.#tell("moved", null);
      this.settle();
    }

    reset(latent = null) {
      if (latent === null) return this.setCode(this.typical);
      this.move(latent, this.typical[latent]);
      return this.settle(latent);
    }

    stop() {
      if (this.#frame !== null) cancelAnimationFrame(this.#frame);
      this.#frame = null;
    }

    decode(code) {
      return this.model.network.decode(code);
    }

    // The stored image of a latent moved from the typical code.
    storedFrame(latent, frame) {
      if (this.strips === null) return this.pixels.fill(0.5);
      const size = this.pixels.length;
      const from = (latent * this.frames() + frame) * size;
      return Float32Array.from(this.strips.data.subarray(from, from + size), (x) => x / 255);
    }

    frameOf(latent) {
      const { low, high } = this.range(latent);
      const share = (this.code[latent] - low) / (high - low);
      return Math.max(0, Math.min(this.frames() - 1, Math.round(share * (this.frames() - 1))));
    }

    // Stored images exist for one latent away from the typical code at a time.
    #moveStored(latent, value) {
      this.code.set(this.typical);
      this.code[latent] = value;
      this.#touched = latent;
      this.code[latent] = this.at(latent, this.frameOf(latent) / (this.frames() - 1));
    }

    #tell(kind, what) {
      for (const told of this.#told[kind]) told(what);
    }

    // However often the code changes, it is decoded once a frame and nothing is queued.
    #askFrame() {
      this.#frame ??= requestAnimationFrame(() => {
        this.#frame = null;
        this.#draw();
      });
    }

    #draw() {
      this.pixels.set(this.runs ? this.decode(this.code)
        : this.storedFrame(this.#touched, this.frameOf(this.#touched)));
      this.#tell("frame", null);
      const settling = this.#settling;
      this.#settling = false;
      if (settling) this.#tell("settled", settling.latent);
    }
  }

  ui.liveModel = (model, image) => new LiveModel(model, image);
})();
