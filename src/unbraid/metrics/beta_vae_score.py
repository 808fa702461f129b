# SPDX-License-Identifier: Apache-2.0
"""β-VAE score (Higgins et al. 2017, section 3): a linear classifier names the shared factor.

A point is the mean over 64 pairs of `|z_1 - z_2|`, all pairs sharing one and the same factor (each
pair its own value of it); its label is that factor. The classifier is a logistic regression with
scikit-learn's defaults on the raw differences, fitted on 10,000 points; the score is its accuracy
on 5,000 others, and chance is one over the number of factors. Counts, batch and classifier are
those of disentanglement_lib. With a `FactorGrid` pairs are drawn from the whole grid;
`beta_vae_score_of_pairs` takes pairs that were drawn elsewhere.

Traps: it saturates: codes that miss a factor or mix them with noise still score 1.0, rotations of
five factors 0.84 to 1.00. The differences are not standardised, so the strength of the classifier's
regularisation depends on the scale of the codes (at a hundredth of it a rotation of three factors
fell from 1.00 to 0.67, and far from 1 there is chance alone): pass `standardise` for codes that do
not come from a standard normal prior. Versions of scikit-learn before 0.22 fitted one classifier
for each factor; published numbers of that time differ.

Departs from disentanglement_lib: factors take turns instead of being drawn, and constant ones are
never chosen; where one factor varies, an error there, there is nothing to tell apart and the score
is 1. `compat="disentanglement_lib"` draws factors, constant ones too: pairs that share nothing are
then one class more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import check_codes_grid, check_counts
from unbraid.metrics._batches import check_latents, read_batches
from unbraid.metrics._compat import Compat, as_reference
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Drawn
from unbraid.metrics._logistic import accept_unconverged
from unbraid.metrics._sharing import SharedFactor
from unbraid.metrics._standardise import Scale
from unbraid.metrics._standardise import standardise as to_unit

ROWS_AT_ONCE = 1 << 16
"""Pairs compared in one piece: small enough for the processor's cache, and a bound on memory."""

Points = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Mean absolute differences `(points, latents)` and the factor that the pairs of each point share.
"""


@dataclass(frozen=True)
class BetaVAEScore:
    """Test and training accuracy of the classifier and the mean differences it works on."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    train_accuracy: float
    mean_difference: NDArray[np.float64]
    """`(factors, latents)`: mean `|z_1 - z_2|` of the training points that share the factor; NaN
    where none do.
    """
    constant_factors: tuple[int, ...]
    """Columns never chosen because they take one value."""


@describe(
    label="BetaVAE score",
    needs="grid",
    compares_factors=True,
    revision=2,
    citation=Citation(
        "Higgins et al.",
        2017,
        "beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework",
        "ICLR",
    ),
    result=BetaVAEScore,
    least_samples=Drawn(64),
    scale=Scale("its classifier is regularised", free={"standardise": True}),
)
def beta_vae_score(
    codes: ArrayLike,
    grid: FactorGrid | ArrayLike,
    *,
    train_points: int = 10_000,
    test_points: int = 5_000,
    batch: int = 64,
    seed: int = 0,
    standardise: bool = False,
    compat: Compat | None = None,
) -> BetaVAEScore:
    """How well a linear classifier names the factor that pairs of codes share.

    *grid* is the `FactorGrid` whose points the rows of *codes* are, in C order, or the factor
    values `(n, factors)` of the rows. Each point averages *batch* pairs. *standardise* brings each
    latent to variance 1 first, so that scale is the same for all codes.

    >>> grid = FactorGrid(("x", "y"), (8, 8))
    >>> codes = grid.to_factors(range(64)) * 1.0
    >>> beta_vae_score(codes, grid, train_points=200, test_points=100).score
    1.0
    """
    reference = as_reference(compat)
    check_counts(
        train_points=(train_points, 1),
        test_points=(test_points, 1),
        batch=(batch, 1),
        seed=(seed, 0),
    )
    rows = check_codes_grid(codes, grid)
    values = to_unit(rows.codes) if standardise else rows.codes
    shared = SharedFactor.of(rows, as_reference=reference)
    generator = np.random.default_rng(seed)

    def draw(count: int) -> Points:
        points, labels = np.empty((count, rows.codes.shape[1])), np.empty(count, dtype=np.int64)
        for piece in _pieces(count, batch):
            labels[piece], first, second = shared.draw_pairs(
                piece.stop - piece.start, batch, generator
            )
            difference = values[first.ravel()]
            difference -= values[second.ravel()]
            points[piece] = _mean_size(difference.reshape(-1, batch, points.shape[1]))
        return points, labels

    train = draw(train_points)
    return _score(train, draw(test_points), len(rows.sizes), rows.constant_factors, seed)


