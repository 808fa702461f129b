# SPDX-License-Identifier: Apache-2.0
"""What searches without labels find: in the root, and in parts of the data (sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unbraid.studies.estermann2020.models import (
    LABELS,
    SCORES,
    Frame,
    ceiling,
    labellers,
    paired,
    present,
    stand_in,
)
from unbraid.studies.estermann2020.pools import DATA, DEFAULTS, LEAF_RUNS, RATES, RPU, SMALL
from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import exactly, mean_of

POSITION = ("x", "y")
KNOWN = 0.7
"""Share of a label's variance from which a factor explains it."""
PARTLY = 0.3
"""Of a label in a part of the data, where factors are hard to tell apart."""
HIGH_UDR = 0.8
"""0.9 is the ceiling."""
VALUES = {"dsprites": 32, SMALL: 8}
"""Of x and of y."""
FIRST = {
    "dsprites": [{"x"}, {"y"}],
    SMALL: [{"x"}, {"y"}],
    "shapes3d_drawn": [{"wall_hue"}, {"floor_hue"}],
}
SECOND = {
    "dsprites": {"scale"},
    SMALL: {"scale"},
    "shapes3d_drawn": {"shape", "wall_hue", "object_hue"},
}
THIRD = {
    "dsprites": {"orientation", "shape"},
    SMALL: {"orientation", "shape"},
    "shapes3d_drawn": {"shape", "scale"},
}
FOUND = {2: SECOND, 3: THIRD}
"""What the levels of a leaf-run find (figure 5)."""


def shares(row: Frame) -> tuple[NDArray[np.float64], list[frozenset[str]]]:
    """Adjusted R² `(labels, factors and pairs of them)` of the labels of a model, and the names."""
    names = [str(name) for name in row["factors"]]
    sets = [frozenset([name]) for name in names]
    sets += [frozenset(pair) for pair in combinations(names, 2)]
    values = np.asarray(row["explained"], dtype=float).reshape(-1, len(sets))
    return np.nan_to_num(values), sets


def best_factors(row: Frame, at_least: float) -> list[str]:
    """The factor that explains each label best; empty where none explains *at_least* so much."""
    values, sets = shares(row)
    single = values[:, [len(one) == 1 for one in sets]]
    names = [next(iter(one)) for one in sets if len(one) == 1]
    return [names[one.argmax()] if one.max() >= at_least else "" for one in single]


def factors_by_label(row: Frame, at_least: float = PARTLY) -> list[frozenset[str]]:
    """What each label of a model follows: a factor, or a pair of which both count, where no factor
    alone explains the label; empty where no pair does either.
    """
    values, sets = shares(row)
    found = []
    for label in values:
        alone = [at for at, one in enumerate(sets) if len(one) == 1]
        best = max(alone, key=lambda at, label=label: label[at])
        if label[best] < at_least:
            best = int(label.argmax())
        found.append(sets[best] if label[best] >= at_least else frozenset())
    return found


def factors_of(row: Frame, at_least: float = PARTLY) -> set[str]:
    """All factors that labels of a model follow."""
    return {name for one in factors_by_label(row, at_least) for name in one}


def share_named(row: Frame, wanted: set[str]) -> float:
    """Share of a model's labels that follow factors *wanted*, those of a pair by half each; 0
    without labels.

    Whether any label does would be no test: with two labels, each of a factor drawn from six, one
    of three factors is met in three of four cases.
    """
    found = factors_by_label(row)
    return float(np.mean([len(one & wanted) / max(1, len(one)) for one in found] or [0.0]))


def _roots(table: Frame, pool: str = RPU) -> Frame:
    rows = labellers(table, pool)
    if rows.empty:
        return rows
    rows = rows.loc[~rows["stage"].str.startswith("leaf-")]
    return rows.loc[rows["data"].isin(present(rows, ("dsprites",)))].reset_index(drop=True)


def finds_position_alone(row: Frame) -> bool:
    """Whether a root's labels are x and y and nothing else, with high agreement."""
    found = best_factors(row, KNOWN)
    return sorted(found) == sorted(POSITION) and float(row["score"]) >= HIGH_UDR


def _searched(table: Frame, pool: str, data: Sequence[str]) -> int:
    """Seeds whose root was searched, whatever came of it."""
    rows = table.loc[(table["pool"] == pool) & table["data"].isin(data)]
    return int(rows["seed"].nunique())


