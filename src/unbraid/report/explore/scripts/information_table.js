// SPDX-License-Identifier: Apache-2.0
// The table of information: which latent holds what share of which factor.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  // A cell whose colour grows with a share between 0 and 1, the number written in it.
  ui.heatCell = (share, attributes = {}) => {
    const level = Number.isFinite(share) ? Math.max(0, Math.min(1, share)) : 0;
    const cell = ui.element("td", { class: "heat-cell", ...attributes }, ui.fixed(share, 2));
    cell.style.setProperty("--share", level);
    return cell;
  };

  function heading(name, constant) {
    const words = ui.element("span", {}, name);
    const made = ui.element("th", { scope: "col", class: "heat-head" }, words);
    if (constant) made.append(ui.element("small", {}, "constant"));
    return made;
  }

  function row(model, latent, shares, constant) {
    const title = ui.element("th", { scope: "row", "data-latent": latent, class: "heat-row" });
    const cells = shares.map((share, factor) => ui.heatCell(share, {
      "data-latent": latent, "data-factor": factor,
      title: constant[factor] ? "constant" : null,
    }));
    return ui.element("tr", { "data-latent": latent }, title, ...cells);
  }

  function nameRows(table, model) {
    for (const title of table.querySelectorAll("th.heat-row")) {
      const { latent } = title.dataset;
      title.replaceChildren(ui.nameOf(model, latent) || `latent ${latent}`);
      title.title = ui.latentWords(model, latent);
    }
  }

  function folding(part, count) {
    const words = (open) => `${open ? "Hide" : "Show"} ${ui.counted(count, "unused latent")}`;
    const toggle = ui.button(words(false), {
      class: "quiet-button unused-toggle", "aria-expanded": "false", click: () => {
        part.hidden = !part.hidden;
        toggle.setAttribute("aria-expanded", String(!part.hidden));
        toggle.textContent = words(!part.hidden);
      },
    });
    return toggle;
  }

  ui.informationTable = (model) => {
    const { record, arrays } = model;
    const { active, unused } = ui.inOrder(record);
    const { data } = arrays.information;
    const columns = record.factors.length;
    const shares = (latent) => Array.from(data.slice(latent * columns, (latent + 1) * columns));
    const constant = record.factors.map((_, factor) => Number.isNaN(data[factor]));
    const rows = (latents) => latents.map((one) => row(model, one, shares(one), constant));
    const folded = ui.element("tbody", { class: "unused-rows", hidden: true }, ...rows(unused));
    const table = ui.element("table", { class: "heat-table information-table" },
      ui.element("caption", { class: "unseen" }, "Share of each factor's information by latent"),
      ui.element("thead", {}, ui.element("tr", {}, ui.element("td"),
        ...record.factors.map((name, factor) => heading(name, constant[factor])))),
      ui.element("tbody", {}, ...rows(active)), folded);
    nameRows(table, model);
    const about = { class: "scroll", tabindex: 0, role: "region", "aria-label": "Information" };
    return {
      rename: () => nameRows(table, model),
      element: ui.element("div", { class: "information" }, ui.element("div", about, table),
        unused.length ? folding(folded, unused.length) : null),
    };
  };
})();
