# SPDX-License-Identifier: Apache-2.0
"""JEMMIG, joint entropy minus MIG (Do and Tran 2020): a MIG that fines what else the latent holds.

`JEMMIG_k = H(z_j*, v_k) - I(z_j*; v_k) + I(z_j'; v_k)` in nats, where `j*` and `j'` are the latents
that know most and second most about factor `k`. The first two terms are `H(z_j* | v_k) + H(v_k |
z_j*)`, what `j*` holds beyond the factor and what it misses of it, so the value is 0 only when
latent and factor determine each other and no other latent knows of the factor. Lower is better; at
most `H(v_k) + ln(bins)`. The score is the mean over factors of `1 - JEMMIG_k / (H(v_k) +
ln(bins))`, from 0 to 1, higher is better; `nats` keeps the value itself. Latents are cut into 20
equal-width bins, as in `mig`.

Traps: a constant code pays for nothing but the factor it misses and scores `ln(bins) / (H(v_k) +
ln(bins))`, with 20 bins 0.73 for a factor of 3 values and 0.59 for one of 8. Perfect codes in
duplicate score the same, 0.52 to 0.69 at 1,000 samples of random sets of four to six factors of 3
to 15 values, where noise scores 0.07 to 0.14. Continuous codes pay for every bin they use: there
perfect codes fall from 0.97 or more to between 0.70 and 0.80 by a jitter of a tenth of their
deviation, which costs MIG 0.02 to 0.25. Ranges are those of 800 sets that were drawn, rounded
outwards: another set can lie outside. Scores of different `bins` do not compare.

Not in disentanglement_lib: it follows the authors' code for the value and its largest size, and the
review of Zaidi et al. (2020) in turning it into a score that rises. Departs from the authors in the
estimate: they use 100 bins over [-4, 4] and the posterior's density in each, here codes are counted
between their extremes. Of latents that tie for `j*` the one with the smallest joint entropy counts,
so that their order does not matter; a single latent is compared with 0; a constant factor is left
out and listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.registry import Citation
from unbraid.metrics._aggregation import over_varying, top_gap
from unbraid.metrics._describe import describe
from unbraid.metrics._information import ROUNDING_NATS, Information, count_information
from unbraid.metrics._least_samples import Counted
from unbraid.metrics._resampled import FromInformation, Resampled


@dataclass(frozen=True)
class JEMMIG:
    """The mean over factors, each factor's score and nats, and the matrices behind them."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    nats: float
    """Mean over the varying factors of JEMMIG as defined: lower is better, 0 is perfect."""
    per_factor: NDArray[np.float64]
    """From 0 to 1, higher is better; NaN for a constant factor, as in the next."""
    nats_per_factor: NDArray[np.float64]
    joint_entropy: NDArray[np.float64]
    """`(latents, factors)`, nats."""
    mutual_information: NDArray[np.float64]
    """`(latents, factors)`, nats."""
    factor_entropy: NDArray[np.float64]
    """Nats."""
    constant_factors: tuple[int, ...]
    """Columns left out of the mean because they take one value."""


def _of(found: Information, *, bins: int = 20) -> JEMMIG:
    joint = found.latent_entropy[:, None] + found.factor_entropy - found.mutual
    best = found.mutual >= found.mutual.max(axis=0) - ROUNDING_NATS
    # Rounding can pass 0.
    nats = np.maximum(np.where(best, joint, np.inf).min(axis=0) - top_gap(found.mutual), 0.0)
    mean_nats, nats_per_factor = over_varying(nats, found.varying)
    score, per_factor = over_varying(
        np.clip(1.0 - nats / (found.factor_entropy + np.log(bins)), 0.0, 1.0), found.varying
    )
    return JEMMIG(
        score=score,
        nats=mean_nats,
        per_factor=per_factor,
        nats_per_factor=nats_per_factor,
        joint_entropy=joint,
        mutual_information=found.mutual,
        factor_entropy=found.factor_entropy,
        constant_factors=found.constant_factors,
    )


@describe(
    label="JEMMIG",
    needs="sample",
    citation=Citation(
        "Do and Tran",
        2020,
        "Theory and Evaluation Metrics for Learning Disentangled Representations",
        "ICLR",
    ),
    result=JEMMIG,
    least_samples=Counted(),
    error=Resampled("cheap", 32, information=FromInformation(count_information, _of)),
    likes_dead_codes=True,
)
def jemmig(codes: ArrayLike, factors: ArrayLike, *, bins: int = 20) -> JEMMIG:
    """Gap between the two latents that know most about a factor, less what the best holds besides.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`; each latent is cut into
    *bins* equal-width bins.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> jemmig(values * 2.5, values).score
    1.0
    """
    return _of(count_information(codes, factors, bins=bins), bins=bins)
