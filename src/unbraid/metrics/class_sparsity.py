# SPDX-License-Identifier: Apache-2.0
"""Class sparsity (after Mathieu et al. 2019, figure 3): how few of the latents in use a class uses.

`size` is the mean of |z| of each latent over the samples of a class, a row for each value of each
factor: the figure of Mathieu et al. for classes of clothes. A row uses `(sum |z|)^2 / sum |z|^2`
latents, 1 where one alone differs from 0 and all of them where they are equally large; the mean of
a factor's rows says how many are in use at all. The score is the mean over rows of `1 - used by the
row / in use`, 0 at least: 0 where all classes use the same latents, near 1 where each has a few of
its own.

Traps: codes are not standardised, so a latent of larger scale counts for more, and one that nobody
uses for nothing. A latent that is far from 0 for all classes hides the others. It says nothing of
single samples, for which there is `hoyer`: classes may share all latents while each sample uses a
few.

Not in disentanglement_lib: ours. Mathieu et al. show the matrix and print no number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import MATHIEU_2019
from unbraid.metrics._arrays import check_codes_factors
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Averaged
from unbraid.metrics._resampled import Resampled
from unbraid.metrics._standardise import Scale


@dataclass(frozen=True)
class ClassSparsity:
    """The score, how many latents a class uses, and the sizes behind both."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    used_by_a_class: float
    """Mean over classes."""
    in_use: float
    """Mean over factors."""
    size: NDArray[np.float64]
    """`(values of all factors that occur, latents)`: mean |z|."""
    classes: tuple[tuple[int, int], ...]
    """Factor and value of each row."""


@describe(
    label="Class sparsity",
    needs="sample",
    family="unsupervised",
    citation=MATHIEU_2019,
    result=ClassSparsity,
    least_samples=Averaged(500),
    scale=Scale("it asks how near to 0 codes are", common=False, offset=True),
    error=Resampled("cheap", 16),
)
def class_sparsity(codes: ArrayLike, factors: ArrayLike) -> ClassSparsity:
    """How few of the latents in use the samples of a class use, from 0 (all of them) to nearly 1.

    *codes* are `(n, latents)`, usually the posterior means; the values of each of *factors* `(n,
    factors)` are classes.

    >>> import numpy as np
    >>> found = class_sparsity(np.eye(4), np.arange(4)[:, None])
    >>> found.score, found.used_by_a_class, found.in_use
    (0.75, 1.0, 4.0)
    """
    rows = check_codes_factors(codes, factors)
    sizes, classes, shares, used, in_use = [], [], [], [], []
    for place, column in enumerate(rows.factors.T):
        values, which, counts = np.unique(column, return_inverse=True, return_counts=True)
        size = np.zeros((len(values), rows.codes.shape[1]))
        np.add.at(size, which, np.abs(rows.codes))
        size /= counts[:, None]
        whole = float(_used(size.mean(axis=0)[None, :])[0])
        own = _used(size)
        sizes.append(size)
        classes += [(place, int(value)) for value in values]
        shares += (1.0 - own / whole).tolist() if whole > 0 else [0.0] * len(own)
        used += own.tolist()
        in_use.append(whole)
    score = float(np.clip(np.mean(shares), 0.0, 1.0))
    size = np.concatenate(sizes)
    return ClassSparsity(score, float(np.mean(used)), float(np.mean(in_use)), size, tuple(classes))


def _used(size: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many latents rows of sizes use: 0 where all sizes are."""
    largest = size.max(axis=1, keepdims=True)
    # In units of the largest no square overflows or vanishes.
    shares = np.divide(size, largest, out=np.zeros_like(size), where=largest > 0)
    total = np.square(shares).sum(axis=1)
    found = np.square(shares.sum(axis=1))
    return np.divide(found, total, out=np.zeros_like(total), where=total > 0)
