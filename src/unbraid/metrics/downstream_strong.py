# SPDX-License-Identifier: Apache-2.0
"""Strong downstream accuracy (Locatello et al. 2020): prediction under a shift of another factor.

Boosted trees learn a factor from rows in which another factor has one and the same value, and are
tested on rows in which that other factor has any other value: a shift between training and test
that a disentangled code does not notice. For each factor the others take turns, `experiments`
times, each held at a value drawn at random. The score is the mean test accuracy. Beside it stand
`test_accuracy`, that of trees that learned as many rows of all values, and `generalisation_gap = 1
- score / test_accuracy`.

Traps: the gap of codes that know nothing is about 0, so it means something only beside the
accuracy. Which values are held matters: over 12 seeds the reference's scores of a rotation and of a
noisy mixture scatter by 0.06 and 0.05 with two experiments. They depend on `seed` and the factors
alone, so that models of one run meet the same. In a sample of 15,000 rows a factor of 40 values
leaves 375 to learn from, and the factor that is predicted may have as many values. On a small grid
the rows that share a value are an even sample, random rows are not, and the gap can be negative.

Departs from disentanglement_lib: what is held follows `seed`, not the global generator, and factors
take turns instead of being drawn anew, which scatters less. It sets the factor and renders as many
rows as before; here rows that have the value are drawn, at most `train` and none twice. On a large
grid that is the same; in a sample there are fewer, and the comparison then learns from as few. The
comparison is never tested on rows it learned from. It has no default sizes: these are those of its
test. Trees are LightGBM's unless `backend="sklearn"`. A constant factor, an error there, is left
out and listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import Labelled, check_codes_grid, check_counts
from unbraid.metrics._describe import describe
from unbraid.metrics._downstream_predictors import Backend, Trees, accuracy, check_two_vary
from unbraid.metrics._least_samples import Fitted


@dataclass(frozen=True)
class DownstreamStrong:
    """Accuracies under the shift and without it, and what was held in each experiment."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    """Mean test accuracy under the shift."""
    strong_train_accuracy: float
    test_accuracy: float
    """Mean test accuracy without the shift, after as many rows."""
    train_accuracy: float
    generalisation_gap: float | None
    """`1 - score / test_accuracy`; None where nothing is predicted right without the shift either.
    """
    strong_per_factor: NDArray[np.float64]
    """NaN for a constant factor, as in the next."""
    per_factor: NDArray[np.float64]
    held_factor: NDArray[np.int64]
    """`(factors, experiments)`: the factor that had one value in training; -1 for a constant
    target, as in the next two.
    """
    held_level: NDArray[np.int64]
    """Which of the values that the held factor takes, in rising order from 0."""
    rows: NDArray[np.int64]
    """How many rows were learned from for each factor, with the shift and without it."""
    constant_factors: tuple[int, ...]
    """Columns neither predicted nor held because they take one value."""


@describe(
    label="Strong downstream accuracy",
    needs="grid",
    family="usefulness",
    compares_factors=True,
    citation=Citation(
        "Locatello et al.", 2020, "Weakly-Supervised Disentanglement Without Compromises", "ICML"
    ),
    result=DownstreamStrong,
    least_samples=Fitted(),
)
def downstream_strong(
    codes: ArrayLike,
    grid: FactorGrid | ArrayLike,
    *,
    experiments: int = 2,
    train: int = 1_000,
    test: int = 1_000,
    backend: Backend = "lightgbm",
    seed: int = 0,
) -> DownstreamStrong:
    """How well a factor is predicted where another one has values that training never showed.

    *grid* is the `FactorGrid` whose points the rows of *codes* are, in C order, or the factor
    values `(n, factors)` of the rows, at least two of which vary. At most *train* and *test* rows
    are used in each experiment; *backend* grows the trees.

    >>> grid = FactorGrid(("x", "y"), (8, 8))
    >>> downstream_strong(grid.to_factors(range(64)) * 1.0, grid).score
    1.0
    """
    check_counts(experiments=(experiments, 1), train=(train, 1), test=(test, 1), seed=(seed, 0))
    trees = Trees.of(backend, seed)
    rows = check_codes_grid(codes, grid)
    varying = check_two_vary(rows)
    generator = np.random.default_rng(seed)
    shape = (len(rows.sizes), experiments)
    # Of training rows, then of test rows.
    strong, plain = (
        np.full((2, *shape), np.nan),
        np.full((2, shape[0]), np.nan),
    )
    held_factor, held_level, learned = np.full(shape, -1), np.full(shape, -1), np.full(shape[0], -1)
    for target in varying:
        held = _draw_held(rows, varying[varying != target], experiments, generator)
        # Trees are compared after as many rows, whatever they are held at.
        count = min(train, *(int(np.sum(rows.levels[:, other] == level)) for other, level in held))
        order = generator.permutation(len(rows.codes))
        plain[:, target] = _accuracies(trees, rows, target, order[:count], order[count:][:test])
        learned[target] = count
        for experiment, (other, level) in enumerate(held):
            order = generator.permutation(len(rows.codes))
            same = rows.levels[order, other] == level
            strong[:, target, experiment] = _accuracies(
                trees, rows, target, order[same][:count], order[~same][:test]
            )
            held_factor[target, experiment], held_level[target, experiment] = other, level
    strong_train, strong_per_factor = strong.mean(axis=2)
    plain_train, per_factor = plain
    score, test_accuracy = float(np.nanmean(strong_per_factor)), float(np.nanmean(per_factor))
    return DownstreamStrong(
        score=score,
        strong_train_accuracy=float(np.nanmean(strong_train)),
        test_accuracy=test_accuracy,
        train_accuracy=float(np.nanmean(plain_train)),
        generalisation_gap=1.0 - score / test_accuracy if test_accuracy > 0 else None,
        strong_per_factor=strong_per_factor,
        per_factor=per_factor,
        held_factor=held_factor,
        held_level=held_level,
        rows=learned,
        constant_factors=rows.constant_factors,
    )


def _draw_held(
    rows: Labelled, others: NDArray[np.int64], experiments: int, generator: np.random.Generator
) -> list[tuple[int, int]]:
    """A factor and one of its levels for each experiment; the factors take turns."""
    turns = generator.permutation(others)
    chosen = [int(turns[experiment % len(turns)]) for experiment in range(experiments)]
    return [(other, int(generator.integers(rows.sizes[other]))) for other in chosen]


def _accuracies(
    trees: Trees,
    rows: Labelled,
    target: int,
    fitting: NDArray[np.int64],
    testing: NDArray[np.int64],
) -> tuple[float, float]:
    """Of the rows that trees learned factor *target* from, and of those they are tested on."""
    fitted = trees.fit(rows.codes[fitting], rows.levels[fitting, target], rows.codes[testing])
    seen, unseen = rows.levels[fitting, target], rows.levels[testing, target]
    return accuracy(fitted.train_prediction, seen), accuracy(fitted.test_prediction, unseen)
