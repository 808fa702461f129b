# SPDX-License-Identifier: Apache-2.0
"""Gaussian total correlation (Watanabe 1960; Locatello et al. 2019) of the latents, in nats.

The total correlation is the KL divergence from the joint distribution of the latents to the product
of their own distributions. It is taken of the Gaussian that has the covariance `S` of the codes:
`TC = 1/2 (sum over d of log S_dd - log det S)`, which is `-1/2 log det R` of their correlation
matrix R. It is 0 exactly where no two latents correlate, and does not change when a latent is
scaled or shifted. Locatello et al. compare that of the means with that of sampled codes: with
stronger regularisation the second falls and the first need not.

Traps: it sees linear dependence only, so entangled codes can score 0: a rotation of independent
latents of equal variance does. Independent latents of n samples score about `D (D - 1) / (4 n)`:
0.02 for 10 latents of 1,000 samples. Where some latents are exact linear functions of the others,
the true value is infinite. Eigenvalues of R count as at least 1e-13, so that each such dependence
adds about 15 nats; `dependent_latents` tells how many there are, and with n no larger than D there
are always some. Scaled copies in single precision that lie far from 0 have rounding of their own,
so that they are not counted there and add less: about 12.7 nats at a mean of 100 standard
deviations, 10.6 at 1,000.

Departs from disentanglement_lib: a single latent scores 0, where it is an error there; a constant
latent is independent of everything and adds nothing, where it is NaN there; exact dependence has
the value above, where theirs is what rounding happened to leave, which differs between machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import LOCATELLO_2019
from unbraid.metrics._arrays import check_codes
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Correlated
from unbraid.metrics._resampled import Resampled
from unbraid.metrics._standardise import constant_latents, standardise

# Copies in single precision leave eigenvalues of about 1e-15, rounding in double precision smaller
# ones.
SMALLEST_EIGENVALUE = 1e-13


@dataclass(frozen=True)
class TotalCorrelation:
    """Total correlation in nats, the correlations behind it, and redundant latents."""

    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    higher_is_better: ClassVar[bool] = False

    score: float
    correlation: NDArray[np.float64]
    """`(latents, latents)`; a constant latent correlates with itself only."""
    dependent_latents: int
    """How many latents are linear functions of the others; above 0 the score is a stand-in for
    infinity.
    """
    constant_latents: tuple[int, ...]


@describe(
    label="Gaussian total correlation",
    needs="codes",
    family="unsupervised",
    citation=LOCATELLO_2019,
    result=TotalCorrelation,
    least_samples=Correlated(),
    error=Resampled("cheap", 32, sum_of_squares=True),
    likes_dead_codes=True,
)
def total_correlation(codes: ArrayLike) -> TotalCorrelation:
    """How far the latents are from linearly independent: Gaussian total correlation in nats.

    *codes* are `(n, latents)`. A single latent, or none that varies, has nothing to depend on and
    scores 0.

    >>> import numpy as np
    >>> codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> total_correlation(codes).score
    0.0
    """
    rows = check_codes(codes)
    standard = standardise(rows)
    constant = constant_latents(rows)
    correlation = standard.T @ standard / len(rows)
    np.fill_diagonal(correlation, 1.0)
    # Singular values keep the small eigenvalues that a product of the codes with themselves would
    # round away.
    varying = np.delete(standard, constant, axis=1)
    eigenvalues = np.zeros(varying.shape[1])
    singular = np.linalg.svd(varying, compute_uv=False)
    eigenvalues[: len(singular)] = singular**2 / len(rows)
    nats = -0.5 * float(np.log(np.maximum(eigenvalues, SMALLEST_EIGENVALUE)).sum())
    dependent = int(np.count_nonzero(eigenvalues <= SMALLEST_EIGENVALUE))
    return TotalCorrelation(max(0.0, nats), np.clip(correlation, -1.0, 1.0), dependent, constant)
