# SPDX-License-Identifier: Apache-2.0
"""DCIMIG, also 3CharM (Sepliarskaia et al. 2019): factors held by latents that hold little else.

Each latent is credited to the factor that it knows most about, with its gap `D_j = I(z_j; v_k*) -
second largest I(z_j; v_k)` in nats. A factor takes the largest gap credited to it, 0 if none is;
`DCIMIG = sum of these gaps / sum of H(v_k)`. The score is 1 only if every factor has a latent of
its own; the authors prove that it is high for such codes and low for entangled ones. Information is
counted with each latent cut into 20 equal-width bins, as in `mig`. With one varying factor the gap
is to 0.

Traps: factors weigh by their entropy, so a factor of 40 values counts more than three times as much
as one of 3; a factor of more values than bins cannot be held whole. Duplicated and dead latents do
not lower the score, for a factor needs one latent only; with one latent left out of five perfect
ones it falls to 0.72 to 0.87, the lower the more values its factor has. Random rotations of four to
six perfect codes score from 0.03 to 0.46, noise at most 0.01 at 1,000 samples.

Not in disentanglement_lib: it follows the review of Zaidi et al. (2020) and its code. Departs from
that: 20 bins instead of 10, whole-number factors are not binned, and constant factors, whose
entropy and information are 0, are listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.registry import Citation
from unbraid.metrics._aggregation import top_gap
from unbraid.metrics._describe import describe
from unbraid.metrics._information import Information, count_information
from unbraid.metrics._least_samples import Counted
from unbraid.metrics._resampled import FromInformation, Resampled


@dataclass(frozen=True)
class DCIMIG:
    """The share of all entropy, by factor, the gaps of the latents and their information."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_factor: NDArray[np.float64]
    """Largest gap credited to a factor as a share of its entropy; NaN for a constant factor."""
    gap_per_latent: NDArray[np.float64]
    """Nats."""
    factor_of_latent: NDArray[np.int64]
    """The factor each latent is credited to; the first of those that tie, whose gap is 0."""
    mutual_information: NDArray[np.float64]
    """`(latents, factors)`, nats."""
    factor_entropy: NDArray[np.float64]
    """Nats; the weight of each factor."""
    constant_factors: tuple[int, ...]
    """Columns that take one value and weigh nothing."""


def _of(found: Information) -> DCIMIG:
    gaps = top_gap(found.mutual[:, found.varying].T)
    credited = found.mutual.argmax(axis=1)
    held, nats = np.zeros(len(found.varying)), found.factor_entropy
    np.maximum.at(held, credited, gaps)
    return DCIMIG(
        score=min(float(held.sum() / nats.sum()), 1.0),  # rounding can pass 1
        per_factor=np.minimum(held / np.where(found.varying, nats, np.nan), 1.0),
        gap_per_latent=gaps,
        factor_of_latent=credited,
        mutual_information=found.mutual,
        factor_entropy=nats,
        constant_factors=found.constant_factors,
    )


@describe(
    label="DCIMIG",
    needs="sample",
    compares_factors=True,
    citation=Citation(
        "Sepliarskaia, Kiseleva and de Rijke",
        2019,
        "How to Not Measure Disentanglement",
        "arXiv:1910.05587",
    ),
    result=DCIMIG,
    least_samples=Counted(),
    error=Resampled("cheap", 32, information=FromInformation(count_information, _of)),
)
def dcimig(codes: ArrayLike, factors: ArrayLike, *, bins: int = 20) -> DCIMIG:
    """Share of the factors' entropy that is held by latents of their own.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`; each latent is cut into
    *bins* equal-width bins.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> dcimig(values * 2.5, values).score
    1.0
    """
    return _of(count_information(codes, factors, bins=bins))
