# SPDX-License-Identifier: Apache-2.0
"""Searches that never were, in which a claim of Estermann et al. 2020 is true or false."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from tests.studies.worlds import Worlds

from unbraid.studies.estermann2020 import STUDY
from unbraid.studies.estermann2020.pools import ARMS, DATA, WEIGHTS

SEEDS = range(5)
FACTORS = {
    "dsprites": ("shape", "scale", "orientation", "x", "y"),
    "shapes3d_drawn": ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
}
LATENTS = 6
Row = dict[str, Any]


def row(pool: str, name: str, data: str, seed: int, stage: str, **more: Any) -> Row:
    """A winner without scores."""
    fixed = {"pool": pool, "slice": name, "data": data, "seed": seed, "stage": stage}
    model = {"objective": "beta_tcvae", "strength": 20.0, "strength_name": "beta", "steps": 40_000}
    rest = {"learning_rate": 1e-3, "status": "trained", "row": "winner", "chosen": 1.0}
    scores = {"score": 0.89, "mig": 0.3, "dci": 0.4, "labels": np.nan}
    return fixed | model | rest | scores | more


def table(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as a table, with an individual of each that must not be looked at."""
    winners = pd.DataFrame([*rows])
    others = winners.assign(row="individual", mig=np.nan, dci=np.nan, epoch=0.0)
    return pd.concat([others, winners], ignore_index=True)


def draw(seed: int) -> Callable[..., float]:
    chance = np.random.default_rng(seed)
    return lambda mean, deviation: float(chance.normal(mean, deviation))


def supervised(mig: dict[str, float], dci: dict[str, float], spread: dict[str, float]) -> list[Row]:
    """All arms with these means; deviations over seeds are exactly *spread*."""
    steps = np.array([-1.2, -0.5, 0.1, 0.4, 1.2])
    steps /= steps.std(ddof=1)
    rows = []
    for number, arm in enumerate(ARMS):
        own = np.roll(steps, number) * spread[arm]
        for seed in SEEDS:
            name = f"dsprites-{arm}-seed-{seed}"
            scores = {"mig": mig[arm] + own[seed], "dci": dci[arm] + 0.3 * own[seed]}
            rows.append(row("supervised", name, "dsprites", seed, "search", **scores))
    return rows


def judges(true: bool) -> pd.DataFrame:
    mig = dict.fromkeys(ARMS, 0.3) | {"mig": 0.42, "dci": 0.35 if true else 0.5}
    spread = dict.fromkeys(ARMS, 0.02) | {"dci": 0.03 if true else 0.001, "mig": 0.004}
    return table(supervised(mig, dict.fromkeys(ARMS, 0.5), spread))


def sensitivity(true: bool) -> pd.DataFrame:
    mig = dict.fromkeys(ARMS, 0.3) | {"mig": 0.45 if true else 0.25}
    spread = dict.fromkeys(ARMS, 0.03) | {"mig": 0.003}
    return table(supervised(mig, dict.fromkeys(ARMS, 0.5), spread))


def few_labels(true: bool) -> pd.DataFrame:
    order = {"mig": 0.5, "mig-1000": 0.4, "chosen-1000": 0.3} if true else {"mig-1000": 0.2}
    mig = dict.fromkeys(ARMS, 0.4) | order
    spread = dict.fromkeys(ARMS, 0.02) | {"mig": 0.002}
    rows = supervised(mig, {arm: value + 0.1 for arm, value in mig.items()}, spread)
    chance = draw(1)
    few = [
        row("few-labels", "dsprites-seeds-0-4", "dsprites", seed, "")
        | {"row": np.nan, "supervision_weight": weight, "chosen": np.nan, "score": np.nan}
        | {"mig": chance(0.2 + 0.01 * place, 0.005), "dci": chance(0.3 + 0.01 * place, 0.005)}
        for (place, weight), seed in product(enumerate(WEIGHTS), SEEDS)
    ]
    return pd.concat([table(rows), pd.DataFrame(few)], ignore_index=True)


def explained(data: str, labels: Iterable[frozenset[str]]) -> list[float]:
    """R² of labels that each follow a factor, or a pair of factors together."""
    names = FACTORS[data]
    sets = [frozenset([name]) for name in names]
    sets += [frozenset(pair) for pair in combinations(names, 2)]
    return [0.95 if label <= one else 0.01 for label in labels for one in sets]


