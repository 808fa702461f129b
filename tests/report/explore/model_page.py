# SPDX-License-Identifier: Apache-2.0
"""Pages with made-up models in them: the views of models alone, as the explorer's page holds them.

A model is a small dense network that the page's own `network.js` runs. Everything the views are
given stands in `window.stage`, where tests find it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

FIRST = ("arrays.js", "network.js")
HOSTILE = "<img src=x onerror=alert(1)>&amp; \"quoted\" 'name' " + "long" * 12
FACTORS = [
    {"name": "x", "size": 8, "values": [str(value) for value in range(8)]},
    {"name": "shape", "size": 3, "values": ["heart", "<b>square</b>", "ellipse"]},
    {"name": "still", "size": 1, "values": ["0"]},
]

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_STAGE = """
const given = JSON.parse(document.getElementById("given").textContent);
const stage = (window.stage = { renamed: [], listeners: [], decodes: 0, problems: [] });
addEventListener("error", (event) => stage.problems.push(event.message));
addEventListener("unhandledrejection", (event) => stage.problems.push(String(event.reason)));

function opened({ record, arrays, names }) {
  const numbers = (data) => data.map((value) => value ?? NaN);
  const unpacked = Object.fromEntries(Object.entries(arrays).map(([name, { data, shape }]) =>
    [name, { data: (name === "strips" ? Uint8Array : Float32Array).from(numbers(data)), shape }]));
  const network = record.network && window.unbraid.network(record.network, unpacked);
  return { record, arrays: unpacked, network, names: { ...names } };
}

function counting(model) {
  const { network } = model;
  if (network === null) return model;
  return { ...model, network: { ...network, decode(code) {
    stage.decodes += 1;
    return network.decode(code);
  } } };
}

stage.models = given.models.map(opened).map(counting);
stage.plain = given.models.map(opened); // networks whose buffers no view shares
stage.factorImage = async (values) => {
  stage.asked = values;
  if (stage.refuse) throw new Error(stage.refuse);
  await stage.slow;
  return Float32Array.from(given.pixels[(values[0] * 3 + values[1]) % given.pixels.length]);
};
stage.context = {
  population: given.population,
  samples: {
    count: given.pixels.length,
    pixels: (index) => Float32Array.from(given.pixels[index]),
    factors: (index) => given.population.samples.factors[index] ?? [],
  },
  factorImage: given.population.factors.length ? stage.factorImage : null,
  async rename(key, latent, name) {
    if (stage.refuse) throw new Error(stage.refuse);
    stage.renamed.push([key, latent, name]);
    const { names } = stage.models[Number(key)];
    names[latent] = name.trim();
    stage.listeners.forEach((listener) => listener(key));
  },
  onNames: (listener) => stage.listeners.push(listener),
};
stage.expected = (which, code) => {
  const pixels = stage.plain[which].network.decode(Float32Array.from(code));
  return Array.from(Uint8ClampedArray.from(pixels, (value) => value * 255));
};
stage.painted = (canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const { channels } = given.population.image;
  const found = [];
  for (let at = 0; at < data.length; at += 4) found.push(...data.slice(at, at + channels));
  return found;
};
// What is painted, and how far at most it is from what it should be.
stage.off = (canvas, expected) => stage.painted(canvas).reduce((most, value, at) =>
  Math.max(most, Math.abs(value - expected[at])), 0);
stage.codes = () => Array.from(document.querySelectorAll("#view .latent-value"),
  (one) => [Number(one.closest(".latent-row").dataset.latent), Number(one.dataset.value)]);
