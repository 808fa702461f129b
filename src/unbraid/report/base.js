// SPDX-License-Identifier: Apache-2.0
"use strict";
(function () {
  const { template, figures } = JSON.parse(document.getElementById("figures").textContent);
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));

  function draw(box) {
    const figure = figures[box.dataset.figure];
    // A finger that drags over a figure means to scroll the page.
    const layout = Object.assign({ template }, figure.layout, touch ? { dragmode: false } : {});
    // Plotly forgets a figure's height when the window is resized and takes that of its box.
    if (layout.height) box.style.height = `${layout.height}px`;
    return Plotly.newPlot(box, figure.data, layout, { displayModeBar: false, displaylogo: false, responsive: true });
  }

  // A figure inside something hidden has no width to be drawn at; it is drawn when it is first shown.
  function drawVisible() {
    return all(".figure").filter((box) => box.offsetParent !== null && !box.dataset.drawn).map((box) => {
      box.dataset.drawn = "yes";
      return draw(box);
    });
  }

  function sortBy(table, column) {
    const heads = all("thead th", table);
    const ascending = heads[column].getAttribute("aria-sort") === "descending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const body = table.tBodies[0];
    const value = (row) => row.cells[column].dataset.value;
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // what has no value stays last
      const numeric = !Number.isNaN(Number(x)) && !Number.isNaN(Number(y));
      const order = numeric ? Number(x) - Number(y) : x.localeCompare(y);
      return ascending ? order : -order;
    };
    Array.from(body.rows).sort(compare).forEach((row) => body.appendChild(row));
  }

  function show(member) {
    all(".member").forEach((part) => { part.hidden = part.dataset.member !== member; });
    all("select.who").forEach((select) => { select.value = member; });
    drawVisible();
  }

  function toggle(key) {
    const pressed = key.getAttribute("aria-pressed") !== "true";
    key.setAttribute("aria-pressed", String(pressed));
    const setting = Number(key.dataset.setting);
    all(".curves .figure").forEach((box) => {
      const lines = box.data.map((line, number) => (line.meta.setting === setting ? number : -1)).filter((number) => number >= 0);
      if (lines.length) Plotly.restyle(box, { visible: pressed }, lines);
    });
  }

  // A link to something folded away opens it.
  function unfold(hash) {
    const part = document.getElementById(hash.slice(1));
    if (part && part.tagName === "DETAILS") part.open = true;
  }

  all("table.sortable").forEach((table) => {
    all("thead button", table).forEach((button, column) => button.addEventListener("click", () => sortBy(table, column)));
  });
  all("select.who").forEach((select) => {
    select.selectedIndex = 0; // browsers keep a choice over a reload, and the parts start at the first
    select.addEventListener("change", () => show(select.value));
  });
  all("button.key").forEach((key) => key.addEventListener("click", () => toggle(key)));
  all("details").forEach((part) => part.addEventListener("toggle", () => {
    // The window may have been resized while what was drawn before lay hidden.
    all(".figure", part).filter((box) => box.dataset.drawn && box.offsetParent !== null).forEach((box) => Plotly.Plots.resize(box));
    drawVisible();
  }));
  all('a[href^="#"]').forEach((link) => link.addEventListener("click", () => unfold(link.hash)));
  unfold(window.location.hash);
  window.addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
  Promise.all(drawVisible()).then(() => { document.documentElement.dataset.ready = "yes"; });
})();
