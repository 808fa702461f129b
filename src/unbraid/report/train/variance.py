# SPDX-License-Identifier: Apache-2.0
"""Whether settings or seeds make the difference: analysis of variance of a run's scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

_CLEARLY = 2.0
"""One variance is called larger when it is at least this many times the other."""
_CHANCE = 0.05
"""Settings are compared only where chance alone would separate them more rarely than this."""


@dataclass(frozen=True)
class Variance:
    """Variance of a score that comes from the settings and that comes from the seeds."""

    settings: float
    seeds: float
    chance: float
    """Probability of means at least as far apart if settings made no difference (F test)."""


def variance_of(groups: Sequence[ArrayLike]) -> Variance | None:
    """One-way analysis of variance of scores grouped by setting; None where it would say little.

    It is the method of moments, and takes two settings with at least three scores each. The
    variance between settings is what is left of their means' differences after the part that seeds
    alone would cause.
    """
    from scipy.special import fdtrc

    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    arrays = [values[np.isfinite(values)] for values in arrays]
    if len(arrays) < 2 or any(len(values) < 3 for values in arrays):
        return None
    sizes = np.array([len(values) for values in arrays])
    means = np.array([values.mean() for values in arrays])
    total = sizes.sum()
    within = sum(float(((values - values.mean()) ** 2).sum()) for values in arrays) / (
        total - len(arrays)
    )
    between = float((sizes * (means - (sizes * means).sum() / total) ** 2).sum()) / (
        len(arrays) - 1
    )
    usual_size = (total - (sizes**2).sum() / total) / (len(arrays) - 1)
    if within == 0.0:
        chance = 1.0 if between == 0.0 else 0.0
    else:
        chance = float(fdtrc(len(arrays) - 1, total - len(arrays), between / within))
    return Variance(max(0.0, (between - within) / float(usual_size)), within, chance)


def what_matters(variance: Variance | None) -> str:
    """`settings`, `seeds` or `both`, `unclear` where chance may decide; empty without variance."""
    if variance is None or variance.settings == variance.seeds == 0:
        return ""
    if variance.chance > _CHANCE:
        return "unclear"
    if variance.settings >= _CLEARLY * variance.seeds:
        return "settings"
    return "seeds" if variance.seeds >= _CLEARLY * variance.settings else "both"