def beta_vae_score_of_pairs(
    first: ArrayLike,
    second: ArrayLike,
    factor: ArrayLike,
    test_first: ArrayLike,
    test_second: ArrayLike,
    test_factor: ArrayLike,
    *,
    seed: int = 0,
) -> BetaVAEScore:
    """The β-VAE score of pairs that were drawn elsewhere, for a generator without a grid.

    *first* and *second* `(points, batch, latents)` hold the codes of pairs, each pair with one
    value of the factor number *factor* `(points,)` in common; the three `test_` arguments are fresh
    ones.

    >>> first, second = np.random.default_rng(0).normal(size=(2, 40, 16, 2))
    >>> factor = np.arange(40) % 2
    >>> first[np.arange(40), :, factor] = second[np.arange(40), :, factor]
    >>> beta_vae_score_of_pairs(first, second, factor, first, second, factor).score
    1.0
    """
    check_counts(seed=(seed, 0))
    problems = Problems()
    train, factor = read_batches(
        {"first": first, "second": second}, {"factor": factor}, 1, problems
    )
    test, test_factor = read_batches(
        {"test_first": test_first, "test_second": test_second},
        {"test_factor": test_factor},
        1,
        problems,
    )
    check_latents({"first": train[0], "test_first": test[0]}, problems)
    problems.raise_if_any()
    factors = int(max(factor.max(), test_factor.max())) + 1
    return _score((_points(*train), factor), (_points(*test), test_factor), factors, (), seed)


def _points(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    count, batch, latents = first.shape
    points = np.empty((count, latents))
    for piece in _pieces(count, batch):
        points[piece] = _mean_size(first[piece] - second[piece])
    return points


def _pieces(count: int, batch: int) -> list[slice]:
    step = max(1, ROWS_AT_ONCE // batch)
    return [slice(begin, min(begin + step, count)) for begin in range(0, count, step)]


def _mean_size(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean absolute value over each batch of *difference*, which is overwritten."""
    return np.abs(difference, out=difference).mean(axis=1)


def _score(
    train: Points, test: Points, factors: int, constant_factors: tuple[int, ...], seed: int
) -> BetaVAEScore:
    predict = _classifier(*train, seed)
    train_accuracy, score = (
        float(np.mean(predict(points) == labels)) for points, labels in (train, test)
    )
    mean_difference = np.full((factors, train[0].shape[1]), np.nan)
    for factor in np.unique(train[1]):
        mean_difference[factor] = train[0][train[1] == factor].mean(axis=0)
    return BetaVAEScore(score, train_accuracy, mean_difference, constant_factors)


def _classifier(
    train: NDArray[np.float64], labels: NDArray[np.int64], seed: int
) -> Callable[[NDArray[np.float64]], NDArray[np.int64]]:
    """A logistic regression fitted on *train*, asked for other points; one class needs no fit."""
    if labels.min() == labels.max():
        return lambda points: np.full(len(points), labels[0])
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(random_state=seed % 2**32)
    with accept_unconverged():
        classifier.fit(train, labels)
    return lambda points: np.asarray(classifier.predict(points))