def roots_find_position(table: Frame) -> Finding | None:
    """EST-F2a: how many roots of dSprites find exactly x and y; by other ranges beside it."""
    roots = _roots(table)
    if roots.empty:
        return None
    count = _searched(table, RPU, [*roots["data"]])
    hits = [finds_position_alone(row) for _, row in roots.iterrows()]
    estimates = [exactly("share of seeds with x and y alone", sum(hits) / count, count, 1.0)]
    udr = mean_of("agreement (UDR) of the best model", roots["score"])
    estimates.append(udr)
    names = {RPU: "published draws", DEFAULTS: "our ranges", RATES: "our rates, published β"}
    points = []
    for pool, name in names.items():
        own = _roots(table, pool)
        if own.empty:
            continue
        points.append(own.assign(arm=name))
        if pool != RPU:
            hits = [finds_position_alone(row) for _, row in own.iterrows()]
            share = sum(hits) / _searched(table, pool, [*own["data"]])
            estimates.append(exactly(f"the same, {name}", share, len(own)))
    every = pd.concat(points, ignore_index=True)
    shown = pd.DataFrame({"x": every["strength"], "y": every["labels"], "group": every["arm"]})
    return Finding(
        tuple(estimates),
        Exhibit(
            "points",
            shown,
            "β of the winner",
            "active latents",
            "Labels of each root by the β that it settled on; x and y alone are two.",
            logarithmic=("x",),
        ),
        stand_in([*roots["data"]], ("dsprites",)),
    )


def roots_score_low(table: Frame) -> Finding | None:
    """EST-F2b: scores of roots against those of searches by MIG."""
    roots, best = _roots(table), ceiling(table)
    best = best.loc[best["data"].isin({*roots["data"]})]
    if roots.empty or best.empty:
        return None
    both = pd.concat([roots.assign(arm="root"), best.assign(arm="pbt")], ignore_index=True)

    def statistics(rows: Frame) -> dict[str, float]:
        means = rows.groupby("arm")[[*SCORES]].mean()
        found = {}
        for name in SCORES:
            ours, best = float(means.loc["root", name]), float(means.loc["pbt", name])
            found[f"{LABELS[name]} of roots less of PBT by MIG"] = ours - best
            found[f"{LABELS[name]} of roots"] = ours
        return found

    parts = [
        pd.DataFrame(
            {
                "x": ["root, no labels" if arm == "root" else "PBT by MIG" for arm in both["arm"]],
                "y": both[name],
                "group": LABELS[name],
            }
        )
        for name in SCORES
    ]
    shown = pd.concat(parts, ignore_index=True)
    return Finding(
        paired(_shared_seeds(both), statistics),
        Exhibit("violins", shown, "search", "score", "Scores of roots and of searches by MIG."),
        stand_in([*roots["data"]], ("dsprites",)),
    )


def _shared_seeds(rows: Frame) -> Frame:
    count = rows.groupby("seed")["arm"].transform("nunique")
    return rows.loc[(count == rows["arm"].nunique()).to_numpy()]


def plateaus(table: Frame) -> Finding | None:
    """EST-F3: whether the sorted codes of x and y rise in steps, one between two values."""
    roots = _roots(table)
    if roots.empty:
        return None
    found: list[float] = []
    curves: list[Frame] = []
    for _, row in roots.iterrows():
        names, steps = best_factors(row, KNOWN), VALUES[row["data"]] - 1
        own = [
            peaks / steps
            for name, peaks in zip(names, row["label_peaks"], strict=True)
            if name in POSITION
        ]
        found.append(float(np.mean(own)) if own else 0.0)
        sorted_labels = np.asarray(row["sorted_labels"], dtype=float)
        if not curves and len(names):
            for name, codes in zip(names, sorted_labels.reshape(len(names), -1), strict=True):
                place = np.linspace(0, 100, len(codes))
                group = name or "no factor alone"
                curves.append(pd.DataFrame({"x": place, "y": codes, "group": group}))
    shown = pd.concat(curves, ignore_index=True) if curves else None
    caption = "Sorted codes of the first root: a plateau would be a value of the factor."
    return Finding(
        (mean_of("steps found for each step of x and y", found),),
        None if shown is None else Exhibit("lines", shown, "images, %", "code", caption),
        f"Steps by a rule that chance seldom passes. {stand_in([*roots['data']], ('dsprites',))}",
    )


