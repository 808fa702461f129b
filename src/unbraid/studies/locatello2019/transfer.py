# SPDX-License-Identifier: Apache-2.0
"""Whether settings that do well on one data set or by one metric do well elsewhere (slide 49)."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, spearman, spearman_matrix
from unbraid.studies.locatello2019.models import SCORES, cubes, models
from unbraid.studies.locatello2019.published import transfer

if TYPE_CHECKING:
    from collections.abc import Mapping

ALIKE = ("dsprites", "color_dsprites")
"""The pair of data that the paper finds settings to transfer best between."""
LESS_OTHERS = "dSprites with Color-dSprites less the other pairs"
SAME, OTHER_DATA, OTHER_BOTH = (
    "same data and metric, other seed",
    "same metric, other data",
    "other metric and data",
)
LESS_OTHER = "same less other data"
PAPER = {SAME: 0.807, OTHER_DATA: 0.593, OTHER_BOTH: 0.549}


def transfer_of_settings(table: pd.DataFrame) -> Finding | None:
    """LOC-K4c: rank correlation between data sets of the mean DCI of each setting."""
    found = models(table, ["dci"], at_least=3)
    if found is None or not {*ALIKE} <= {*found.data}:
        return None
    pairs = list(combinations(found.data, 2))
    printed = {f"{one} with {other}": transfer(one, other) for one, other in pairs}
    paper = {name: value for name, value in printed.items() if value is not None}
    others = [value for name, value in paper.items() if name != f"{ALIKE[0]} with {ALIKE[1]}"]
    paper |= {
        "mean over pairs": float(np.mean([*paper.values()])),
        LESS_OTHERS: 0.95 - float(np.mean(others)),
    }
    return Finding(
        leave_out_seeds(
            found.rows, _transfers, paper=paper, within=(-1.0, 1.0), differences=[LESS_OTHERS]
        ),
        Exhibit(
            "matrix",
            _matrix(found.rows),
            "data",
            "data",
            "Rank correlation of the mean DCI of settings between data sets.",
            paper=pd.DataFrame(
                {one: {other: transfer(one, other) for other in found.data} for one in found.data},
                dtype=float,
            ),
        ),
        found.remark,
    )


def _setting_means(rows: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """By data set the mean DCI of every setting, NaN where there is none."""
    means = {}
    for data, (cube, _) in cubes(rows, ["dci"]).items():
        scores = cube[0].reshape(-1, cube.shape[3])
        known = np.isfinite(scores)
        total, count = np.where(known, scores, 0.0).sum(axis=1), known.sum(axis=1)
        means[data] = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return means


def _matrix(rows: pd.DataFrame) -> pd.DataFrame:
    means = _setting_means(rows)
    cells = spearman_matrix(np.stack([*means.values()], axis=1))
    return pd.DataFrame(cells, index=[*means], columns=[*means])


def _transfers(rows: pd.DataFrame) -> Mapping[str, float]:
    means = _setting_means(rows)
    each = {
        (one, other): spearman(means[one], means[other]) for one, other in combinations(means, 2)
    }
    alike = [value for pair, value in each.items() if {*pair} == {*ALIKE}]
    others = [value for pair, value in each.items() if {*pair} != {*ALIKE}]
    return {
        "mean over pairs": float(np.mean([*each.values()])),
        LESS_OTHERS: alike[0] - float(np.mean(others)),
        **{f"{one} with {other}": value for (one, other), value in each.items()},
    }


def transfer_of_choices(table: pd.DataFrame) -> Finding | None:
    """LOC-K4d: how often the best setting of one seed beats a random model, there and elsewhere."""
    found = models(table, SCORES, at_least=2)
    if found is None:
        return None
    estimates = leave_out_seeds(
        found.rows, _chances, paper=PAPER, within=(0.0, 1.0), differences=[LESS_OTHER]
    )
    bars = pd.DataFrame(
        [(one.name, one.value, "here", one.low, one.high) for one in estimates if one.name in PAPER]
        + [(name, value, "paper", value, value) for name, value in PAPER.items()],
        columns=["x", "y", "group", "low", "high"],
    )
    return Finding(
        estimates,
        Exhibit(
            "bars",
            bars,
            "where the choice is tried",
            "probability of beating a random model",
            "A setting chosen by one seed's score against a random model; chance is 0.5.",
        ),
        found.remark,
    )


def _chances(rows: pd.DataFrame) -> Mapping[str, float]:
    """Mean over sources and targets, all of them instead of random draws."""
    cases = {}
    for data, (cube, seeds) in cubes(rows, SCORES).items():
        for metric, scores in zip(SCORES, cube.reshape(len(SCORES), -1, len(seeds)), strict=True):
            cases[data, metric] = (_best(scores), _percentile(scores), seeds)
    means: dict[str, list[float]] = {name: [] for name in PAPER}
    for source, target in product(cases, cases):
        (data, metric), (other_data, other_metric) = source, target
        if data == other_data and metric != other_metric:
            continue
        where = OTHER_DATA if metric == other_metric else OTHER_BOTH
        chosen, _, seeds = cases[source]
        _, percentile, other_seeds = cases[target]
        means[SAME if source == target else where].append(
            _mean_percentile(chosen, percentile, seeds[:, None] != other_seeds)
        )
    found = {name: float(np.mean(values)) for name, values in means.items()}
    return found | {LESS_OTHER: found[SAME] - found[OTHER_DATA]}


def _best(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight of each setting as a seed's choice `(settings, seeds)`: 1, shared by the best."""
    best = scores == np.nanmax(scores, axis=0)
    return best / best.sum(axis=0)


def _percentile(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the other models that each model beats, ties half `(settings, seeds)`."""
    ranks = stats.rankdata(scores, nan_policy="omit").reshape(scores.shape)
    return (ranks - 1) / (np.isfinite(scores).sum() - 1)


def _mean_percentile(
    weights: NDArray[np.float64], percentile: NDArray[np.float64], apart: NDArray[np.bool_]
) -> float:
    """Mean over pairs of different seeds of what the choice of the first reaches at the second."""
    known = np.isfinite(percentile)
    total = weights.T @ np.where(known, percentile, 0.0)
    weight = weights.T @ known
    pairs = apart & (weight > 0)
    return float((total[pairs] / weight[pairs]).mean()) if pairs.any() else np.nan
