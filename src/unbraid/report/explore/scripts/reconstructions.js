// SPDX-License-Identifier: Apache-2.0
// Samples of the data, each with what the model makes of its code below it.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const SHOWN = 12;

  // So many samples spread over all of them, starting at *from*.
  ui.spreadSamples = (count, shown, from = 0) => {
    const many = Math.min(count, shown);
    return Array.from({ length: many }, (_, at) =>
      (Math.floor((at * count) / many) + from) % count);
  };

  function pair(context, live, sample, chosen) {
    const { height, width, channels } = live.image;
    const hidden = { role: false, "aria-label": null };
    const above = ui.imageCanvas(live.image, "", { ...hidden, "data-part": "sample" });
    const below = ui.imageCanvas(live.image, "", { ...hidden, "data-part": "reconstruction" });
    const words = ui.element("span", { class: "pair-difference" }, "\u00a0");
    const label = `Sample ${sample}: set the sliders to its code`;
    const paint = () => {
      const pixels = context.samples.pixels(sample);
      const decoded = live.decode(live.codeOf(sample));
      unbraid.paint(above, pixels, height, width, channels);
      unbraid.paint(below, decoded, height, width, channels);
      const difference = ui.meanDifference(pixels, decoded);
      words.textContent = ui.fixed(difference, 3);
      words.dataset.value = String(difference);
      return difference;
    };
    return { paint, element: ui.button("", {
      class: "pair", "aria-label": label, title: label, "data-sample": sample,
      click: () => chosen(sample),
    }, above, below, words) };
  }

  ui.reconstructions = (context, live, work, chosen) => {
    const { count } = context.samples;
    const row = ui.element("div", { class: "pairs" });
    const mean = ui.element("p", { class: "pairs-mean", "aria-live": "polite" });
    let from = 0;

    function tell(differences) {
      const sum = differences.reduce((a, b) => a + b, 0);
      const average = ui.fixed(sum / differences.length, 3);
      mean.textContent = `Image and reconstruction differ by ${average} `
        + `on average over these ${differences.length}, where 1 is black against white.`;
    }

    function show() {
      const pairs = ui.spreadSamples(count, SHOWN, from)
        .map((sample) => pair(context, live, sample, chosen));
      const differences = [];
      row.replaceChildren(...pairs.map((one) => one.element));
      const jobs = pairs.map((one) => () => differences.push(one.paint()));
      work.replace("reconstructions", [...jobs, () => tell(differences)]);
    }

    function others() {
      from = (from + 1 + Math.floor(Math.random() * Math.max(1, count - 1))) % count;
      show();
    }

    show();
    const more = count > SHOWN ? ui.button("Other samples", { click: others }) : null;
    return { element: ui.element("div", { class: "reconstructions" }, row, mean, more) };
  };
})();
