# SPDX-License-Identifier: Apache-2.0
"""Reduced downstream accuracy (disentanglement_lib): prediction without a factor's best latent.

For each factor in turn the latent that matters most to boosted trees which predict it is taken out
of the codes, `remove` times over, with new trees each time; then trees predict all factors from
what is left. `reduced_test` is the accuracy of the factor that lost its latents, `other_test` that
of the others, both means over the factors in turn. The score is the second minus the first: large
where every factor sits in a latent of its own and nowhere else, and about 0 both where factors are
spread over many latents and where nothing is known of them.

Traps: duplicated latents score 0, since the copy says it all: `remove=2` is for those. Chance
levels are part of the score: perfect codes get 1 minus the mean share of the most frequent value.
Factors of many values have few of the 1,000 training rows for each of them.

Departs from disentanglement_lib: it has no score, only the accuracies, and no default sizes; here
1,000 leading rows of each part are used, since each call grows trees for every pair of factors.
Trees are LightGBM's unless `backend="sklearn"`. Only the factor in question is asked for its
importances, where it grows trees for all and looks at one. Without any latent left, an error there,
the most frequent value is predicted. A constant factor, an error there too, is left out and listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import LOCATELLO_2019
from unbraid.metrics._arrays import Labelled, check_counts, check_split
from unbraid.metrics._describe import describe
from unbraid.metrics._downstream_predictors import Backend, Trees, accuracy, check_two_vary
from unbraid.metrics._least_samples import Fitted
from unbraid.metrics._trees import Fit


@dataclass(frozen=True)
class DownstreamReduced:
    """Accuracies after the latents of one factor are gone, of that factor and of the others."""

    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    reduced_test: float
    other_test: float
    reduced_train: float
    other_train: float
    full_test: float
    """Mean test accuracy with all latents."""
    test_accuracy: NDArray[np.float64]
    """`(factors, factors)`: row the factor that lost its latents, column the factor predicted; NaN
    where constant.
    """
    train_accuracy: NDArray[np.float64]
    removed: tuple[tuple[int, ...], ...]
    """Latents taken out for each factor, the most important first; none for a constant one."""
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value."""

    @property
    def score(self) -> float:
        """How far the loss is confined to the factor whose latents are gone."""
        return self.other_test - self.reduced_test


@describe(
    label="Reduced downstream accuracy",
    needs="split",
    family="usefulness",
    compares_factors=True,
    citation=LOCATELLO_2019,
    result=DownstreamReduced,
    least_samples=Fitted(),
)
def downstream_reduced(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike,
    test_factors: ArrayLike,
    *,
    remove: int = 1,
    train: int = 1_000,
    test: int = 1_000,
    backend: Backend = "lightgbm",
    seed: int = 0,
) -> DownstreamReduced:
    """How much worse a factor is predicted than the others once its best latents are gone.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`, at least two of which vary.
    Leading rows are used, at most *train* and *test*; *backend* grows the trees.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> result = downstream_reduced(values * 2.5, values, values * 2.5, values)
    >>> result.removed, result.reduced_test, result.other_test, result.score
    (((0,), (1,)), 0.5, 1.0, 0.5)
    """
    check_counts(remove=(remove, 1), train=(train, 2), test=(test, 1), seed=(seed, 0))
    trees = Trees.of(backend, seed)
    fits = _Fits(trees, *check_split(codes, factors, test_codes, test_factors), train, test)
    varying = check_two_vary(fits.train)
    shape = (len(fits.train.sizes), len(fits.train.sizes))
    train_accuracy, test_accuracy = np.full(shape, np.nan), np.full(shape, np.nan)
    removed: list[tuple[int, ...]] = [()] * shape[0]
    everything = tuple(range(fits.train.codes.shape[1]))
    full_test = float(np.mean([fits.accuracies(everything, factor)[1] for factor in varying]))
    for reduced in varying:
        left = everything
        for _ in range(min(remove, len(everything))):
            latent = left[int(fits.fit(left, reduced).importance.argmax())]
            removed[reduced] += (latent,)
            left = tuple(other for other in left if other != latent)
        for factor in varying:
            train_accuracy[reduced, factor], test_accuracy[reduced, factor] = fits.accuracies(
                left, factor
            )
    reduced_train, other_train = _own_and_others(train_accuracy)
    reduced_test, other_test = _own_and_others(test_accuracy)
    return DownstreamReduced(
        reduced_test=reduced_test,
        other_test=other_test,
        reduced_train=reduced_train,
        other_train=other_train,
        full_test=full_test,
        test_accuracy=test_accuracy,
        train_accuracy=train_accuracy,
        removed=tuple(removed),
        constant_factors=fits.train.constant_factors,
    )


def _own_and_others(accuracies: NDArray[np.float64]) -> tuple[float, float]:
    """Mean of the diagonal and of the rest of *accuracies*, NaN left out."""
    own = np.eye(len(accuracies), dtype=bool)
    return float(np.nanmean(accuracies[own])), float(np.nanmean(accuracies[~own]))


class _Fits:
    """Trees for each set of latents and each factor, grown once."""

    def __init__(
        self, trees: Trees, train: Labelled, test: Labelled, train_rows: int, test_rows: int
    ) -> None:
        self.trees = trees
        self.train, self.test = train, test
        self.train_rows, self.test_rows = train_rows, test_rows
        self.known: dict[tuple[tuple[int, ...], int], Fit] = {}

    def fit(self, latents: tuple[int, ...], factor: int) -> Fit:
        if (latents, factor) not in self.known:
            codes, test_codes = (
                self.train.codes[: self.train_rows, latents],
                self.test.codes[: self.test_rows, latents],
            )
            self.known[latents, factor] = self.trees.fit(
                codes, self.train.levels[: self.train_rows, factor], test_codes
            )
        return self.known[latents, factor]

    def accuracies(self, latents: tuple[int, ...], factor: int) -> tuple[float, float]:
        """Of the training rows and of the test rows."""
        fitted = self.fit(latents, factor)
        seen, unseen = (
            self.train.levels[: self.train_rows, factor],
            self.test.levels[: self.test_rows, factor],
        )
        return accuracy(fitted.train_prediction, seen), accuracy(fitted.test_prediction, unseen)
