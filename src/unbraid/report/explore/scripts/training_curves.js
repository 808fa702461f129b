// SPDX-License-Identifier: Apache-2.0
// Training curves as small line charts that tell their values where one points.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [320, 150, 46, 8, 8, 20];
  // From a largest value this many times the smallest on, a logarithmic axis may help.
  const LOG_HELPS = 20;

  const isKnown = (value) => value !== null && Number.isFinite(value);

  // The first steps may lie off the scale where the rest could not be read else.
  function limits(values, log) {
    const known = values.filter(isKnown);
    const later = values.slice(Math.floor(values.length / 10)).filter(isKnown);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    if (log) return { low: Math.log10(low), high: Math.log10(high) };
    const [least, most] = [Math.min(...later), Math.max(...later)];
    const room = most - least;
    if (later.length < 2 || room === 0) return { low, high };
    return {
      low: least - low > room ? least - room / 4 : low,
      high: high - most > room ? most + room / 4 : high,
    };
  }

  class Chart {
    #log = false;
    #at = null;

    constructor(steps, quantity) {
      Object.assign(this, { steps, name: quantity.name, values: quantity.values });
      this.line = ui.drawing("path", { class: "curve-line" });
      this.axes = ui.drawing("g", { class: "curve-axes" });
      this.cursor = ui.drawing("g", { class: "curve-cursor", hidden: true },
        ui.drawing("line", { y1: TOP, y2: HEIGHT - BOTTOM }), ui.drawing("circle", { r: 3 }));
      this.value = ui.element("output", { class: "curve-value" });
      this.picture = this.#makePicture();
      this.element = ui.element("figure", { class: "curve", "data-quantity": this.name },
        ui.element("figcaption", {}, ui.element("strong", {}, this.name), this.value,
          this.#makeToggle()), this.picture);
      this.#draw();
      this.#leave();
    }

    #makePicture() {
      const box = [LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
      const [x, y, width, height] = box;
      const inside = ui.drawing("svg", { x, y, width, height, viewBox: box.join(" "),
        class: "curve-inside" }, this.line);
      return ui.drawing("svg", {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curve-picture", role: "img", tabindex: 0,
        "aria-label": this.#about(),
        pointermove: (event) => this.#point(event), pointerleave: () => this.#leave(),
        keydown: (event) => this.#key(event), blur: () => this.#leave(),
      }, this.axes, inside, this.cursor);
    }

    #makeToggle() {
      const known = this.values.filter(isKnown);
      const [low, high] = [Math.min(...known), Math.max(...known)];
      if (!(low > 0 && high / low > LOG_HELPS)) return "";
      const box = ui.element("input", { type: "checkbox", class: "curve-log", change: () => {
        this.#log = box.checked;
        this.#draw();
      } });
      return ui.element("label", { class: "check" }, box, "log");
    }

    #about() {
      const known = this.values.filter(isKnown);
      const ends = known.length
        ? `from ${ui.significant(known[0])} to ${ui.significant(known.at(-1))}` : "no values";
      return `${this.name} by training step: ${ends}. Arrow keys tell its values.`;
    }

    #x(at) {
      const [first, last] = [this.steps[0], this.steps[this.steps.length - 1]];
      const share = last > first ? (this.steps[at] - first) / (last - first) : 0.5;
      return LEFT + share * (WIDTH - LEFT - RIGHT);
    }

    #y(value) {
      const { low, high } = this.limits;
      const shown = this.#log ? Math.log10(value) : value;
      const share = high > low ? (shown - low) / (high - low) : 0.5;
      return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
    }

    // A value that is missing or off the scale breaks or leaves the line.
    #draw() {
      this.limits = limits(this.values, this.#log);
      let path = "";
      let joined = false;
      this.values.forEach((value, at) => {
        if (isKnown(value)) {
          path += `${joined ? "L" : "M"}${this.#x(at).toFixed(1)} ${this.#y(value).toFixed(1)}`;
        }
        joined = isKnown(value);
      });
      this.line.setAttribute("d", path);
      this.#drawAxes();
    }

    #drawAxes() {
      const { low, high } = this.limits;
      const base = HEIGHT - BOTTOM;
      const text = (x, y, anchor, words) =>
        ui.drawing("text", { x, y, "text-anchor": anchor }, words);
      const shown = (value) => ui.significant(this.#log ? 10 ** value : value);
      this.axes.replaceChildren(
        ui.drawing("path", { d: `M${LEFT} ${TOP}V${base}H${WIDTH - RIGHT}` }),
        text(LEFT - 6, TOP + 8, "end", shown(high)), text(LEFT - 6, base, "end", shown(low)),
        text(LEFT, HEIGHT - 5, "start", this.#step(0)),
        text(WIDTH - RIGHT, HEIGHT - 5, "end", this.#step(this.steps.length - 1)));
    }

    #step(at) {
      return `step ${Number(this.steps[at]).toLocaleString("en")}`;
    }

    #point(event) {
      const box = this.picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH;
      let near = 0;
      this.steps.forEach((_, at) => {
        if (Math.abs(this.#x(at) - x) < Math.abs(this.#x(near) - x)) near = at;
      });
      this.#tell(near);
    }

    #key(event) {
      const last = this.steps.length - 1;
      const from = this.#at ?? last;
      const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.#tell(Math.max(0, Math.min(last, to)));
    }

    #tell(at) {
      const value = this.values[at];
      this.#at = at;
      this.value.textContent = `${ui.significant(value)} at ${this.#step(at)}`;
      this.cursor.toggleAttribute("hidden", !isKnown(value));
      if (!isKnown(value)) return;
      const [line, dot] = this.cursor.children;
      line.setAttribute("x1", this.#x(at));
      line.setAttribute("x2", this.#x(at));
      dot.setAttribute("cx", this.#x(at));
      dot.setAttribute("cy", this.#y(value));
    }

    #leave() {
      const known = this.values.filter(isKnown);
      this.#at = null;
      this.cursor.toggleAttribute("hidden", true);
      this.value.textContent = ui.significant(known[known.length - 1]);
    }
  }

  ui.curves = ({ steps, quantities }) => {
    const shown = quantities.filter((one) => one.values.some(isKnown));
    const charts = steps.length ? shown.map((one) => new Chart(steps, one).element) : [];
    const none = ui.element("p", { class: "hint" }, "Nothing was recorded during training.");
    const content = charts.length ? charts : [none];
    return { element: ui.element("div", { class: "curves" }, ...content) };
  };
})();
