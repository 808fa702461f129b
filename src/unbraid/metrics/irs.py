# SPDX-License-Identifier: Apache-2.0
"""IRS, interventional robustness score (Suter et al. 2019): latents should follow one factor only.

Where factor `k` has the value `v`, the latent `j` should have one value whatever the other factors
do; its deviation is `d_jk(v)`, the 99 % quantile of `|z_j - mean of z_j given v|` over the rows
with `v`. Beside the largest deviation from the mean over all rows, `D_j = max |z_j - mean z_j|`,
and averaged over the values, this gives `IRS_jk = 1 - mean over v of d_jk(v) / D_j`. A latent
scores the largest entry of its row, at the factor that is its parent, and the score is the mean
over latents weighted by `D_j`. The paper takes the largest deviation (`quantile=1.0`); 0.99 is
disentanglement_lib's, and so is that a factor of more than 20 values is cut into 20 equal-width
bins.

Traps: normal noise of 3 to 10 latents scores 0.22 to 0.40 at 1,000 samples and 0.31 to 0.41 at
10,000, for its largest deviation grows with the sample while its quantiles do not; random rotations
of perfect codes score 0.38 to 0.65; a factor that no latent holds and latents that say the same
cost nothing (1.0). Weights are in the unit of the codes: doubling a latent doubles its say. An
entry can be negative, down to -1, where the rows of a value lie to both sides of their mean further
than all rows from theirs.

Departs from disentanglement_lib: a constant factor is left out and listed (there it can become the
parent of a latent that does worse at all others); up to 20 different values are never binned,
however they are numbered (there 0, 1 and 1,000 count as two). `compat="disentanglement_lib"` gives
its number in both cases. A constant latent has no say in either; without any other the score is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import invalid
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import Labelled, check_codes_factors
from unbraid.metrics._compat import Compat, as_reference
from unbraid.metrics._describe import describe
from unbraid.metrics._information import histogram_bins
from unbraid.metrics._least_samples import OfValues
from unbraid.metrics._resampled import Resampled
from unbraid.metrics._standardise import Scale

MOST_VALUES = 20
"""Bins of a factor with more values than that."""


@dataclass(frozen=True)
class IRS:
    """The weighted mean over latents, each latent's score and parent, and their matrix."""

    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_latent: NDArray[np.float64]
    """NaN for a constant latent."""
    irs_matrix: NDArray[np.float64]
    """`(latents, factors)`; NaN for a constant latent or factor."""
    parent: NDArray[np.int64]
    """The factor at which each latent scores best; -1 for a constant latent."""
    max_deviation: NDArray[np.float64]
    """Largest deviation of each latent from its mean, the weight of its score."""
    active: NDArray[np.bool_]
    """Latents that are not constant."""
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value."""


@describe(
    label="IRS",
    needs="sample",
    citation=Citation(
        "Suter, Miladinović, Schölkopf and Bauer",
        2019,
        "Robustly Disentangled Causal Mechanisms: Validating Deep Representations for"
        " Interventional Robustness",
        "ICML",
    ),
    result=IRS,
    least_samples=OfValues(50),
    scale=Scale("latents weigh by their largest deviation", common=False),
    error=Resampled("cheap", 32),
    likes_dead_codes=True,
)
def irs(
    codes: ArrayLike, factors: ArrayLike, *, quantile: float = 0.99, compat: Compat | None = None
) -> IRS:
    """How little each latent moves with one factor held while the others change.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`; *quantile* 1 takes the
    largest deviation, as the paper.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> irs(values * 2.5, values).score
    1.0
    """
    reference = as_reference(compat)
    if not 0.0 < quantile <= 1.0:
        raise invalid("quantile", "must be above 0 and at most 1", quantile)
    sample = check_codes_factors(codes, factors)
    active = np.ptp(sample.codes, axis=0) > 0
    compared = np.ones(len(sample.sizes), dtype=bool) if reference else sample.varying
    matrix = np.full((len(active), len(compared)), np.nan)
    per_latent, parent, max_deviation = (
        np.full(len(active), np.nan),
        np.full(len(active), -1),
        np.zeros(len(active)),
    )
    if not active.any():
        return IRS(0.0, per_latent, matrix, parent, max_deviation, active, sample.constant_factors)

    centred = np.ascontiguousarray(sample.codes.T[active])
    centred -= centred.mean(axis=1, keepdims=True)
    max_deviation[active] = np.abs(centred).max(axis=1)
    for factor in np.flatnonzero(compared):
        deviation = _mean_deviation(centred, _groups(sample, int(factor), reference), quantile)
        # Rounding can pass both.
        matrix[active, factor] = np.clip(1.0 - deviation / max_deviation[active], -1.0, 1.0)
    per_latent[active] = matrix[np.ix_(active, compared)].max(axis=1)
    parent[active] = np.flatnonzero(compared)[matrix[np.ix_(active, compared)].argmax(axis=1)]
    score = float(np.average(per_latent[active], weights=max_deviation[active]))
    return IRS(score, per_latent, matrix, parent, max_deviation, active, sample.constant_factors)


def _groups(sample: Labelled, factor: int, reference: bool) -> NDArray[np.int64]:
    """A group for each row: rows with the same value, or bin of values, of *factor*."""
    if sample.sizes[factor] <= MOST_VALUES and not reference:
        return sample.levels[:, factor]
    return histogram_bins(sample.factors[:, [factor]].astype(np.float64), MOST_VALUES)[:, 0]


def _mean_deviation(
    centred: NDArray[np.float64], group: NDArray[np.int64], quantile: float
) -> NDArray[np.float64]:
    """The *quantile* of `|z - mean of the group|` of each latent, averaged over groups."""
    count = np.bincount(group)
    count = count[count > 0]
    end = np.cumsum(count)
    # NumPy sorts 8-bit numbers by counting.
    deviation = centred.take(np.argsort(group.astype(np.uint8), kind="stable"), axis=1)
    deviation -= np.repeat(np.add.reduceat(deviation, end - count, axis=1) / count, count, axis=1)
    np.abs(deviation, out=deviation)
    total = np.zeros(len(centred))
    for rows, stop in zip(count, end, strict=True):
        total += _quantile(deviation[:, stop - rows : stop], quantile)
    return total / len(count)


def _quantile(values: NDArray[np.float64], quantile: float) -> NDArray[np.float64]:
    """The *quantile* of each row as NumPy interpolates it, but faster; reorders *values*."""
    place = quantile * (values.shape[1] - 1)
    below = int(place)
    values.partition(below, axis=1)
    low = values[:, below]
    if below + 1 == values.shape[1]:
        return low
    return low + (place - below) * (values[:, below + 1 :].min(axis=1) - low)
