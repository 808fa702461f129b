# SPDX-License-Identifier: Apache-2.0
"""β-VAE score (Higgins et al. 2017, section 3): a linear classifier names the factor that pairs of samples share.

A point is the mean over 64 pairs of `|z_1 - z_2|`, all pairs sharing one and the same factor (each pair its own value of
it); its label is that factor. Score: test accuracy of a logistic regression with scikit-learn's defaults on the raw
differences, as in disentanglement_lib. Departs: constant factors are never chosen; where one factor varies there is
nothing to tell apart and the score is 1. Trap: it saturates, a representation that misses a factor can still score 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.grid import FactorGrid
from unbraid.metrics._arrays import check_codes_grid, check_counts
from unbraid.metrics._describe import describe
from unbraid.metrics._sharing import SharedFactor
from unbraid.registry import Citation

ROWS_AT_ONCE = 1 << 16
"""Pairs compared in one piece: small enough for the processor's cache, and a bound on memory."""


@dataclass(frozen=True)
class BetaVAEScore:
    """Test accuracy of the classifier, with its training accuracy and the mean differences it works on."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    train_accuracy: float
    mean_difference: NDArray[np.float64]
    """`(factors, latents)`: mean `|z_1 - z_2|` of the training points that share the factor; NaN where none do."""
    constant_factors: tuple[int, ...]
    """Columns never chosen because they take one value."""


@describe(
    label="BetaVAE score",
    needs="grid",
    compares_factors=True,
    citation=Citation(
        "Higgins et al.", 2017, "beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework", "ICLR"
    ),
    result=BetaVAEScore,
)
def beta_vae_score(
    codes: ArrayLike,
    grid: FactorGrid | ArrayLike,
    *,
    train_points: int = 10_000,
    test_points: int = 5_000,
    batch: int = 64,
    seed: int = 0,
) -> BetaVAEScore:
    """How well a linear classifier tells from differences of codes which factor pairs of samples share.

    *grid* is the `FactorGrid` whose points the rows of *codes* are, in C order, or the factor values `(n, factors)` of the
    rows. Each point averages *batch* pairs.

    >>> grid = FactorGrid(("x", "y"), (8, 8))
    >>> beta_vae_score(grid.to_factors(range(64)) * 1.0, grid, train_points=200, test_points=100).score
    1.0
    """
    check_counts(train_points=(train_points, 1), test_points=(test_points, 1), batch=(batch, 1), seed=(seed, 0))
    rows = check_codes_grid(codes, grid)
    shared = SharedFactor.of(rows)
    generator = np.random.default_rng(seed)
    train, train_labels = _points(rows.codes, shared, train_points, batch, generator)
    test, test_labels = _points(rows.codes, shared, test_points, batch, generator)
    predict = _classifier(train, train_labels, seed)
    train_accuracy, score = float(np.mean(predict(train) == train_labels)), float(np.mean(predict(test) == test_labels))
    mean_difference = np.full((len(rows.sizes), rows.codes.shape[1]), np.nan)
    for factor in np.unique(train_labels):
        mean_difference[factor] = train[train_labels == factor].mean(axis=0)
    return BetaVAEScore(score, train_accuracy, mean_difference, rows.constant_factors)


def _points(
    codes: NDArray[np.float64], shared: SharedFactor, count: int, batch: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Mean absolute differences `(count, latents)` over *batch* pairs that share a factor, and that factor."""
    points = np.empty((count, codes.shape[1]))
    labels = np.empty(count, dtype=np.int64)
    step = max(1, ROWS_AT_ONCE // batch)
    for begin in range(0, count, step):
        piece = slice(begin, min(begin + step, count))
        labels[piece], first, second = shared.draw_pairs(piece.stop - begin, batch, generator)
        difference = codes[first.ravel()]
        difference -= codes[second.ravel()]
        np.abs(difference, out=difference)
        points[piece] = difference.reshape(-1, batch, codes.shape[1]).mean(axis=1)
    return points, labels


def _classifier(
    train: NDArray[np.float64], labels: NDArray[np.int64], seed: int
) -> Callable[[NDArray[np.float64]], NDArray[np.int64]]:
    """What a logistic regression fitted on *train* says about other points; one class needs no fit."""
    if labels.min() == labels.max():
        return lambda points: np.full(len(points), labels[0])
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(random_state=seed % 2**32)
    with warnings.catch_warnings():
        # The reference stops after 100 iterations too, and takes what it has.
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(train, labels)
    return lambda points: np.asarray(classifier.predict(points))
