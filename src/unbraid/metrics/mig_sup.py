# SPDX-License-Identifier: Apache-2.0
"""MIG-sup (Li et al. 2020): information about factors in a latent, best minus second best.

`MIG-sup = mean over j of (N(z_j; v_k*) - second largest N(z_j; v_k))` with `N(z_j; v_k) = I(z_j;
v_k) / H(v_k)` and `k*` the factor that latent `j` knows most about, as a share. Where MIG asks that
a factor sits in one latent, this asks that a latent holds one factor (modularity); only both at 1
mean that latents and factors match one to one. Information is counted with each latent cut into 20
equal-width bins, as in `mig`. With one varying factor the gap is to 0.

Traps: every latent counts, so dead ones lower the score (three beside five perfect ones leave 5/8:
0.62 for 0.99); `least_variance=0.01` is the authors' rule, which leaves them out but presumes
latents on the scale of a unit prior. A latent that tells half of a factor scores half, although it
mixes nothing, and a warp costs as much as in MIG. Duplicated latents do not lower the score, nor
does a factor that no latent knows.

Not in disentanglement_lib: it follows the authors' code, which divides by the entropy of the
factor; the review of Zaidi et al. (2020) divides by that of the latent, which gives other numbers
under the same name. Departs from the authors in the estimate (they sample the posterior, here codes
are counted) and in that a constant factor is left out and listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import invalid
from unbraid.core.registry import Citation
from unbraid.metrics._aggregation import top_gap
from unbraid.metrics._describe import describe
from unbraid.metrics._information import Information, count_information
from unbraid.metrics._least_samples import Counted
from unbraid.metrics._resampled import FromInformation, Resampled


@dataclass(frozen=True)
class MIGSup:
    """The mean gap, the gap of each latent and the information it was taken from."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_latent: NDArray[np.float64]
    """Of every latent, active or not."""
    active: NDArray[np.bool_]
    """Latents that count in the mean."""
    normalised_information: NDArray[np.float64]
    """`(latents, factors)`, share of the factor's entropy; NaN for a constant factor."""
    mutual_information: NDArray[np.float64]
    """`(latents, factors)`, nats."""
    factor_entropy: NDArray[np.float64]
    """Nats."""
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value."""


def _of(found: Information, *, least_variance: float = 0.0) -> MIGSup:
    if not 0.0 <= least_variance < np.inf:
        raise invalid("least_variance", "must be at least 0 and finite", least_variance)
    shares = found.mutual / np.where(found.varying, found.factor_entropy, np.nan)
    per_latent = np.minimum(top_gap(shares[:, found.varying].T), 1.0)  # rounding can pass 1
    active = found.code_variance >= least_variance
    score = float(per_latent[active].mean()) if active.any() else 0.0
    return MIGSup(
        score,
        per_latent,
        active,
        shares,
        found.mutual,
        found.factor_entropy,
        found.constant_factors,
    )


@describe(
    label="MIG-sup",
    needs="sample",
    compares_factors=True,
    citation=Citation(
        "Li, Murkute, Gyawali and Wang",
        2020,
        "Progressive Learning and Disentanglement of Hierarchical Representations",
        "ICLR",
    ),
    result=MIGSup,
    least_samples=Counted(),
    error=Resampled("cheap", 32, information=FromInformation(count_information, _of)),
)
def mig_sup(
    codes: ArrayLike, factors: ArrayLike, *, bins: int = 20, least_variance: float = 0.0
) -> MIGSup:
    """Gap between the two factors that a latent knows most about, as shares of their entropies.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`; each latent is cut into
    *bins* equal-width bins. Latents whose variance is below *least_variance* are left out of the
    mean; without any left the score is 0.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> mig_sup(values * 2.5, values).score
    1.0
    """
    return _of(count_information(codes, factors, bins=bins), least_variance=least_variance)
