// SPDX-License-Identifier: Apache-2.0
// An image of one's own: dropped, chosen or pasted, fitted to the size of the data's images.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  function readAsAddress(file) {
    return new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = () => reject(new Error("the file could not be read."));
      reader.readAsDataURL(file);
    });
  }

  // Drawings (SVG) have no pixels of their own: an image element draws them.
  async function readDrawing(file) {
    const made = new Image();
    made.src = await readAsAddress(file);
    await made.decode();
    const side = 512;
    const [width, height] = [made.naturalWidth || side, made.naturalHeight || side];
    return { source: made, width, height };
  }

  async function readImage(file) {
    if (file.type && !file.type.startsWith("image/")) {
      throw new Error(`“${file.name}” is not an image but ${file.type}.`);
    }
    try {
      if (file.type === "image/svg+xml") return await readDrawing(file);
      const source = await createImageBitmap(file);
      return { source, width: source.width, height: source.height };
    } catch {
      throw new Error(`“${file.name}” is no image that this browser can read.`);
    }
  }

  // The middle of the image in the shape of the data's images, scaled to their size.
  function fitted({ source, width, height }, image) {
    const canvas = ui.element("canvas", { width: image.width, height: image.height });
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const scale = Math.max(image.width / width, image.height / height);
    const [cropWidth, cropHeight] = [image.width / scale, image.height / scale];
    pen.fillStyle = "#fff"; // clear parts become paper
    pen.fillRect(0, 0, image.width, image.height);
    pen.imageSmoothingQuality = "high";
    pen.drawImage(source, (width - cropWidth) / 2, (height - cropHeight) / 2, cropWidth,
      cropHeight, 0, 0, image.width, image.height);
    return pen.getImageData(0, 0, image.width, image.height).data;
  }

  // Bytes (red, green, blue, clear) to numbers between 0 and 1, grey where there is one channel.
  function asPixels(bytes, channels) {
    const count = bytes.length / 4;
    const pixels = new Float32Array(count * channels);
    for (let at = 0; at < count; at += 1) {
      const [red, green, blue] = [0, 1, 2].map((part) => bytes[4 * at + part] / 255);
      if (channels === 1) pixels[at] = 0.299 * red + 0.587 * green + 0.114 * blue;
      else pixels.set([red, green, blue].slice(0, channels), at * channels);
    }
    return pixels;
  }

  // How far a code lies from those of the data, by the latent that is furthest out.
  ui.distanceWords = (live, code) => {
    const { active } = ui.inOrder(live.record);
    const distances = active.map((latent) => {
      const { mean, deviation } = live.spread(latent);
      return Math.abs(code[latent] - mean) / Math.max(deviation, 1e-9);
    });
    if (!distances.length) return "No latent is active, so its code says nothing.";
    const far = Math.max(...distances);
    const latent = ui.latentWords(live.model, active[distances.indexOf(far)]);
    const place = far < 2.5 ? "among the codes of the data"
      : far < 4 ? "at the edge of the codes of the data" : "far from any code of the data";
    return `Its code is ${place}: at most ${ui.fixed(far, 1)} standard deviations `
      + `from their mean (${latent}).`;
  };

  class OwnImage {
    #pixels = null;
    #inverted = false;
    #latest = 0;
    #stopListening; // ends listening to dropped and pasted files

    // given(pixels, words) gets the image and returns a sentence about its code.
    constructor(area, image, given) {
      Object.assign(this, { area, image, given });
      const id = ui.freshId("own-image");
      this.input = ui.element("input", {
        type: "file", id, class: "own-image-file unseen", accept: "image/*",
        change: () => this.#chosen(),
      });
      this.invert = ui.element("input", {
        type: "checkbox", class: "own-image-invert", disabled: true,
        change: () => this.#turn(),
      });
      this.words = ui.element("p", { class: "own-image-words", "aria-live": "polite" });
      const problem = { class: "problem own-image-error", role: "alert", hidden: true };
      this.error = ui.element("p", problem);
      this.element = this.#make(id);
      this.#stopListening = ui.onFile({
        shown: () => this.area.getClientRects().length > 0,
        over: (is) => this.element.classList.toggle("over", is),
        take: (file) => this.#take(file),
      });
    }

    #make(id) {
      return ui.element("div", { class: "own-image" },
        ui.element("label", { class: "drop-zone", for: id },
          ui.element("strong", {}, "Drop, paste or choose an image"), this.input),
        ui.element("label", { class: "check" }, this.invert, "invert (white on black)"),
        ui.element("p", { class: "hint" },
          "It need not look like the data: the model then shows the nearest thing it knows."),
        this.words, this.error);
    }

    stop() {
      this.#stopListening();
      this.forget();
    }

    // An image that is still being read is not wanted any more, nor what went wrong with the last.
    forget() {
      this.#latest += 1;
      this.error.hidden = true;
    }

    #chosen() {
      const [file] = this.input.files;
      if (file) this.#take(file);
      this.input.value = ""; // the same file can be chosen again
    }

    async #take(file) {
      this.forget(); // the last of several images counts
      const turn = this.#latest;
      try {
        const read = await readImage(file);
        if (turn !== this.#latest) return;
        this.#pixels = asPixels(fitted(read, this.image), this.image.channels);
        this.#inverted = this.invert.checked;
        if (this.#inverted) this.#flip();
        this.#give(file.name || "pasted image");
      } catch (error) {
        if (turn === this.#latest) this.#fail(error);
      }
    }

    #turn() {
      if (this.#pixels === null || this.invert.checked === this.#inverted) return;
      this.#inverted = this.invert.checked;
      this.#flip();
      this.#give("inverted image");
    }

    #flip() {
      this.#pixels = this.#pixels.map((value) => 1 - value);
    }

    #give(words) {
      this.error.hidden = true;
      this.invert.disabled = false;
      this.words.textContent = this.given(this.#pixels, words);
    }

    // It is told also where the panel is folded away.
    #fail(error) {
      const panel = this.element.closest("details");
      if (panel) panel.open = true;
      this.error.textContent = `This did not work: ${ui.reason(error)}`;
      this.error.hidden = false;
    }
  }

  ui.ownImage = (area, image, given) => new OwnImage(area, image, given);
})();
