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
from unbraid.metrics._information import (
    Information,
    entropy,
    histogram_bins,
    mutual_information,
)
from unbraid.metrics._least_samples import Counted
from unbraid.metrics._resampled import FromInformation, Resampled


@dataclass(frozen=True)
class PairwiseInformation:
    """The mean over pairs of latents, in nats, and the information of every pair."""

    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    higher_is_better: ClassVar[bool] = False

    score: float
    mutual_information: NDArray[np.float64]
    """`(latents, latents)`, nats; on the diagonal the entropy of the binned latent."""


def _count(codes: ArrayLike, *, bins: int = 20) -> Information:
    check_counts(bins=(bins, 2))
    rows = check_codes(codes)
    placed = histogram_bins(rows, bins)
    sizes, none = [bins] * placed.shape[1], np.empty(0)
    information = mutual_information(placed, bins, placed, sizes)
    return Information(information, none, entropy(placed, sizes), rows.var(axis=0), none > 0)


def _of(found: Information) -> PairwiseInformation:
    between = found.mutual[~np.eye(len(found.mutual), dtype=bool)]
    return PairwiseInformation(float(between.mean()) if len(between) else 0.0, found.mutual)


@describe(
    label="Pairwise information",
    needs="codes",
    family="unsupervised",
    citation=LOCATELLO_2019,
    result=PairwiseInformation,
    least_samples=Counted(among_latents=True),
    error=Resampled("cheap", 32, information=FromInformation(_count, _of)),
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
    return _of(_count(codes, bins=bins))
