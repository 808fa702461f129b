# SPDX-License-Identifier: Apache-2.0
"""How far the scores of objectives and of strengths overlap (slide 47, figure 3)."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.locatello2019.models import OBJECTIVES, cubes, models

if TYPE_CHECKING:
    from collections.abc import Mapping

SCORE = "factor_vae_score"


def beats(first: ArrayLike, second: ArrayLike) -> float:
    """Probability that a random one of *first* is above a random one of *second*, ties half.

    >>> beats([1.0, 3.0], [2.0, 3.0])
    0.375
    """
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    return float((np.sign(one[:, None] - other[None, :]) + 1).mean() / 2)


def overlap_of_objectives(table: pd.DataFrame, data: str = "cars3d") -> Finding | None:
    """LOC-F3l: how often a model of the worse of two objectives beats one of the better."""
    found = models(table, [SCORE], data=[data])
    if found is None:
        return None
    return Finding(
        leave_out_seeds(found.rows, _overlap, within=(0.0, 0.5)),
        _violins(found.rows, "objective", "objective", "FactorVAE score of all models."),
        found.remark,
    )


def _violins(rows: pd.DataFrame, column: str, x: str, caption: str) -> Exhibit:
    shown = pd.DataFrame({"x": rows[column], "y": rows[SCORE], "group": rows["data"]})
    return Exhibit("violins", shown.reset_index(drop=True), x, SCORE, caption)


def _overlap(rows: pd.DataFrame) -> Mapping[str, float]:
    scores = [part[SCORE] for _, part in rows.groupby("objective", sort=False)]
    chances = [beats(one, other) for one, other in combinations(scores, 2)]
    worse = [min(chance, 1.0 - chance) for chance in chances]
    return {"worse objective beats better": float(np.mean(worse))}


def seeds_and_strengths(table: pd.DataFrame) -> Finding | None:
    """LOC-F3r: how often a run of the worst strength beats a run of the best."""
    found = models(table, [SCORE])
    if found is None:
        return None
    rows = found.rows
    factor_vae = rows.loc[rows["objective"] == "factor_vae"]
    if factor_vae.empty:
        return None
    return Finding(
        leave_out_seeds(rows, _worst_beats_best, within=(0.0, 1.0)),
        _violins(factor_vae, "strength", "gamma", "FactorVAE score of FactorVAE by strength."),
        found.remark,
    )


def _worst_beats_best(rows: pd.DataFrame) -> Mapping[str, float]:
    """Means over data sets, for FactorVAE and for all objectives."""
    found = {objective: [] for objective in OBJECTIVES}
    for cube, _ in cubes(rows, [SCORE]).values():
        for objective, runs in zip(OBJECTIVES, cube[0], strict=True):
            found[objective].append(worst_beats_best(runs))
    every = np.array([*found.values()])
    own = every[OBJECTIVES.index("factor_vae")]
    return {
        "run of the worst strength beats run of the best, factor_vae": float(own.mean()),
        "the same, all objectives": float(every.mean()),
    }


def worst_beats_best(runs: NDArray[np.float64]) -> float:
    """Probability that a run of the worst strength is above one of the best, ties half.

    *runs* are `(strengths, seeds)`. Which strengths are the worst and the best is decided by their
    means over the seeds that neither of the two runs has, so that luck does not decide it. NaN with
    fewer than three seeds.
    """
    known = np.isfinite(runs)
    values = np.where(known, runs, 0.0)
    count, total = (
        one.sum(axis=1)[:, None, None] - one[:, :, None] - one[:, None, :]
        for one in (known.astype(float), values)
    )
    mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    seed, other = np.nonzero(~np.eye(runs.shape[1], dtype=bool))
    worst = runs[np.where(count > 0, mean, np.inf).argmin(axis=0)[seed, other], seed]
    best = runs[np.where(count > 0, mean, -np.inf).argmax(axis=0)[seed, other], other]
    both = np.isfinite(worst - best) & (count > 0).any(axis=0)[seed, other]
    return float((np.sign(worst - best)[both] + 1).mean() / 2) if both.any() else np.nan
