# SPDX-License-Identifier: Apache-2.0
"""Whether one objective, or one strength of an objective, is the best everywhere (slide 49).

If one were, choosing anew for every data set and metric would gain nothing over choosing it once.
Choices are made on some seeds and judged on the others, so that luck gains nothing either: the gain
is 0 or below where the same choice is the best everywhere and where nothing matters, and above 0
only where choices that are better somewhere are worse elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.locatello2019.models import OBJECTIVES, SCORES, cubes, models

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_FOLDS = 5


def dominance(table: pd.DataFrame) -> Finding | None:
    """LOC-K4a: what is gained by choosing objective, or strength, for each data set and metric."""
    found = models(table, SCORES, at_least=2)
    if found is None:
        return None
    places = {
        data: stats.rankdata(-_mean(cube, (2, 3)), axis=1).mean(axis=0)
        for data, (cube, _) in cubes(found.rows, SCORES).items()
    }
    return Finding(
        leave_out_seeds(found.rows, _gains),
        Exhibit(
            "matrix",
            pd.DataFrame(places, index=[*OBJECTIVES]).round(2),
            "data",
            "objective",
            "Mean place of each objective among the six over the metrics; 1 is best.",
        ),
        found.remark,
    )


def _gains(rows: pd.DataFrame) -> Mapping[str, float]:
    """Both gains, in standard deviations of the score over the models that are chosen from."""
    scores = [cube for cube, _ in cubes(rows, SCORES).values()]
    folds = min(MOST_FOLDS, *(cube.shape[3] for cube in scores))
    by_objective = [_folded(_standardised(cube, (1, 2, 3)), folds) for cube in scores]
    by_strength = [_folded(_standardised(cube, (2, 3)), folds) for cube in scores]
    objectives = np.concatenate([_mean(cube, 2) for cube in by_objective])
    strengths = np.concatenate(by_strength)
    return {
        "gain of choosing the objective anew": gain_of_choosing(objectives),
        "gain of choosing the strength anew": float(
            np.mean([gain_of_choosing(one) for one in np.moveaxis(strengths, 1, 0)])
        ),
    }


def _standardised(cube: NDArray[np.float64], axes: tuple[int, ...]) -> NDArray[np.float64]:
    """Mean 0 and variance 1 over *axes*; NaN where nothing varies."""
    centred = cube - _mean(cube, axes, keepdims=True)
    spread = np.sqrt(_mean(centred**2, axes, keepdims=True))
    low = np.where(np.isfinite(cube), cube, np.inf).min(axis=axes, keepdims=True)
    high = np.where(np.isfinite(cube), cube, -np.inf).max(axis=axes, keepdims=True)
    # The mean of equal numbers may round, so that they seem to vary.
    return np.divide(
        centred, spread, out=np.full_like(cube, np.nan), where=(low < high) & (spread > 0)
    )


def _folded(cube: NDArray[np.float64], folds: int) -> NDArray[np.float64]:
    """Means over the seeds of each of *folds* parts, along the last axis."""
    part = np.arange(cube.shape[-1]) % folds
    return np.stack([_mean(cube[..., part == fold], -1) for fold in range(folds)], axis=-1)


def _mean(
    values: NDArray[np.float64], axis: int | tuple[int, ...], keepdims: bool = False
) -> NDArray[np.float64]:
    """Mean of what is not NaN, NaN where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis=axis, keepdims=keepdims)
    total = np.where(known, values, 0.0).sum(axis=axis, keepdims=keepdims)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def gain_of_choosing(scores: NDArray[np.float64]) -> float:
    """Mean over cases and folds of the score of the case's best choice less that of the best choice
    of all cases, both chosen on the other folds; *scores* are `(cases, choices, folds)`. Choices
    that were never made, at scales with fewer strengths, are left out.
    """
    made = np.isfinite(scores).any(axis=(0, 2))
    complete = scores[:, made]
    complete = complete[np.isfinite(complete).all(axis=(1, 2))]
    folds = scores.shape[2]
    if not complete.size or folds < 2:
        return np.nan
    gains = []
    for fold in range(folds):
        seen = np.delete(complete, fold, axis=2).mean(axis=2)
        judged = complete[:, :, fold]
        case = judged[np.arange(len(judged)), seen.argmax(axis=1)]
        gains.append((case - judged[:, seen.mean(axis=0).argmax()]).mean())
    return float(np.mean(gains))