def labeller(
    data: str, seed: int, stage: str, labels: Iterable[str], pool: str = "rpu", **more: Any
) -> Row:
    """The model of a stage whose latents are labels: factors, or two with a plus between."""
    found = [frozenset(label.split("+")) for label in labels]
    peaks, curve = [28] * len(found), np.tile(np.linspace(-2, 2, 200), len(found)).tolist()
    lists = {"factors": list(FACTORS[data]), "explained": explained(data, found)}
    about = {"labels": float(len(found)), "label_peaks": peaks, "sorted_labels": curve}
    about["label_latents"] = [*range(len(found))]
    left = {f"left.{name}": 0.004 if name in ("x", "y") else 0.9 for name in FACTORS[data]}
    left = left if stage != "root" else {}
    name = f"{data.replace('_', '-')}-seed-{seed}"
    return row(pool, name, data, seed, stage, **lists, **about, **left, **more)


def roots(true: bool) -> pd.DataFrame:
    wrong = ["x", "y", "scale"]
    labels = [["x", "y"] if true or seed < 4 else wrong for seed in SEEDS]
    return table(
        labeller("dsprites", seed, "root", labels[seed], score=0.88 + 0.001 * seed)
        for seed in SEEDS
    )


def low(true: bool) -> pd.DataFrame:
    chance = draw(2)
    rows = [
        labeller(
            "dsprites",
            seed,
            "root",
            ["x", "y"],
            mig=chance(0.2 if true else 0.6, 0.01),
            dci=chance(0.3 if true else 0.7, 0.01),
        )
        for seed in SEEDS
    ]
    return table([*rows, *searches("dsprites", 0.45, 0.5)])


def searches(data: str, mig: float, dci: float, **more: Any) -> list[Row]:
    """Searches by MIG as long as finals."""
    chance, name = draw(3), data.replace("_", "-")
    return [
        row("pbt-s", f"{name}-mig-seed-{seed}", data, seed, "search", **more)
        | {"mig": chance(mig, 0.01), "dci": chance(dci, 0.01)}
        for seed in SEEDS
    ]


def plateaus(true: bool) -> pd.DataFrame:
    rows = [labeller("dsprites", seed, "root", ["x", "y"]) for seed in SEEDS]
    if not true:
        rows = [one | {"label_peaks": [2 + one["seed"], 1]} for one in rows]
    return table(rows)


def variance_left(true: bool) -> pd.DataFrame:
    rows = []
    for seed in SEEDS:
        rows.append(labeller("dsprites", seed, "root", ["x", "y"]))
        for leaf in range(3):
            one = labeller("dsprites", seed, f"leaf-{leaf}/level-2", ["scale"])
            one["left.x"] += 0.001 * seed
            if not true:
                one |= {"left.x": 0.5 + 0.01 * seed, "left.y": 0.4}
            rows.append(one)
    return table(rows)


ORDER = {
    "dsprites": (["x", "y"], ["scale"], ["shape+orientation"]),
    "shapes3d_drawn": (["wall_hue", "floor_hue"], ["object_hue", "wall_hue"], ["scale", "shape"]),
}


def levels(true: bool) -> pd.DataFrame:
    rows = []
    for data, (first, second, third) in ORDER.items():
        second, third = (second, third) if true else (["orientation"], ["orientation"])
        if not true and data == "dsprites":
            third = ["x"]
        for seed in SEEDS:
            rows.append(labeller(data, seed, "root", first))
            for leaf in range(3):
                rows.append(labeller(data, seed, f"leaf-{leaf}/level-2", second))
                if leaf < 2 or seed:  # a leaf-run that ended early
                    rows.append(labeller(data, seed, f"leaf-{leaf}/level-3", third))
    return table(rows)


def final(
    data: str, seed: int, runs: int, mig: float, dci: float, known: dict[str, float] | None = None
) -> Row:
    """A final model; of each factor it knows a share with one latent, or of a hue with two."""
    shares = np.full((len(FACTORS[data]), LATENTS), 0.01)
    for name, value in (known or {}).items():
        at = FACTORS[data].index(name)
        shares[at, at % LATENTS] = abs(value)
        shares[at, (at + 1) % LATENTS] = abs(value) if value < 0 else 0.01
    pool = "rpu" if runs == 3 else "finals"
    middle = f"-{runs}" if runs < 3 else ""
    name = f"{data.replace('_', '-')}{middle}-seed-{seed}"
    lists = {"information": shares.ravel().tolist(), "factors": list(FACTORS[data])}
    return row(pool, name, data, seed, f"final-{runs}", mig=mig, dci=dci, **lists)


def against(data: str, true: bool) -> pd.DataFrame:
    chance = draw(4)
    mig = 0.42 if true else 0.1
    return table(
        final(data, seed, 3, chance(mig, 0.003), chance(mig + 0.1, 0.003)) for seed in SEEDS
    )


