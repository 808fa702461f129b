# SPDX-License-Identifier: Apache-2.0
"""Posterior overlap (after Mathieu et al. 2019, section 3): how far posteriors lie in each other.

The overlap of two posteriors is the Bhattacharyya coefficient (Bhattacharyya 1943), `integral of
sqrt(q_i q_j)`: 1 where they are the same, 0 where they share nothing, and for normal ones with
variances v_i, v_j in each latent, m the mean of both, `exp(-1/8 sum (mu_i - mu_j)^2 / m - 1/2 sum
log(m / sqrt(v_i v_j)))`. The score is the mean over samples of the overlap with that other sample
whose posterior overlaps most: with the neighbour, which should look alike. `pairwise` is the mean
over all pairs.

Traps: with more rows neighbours are nearer and the score rises, so compare it at equal `samples`;
rows are a random part of the data, and a score near 0 may only say that they are few. A collapsed
model has overlap 1. Overlap in itself is neither good nor bad: with none latents are a lookup
table, with too much they forget the sample. It is not the mutual information of samples and
latents, which can have any value while informative parts do not overlap
(`unbraid.analysis.theory.overlap_and_information`).

Not in disentanglement_lib: ours. Mathieu et al. speak of overlap and print no measure of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import MATHIEU_2019
from unbraid.core.errors import Shown, invalid
from unbraid.metrics._arrays import check_counts
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Averaged
from unbraid.metrics._posterior import check_gaussian
from unbraid.metrics._resampled import Resampled

ROWS_AT_ONCE = 128


@dataclass(frozen=True)
class PosteriorOverlap:
    """Overlap with the neighbour, with all others, and how wide posteriors are."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    pairwise: float
    """Mean over all pairs of different samples."""
    width: float
    """Mean standard deviation of the posteriors, over latents too."""
    per_sample: NDArray[np.float64]
    """Overlap of each sample that was looked at with its neighbour."""
    rows: int
    """How many samples were compared."""


@describe(
    label="Posterior overlap",
    needs="posterior",
    family="unsupervised",
    citation=MATHIEU_2019,
    result=PosteriorOverlap,
    least_samples=Averaged(500),
    error=Resampled("cheap", 8, quick={"samples": 300}),
    likes_dead_codes=True,
)
def posterior_overlap(
    mean: ArrayLike, logvar: ArrayLike, *, samples: int = 2000, seed: int = 0
) -> PosteriorOverlap:
    """How much the posterior of a sample overlaps with that of its neighbour, from 0 to 1.

    *mean* and *logvar* are those of the posteriors, `(n, latents)`; at most *samples* rows, chosen
    by *seed*, are compared.

    >>> import numpy as np
    >>> found = posterior_overlap(np.array([[0.0], [0.0], [2.0]]), np.zeros((3, 1)))
    >>> round(found.score, 3), round(found.pairwise, 3), found.width
    (0.869, 0.738, 1.0)
    """
    check_counts(samples=(samples, 2), seed=(seed, 0))
    means, logvars = check_gaussian(mean, logvar)
    if len(means) < 2:
        raise invalid("mean", "must hold at least two samples", Shown(f"{len(means)}"))
    width = float(np.exp(0.5 * logvars).mean())
    if len(means) > samples:
        chosen = np.random.default_rng(seed).choice(len(means), samples, replace=False)
        means, logvars = means[np.sort(chosen)], logvars[np.sort(chosen)]
    nearest, total = np.empty(len(means)), 0.0
    for start in range(0, len(means), ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, len(means)))
        overlap = np.exp(_log_coefficients(means, logvars, rows))
        overlap[np.arange(len(overlap)), np.arange(rows.start, rows.stop)] = 0.0  # with itself
        nearest[rows], total = overlap.max(axis=1), total + float(overlap.sum())
    pairs = len(means) * (len(means) - 1)
    return PosteriorOverlap(float(nearest.mean()), total / pairs, width, nearest, len(means))


def _log_coefficients(
    mean: NDArray[np.float64], logvar: NDArray[np.float64], rows: slice
) -> NDArray[np.float64]:
    """Logarithms of the coefficients of some *rows* with all, at most 0: `(some, n)`."""
    found = np.zeros((rows.stop - rows.start, len(mean)))
    for latent in range(mean.shape[1]):
        own, every = logvar[rows, latent, None], logvar[:, latent]
        # log of the mean variance, in logarithms, so that none overflows
        both = np.logaddexp(own, every) - np.log(2.0)
        away = mean[rows, latent, None] - mean[:, latent]
        with np.errstate(over="ignore"):  # far beyond narrow posteriors nothing is shared
            found -= away**2 * np.exp(-both) / 8 + 0.5 * (both - 0.5 * (own + every))
    return np.minimum(found, 0.0)