// Drops an image of one level of grey, or pastes it; resolves to whether the page took it.
stage.hand = (kind, place, level, name = `${kind}.png`) => new Promise((done) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 16;
  const pen = canvas.getContext("2d");
  pen.fillStyle = `rgb(${level}, ${level}, ${level})`;
  pen.fillRect(0, 0, 16, 16);
  canvas.toBlob((blob) => {
    const data = new DataTransfer();
    data.items.add(new File([blob], name, { type: "image/png" }));
    const usual = { bubbles: true, cancelable: true };
    const event = kind === "paste" ? new ClipboardEvent(kind, { clipboardData: data, ...usual })
      : new DragEvent(kind, { dataTransfer: data, ...usual });
    place.dispatchEvent(event);
    done(event.defaultPrevented);
  });
});
stage.frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const element = document.getElementById("view");
const { models } = stage;
if (models.length === 1) {
  stage.view = window.unbraid.modelView(element, stage.context);
  stage.view.show(models[0], "0", given.names[0]);
} else if (models.length === 2) {
  stage.view = window.unbraid.compareView(element, stage.context);
  stage.view.show(models[0], "0", given.names[0], models[1], "1", given.names[1]);
}
"""


def sources() -> tuple[str, str]:
    """The page's scripts without the one that needs a whole page, and its style."""
    folder = files("unbraid.report.explore")
    scripts = sorted(one.name for one in (folder / "scripts").iterdir() if one.name != "app.js")
    scripts = [*FIRST, *(name for name in scripts if name not in FIRST)]
    styles = sorted(
        (one.name for one in folder.iterdir() if one.name.endswith(".css")),
        key=lambda name: name != "page.css",
    )
    return (
        "\n".join((folder / "scripts" / name).read_text(encoding="utf-8") for name in scripts),
        "\n".join((folder / name).read_text(encoding="utf-8") for name in styles),
    )


def _plain(array: Any) -> dict[str, Any]:
    values = np.asarray(array)
    flat = [value if value == value else None for value in values.ravel().tolist()]
    return {"data": flat, "shape": list(values.shape)}


def _basis(height: int, width: int, channels: int, hidden: int) -> np.ndarray:
    """Soft spots `(hidden, height * width * channels)`, so that images look like something."""
    draw = np.random.default_rng(5)
    rows, columns = np.mgrid[0:height, 0:width] / max(height, width)
    spots = []
    for _ in range(hidden):
        row, column = draw.uniform(0.15, 0.85, 2)
        spot = np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 0.012)
        spots.append(spot[:, :, None] * draw.uniform(0.3, 1, channels))
    return np.stack(spots).reshape(hidden, -1)