def _leaves(table: Frame) -> Frame:
    rows = labellers(table)
    if rows.empty:
        return rows
    rows = rows.loc[rows["stage"].str.startswith("leaf-")]
    return rows.assign(level=[int(stage.rpartition("-")[2]) for stage in rows["stage"]])


def variance_left(table: Frame) -> Finding | None:
    """EST-S42: variance of what the root had found, in the parts of the first reduction."""
    roots, leaves = _roots(table), _leaves(table)
    leaves = leaves.loc[leaves["data"].isin({*roots.get("data", [])})] if len(leaves) else leaves
    if roots.empty or leaves.empty:
        return None
    second = leaves.loc[leaves["level"] == 2]
    by_seed = {}
    for _, row in roots.iterrows():
        own = second.loc[second["seed"] == row["seed"]]
        names = {name for name in best_factors(row, KNOWN) if name}
        if names and len(own):
            by_seed[row["seed"]] = own[[f"left.{name}" for name in names]].mean().mean()
    if len(by_seed) < 2:
        return None
    left = [name for name in second if str(name).startswith("left.")]
    factors = [name for name in left if second[name].notna().any()]
    bars = pd.DataFrame(
        [(str(name)[5:], 100 * float(second[name].mean()), "left") for name in factors],
        columns=["x", "y", "group"],
    )
    return Finding(
        (mean_of("share of the variance left of factors that were found", [*by_seed.values()]),),
        Exhibit("bars", bars, "factor", "variance left, %", "What the first reduction leaves."),
        stand_in([*roots["data"]], ("dsprites",)),
    )


def levels(table: Frame) -> Finding | None:
    """EST-F5: what each level of a leaf-run finds."""
    every, leaves = labellers(table), _leaves(table)
    if leaves.empty:
        return None
    searched = table.loc[table["pool"] == RPU]
    data = present(leaves, DATA)
    estimates: list[Estimate] = []
    cells: dict[str, dict[str, float]] = {}
    for name in data:
        roots = every.loc[(every["data"] == name) & (every["stage"] == "root")]
        told = DATA[0] if name == SMALL else name
        seeds = sorted({*searched.loc[searched["data"] == name, "seed"]})
        first = {row["seed"] for _, row in roots.iterrows() if _all_found(row, FIRST[name])}
        estimates.append(mean_of(_first(told), [float(seed in first) for seed in seeds]))
        for level in FOUND:
            own = leaves.loc[(leaves["data"] == name) & (leaves["level"] == level)]
            named = own.assign(named=[share_named(row, FOUND[level][name])
                                      for _, row in own.iterrows()])  # fmt: skip
            by_seed = [named.loc[named["seed"] == seed, "named"].sum() / LEAF_RUNS
                       for seed in seeds]  # fmt: skip
            estimates.append(mean_of(_later(told, level), by_seed))
        for level in (1, 2, 3):
            part = roots if level == 1 else leaves.loc[leaves["data"] == name]
            part = part if level == 1 else part.loc[part["level"] == level]
            cells |= {f"{name}, level {level}": _found_how_often(part)} if len(part) else {}
    lacking = {name for name in DATA if name not in data} - ({DATA[0]} if SMALL in data else set())
    for name in sorted(lacking):
        unknown = [_first(name), *(_later(name, level) for level in FOUND)]
        estimates += [mean_of(statistic, []) for statistic in unknown]
    return Finding(
        tuple(estimates),
        Exhibit(
            "matrix",
            pd.DataFrame(cells).T.fillna(0.0).round(2),
            "factor",
            "level",
            "Share of searches whose labels follow each factor.",
        ),
        stand_in(data, DATA),
    )


def _first(name: str) -> str:
    """The statistic of the first level."""
    return f"{name}: first level finds {' and '.join(next(iter(one)) for one in FIRST[name])}"


def _later(name: str, level: int) -> str:
    """The statistic of a later level."""
    wanted = " or ".join(sorted(FOUND[level][name]))
    return f"{name}: share of labels of level {level} that follow {wanted}"


def _all_found(row: Frame, wanted: Sequence[set[str]]) -> bool:
    found = factors_of(row)
    return all(found & one for one in wanted)


def _found_how_often(rows: Frame) -> dict[str, float]:
    found = [factors_of(row) for _, row in rows.iterrows()]
    names = sorted({str(name) for one in rows["factors"] for name in one})
    return {name: float(np.mean([name in one for one in found])) for name in names}
