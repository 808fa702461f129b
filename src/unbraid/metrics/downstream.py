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
logistic regression is its own, scikit-learn's `LogisticRegressionCV`. Scoring a run on a GPU grows
the trees of `lightgbm` there (see `dci`). A constant factor, an error in the reference, is left out
and listed; so are samples of one value, predicted as said above, and those of fewer rows than
folds, which make as many folds as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import LOCATELLO_2019
from unbraid.core.errors import InputError, invalid, unknown
from unbraid.metrics._arrays import Labelled, check_counts, check_split
from unbraid.metrics._describe import OnGpu, describe
from unbraid.metrics._downstream_predictors import Backend, Trees, accuracy, fit_logistic
from unbraid.metrics._least_samples import Fitted
from unbraid.metrics._standardise import Scale
from unbraid.metrics._trees import always

if TYPE_CHECKING:
    import torch

Predictor = Literal["both", "logistic", "trees"]
Predicted = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Levels of the training rows and of the test rows."""
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

    def note(
        self,
        place: int,
        factor: int,
        predicted: Predicted,
        levels: NDArray[np.int64],
        test_levels: NDArray[np.int64],
    ) -> None:
        """Keep how much of a factor was predicted right after the size at *place*."""
        self.train_accuracy[place, factor] = accuracy(predicted[0], levels)
        self.test_accuracy[place, factor] = accuracy(predicted[1], test_levels)

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


def trees_of_members(
    splits: Sequence[tuple[Labelled, Labelled]],
    device: torch.device,
    *,
    predictor: Predictor = "both",
    train_sizes: Sequence[int] = STUDY_SIZES,
    seed: int = 0,
) -> Iterator[LearningCurve | None]:
    """The curve of the trees for many members with the same factors, grown together on a GPU; None
    where trees are not asked for.
    """
    from unbraid.metrics._trees_on_gpu import fit_on_gpu

    _check_predictor(predictor, seed)
    if predictor == "logistic":
        yield from [None] * len(splits)
        return
    first, _ = splits[0]
    sizes = _cut(train_sizes, len(first.codes))
    curves = [_empty_curve(sizes, train) for train, _ in splits]
    for place, size in enumerate(sizes):
        levels, asked = first.levels[:size], np.flatnonzero(first.varying).tolist()
        seen = [factor for factor in asked if np.ptp(levels[:, factor])]
        codes = [train.codes[:size] for train, _ in splits]
        others = [test.codes for _, test in splits]
        fits = fit_on_gpu(codes, levels[:, seen], others, seed, device) if seen else repeat([])
        for (train, test), curve, each in zip(splits, curves, fits, strict=False):
            said = dict(zip(seen, each, strict=True))
            for factor in asked:
                fit = said.get(factor) or always(levels[0, factor], train.codes[:size], test.codes)
                predicted = fit.train_prediction, fit.test_prediction
                curve.note(place, factor, predicted, levels[:, factor], test.levels[:, factor])
    yield from curves


def _of_curve(
    split: tuple[Labelled, Labelled],
    trees: LearningCurve | None,
    *,
    predictor: Predictor = "both",
    train_sizes: Sequence[int] = STUDY_SIZES,
    seed: int = 0,
) -> Downstream:
    """The scores, where the curve of the *trees* is known."""
    train, test = split
    curves: dict[str, LearningCurve] = {}
    if predictor != "trees":
        sizes = _cut(train_sizes, len(train.codes))
        curves["logistic"] = _curve(fit_logistic, train, test, sizes)
    if trees is not None:
        curves["trees"] = trees
    numbers = {
        key: value for name, curve in curves.items() for key, value in _numbers(name, curve).items()
    }
    score = float(list(curves.values())[-1].mean_test[-1])
    return Downstream(
        score, curves.get("logistic"), curves.get("trees"), train.constant_factors, **numbers
    )


@describe(
    label="Downstream accuracy",
    needs="split",
    family="usefulness",
    citation=LOCATELLO_2019,
    result=Downstream,
    least_samples=Fitted(),
    scale=Scale("its logistic regression is regularised", offset=True, free={"predictor": "trees"}),
    on_gpu=OnGpu(trees_of_members, _of_curve),
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
    _check_predictor(predictor, seed)
    grower = Trees.of(backend, seed)
    _check_sizes(train_sizes)
    split = train, test = check_split(codes, factors, test_codes, test_factors)
    trees = None
    if predictor != "logistic":
        trees = _curve(grower.predict, train, test, _cut(train_sizes, len(train.codes)))
    return _of_curve(split, trees, predictor=predictor, train_sizes=train_sizes)


def _check_predictor(predictor: str, seed: int) -> None:
    check_counts(seed=(seed, 0))
    if predictor not in get_args(Predictor):
        raise InputError(unknown("predictor", str(predictor), get_args(Predictor)))


def _check_sizes(train_sizes: Sequence[int]) -> tuple[int, ...]:
    many = isinstance(train_sizes, (Sequence, np.ndarray))
    sizes = tuple(train_sizes) if many else (train_sizes,)  # one, spelled as in train_sizes=100
    whole = all(
        isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= 1
        for size in sizes
    )
    if not sizes or not whole:
        raise invalid(
            "train_sizes", "must be whole numbers of at least 1, one or more", train_sizes
        )
    return tuple(int(size) for size in sizes)


def _cut(train_sizes: Sequence[int], rows: int) -> tuple[int, ...]:
    """The sizes, rising, none beyond the training part."""
    return tuple(sorted({min(size, rows) for size in _check_sizes(train_sizes)}))


def _empty_curve(sizes: tuple[int, ...], train: Labelled) -> LearningCurve:
    return LearningCurve(sizes, *np.full((2, len(sizes), len(train.sizes)), np.nan))


def _curve(
    predict: Callable[..., Predicted], train: Labelled, test: Labelled, sizes: tuple[int, ...]
) -> LearningCurve:
    curve = _empty_curve(sizes, train)
    for place, size in enumerate(sizes):
        for factor in np.flatnonzero(train.varying).tolist():
            levels = train.levels[:size, factor]
            predicted = predict(train.codes[:size], levels, test.codes)
            curve.note(place, factor, predicted, levels, test.levels[:, factor])
    return curve


def _numbers(name: str, curve: LearningCurve) -> dict[str, float | None]:
    numbers = {f"{name}_{size}": curve.at(size) for size in STUDY_SIZES}
    numbers |= {f"{name}_efficiency_{size}": curve.efficiency(size) for size in (100, 1_000)}
    return numbers | {
        f"{name}_train": float(curve.mean_train[-1]),
        f"{name}_min": float(curve.min_test[-1]),
    }
