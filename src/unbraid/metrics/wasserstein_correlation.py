# SPDX-License-Identifier: Apache-2.0
"""Gaussian Wasserstein correlation (disentanglement_lib): how far the latents are from independent ones.

The squared 2-Wasserstein distance between the Gaussian with the covariance `S` of the codes and the product of its marginals,
the Gaussian with the diagonal `D` of S: `W = 2 tr S - 2 tr (D^1/2 S D^1/2)^1/2` (the distance of two Gaussians, Olkin and
Pukelsheim 1982). `normalised` is W divided by `tr S`, which takes out the unit of the codes. Unlike the total correlation it
stays finite where latents determine each other: D equal copies of one latent have the normalised value `2 - 2 / sqrt(D)`.

Traps: it is in squared units of the codes, so models can be compared by `normalised` only, and a latent of small variance
hardly counts in either: two copies among the latents that a model has switched off go unseen. Like the total correlation it
sees linear dependence only, and independent latents score a little over 0 by chance.

Departs from disentanglement_lib: in nothing but that a single latent scores 0, where it is an error there, and rounding. The
trace of the square root is the sum of the singular values of the centred codes times their standard deviations, which is real
and accurate also for copied and switched-off latents; the matrix square root there can have imaginary parts and is off by up
to 5e-7 for copied latents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.metrics._arrays import check_codes
from unbraid.metrics._citations import LOCATELLO_2019
from unbraid.metrics._describe import describe
from unbraid.metrics._standardise import standard_deviations, standardise


@dataclass(frozen=True)
class WassersteinCorrelation:
    """The squared distance, the same as a share of all variance, and the variance of each latent."""

    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    higher_is_better: ClassVar[bool] = False

    score: float
    """In squared units of the codes."""
    normalised: float
    """The score divided by the sum of the variances: 0 to 2, whatever the unit; 0 where nothing varies."""
    variance: NDArray[np.float64]
    """Of each latent, dividing by n - 1."""


@describe(
    label="Gaussian Wasserstein correlation",
    needs="codes",
    family="unsupervised",
    citation=LOCATELLO_2019,
    result=WassersteinCorrelation,
)
def wasserstein_correlation(codes: ArrayLike) -> WassersteinCorrelation:
    """How far the latents are from linearly independent: squared Wasserstein distance from Gaussian to product of marginals.

    *codes* are `(n, latents)`. Constant latents add nothing; where nothing varies both numbers are 0.

    >>> import numpy as np
    >>> codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> round(wasserstein_correlation(codes).score, 12)
    0.0
    """
    rows = check_codes(codes)
    deviations = standard_deviations(rows, lost=1)
    # In units of the largest deviation no square overflows or vanishes.
    unit = float(deviations.max()) or 1.0
    shares = (deviations / unit) ** 2
    spectrum = np.linalg.svd(standardise(rows) * shares, compute_uv=False) / np.sqrt(len(rows))
    distance = max(0.0, 2.0 * float(shares.sum() - spectrum.sum()))
    normalised = distance / float(shares.sum()) if deviations.any() else 0.0
    return WassersteinCorrelation(distance * unit**2, normalised, deviations**2)