def six_methods(data: str) -> pd.DataFrame:
    """Models of locatello2019 on *data* that never were."""
    chance = draw(5)
    names = ("annealed_vae", "beta_tcvae", "beta_vae", "dip_vae_i", "dip_vae_ii", "factor_vae")
    return pd.DataFrame(
        [
            {
                "data": data,
                "objective": name,
                "seed": seed,
                "mig": chance(0.12 + 0.01 * place, 0.06),
                "dci": chance(0.2 + 0.01 * place, 0.06),
            }
            for (place, name), _, seed in product(enumerate(names), range(6), SEEDS)
        ]
    )


def close(true: bool) -> pd.DataFrame:
    chance, rows = draw(6), []
    for data, gap in zip(DATA, (0.02, 0.06) if true else (0.2, 0.1), strict=True):
        rows += searches(data, 0.45, 0.55)
        rows += [
            final(data, seed, 3, chance(0.45 - gap, 0.005), chance(0.55 - gap, 0.005))
            if true
            else final(data, seed, 3, chance(0.25 - 0.5 * gap, 0.005), chance(0.3, 0.005))
            for seed in SEEDS
        ]
    return table(rows)


def hues(true: bool) -> pd.DataFrame:
    sign = -1 if true else 1
    known = {"floor_hue": sign * 0.4, "wall_hue": sign * 0.5, "object_hue": sign * 0.3}
    odd = known | {"floor_hue": -sign * 0.4}
    return table(
        final("shapes3d_drawn", seed, 3, 0.3, 0.4, odd if seed == 4 else known) for seed in SEEDS
    )


def leaf_runs(true: bool) -> pd.DataFrame:
    rises = (0.0, 0.1, 0.12, 0.14) if true else (0.1, 0.08, 0.04, 0.0)
    spreads = (0.04, 0.02, 0.01, 0.004) if true else (0.004, 0.01, 0.02, 0.04)
    shape = np.array([-1.0, -0.6, 0.2, 0.5, 0.9])
    return table(
        final(
            data,
            seed,
            runs,
            0.3 + rises[runs] + 0.3 * spreads[runs] * shape[seed],
            0.4 + rises[runs] + 0.3 * spreads[runs] * shape[seed],
        )
        for data, seed, runs in product(DATA, SEEDS, range(4))
    )


def holds(true: bool) -> pd.DataFrame:
    known = {"x": 0.7, "y": 0.75, "scale": 0.5} if true else {"x": 0.7, "orientation": 0.6}
    more = [{name: value + 0.01 * seed for name, value in known.items()} for seed in SEEDS]
    rows = [final("dsprites", seed, 3, 0.4, 0.5, more[seed]) for seed in SEEDS]
    best = [
        one | {name: own[name] for name in ("information", "factors")}
        for one, own in zip(searches("dsprites", 0.42, 0.52), rows, strict=True)
    ]
    return table([*rows, *best])


def celeba(true: bool) -> pd.DataFrame:
    nothing = {"label_peaks": [], "sorted_labels": [], "label_latents": []}
    stages = {"root": 3.0 if true else 0.0, "leaf-0/level-2": 2.0}
    return table(
        row("celeba", "celeba-seed-0", "celeba", 0, stage, labels=count, **nothing)
        for stage, count in stages.items()
    )


CLAIMS: dict[str, Callable[[bool], pd.DataFrame]] = {
    "EST-F1a": judges,
    "EST-F1b": few_labels,
    "EST-F1c": sensitivity,
    "EST-F2a": roots,
    "EST-F2b": low,
    "EST-F3": plateaus,
    "EST-S42": variance_left,
    "EST-F4a": lambda true: against("dsprites", true),
    "EST-F4b": lambda true: against("shapes3d_drawn", true),
    "EST-F4c": close,
    "EST-F4d": hues,
    "EST-F5": levels,
    "EST-F6": leaf_runs,
    "EST-S5": holds,
    "EST-F13": celeba,
}

WORLDS = Worlds(
    STUDY,
    CLAIMS,
    size=15,
    one_seed={
        **dict.fromkeys(CLAIMS, "not run"),
        **dict.fromkeys(("EST-F2a", "EST-F2b", "EST-F3", "EST-F5", "EST-S5"), "undecided"),
        "EST-F13": "reproduced",
    },
    without_interval=("EST-F13",),
    diverging=None,
    unclaimed=("our-ranges", "our-rates", "improve"),
    patches={"unbraid.studies.estermann2020.baselines.six_methods": six_methods},
)
"""EST-F13 is judged by counts of one search."""
