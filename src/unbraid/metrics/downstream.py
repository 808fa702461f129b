# SPDX-License-Identifier: Apache-2.0
"""Downstream accuracy (Locatello et al. 2019): how well simple predictors learn the factors.

Each factor is predicted from all latents by multinomial logistic regression, whose penalty
five-fold cross-validation chooses among 10 (inverse strengths from 1e-4 to 1e4), and by boosted
trees (100 rounds of depth 3). Both learn from the first 10, 100, 1,000 and 10,000 rows of the
training part and are tested on the whole test part. The score is the mean test accuracy over the
factors at the largest size, of the trees, or of the logistic regression where only that is asked
for.

Efficiency is the mean accuracy after 100 rows, or after 1,000, divided by that at the largest size,
the study's 10,000: what few labels are worth. A size beyond the training part is cut to all of it.
Where a few rows show one value of a factor only, that value is predicted; a value that they do not
show counts as wrong in the test.

Traps: chance is the share of the most frequent value, not 0, and efficiency is highest for codes
that nothing can be learned from. The linear predictor needs more rows the more values a factor has:
of a perfect latent of unit variance with 40 values it gets 0.54 to 0.67 right after 100 rows and
0.97 to 1.00 after 1,000 (trees: 0.88 to 0.91 and all). Codes are not standardised, and its penalty
and the steps its solver takes depend on their scale: the same latent numbered from 0 to 39 gives
0.49 to 0.52 and 0.66 to 0.78, and trees, which see order alone, the same as before. At weak
penalties the solver stops after 100 iterations before it has converged, so that rounding, which
differs between builds of the linear algebra, can choose another penalty: another solver of the same
problem moved 8 of the 104 golden accuracies, by at most 0.004.

Departs from disentanglement_lib: the sizes are leading parts of one training sample and share one
test sample, where it draws new ones for each. Trees are LightGBM's unless `backend="sklearn"`; the
logistic regression is its own, scikit-learn's `LogisticRegressionCV`. A constant factor, an error
there, is left out and listed; so are samples of one value, predicted as said above, and those of
fewer rows than folds, which make as many folds as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import LOCATELLO_2019
from unbraid.core.errors import InputError, invalid, unknown
from unbraid.metrics._arrays import Labelled, check_counts, check_split
from unbraid.metrics._describe import describe
from unbraid.metrics._downstream_predictors import Backend, Trees, accuracy, fit_logistic
from unbraid.metrics._least_samples import Fitted

Predictor = Literal["both", "logistic", "trees"]
STUDY_SIZES = (10, 100, 1_000, 10_000)


@dataclass(frozen=True)
class LearningCurve:
    """Accuracies of one predictor, `(sizes, factors)`, NaN for a constant factor."""

    sizes: tuple[int, ...]
    """Training rows, rising."""
    train_accuracy: NDArray[np.float64]
    test_accuracy: NDArray[np.float64]

    @property
    def mean_train(self) -> NDArray[np.float64]:
        """Mean over the factors at each size, of the training rows."""
        return np.nanmean(self.train_accuracy, axis=1)

    @property
    def mean_test(self) -> NDArray[np.float64]:
        """Mean over the factors at each size, of the test rows."""
        return np.nanmean(self.test_accuracy, axis=1)

    @property
    def min_train(self) -> NDArray[np.float64]:
        """Of the factor that is worst predicted at each size, in the training rows."""
        return np.nanmin(self.train_accuracy, axis=1)

    @property
    def min_test(self) -> NDArray[np.float64]:
        """Of the factor that is worst predicted at each size, in the test rows."""
        return np.nanmin(self.test_accuracy, axis=1)

    def at(self, size: int) -> float | None:
        """Mean test accuracy after *size* rows; None where that was not measured."""
        return float(self.mean_test[self.sizes.index(size)]) if size in self.sizes else None

    def efficiency(self, size: int) -> float | None:
        """Mean test accuracy after *size* rows over that at the largest size, or None."""
        few, most = self.at(size), float(self.mean_test[-1])
        return few / most if few is not None and size < self.sizes[-1] and most > 0 else None


@dataclass(frozen=True)
class Downstream:
    """Mean test accuracies of both predictors; None for what was not asked for."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    logistic: LearningCurve | None
    trees: LearningCurve | None
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value."""
    logistic_10: float | None = None
    logistic_100: float | None = None
    logistic_1000: float | None = None
    logistic_10000: float | None = None
    logistic_efficiency_100: float | None = None
    logistic_efficiency_1000: float | None = None
    logistic_train: float | None = None
    """Mean accuracy of the training rows at the largest size."""
    logistic_min: float | None = None
    """Test accuracy of the worst factor at the largest size."""
    trees_10: float | None = None
    trees_100: float | None = None
    trees_1000: float | None = None
    trees_10000: float | None = None
    trees_efficiency_100: float | None = None
    trees_efficiency_1000: float | None = None
    trees_train: float | None = None
    trees_min: float | None = None


@describe(
    label="Downstream accuracy",
    needs="split",
    family="usefulness",
    citation=LOCATELLO_2019,
    result=Downstream,
    least_samples=Fitted(),
)
def downstream(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike,
    test_factors: ArrayLike,
    *,
    predictor: Predictor = "both",
    train_sizes: Sequence[int] = STUDY_SIZES,
    backend: Backend = "lightgbm",
    seed: int = 0,
) -> Downstream:
    """How well logistic regression and trees predict the factors from few and many samples.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`. Each of *train_sizes* takes
    as many leading rows; *backend* grows the trees.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> result = downstream(values * 2.5, values, values * 2.5, values, train_sizes=(10, 100))
    >>> result.score, result.logistic_10, result.trees_efficiency_100
    (1.0, 1.0, None)
    """
    check_counts(seed=(seed, 0))
    if predictor not in get_args(Predictor):
        raise InputError(unknown("predictor", str(predictor), get_args(Predictor)))
    trees = Trees.of(backend, seed)
    wanted = _check_sizes(train_sizes)
    train, test = check_split(codes, factors, test_codes, test_factors)
    sizes = tuple(sorted({min(size, len(train.codes)) for size in wanted}))
    curves: dict[str, LearningCurve] = {}
    if predictor != "trees":
        curves["logistic"] = _curve("logistic", trees, train, test, sizes)
    if predictor != "logistic":
        curves["trees"] = _curve("trees", trees, train, test, sizes)
    numbers = {
        key: value for name, curve in curves.items() for key, value in _numbers(name, curve).items()
    }
    score = float(list(curves.values())[-1].mean_test[-1])
    return Downstream(
        score, curves.get("logistic"), curves.get("trees"), train.constant_factors, **numbers
    )


def _check_sizes(train_sizes: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(train_sizes) if isinstance(train_sizes, (Sequence, np.ndarray)) else ()
    whole = all(
        isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= 1
        for size in sizes
    )
    if not sizes or not whole:
        raise invalid(
            "train_sizes", "must be whole numbers of at least 1, one or more", train_sizes
        )
    return tuple(int(size) for size in sizes)


def _curve(
    name: str, trees: Trees, train: Labelled, test: Labelled, sizes: tuple[int, ...]
) -> LearningCurve:
    train_accuracy, test_accuracy = (
        np.full((len(sizes), len(train.sizes)), np.nan) for _ in range(2)
    )
    for place, size in enumerate(sizes):
        for factor in np.flatnonzero(train.varying):
            codes, levels = train.codes[:size], train.levels[:size, factor]
            if name == "logistic":
                seen, unseen = fit_logistic(codes, levels, test.codes)
            else:
                fitted = trees.fit(codes, levels, test.codes)
                seen, unseen = fitted.train_prediction, fitted.test_prediction
            train_accuracy[place, factor] = accuracy(seen, levels)
            test_accuracy[place, factor] = accuracy(unseen, test.levels[:, factor])
    return LearningCurve(sizes, train_accuracy, test_accuracy)


def _numbers(name: str, curve: LearningCurve) -> dict[str, float | None]:
    numbers = {f"{name}_{size}": curve.at(size) for size in STUDY_SIZES}
    numbers |= {f"{name}_efficiency_{size}": curve.efficiency(size) for size in (100, 1_000)}
    return numbers | {
        f"{name}_train": float(curve.mean_train[-1]),
        f"{name}_min": float(curve.min_test[-1]),
    }
