# SPDX-License-Identifier: Apache-2.0
"""Clustering: whether k-means on the codes finds the classes (Lloyd 1982, Hubert and Arabie 1985).

For each factor, codes are cut into as many clusters as it has values by k-means (the best of ten
starts), and compared with its values by the adjusted Rand index: 1 where they are the same up to
names, 0 on average for a random cut, below 0 for less. The score is the mean over factors.

Traps: k-means looks for round clusters of like size in the units of the codes as they are, so a
latent of large scale decides, and classes that touch are cut where they are not. Independent
factors of one data set cannot all be clusters of the same codes: the score is meant for data whose
factors are classes. The number of clusters is told, which a user would have to guess.

Not in disentanglement_lib: k-means and index are scikit-learn's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.registry import Citation
from unbraid.metrics._arrays import check_codes_factors, check_counts
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Averaged
from unbraid.metrics._standardise import Scale


@dataclass(frozen=True)
class Clustering:
    """The mean agreement, and that with each factor."""

    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_factor: NDArray[np.float64]
    """NaN for a factor that takes one value."""


@describe(
    label="Clustering",
    needs="sample",
    family="usefulness",
    citation=Citation(
        "Hubert and Arabie", 1985, "Comparing partitions", "Journal of Classification"
    ),
    result=Clustering,
    least_samples=Averaged(500),
    scale=Scale("k-means measures distances between codes as they are", common=False),
)
def clustering(
    codes: ArrayLike, factors: ArrayLike, *, starts: int = 10, samples: int = 10_000, seed: int = 0
) -> Clustering:
    """How well k-means finds the values of each factor, by the adjusted Rand index.

    *codes* are `(n, latents)`, *factors* `(n, factors)`. At most *samples* rows are clustered, from
    so many *starts*; *seed* chooses both.

    >>> import numpy as np
    >>> codes = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 10, axis=0)
    >>> clustering(codes, np.repeat([2, 0, 1], 10)[:, None]).score
    1.0
    """
    check_counts(starts=(starts, 1), samples=(samples, 2), seed=(seed, 0))
    rows = check_codes_factors(codes, factors)
    values, labels = rows.codes, rows.factors
    if len(values) > samples:
        chosen = np.sort(np.random.default_rng(seed).choice(len(values), samples, replace=False))
        values, labels = values[chosen], labels[chosen]
    # In units of the widest latent no square overflows.
    widest = float(np.abs(values - values.mean(axis=0)).max())
    values = (values - values.mean(axis=0)) / widest if widest > 0 else values * 0.0
    found = np.array([_agreement(values, column, starts, seed) for column in labels.T])
    return Clustering(float(np.nanmean(found)), found)


def _agreement(
    codes: NDArray[np.float64], labels: NDArray[np.int64], starts: int, seed: int
) -> float:
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import adjusted_rand_score
    from threadpoolctl import threadpool_limits

    classes = len(np.unique(labels))
    if classes < 2:
        return np.nan
    # Members are scored side by side, a core each: threads of one would wait for those of others.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer codes than clusters
        means = KMeans(classes, n_init=starts, random_state=seed).fit(codes)  # pyright: ignore[reportArgumentType]
    return float(adjusted_rand_score(labels, means.labels_))
