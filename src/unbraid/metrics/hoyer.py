# SPDX-License-Identifier: Apache-2.0
"""Hoyer sparsity (Hoyer 2004, as used by Mathieu et al. 2019): how few latents a sample uses.

Each latent is divided by its standard deviation over the samples, `y = z / std(z)`, so that a
switched-off latent does not make codes look sparse. The sparsity of a sample is `(sqrt(D) - |y|_1 /
|y|_2) / (sqrt(D) - 1)`: 1 where one latent alone differs from 0, 0 where all D are equally large.
The score is the mean over samples, of the mean codes in Mathieu et al.

Traps: the codes are not centred, so a latent that is never near 0 counts as used by every sample.
The score of codes without any structure is not 0: independent normal codes score 0.27 with 10
latents and 0.23 with 50, and a collapsed model that only emits noise scores the same, so look at
its KL first. The score depends on the number of latents.

Not in disentanglement_lib: follows the authors' published code
(iffsid/disentangling-disentanglement). Departs from it: latents that are constant, 0/0 there, are
left out of D and listed; a sample whose codes are all 0 has no direction and is left out of the
mean, with NaN for its own value; with fewer than two varying latents there is nothing to choose
from, and the score is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import MATHIEU_2019
from unbraid.metrics._arrays import check_codes
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Averaged
from unbraid.metrics._resampled import Resampled
from unbraid.metrics._standardise import Scale, constant_latents, standard_deviations


@dataclass(frozen=True)
class Hoyer:
    """The mean sparsity, that of every sample, and the latents left out."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_sample: NDArray[np.float64]
    """`(n,)`; NaN for a sample whose varying latents are all 0."""
    constant_latents: tuple[int, ...]
    """Columns left out because they take one value, rounding aside."""


@describe(
    label="Hoyer sparsity",
    needs="codes",
    family="unsupervised",
    citation=MATHIEU_2019,
    result=Hoyer,
    least_samples=Averaged(),
    scale=Scale("it asks how near to 0 codes are", common=False, between=False, offset=True),
    error=Resampled("cheap", 32),
    likes_dead_codes=True,
)
def hoyer(codes: ArrayLike) -> Hoyer:
    """How few latents each sample uses, from 0 (all equally) to 1 (a single one).

    *codes* are `(n, latents)`, usually the posterior means; each latent counts in units of its
    standard deviation.

    >>> import numpy as np
    >>> round(hoyer(np.eye(4)).score, 12)
    1.0
    """
    rows = check_codes(codes)
    constant = constant_latents(rows)
    scaled = np.abs(
        np.delete(rows, constant, axis=1) / np.delete(standard_deviations(rows), constant)
    )
    latents = scaled.shape[1]
    if latents < 2:
        return Hoyer(0.0, np.zeros(len(rows)), constant)
    used = scaled.any(axis=1)
    # In units of the largest code of the sample no square overflows or vanishes.
    scaled = scaled[used] / scaled[used].max(axis=1, keepdims=True)
    ratio = scaled.sum(axis=1) / np.sqrt(np.square(scaled).sum(axis=1))
    per_sample = np.full(len(rows), np.nan)
    per_sample[used] = np.clip((np.sqrt(latents) - ratio) / (np.sqrt(latents) - 1.0), 0.0, 1.0)
    return Hoyer(float(per_sample[used].mean()), per_sample, constant)
