// SPDX-License-Identifier: Apache-2.0
// What two models have in common, in one sentence, in a word a latent, and in a table.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  // Below WEAK a latent has no partner; above STRONG two latents are as good as the same.
  const [WEAK, STRONG] = [0.5, 0.8];

  // The pairs that count, and the latents left alone on either side.
  ui.matchedLatents = ({ latentsA, latentsB, pairs }) => {
    const kept = pairs.filter((pair) => Math.abs(pair.r) >= WEAK);
    const alone = (latents, side) =>
      latents.filter((latent) => !kept.some((pair) => pair[side] === latent));
    return { kept, onlyA: alone(latentsA, "a"), onlyB: alone(latentsB, "b") };
  };

  function listed(words) {
    if (words.length < 2) return words.join("");
    return `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
  }

  function onlyWords(model, latents, side) {
    if (!latents.length) return null;
    if (latents.length > 6) return `only in ${side}: ${latents.length} latents`;
    return `only in ${side}: ${listed(latents.map((one) => ui.latentWords(model, one)))}`;
  }

  ui.matchSentence = (found, modelA, modelB) => {
    if (found.r === null) return "These models have no codes of the same images to match by.";
    if (!found.latentsA.length || !found.latentsB.length) {
      const empty = found.latentsA.length ? "B" : found.latentsB.length ? "A" : "Neither model";
      return `${empty} has ${empty === "Neither model" ? "an" : "no"} active latent, `
        + "so there is nothing to match.";
    }
    const { kept, onlyA, onlyB } = ui.matchedLatents(found);
    const strong = kept.filter((pair) => Math.abs(pair.r) > STRONG).length;
    const similar = kept.length - strong;
    const count = found.latentsA.length;
    return `${[
      `${strong} of ${ui.counted(count, "latent")} of A ${strong === 1 ? "has" : "have"} `
        + `a partner in B (|r| > ${STRONG})`,
      similar ? `${similar} more ${similar === 1 ? "is" : "are"} similar `
        + `(|r| from ${WEAK} to ${STRONG})` : null,
      onlyWords(modelA, onlyA, "A"), onlyWords(modelB, onlyB, "B"),
    ].filter(Boolean).join("; ")}.`;
  };

  // Beside each slider: its partner, or that the other model has none.
  ui.showPartners = (found, rowsA, rowsB) => {
    const { kept } = ui.matchedLatents(found);
    const note = (row, own, other, side) => {
      const pair = kept.find((one) => one[own] === row.latent);
      row.element.classList.toggle("only", !pair);
      row.note.dataset.partner = pair ? pair[other] : "";
      row.note.textContent = pair
        ? `↔ ${other.toUpperCase()} ${pair[other]}, r ${ui.fixed(pair.r, 2)}` : `only in ${side}`;
    };
    if (found.r === null) return;
    rowsA.forEach((row) => note(row, "a", "b", "A"));
    rowsB.forEach((row) => note(row, "b", "a", "B"));
  };

  ui.correlationTable = (found, modelA, modelB) => {
    const { latentsA, latentsB, r, pairs } = found;
    const heading = (side, model, latent, scope) => ui.element("th", {
      scope, class: scope === "row" ? "heat-row" : "heat-head", "data-latent": latent,
      title: ui.latentWords(model, latent),
    }, ui.element("span", {}, `${side} ${latent}`));
    const cell = (a, b) => {
      const value = r[latentsA.indexOf(a)][latentsB.indexOf(b)];
      const made = ui.heatCell(Math.abs(value),
        { "data-a": a, "data-b": b, title: `r = ${ui.fixed(value, 3)}` });
      const matched = pairs.some((pair) => pair.a === a && pair.b === b);
      made.classList.toggle("matched", matched);
      made.classList.toggle("weak", matched && Math.abs(value) < WEAK);
      return made;
    };
    return ui.element("table", { class: "heat-table correlation-table" },
      ui.element("caption", { class: "unseen" }, "Absolute rank correlation of latents of A and B"),
      ui.element("thead", {}, ui.element("tr", {}, ui.element("td"),
        ...latentsB.map((b) => heading("B", modelB, b, "col")))),
      ui.element("tbody", {}, ...latentsA.map((a) => ui.element("tr", {},
        heading("A", modelA, a, "row"), ...latentsB.map((b) => cell(a, b))))));
  };
})();
