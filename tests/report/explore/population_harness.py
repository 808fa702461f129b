# SPDX-License-Identifier: Apache-2.0
"""A page with nothing but the population view, and made-up populations to show in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

SCRIPTS = (
    "canvases", "elements", "filter_form", "filters", "legend", "marks", "numbers",
    "parallel_coordinates", "population", "population_columns", "population_controls",
    "population_table", "scatter", "scatter_axes", "scatter_input", "tooltip",
)  # fmt: skip
_HOME = files("unbraid.report.explore")
_COLOURS = """
:root { color-scheme: light; --ink: #1b2430; --muted: #5a6675; --rule: #e3e7ec; --paper: #ffffff;
  --wash: #f5f7f9; --link: #0b4f8a; --accent: #c24f00; --mark-1: #0072b2; --mark-2: #d55e00;
  --mark-3: #009e73; --mark-4: #b4559a; --mark-5: #b07c00; --mark-6: #3a9bd6; --mark-7: #4d4d4d;
  --mark-8: #7a5c2e; }
:root[data-theme=dark] { color-scheme: dark; --ink: #e6eaf0; --muted: #9aa6b5; --rule: #2c3541;
  --paper: #12171e; --wash: #1a212a; --link: #7db8ea; --accent: #ff9a52; --mark-1: #5cb3ee;
  --mark-2: #ff9a52; --mark-3: #3fc79c; --mark-4: #dd8cc6; --mark-5: #dcb04a; --mark-6: #8ecbf2;
  --mark-7: #b8bfc8; --mark-8: #c9a36b; }
body { margin: 0; padding: 14px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
button, select { padding: 3px 10px; border: 1px solid var(--rule); border-radius: 6px; }
"""
_START = """
const population = JSON.parse(document.getElementById("data").textContent);
window.calls = [];
window.problems = [];
window.addEventListener("error", (event) => problems.push(event.message));
const choose = (key, slot) => {
  calls.push([key, slot]);
  chosen[slot] = key;
  view.select(chosen.a, chosen.b);
};
const chosen = { a: null, b: null };
window.view = unbraid.populationView(document.getElementById("view"), population, { choose });
"""
_POLICY = "default-src 'none'; img-src data:; script-src 'unsafe-inline'; style-src 'sha256-{}'"


def write_page(path: Path, population: dict[str, Any]) -> Path:
    """The page of *population*, under a policy that forbids all that the real page forbids."""
    import base64
    import hashlib

    scripts = [(_HOME / "scripts" / f"{name}.js").read_text("utf-8") for name in SCRIPTS]
    style = _COLOURS + (_HOME / "population.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    data = json.dumps(population, allow_nan=False).replace("<", "\\u003c")
    policy = _POLICY.format(digest)
    path.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>population</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{style}</style></head><body>'
        f'<h1 hidden>p</h1><h2 hidden>p</h2><section id="view"></section>'
        f'<script type="application/json" id="data">{data}</script>'
        + "".join(f"<script>{script}</script>" for script in (*scripts, _START))
        + "</body></html>",
        encoding="utf-8",
    )
    return path


def population(
    columns: dict[str, list[Any]],
    *,
    names: list[str] | None = None,
    setting: list[int] | None = None,
    settings: list[str] | None = None,
    status: list[str] | None = None,
    model: list[bool] | None = None,
    errors: dict[str, list[Any]] | None = None,
    about: dict[str, dict[str, Any]] | None = None,
    start: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A population of these columns by key; texts make a category."""
    count = len(next(iter(columns.values()), names or []))
    labels = settings or ["β-VAE"]
    of = setting or [0] * count
    keys = list(columns)
    return {
        "columns": [
            {
                "key": key,
                "label": key.upper(),
                "group": "score",
                "type": "category" if any(isinstance(one, str) for one in values) else "number",
                "better": "none",
                "remark": "",
                **(about or {}).get(key, {}),
            }
            for key, values in columns.items()
        ],
        "rows": {
            "key": [f"m{row}" for row in range(count)],
            "name": names or [f"model {row}" for row in range(count)],
            "setting": of,
            "seed": list(range(count)),
            "status": status or ["trained"] * count,
            "model": model or [True] * count,
            "values": columns,
            "errors": errors or {},
        },
        "settings": [{"label": one, "colour": _PALETTE[at % 6]} for at, one in enumerate(labels)],
        "start": start or {"x": keys[0] if keys else None, "y": keys[-1] if keys else None},
    }


_PALETTE = ("#35b779", "#1f9e89", "#26828e", "#31688e", "#3e4989", "#482878")
_ABOUT: dict[str, dict[str, Any]] = {
    "objective": {"label": "objective", "group": "setting"},
    "beta": {"label": "β", "group": "setting"},
    "lr": {"label": "learning rate", "group": "setting"},
    "network": {"label": "network", "group": "setting"},
    "mig": {"label": "MIG", "better": "higher", "remark": "mutual information gap, mean codes"},
    "dci": {"label": "DCI disentanglement", "better": "higher"},
    "sap": {"label": "SAP", "better": "higher"},
    "factorvae": {"label": "FactorVAE score", "better": "higher"},
    "modularity": {"label": "modularity", "better": "higher"},
    "udr": {"label": "UDR", "better": "higher", "remark": "agreement of seeds, without labels"},
    "active": {"label": "active latents"},
    "elbo": {"label": "ELBO (nats)", "group": "training", "better": "higher"},
    "reconstruction": {"label": "reconstruction (nats)", "group": "training", "better": "lower"},
    "kl": {"label": "KL (nats)", "group": "training"},
    "seconds": {"label": "seconds a step", "group": "training", "better": "lower"},
}


def realistic(count: int, seed: int = 0) -> dict[str, Any]:
    """A sweep as one trains it: objectives by strengths, fifteen columns, some models lost."""
    draw = np.random.default_rng(seed)
    objectives = ("β-VAE", "FactorVAE", "β-TCVAE", "DIP-VAE-I", "DIP-VAE-II", "AnnealedVAE")
    strengths = (1, 2, 4, 8, 16, 64, 256)
    pairs = [(name, beta) for name in objectives for beta in strengths][:36]
    of = np.arange(count) % len(pairs)
    beta = np.array([pairs[one][1] for one in of], float)
    kind = np.array([objectives.index(pairs[one][0]) for one in of])
    quality = 0.09 + 0.05 * kind + 0.16 * np.exp(-((np.log2(beta) - 3.2) ** 2) / 5)
    quality = np.clip(quality + draw.normal(0, 0.07, count), 0.005, 0.7)
    collapsed, diverged = (beta >= 64) & (draw.random(count) < 0.6), draw.random(count) < 0.025
    quality[collapsed] *= 0.12
    status = np.where(diverged, "diverged", np.where(collapsed, "collapsed", "trained"))
    kl = np.clip(28 / (1 + 0.15 * beta) + draw.normal(0, 1, count), 0.02, None)
    reconstruction = 30 + 3.5 * (28 - kl) + draw.normal(0, 4, count)
    numbers = {
        "mig": quality,
        "dci": np.clip(1.25 * quality + draw.normal(0.08, 0.05, count), 0, 1),
        "sap": np.clip(0.22 * quality + draw.normal(0.02, 0.012, count), 0, 1),
        "factorvae": np.clip(0.45 + 0.7 * quality + draw.normal(0, 0.06, count), 0, 1),
        "modularity": np.clip(0.7 + 0.3 * quality + draw.normal(0, 0.04, count), 0, 1),
        "udr": np.clip(1.4 * quality + draw.normal(0, 0.08, count), 0, 1),
        "active": np.clip(np.round(kl / 2.6), 0, 10),
        "elbo": -reconstruction - kl,
        "reconstruction": reconstruction,
        "kl": kl,
        "seconds": 0.004 + draw.gamma(4, 0.0003, count),
    }
    lost = {key: diverged for key in numbers} | {"udr": diverged | (draw.random(count) < 0.06)}
    columns: dict[str, list[Any]] = {
        "objective": [pairs[one][0] for one in of],
        "beta": beta.tolist(),
        "lr": [float(10 ** -draw.uniform(2.3, 4.6)) for _ in range(count)],
        "network": [("conv_burgess", "conv_locatello", "mlp")[one % 3] for one in range(count)],
    }
    columns |= {
        key: [None if gone else float(one) for one, gone in zip(values, lost[key], strict=True)]
        for key, values in numbers.items()
    }
    labels = [f"{name}, β = {strength}" for name, strength in pairs]
    made = population(
        columns,
        names=[f"{labels[one]}, seed {row // len(pairs)}" for row, one in enumerate(of)],
        setting=of.tolist(),
        settings=labels,
        status=status.tolist(),
        model=(draw.random(count) > 0.04).tolist(),
        errors={
            "mig": [None if gone else 0.004 + 0.02 * draw.random() for gone in diverged],
            "udr": [None if gone else 0.03 for gone in lost["udr"]],
        },
        about=_ABOUT,
        start={"x": "beta", "y": "mig", "colour": "setting", "size": "none", "model": "m0"},
    )
    made["rows"]["seed"] = [row // len(pairs) for row in range(count)]
    return made


def hostile() -> dict[str, Any]:
    """Names that a page must show and not obey."""
    bad = '<img src=x onerror="problems.push(1)">'
    names = [
        bad,
        "w" * 400,
        "שלום עולם, seed 3",
        "🧶🧵" * 30,
        "",
        "</script><b>bold</b>",
        "__proto__",
    ]
    count = len(names)
    return population(
        {
            "__proto__": [bad, "constructor", None, "a" * 300, "مرحبا", "x", "y"],
            bad: list(np.linspace(1, 2, count)),
            "constructor": [1.0, None, 1e-9, 1e12, -5.0, 3.0, 0.0],
            "setting": [2.0] * count,
        },
        names=names,
        setting=list(range(count)),
        settings=[f"{name}, {at}" for at, name in enumerate(names)],
        status=["trained", "collapsed", "diverged", bad, "trained", "trained", "trained"],
        about={key: {"label": key, "remark": bad} for key in ("__proto__", bad)},
        start={"x": bad, "y": "constructor", "colour": "__proto__", "size": "constructor"},
    )


READ = """
const drawn = document.querySelector(arguments[0]);
const { width, height } = drawn;
const copy = Object.assign(document.createElement("canvas"), { width, height });
const context = copy.getContext("2d", { willReadFrequently: true });
context.drawImage(drawn, 0, 0);
const { data } = context.getImageData(0, 0, width, height);
let [count, sum] = [0, 0];
for (let at = 0; at < data.length; at += 4) {
  count += data[at + 3] > 0;
  sum += (data[at] * data[at + 3]) / 255;
}
return [count, sum];
"""
"""Counts the pixels of a canvas that are not transparent, and sums how red they are."""


class View:
    """The view in the browser, as a person sees and handles it."""

    def __init__(self, browser: Any, made: dict[str, Any]) -> None:
        self.browser = browser
        self.made = made
        self.rows = made["rows"]

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def frame(self) -> None:
        """Wait until what waits for the next frame is drawn."""
        self.browser.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => setTimeout(done));"
        )

    def mouse(self, kind: str, x: float, y: float, *, held: bool = False, shift: bool = False):
        self.browser.execute_cdp_cmd(
            "Input.dispatchMouseEvent",
            {
                "type": kind,
                "x": x,
                "y": y,
                "button": "none" if kind == "mouseMoved" and not held else "left",
                "buttons": int(held or kind == "mousePressed"),
                "clickCount": 1,
                "modifiers": 8 if shift else 0,
            },
        )

    def click(self, x: float, y: float, *, shift: bool = False) -> None:
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, shift=shift)
        self.mouse("mouseReleased", x, y, shift=shift)
        self.frame()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        middle = [(a + b) / 2 for a, b in zip(start, end, strict=True)]
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start)
        self.mouse("mouseMoved", *middle, held=True)
        self.mouse("mouseMoved", *end, held=True)
        self.mouse("mouseReleased", *end)
        self.frame()

    def press(self, key: str, *, shift: bool = False) -> None:
        event = {"key": key, "modifiers": 8 if shift else 0}
        self.browser.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyDown", **event})
        self.browser.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyUp", **event})
        self.frame()

    def place(self, key: str) -> tuple[float, float]:
        found = self.run("return view.place(arguments[0])", key)
        return found["x"], found["y"]

    def places(self) -> dict[str, tuple[float, float]]:
        script = "return arguments[0].map(key => [key, view.place(key)])"
        return {key: (at["x"], at["y"]) for key, at in self.run(script, self.rows["key"])}

    def shown(self) -> set[str]:
        script = "return arguments[0].filter(key => view.place(key).shown)"
        return set(self.run(script, self.rows["key"]))

    def where(self, keep: Callable[[int], bool]) -> set[str]:
        return {key for row, key in enumerate(self.rows["key"]) if keep(row)}

    def value(self, column: str) -> list[Any]:
        return self.rows["values"][column]

    def state(self) -> dict[str, Any]:
        return self.run("return view.state()")

    def calls(self) -> list[list[str]]:
        return self.run("return calls")

    def text(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(one => one.innerText)"
        return [one.strip() for one in self.run(script, selector)]

    def press_on(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)
        self.frame()

    def put(self, selector: str, value: str) -> None:
        """Choose or type a value as a person would, and leave the field."""
        self.run(
            "const [one, value] = [document.querySelector(arguments[0]), arguments[1]];"
            "one.value = value; one.dispatchEvent(new Event('change', { bubbles: true }));",
            selector,
            value,
        )
        self.frame()

    def table(self) -> list[str]:
        script = "return [...document.querySelectorAll('tbody tr')].map(one => one.dataset.key)"
        return self.run(script)

    def counted(self) -> int:
        """How many models the page says are shown."""
        words = self.text(".population-count")[0]
        assert words.endswith(f" of {len(self.rows['key'])} models shown")
        return int(words.split()[0])
