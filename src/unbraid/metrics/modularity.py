# SPDX-License-Identifier: Apache-2.0
"""Modularity (Ridgeway and Mozer 2018, eq. 2): how far each latent knows one factor only.

`modularity_j = 1 - sum over k != k* of I(z_j; v_k)^2 / ((K - 1) I(z_j; v_k*)^2)`, where `k*` is the
factor that latent `j` knows most about and `K` the number of factors; the plain mean over latents,
as disentanglement_lib takes it. Information is counted with each latent cut into 20 equal-width
bins. A latent without any information scores 0.

Traps: noise is not 0 but what its finite-sample information happens to be, 0.15 to 0.97 over random
sets of four to six factors of 3 to 15 values, at 1,000 samples as at 10,000; factors of more values
have more of it, so that noise scores highest where their numbers of values differ most. Dead
latents count like noise and lower the score (three beside all perfect ones: 0.65 to 0.99). Random
rotations of perfect codes still score 0.55 to 0.99. Ranges are those of 800 sets that were drawn,
rounded outwards: another set can lie outside. Nothing asks that the latents together know the
factors: with one left out the score stays 1.

Departs from disentanglement_lib: constant factors are not counted in K, where the reference counts
them and so moves every score towards 1 (`compat="disentanglement_lib"` gives its number); with one
varying factor an informative latent scores 1 (0/0 there), for there is nothing to mix it with;
single-precision codes are cut at double-precision edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.registry import Citation
from unbraid.metrics._compat import Compat, as_reference
from unbraid.metrics._describe import describe
from unbraid.metrics._information import Information, count_information
from unbraid.metrics._least_samples import Counted
from unbraid.metrics._resampled import FromInformation, Resampled


@dataclass(frozen=True)
class Modularity:
    """The mean over latents, each latent's value and the information it was taken from."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_latent: NDArray[np.float64]
    mutual_information: NDArray[np.float64]
    """`(latents, factors)`, nats."""
    constant_factors: tuple[int, ...]
    """Columns that take one value; not counted as factors except with `compat`."""


def modularity_per_latent(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """Modularity of each row of *information* `(latents, factors)`; a row of zeros scores 0."""
    squares = information**2
    largest = squares.max(axis=1)
    others = squares.sum(axis=1) - largest
    informative = largest > 0
    possible = max(information.shape[1] - 1, 1) * np.where(informative, largest, 1.0)
    return np.where(informative, np.clip(1.0 - others / possible, 0.0, 1.0), 0.0)


def _of(found: Information, *, compat: Compat | None = None) -> Modularity:
    counted = np.ones_like(found.varying) if as_reference(compat) else found.varying
    per_latent = modularity_per_latent(found.mutual[:, counted])
    return Modularity(float(per_latent.mean()), per_latent, found.mutual, found.constant_factors)


@describe(
    label="Modularity",
    needs="sample",
    revision=2,
    compares_factors=True,
    citation=Citation(
        "Ridgeway and Mozer",
        2018,
        "Learning Deep Disentangled Embeddings with the F-Statistic Loss",
        "NeurIPS",
    ),
    result=Modularity,
    least_samples=Counted(),
    error=Resampled("cheap", 32, information=FromInformation(count_information, _of)),
    likes_dead_codes=True,
)
def modularity(
    codes: ArrayLike, factors: ArrayLike, *, bins: int = 20, compat: Compat | None = None
) -> Modularity:
    """How nearly each latent carries information about a single factor, averaged over latents.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`; each latent is cut into
    *bins* equal-width bins. With *compat* constant factors count as factors.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> modularity(values * 2.5, values).score
    1.0
    """
    return _of(count_information(codes, factors, bins=bins), compat=compat)
