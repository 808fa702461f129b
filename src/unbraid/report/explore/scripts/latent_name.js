// SPDX-License-Identifier: Apache-2.0
// The title of a latent with a pencil: Enter keeps the name that was typed, Escape leaves the old.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const LONGEST = 60; // as codes/latent_names.py

  class LatentName {
    #saving = false;

    constructor(model, latent, sliderId, rename) {
      Object.assign(this, { model, latent, rename });
      this.title = ui.element("label", { class: "latent-title", for: sliderId });
      this.pencil = this.#makePencil();
      this.input = this.#makeInput();
      this.error = ui.element("span", { class: "latent-error", role: "alert", hidden: true });
      this.element = ui.element("span", { class: "latent-name" },
        this.title, this.input, this.pencil, this.error);
    }

    show() {
      const name = ui.nameOf(this.model, this.latent);
      const words = `latent ${this.latent}`;
      this.title.replaceChildren(ui.element("strong", {}, name || words));
      if (name) this.title.append(ui.element("small", {}, words));
    }

    #makePencil() {
      const label = `Name latent ${this.latent}`;
      return ui.button("", {
        class: "icon-button latent-rename", "aria-label": label, title: label,
        "data-latent": this.latent, hidden: !this.rename, click: () => this.#open(),
      }, ui.icon("pencil"));
    }

    #makeInput() {
      return ui.element("input", {
        type: "text", class: "latent-name-input", hidden: true, maxlength: LONGEST,
        "aria-label": `Name of latent ${this.latent}`, placeholder: `latent ${this.latent}`,
        spellcheck: "false", autocomplete: "off",
        keydown: (event) => this.#key(event), blur: () => this.#left(),
      });
    }

    #open() {
      this.input.value = ui.nameOf(this.model, this.latent);
      this.#editing(true);
      this.input.focus();
      this.input.select();
    }

    #editing(open) {
      this.input.hidden = !open;
      this.title.hidden = open;
      this.pencil.hidden = open;
      this.error.hidden = true;
    }

    #key(event) {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation(); // Escape must not also close what the page may have open
      if (event.key === "Enter") this.#keep();
      else this.#close();
    }

    #close() {
      this.#editing(false);
      this.pencil.focus();
    }

    // Whoever clicks elsewhere loses nothing: a changed name stays open.
    #left() {
      const same = this.input.value.trim() === ui.nameOf(this.model, this.latent);
      if (same && !this.#saving && !this.input.hidden) this.#editing(false);
    }

    async #keep() {
      if (this.#saving) return;
      const name = this.input.value.trim();
      this.#saving = true;
      this.input.readOnly = true;
      try {
        await this.rename(this.latent, name);
        this.#close();
      } catch (error) {
        this.error.textContent = `The name was not kept: ${ui.reason(error)}`;
        this.error.hidden = false;
      } finally {
        this.#saving = false;
        this.input.readOnly = false;
      }
    }
  }

  ui.latentName = (model, latent, sliderId, options) =>
    new LatentName(model, latent, sliderId, options.rename ?? null);
})();
