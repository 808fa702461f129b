# SPDX-License-Identifier: Apache-2.0
"""Gaussian Wasserstein correlation (disentanglement_lib): how dependent the latents are.

The squared 2-Wasserstein distance between the Gaussian with the covariance `S` of the codes and the
product of its marginals, the Gaussian with the diagonal `D` of S: `W = 2 tr S - 2 tr (D^1/2 S
D^1/2)^1/2` (the distance of two Gaussians, Olkin and Pukelsheim 1982). `normalised` is W divided by
`tr S`, which takes out the unit of the codes. Unlike the total correlation it stays finite where
latents determine each other: D equal copies of one latent have the normalised value `2 - 2 /
sqrt(D)`.

Traps: it is in squared units of the codes, so models can be compared by `normalised` only, and a
latent of small variance hardly counts in either: two copies among the latents that a model has
switched off go unseen. Like the total correlation it sees linear dependence only, and independent
latents score a little over 0 by chance.

Departs from disentanglement_lib: a single latent scores 0, where it fails. The trace of the square
root is taken as there, from a general matrix square root, so that numbers agree to nine digits;
where latents are copies of each other that root keeps half of the digits, and the score is off by
about 1e-7 of the variance. Where it finds no root at all, singular values stand in for it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import LOCATELLO_2019
from unbraid.metrics._arrays import check_codes
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Correlated
from unbraid.metrics._resampled import Resampled
from unbraid.metrics._standardise import Scale, standard_deviations, standardise

FAR = 1e60
"""Deviations beyond it, or below its inverse, are counted in units of the largest."""


@dataclass(frozen=True)
class WassersteinCorrelation:
    """The squared distance, also as a share of all variance, and each latent's variance."""

    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    higher_is_better: ClassVar[bool] = False

    score: float
    """In squared units of the codes."""
    normalised: float
    """The score divided by the sum of the variances: 0 to 2, whatever the unit; 0 where nothing
    varies.
    """
    variance: NDArray[np.float64]
    """Of each latent, dividing by n - 1."""


@describe(
    label="Gaussian Wasserstein correlation",
    needs="codes",
    family="unsupervised",
    citation=LOCATELLO_2019,
    result=WassersteinCorrelation,
    least_samples=Correlated(),
    scale=Scale("it is in squared units of the codes"),
    error=Resampled("cheap", 32, sum_of_squares=True),
    likes_dead_codes=True,
)
def wasserstein_correlation(codes: ArrayLike) -> WassersteinCorrelation:
    """How far the latents are from linearly independent: squared Gaussian Wasserstein distance.

    *codes* are `(n, latents)`. Constant latents add nothing; where nothing varies both numbers are
    0.

    >>> import numpy as np
    >>> codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> round(wasserstein_correlation(codes).score, 12)
    0.0
    """
    rows = check_codes(codes)
    deviations = standard_deviations(rows, lost=1)
    largest = float(deviations.max()) or 1.0
    # Squares of squares of such codes would overflow or vanish.
    unit = 1.0 if 1.0 / FAR < largest < FAR else largest
    latents_first = np.ascontiguousarray(rows.T) / unit
    covariance = np.atleast_2d(np.cov(latents_first))
    covariance[deviations == 0, :] = covariance[:, deviations == 0] = (
        0.0  # rounding gives constants a variance
    )
    variances = np.diag(covariance)
    root = _trace_of_root(variances[:, None] * covariance)
    if not np.isfinite(root):
        root = float(
            np.linalg.svd(standardise(rows) * variances, compute_uv=False).sum()
            / np.sqrt(len(rows))
        )
    distance = max(0.0, 2.0 * (float(np.trace(covariance)) - root))
    normalised = distance / float(np.trace(covariance)) if deviations.any() else 0.0
    return WassersteinCorrelation(distance * unit**2, normalised, deviations**2)


def _trace_of_root(product: NDArray[np.float64]) -> float:
    """Trace of the square root of *product*; NaN where none is found."""
    from scipy.linalg import sqrtm

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Of a singular product it says that the root may be inexact.
        warnings.simplefilter("ignore")
        return float(np.real(np.trace(sqrtm(product))))