def model(
    *,
    shape: Sequence[int] = (16, 16, 1),
    latents: int = 6,
    active: int = 4,
    codes: Any = None,
    seed: int = 0,
    runs: bool = True,
    factors: Sequence[str] = ("x", "shape", "still"),
    measure: str = "kl",
    names: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A made-up model: dense layers, codes of 40 samples, information, and curves."""
    draw = np.random.default_rng(seed)
    size, hidden = int(np.prod(shape)), 24
    codes = draw.normal(size=(40, latents)) if codes is None else np.asarray(codes)
    arrays = {
        "w1": draw.normal(size=(size, hidden)) / size**0.5 * 3,
        "b1": draw.normal(size=hidden) * 0.1,
        "wm": draw.normal(size=(hidden, latents)),
        "bm": draw.normal(size=latents) * 0.3,
        "wd": draw.normal(size=(latents, hidden)) * 1.4,
        "bd": draw.normal(size=hidden) * 0.4,
        "wo": _basis(*shape, hidden) * 5,
        "bo": np.full(size, -1.2),
    }
    quiet = {"kind": "dense", "activation": "none", "slope": 0.2}
    network = {
        "sample_shape": [shape[2], shape[0], shape[1]],
        "input": None,
        "encoder": [{**quiet, "weight": "w1", "bias": "b1", "activation": "tanh"}],
        "mean": {**quiet, "weight": "wm", "bias": "bm"},
        "logvar": {**quiet, "weight": "wm", "bias": "bm"},
        "logvar_rule": "logvar",
        "codebook": None,
        "decoder": [
            {**quiet, "weight": "wd", "bias": "bd", "activation": "tanh"},
            {**quiet, "weight": "wo", "bias": "bo"},
        ],
        "output": None,
        "expected": "sigmoid",
    }
    # The latent with the highest number says most, so that the order of sliders means something.
    sizes = [
        0.4 * (latent + 1) if latent >= latents - active else 0.001 for latent in range(latents)
    ]
    low, high = np.quantile(codes, [0.01, 0.99], axis=0)
    information = draw.uniform(0, 1, (latents, len(factors)))
    if "still" in factors:
        information[:, list(factors).index("still")] = np.nan
    held = list(factors[:1])
    record = {
        "member": 0,
        "network": network if runs else None,
        "measure": measure,
        "latents": [
            {
                "number": latent,
                "size": sizes[latent],
                "active": latent >= latents - active,
                "low": float(low[latent]),
                "high": float(high[latent]),
                "factors": [[name, float(information[latent, 0])] for name in held],
            }
            for latent in range(latents)
        ],
        "factors": list(factors),
        "curves": curves(),
        "frames": 11,
    }
    arrays |= {"typical": codes[0], "codes": codes}
    if factors:
        arrays["information"] = information
    if not runs:
        arrays["strips"] = draw.integers(0, 256, (latents, 11, *shape))
    return {
        "record": record,
        "arrays": {name: _plain(array) for name, array in arrays.items()},
        "names": names or {},
    }


def curves() -> dict[str, Any]:
    """A loss that falls far, one that is missing in places, and one that was never there."""
    steps = list(range(0, 4000, 100))
    loss = [900 * float(np.exp(-step / 250)) + 20 + step / 2000 for step in steps]
    kl: list[float | None] = [6 - 5 * float(np.exp(-step / 900)) for step in steps]
    kl[10:13] = [None, None, None]
    quantities = {"loss": loss, "kl": kl, "nothing": [None] * len(steps)}
    named = [{"name": name, "values": values} for name, values in quantities.items()]
    return {"steps": steps, "quantities": named}


def write_page(
    place: Path,
    models: Sequence[dict[str, Any]],
    *,
    shape: Sequence[int] = (16, 16, 1),
    names: Sequence[str] = (HOSTILE, "VAE, β = 1, seed 2"),
    factors: Sequence[dict[str, Any]] = tuple(FACTORS),
    samples: int = 20,
    mode: str = "served",
) -> Path:
    """The page of one model or of two, or of none."""
    draw = np.random.default_rng(9)
    height, width, channels = shape
    hidden = np.tanh(draw.normal(size=(samples, 24)) * 1.4)
    pixels = 1 / (1 + np.exp(1.2 - hidden @ _basis(height, width, channels, 24) * 5))
    sizes = [factor["size"] for factor in factors]
    given = {
        "models": list(models),
        "names": list(names),
        "pixels": pixels.round(4).tolist(),
        "population": {
            "image": {"height": height, "width": width, "channels": channels},
            "factors": list(factors),
            "mode": mode,
            "names_kept": mode == "served",
            "samples": {
                "factors": [[size - 1 - at % size for size in sizes] for at in range(samples)],
            },
        },
    }
    script, style = sources()
    text = json.dumps(given).replace("<", "\\u003c")
    page = f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>a view</title><style>{style}</style></head>
<body><main class="stand-in"><div id="view"></div></main>
<script type="application/json" id="given">{text}</script>
<script>{script}</script><script>{_STAGE}</script></body></html>"""
    path = place / "view.html"
    path.write_text(page.replace("main {", "main:not(.stand-in) {"), encoding="utf-8")
    return path


def until(browser: Any, script: str, *given: Any) -> Any:
    """What a script returns once that is anything."""
    from selenium.webdriver.support.ui import WebDriverWait

    wait = WebDriverWait(browser, 10, poll_frequency=0.03)
    return wait.until(lambda it: it.execute_script(script, *given))


def assert_quiet(browser: Any) -> None:
    """Nothing failed, nothing is wider than the window, and no markup came out of a name."""
    assert browser.execute_script("return stage.problems") == []
    logged = [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert logged == []
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0
    assert browser.execute_script("return document.querySelectorAll('#view img, b').length") == 0
