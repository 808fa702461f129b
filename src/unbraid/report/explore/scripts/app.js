// SPDX-License-Identifier: Apache-2.0
// The page as a whole: which models are chosen, where they come from, what the address remembers.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const { ui } = unbraid;
  const population = JSON.parse(document.getElementById("population").textContent);
  const byId = (id) => document.getElementById(id);
  const rowOf = new Map(population.rows.key.map((key, place) => [key, place]));
  const models = new Map(); // promises of models by key
  const waiting = new Map(); // what a model's script must call, by key
  const listeners = []; // told of a key whose names have changed
  const columns = ui.columns(population);
  const chosen = { a: null, b: null };
  const views = {};
  const MOST_MODELS = 12; // in memory: megabytes each

  // What is told of the page.

  const LONG_NOTE = 150;
  const KINDS = {
    train: "A run", pbt: "A search", rpu: "A recursion", discover: "A discovery", study: "A study",
  };

  function showHead() {
    const { kind, data, rows } = population;
    const open = rows.model.filter(Boolean).length;
    const told = `${KINDS[kind] ?? kind} on ${data}: ${ui.counted(rows.key.length, "model")}`;
    const closed = open === rows.key.length ? "" : `, of which ${open} can be opened`;
    byId("title").textContent = population.title;
    byId("summary").textContent = `${told}${closed}.`;
    byId("notes").append(...population.notes.map(noteShown));
  }

  // Of a long one the first sentence, and the rest when it is asked for: on a phone whole ones would
  // fill the first screen.
  function noteShown(note) {
    const end = note.indexOf(". ") + 1;
    if (note.length < LONG_NOTE || end === 0) return ui.element("p", { class: "note" }, note);
    const first = ui.element("summary", {}, note.slice(0, end));
    return ui.element("details", { class: "note" }, first, note.slice(end + 1));
  }

  function trouble(text) {
    byId("trouble").textContent = text;
    byId("trouble").hidden = !text;
  }

  // Models: asked of the server, from a script of their own, or in the page.

  function loadModel(key) {
    const loading = models.get(key) ?? bytesOf(key).then(opened);
    loading.catch(() => models.delete(key)); // so that it can be tried again
    models.delete(key);
    models.set(key, loading); // behind all others: the first was looked at longest ago
    if (models.size > MOST_MODELS) models.delete(models.keys().next().value);
    return loading;
  }

  async function bytesOf(key) {
    if (population.mode === "served") return fetched(`model/${encodeURIComponent(key)}`);
    if (population.mode === "folder") return unbraid.fromBase64(await fromScript(key));
    const all = [...document.querySelectorAll("script.model")];
    const inside = all.find((one) => one.dataset.key === key);
    if (!inside) throw new Error("This model is not in the file.");
    return unbraid.fromBase64(inside.textContent);
  }

  async function fetched(address, options) {
    let answer;
    try {
      answer = await fetch(address, options);
    } catch {
      throw new Error("The program that serves this page has ended: start it again.");
    }
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.arrayBuffer();
  }

  function fromScript(key) {
    return new Promise((resolve, reject) => {
      waiting.set(key, resolve);
      const missing = () => reject(new Error("The file of this model is missing beside the page."));
      const src = `models/${String(rowOf.get(key)).padStart(5, "0")}.js`;
      const script = ui.element("script", { src, error: missing, load: () => script.remove() });
      document.head.append(script);
    });
  }

  unbraid.receive = (key, text) => {
    waiting.get(key)?.(text);
    waiting.delete(key);
  };

  function opened(buffer) {
    const { record, arrays } = unbraid.unpack(buffer);
    const network = record.network && unbraid.network(record.network, arrays);
    return { record, arrays, network, names: { ...record.names } };
  }

  // Images of the data.

  async function readSamples() {
    const { samples, image } = population;
    if (!samples) return { count: 0, pixels: () => new Float32Array(0), factors: () => [] };
    const sprite = new Image();
    sprite.src = samples.sprite;
    await sprite.decode();
    const canvas = ui.element("canvas", { width: sprite.width, height: sprite.height });
    const brush = canvas.getContext("2d", { willReadFrequently: true, colorSpace: "srgb" });
    brush.drawImage(sprite, 0, 0);
    return {
      count: samples.count,
      factors: (index) => samples.factors[index] ?? [],
      pixels(index) {
        const left = (index % samples.columns) * image.width;
        const top = Math.floor(index / samples.columns) * image.height;
        return valuesOf(brush.getImageData(left, top, image.width, image.height).data);
      },
    };
  }

  function valuesOf(bytes) {
    const { height, width, channels } = population.image;
    const values = new Float32Array(height * width * channels);
    for (let at = 0; at < height * width; at++) {
      for (let c = 0; c < channels; c++) values[at * channels + c] = bytes[4 * at + c] / 255;
    }
    return values;
  }

  function imagesByFactor(samples) {
    if (!population.factors.length) return null;
    if (population.mode === "served") {
      return async (values) => {
        const bytes = new Uint8Array(await fetched(`image/${values.join("-")}`));
        return Float32Array.from(bytes, (value) => value / 255);
      };
    }
    return async (values) => samples.pixels(nearestSample(values));
  }

  function nearestSample(values) {
    const differs = (own) => own.filter((one, at) => one !== values[at]).length;
    const off = population.samples.factors.map(differs);
    return off.indexOf(Math.min(...off));
  }

  // Names of latents.

  async function rename(key, latent, name) {
    const model = await loadModel(key);
    if (population.mode === "served") {
      const token = document.querySelector("meta[name=unbraid-token]").content;
      const body = JSON.stringify({ model: key, latent, name });
      const headers = { "X-Unbraid-Token": token };
      const kept = await fetched("names", { method: "POST", body, headers });
      model.names = JSON.parse(new TextDecoder().decode(kept));
    } else {
      model.names = { ...model.names, [latent]: name.trim() };
      if (!name.trim()) delete model.names[latent];
    }
    listeners.forEach((listener) => listener(key));
  }

  // What is chosen.

  const nameOf = (key) => population.rows.name[rowOf.get(key)];

  async function choose(key, slot) {
    if (!rowOf.has(key)) return;
    chosen[slot] = key;
    views.population.select(chosen.a, chosen.b);
    remember();
    await show();
  }

  // What is chosen as A and B, as far as it can be opened; what cannot says why.
  async function show() {
    const { a, b } = chosen;
    const [first, second] = await Promise.all([tried(a), tried(b)]);
    if (a !== chosen.a || b !== chosen.b) return; // another was chosen meanwhile
    showChosen("a", a);
    showChosen("b", b);
    byId("model-panel").hidden = !a;
    byId("compare-panel").hidden = !b;
    if (!first.model) views.model.clear();
    else if (shown !== first.model) views.model.show(first.model, a, nameOf(a));
    shown = first.model;
    if (first.model && second.model) {
      views.compare.show(first.model, a, nameOf(a), second.model, b, nameOf(b));
    } else {
      views.compare.clear();
    }
    trouble([first.trouble, second.trouble].filter(Boolean).join(" "));
  }

  async function tried(key) {
    if (!key) return {};
    if (!population.rows.model[rowOf.get(key)]) {
      return { trouble: `${nameOf(key)} cannot be opened: its weights are not kept here.` };
    }
    try {
      const model = await loadModel(key);
      return { model, trouble: model.record.trouble };
    } catch (error) {
      return { trouble: error.message };
    }
  }

  let shown; // the model that the view of A shows

  function showChosen(slot, key) {
    const box = byId(`chosen-${slot}`);
    box.replaceChildren();
    box.dataset.key = key ?? "";
    if (!key) return;
    const place = rowOf.get(key);
    const status = STATUS[population.rows.status[place]];
    const mark = ui.element("span", { class: `mark-${slot}` }, slot.toUpperCase());
    box.append(ui.element("h2", {}, mark, " ", ui.words(nameOf(key))));
    if (status) box.append(ui.element("p", { class: "note warning" }, status));
    box.append(facts(place), links(slot, key));
  }

  // Scores and what training recorded; settings stand in the name.
  function facts(place) {
    const known = population.columns.filter((one) => one.group !== "setting"
      && population.rows.values[one.key][place] !== null);
    return ui.element("dl", { class: "scores" }, ...known.map((one) => ui.element("div", {},
      ui.element("dt", { title: one.remark }, one.label),
      ui.element("dd", {}, ui.shown(columns.get(one.key), place)))));
  }

  function links(slot, key) {
    const found = ui.element("p", { class: "links" });
    if (population.mode === "served" && population.rows.model[rowOf.get(key)]) {
      const href = `codes/${encodeURIComponent(key)}.csv`;
      found.append(ui.element("a", { href, download: "codes.csv" }, "codes.csv"));
    }
    if (slot === "b") found.append(ui.button("Close the comparison", { click: close }));
    return found;
  }

  const STATUS = {
    collapsed: "Collapsed: it uses too few latents for its scores to mean anything.",
    diverged: "Diverged: its loss was no finite number any more.",
  };

  function close() {
    chosen.b = null;
    views.population.select(chosen.a, null);
    remember();
    show();
  }

  // The address remembers what is chosen, so that a view can be kept or sent.

  function remember() {
    const state = { a: chosen.a, b: chosen.b, view: views.population.state() };
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(state))}`);
  }

  function remembered() {
    try {
      const state = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      return state && typeof state === "object" ? state : {};
    } catch {
      return {};
    }
  }

  // Light and dark.

  function prepareTheme() {
    const dark = () => {
      const set = document.documentElement.dataset.theme;
      return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    };
    const label = () => (byId("theme").textContent = dark() ? "Light" : "Dark");
    byId("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      label();
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      label();
      redraw();
    });
    label();
  }

  const redraw = () => Object.values(views).forEach((view) => view.redraw());

  async function begin() {
    showHead();
    prepareTheme();
    const samples = await readSamples();
    const context = {
      population,
      samples,
      factorImage: imagesByFactor(samples),
      rename,
      onNames: (listener) => listeners.push(listener),
    };
    const state = remembered();
    views.population = unbraid.populationView(byId("population-view"), population, { choose });
    views.model = unbraid.modelView(byId("model-view"), context);
    views.compare = unbraid.compareView(byId("compare-view"), context);
    if (state.view) views.population.restore(state.view);
    chosen.a = known(state.a) ?? known(population.start.model);
    chosen.b = known(state.b);
    views.population.select(chosen.a, chosen.b);
    await show();
    byId("population-view").addEventListener("populationchange", remember);
    document.documentElement.dataset.ready = "yes";
  }

  const known = (key) => (rowOf.has(key) ? key : null);

  begin().catch((error) => trouble(error.message));
})();
