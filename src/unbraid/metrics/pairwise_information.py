# SPDX-License-Identifier: Apache-2.0
"""Pairwise information (Locatello et al. 2019): what one latent tells about another.

Each latent is cut into 20 equal-width bins between its smallest and largest value, and the score is
the mean, over all pairs of different latents, of the mutual information of the two by counting, in
nats. Unlike the Gaussian scores it sees dependence of every form, as far as the bins resolve it.

Traps: counting overestimates information, by about `(bins - 1)^2 / (2 n)` nats per pair where the
bins fill evenly: independent normal latents of 1,000 samples score 0.15, of 10,000 samples 0.015,
so compare at equal n and equal bins. A rotation of independent latents that are not Gaussian scores
above 0 although nothing correlates. A constant latent shares no information but counts in the mean:
switching latents off lowers the score. Outliers widen the bins and lower it too.

Departs from disentanglement_lib: a single latent, 0/0 there, scores 0; single-precision codes are
cut at double-precision edges, as in `mig`, where edges rounded to single precision can place a code
on an edge otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import LOCATELLO_2019
from unbraid.metrics._arrays import check_codes, check_counts
from unbraid.metrics._describe import describe
from unbraid.metrics._information import histogram_bins, mutual_information
from unbraid.metrics._least_samples import Counted


@dataclass(frozen=True)
class PairwiseInformation:
    """The mean over pairs of latents, in nats, and the information of every pair."""

    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    higher_is_better: ClassVar[bool] = False

    score: float
    mutual_information: NDArray[np.float64]
    """`(latents, latents)`, nats; on the diagonal the entropy of the binned latent."""


@describe(
    label="Pairwise information",
    needs="codes",
    family="unsupervised",
    citation=LOCATELLO_2019,
    result=PairwiseInformation,
    least_samples=Counted(among_latents=True),
    likes_dead_codes=True,
)
def pairwise_information(codes: ArrayLike, *, bins: int = 20) -> PairwiseInformation:
    """Mean mutual information of two latents in nats, by counting in equal-width bins.

    *codes* are `(n, latents)`; each latent is cut into *bins* bins. A single latent shares nothing
    and scores 0.

    >>> import numpy as np
    >>> one = np.array([0.0, 1.0, 0.0, 1.0])
    >>> round(pairwise_information(np.column_stack([one, -one])).score, 6)
    0.693147
    """
    check_counts(bins=(bins, 2))
    placed = histogram_bins(check_codes(codes), bins)
    latents = placed.shape[1]
    information = mutual_information(placed, bins, placed, (bins,) * latents)
    between = information[~np.eye(latents, dtype=bool)]
    return PairwiseInformation(float(between.mean()) if latents > 1 else 0.0, information)
