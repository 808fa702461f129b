# SPDX-License-Identifier: Apache-2.0
"""Unfairness (Locatello et al. 2019): predictions that depend on a factor they are not about.

Boosted trees predict a target factor from the codes. A second, sensitive factor is then set to each
of its values, and the predictions at one value are compared with those at all values together by
total variation, `1/2 sum over classes of |p(class | value) - p(class)|`. `mean_unfairness`
`(target, sensitive)` averages it over the values, weighted by their rows, `max_unfairness` takes
the largest. The score is the mean of the first over all pairs; 0 is fair.

Where the rows have every combination of the factors' values, as those of a `FactorGrid`, a factor
can be set: for each pair `points` rows are drawn, and the rows that differ from them in the
sensitive factor alone are looked up. In any other sample (`intervened` is false) all rows that the
trees did not learn from are used, and those that happen to have a value stand for it.

Traps: constant codes are fair, since one value is always predicted, so look at `accuracy` too;
codes unrelated to the factors are not. In a sample the groups differ by chance, and more so the
more values are predicted and the fewer rows a group has. `chance` is what the same predictions
score when the sensitive values are dealt at random, and what is not above it says nothing: a noisy
mixture over 15,000 rows of factors with 3 to 40 values scores 0.107, and chance is 0.094 of that.
Where a factor is set, values are dealt among the rows of one point, so that the chance of codes
that separate the factors is 0, but 100 points leave noise in: over a grid of 3 x 5 x 6 x 8,
unrelated codes score 0.08 to 0.09 with a chance of 0.06 to 0.07, twice what rotated codes score.
More points lower chance, here to 0.02 with 1,000, and not the rest (0.06): noise that belongs to
the rows of a small grid moves predictions whenever a factor is set. So compare with what unrelated
codes score on the same grid. Up to half of the rows of a small grid were learned from and are
predicted too well (accuracy 0.6 for unrelated codes).

Departs from disentanglement_lib: trees learn from `train` rows, but at most half of a grid and two
thirds of a sample, where it draws as many as asked for with repetition; in a sample no row is both
learned from and looked at. Sums are in double precision: its single precision shows in the eighth
digit. Trees are LightGBM's unless `backend="sklearn"`. Constant factors, an error there, are
neither predicted nor sensitive. It calls the score `mean_fairness:mean_pred:mean_sens`.
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
from unbraid.metrics._interventions import Interventions
from unbraid.metrics._least_samples import Fitted

LEARNED_OF_A_GRID, LEARNED_OF_A_SAMPLE = 1 / 2, 2 / 3
"""The most rows that are learned from; the second is the studies' 10,000 of 15,000."""


@dataclass(frozen=True)
class Fairness:
    """Unfairness of each pair of factors, and how well the targets were predicted."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = False

    score: float
    """Mean over all pairs of the mean over the sensitive factor's values."""
    max_over_values: float
    """Mean over all pairs of the largest over the sensitive factor's values."""
    worst_pair: float
    """Largest over all pairs of the mean over the sensitive factor's values."""
    accuracy: float
    """Share of the predictions that are right, mean over the targets."""
    chance: float
    """The score of the same predictions with the sensitive values dealt at random, where set among
    the rows of one point.
    """
    mean_unfairness: NDArray[np.float64]
    """`(target, sensitive)`; NaN on the diagonal and for constant factors, as in the next."""
    max_unfairness: NDArray[np.float64]
    intervened: bool
    """Whether the sensitive factor was set, which takes rows of every combination of values."""
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value."""


def total_variation(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and largest total variation of columns of *counts* to all of them pooled.

    Columns weigh as much as they count; an empty one is left out.

    >>> total_variation(np.array([[10, 0], [0, 10]]))
    (0.5, 0.5)
    """
    filled = counts[:, counts.sum(axis=0) > 0].astype(np.float64)
    weight, pooled = filled.sum(axis=0), filled.sum(axis=1) / filled.sum()
    distance = np.abs(filled / weight - pooled[:, None]).sum(axis=0) / 2
    return float(distance @ weight / weight.sum()), float(distance.max())


def aggregate(unfairness: NDArray[np.float64]) -> dict[str, float]:
    """Means and maxima of *unfairness* in both orders: `max_target:mean_sensitive` and so on.

    What is named last is taken first: that one is the largest, over the targets, of the mean over
    the sensitive factors.

    >>> unfairness = np.array([[np.nan, 0.25, 0.75], [0.0, np.nan, 0.0], [0.0, 0.5, np.nan]])
    >>> aggregate(unfairness)["max_target:mean_sensitive"]
    0.5
    """
    known = ~np.isnan(unfairness)
    pairs = unfairness[known.any(axis=1)][:, known.any(axis=0)]
    reductions = {"mean": np.nanmean, "max": np.nanmax}
    return {
        f"{last}_{outer}:{first}_{inner}": float(
            reductions[last](reductions[first](pairs, axis=axis))
        )
        for outer, inner, axis in (("target", "sensitive", 1), ("sensitive", "target", 0))
        for last in reductions
        for first in reductions
    }


@describe(
    label="Unfairness",
    needs="grid",
    family="usefulness",
    compares_factors=True,
    citation=Citation(
        "Locatello et al.", 2019, "On the Fairness of Disentangled Representations", "NeurIPS"
    ),
    result=Fairness,
    least_samples=Fitted(),
)
def fairness(
    codes: ArrayLike,
    grid: FactorGrid | ArrayLike,
    *,
    train: int = 10_000,
    points: int = 100,
    backend: Backend = "lightgbm",
    seed: int = 0,
) -> Fairness:
    """How far the prediction of one factor moves when another one is set, as total variation.

    *grid* is the `FactorGrid` whose points the rows of *codes* are, in C order, or the factor
    values `(n, factors)` of the rows, at least two of which vary. Trees of *backend* learn from at
    most *train* rows; *points* rows are drawn for each pair of factors where the second can be set.

    >>> grid = FactorGrid(("x", "y"), (8, 8))
    >>> fairness(grid.to_factors(range(64)) * 1.0, grid).score
    0.0
    """
    check_counts(train=(train, 1), points=(points, 1), seed=(seed, 0))
    trees = Trees.of(backend, seed)
    rows = check_codes_grid(codes, grid)
    varying = check_two_vary(rows)
    generator = np.random.default_rng(seed)
    settable = Interventions.of(rows)
    share = LEARNED_OF_A_GRID if settable else LEARNED_OF_A_SAMPLE
    order = generator.permutation(len(rows.codes))
    learned, new = np.split(order, [max(1, min(train, int(len(order) * share)))])
    shape = (len(rows.sizes), len(rows.sizes))
    mean_unfairness, max_unfairness, chance = (np.full(shape, np.nan) for _ in range(3))
    right = []
    for target in varying:
        asked = {
            int(other): settable.draw(other, points, generator) if settable else new
            for other in varying
            if other != target
        }
        said = _predict(
            trees, rows, target, learned, np.unique(np.concatenate(list(asked.values())))
        )
        right.append(
            np.mean(
                [accuracy(said[chosen], rows.levels[chosen, target]) for chosen in asked.values()]
            )
        )
        for other, chosen in asked.items():
            levels, sizes = rows.levels[chosen, other], (rows.sizes[target], rows.sizes[other])
            mean_unfairness[target, other], max_unfairness[target, other] = total_variation(
                _count(said[chosen], levels, sizes)
            )
            dealt = generator.permuted(
                levels.reshape(-1, sizes[1] if settable else len(levels)), axis=1
            ).ravel()
            chance[target, other] = total_variation(_count(said[chosen], dealt, sizes))[0]
    summary = aggregate(mean_unfairness)
    return Fairness(
        score=summary["mean_target:mean_sensitive"],
        max_over_values=aggregate(max_unfairness)["mean_target:mean_sensitive"],
        worst_pair=summary["max_target:max_sensitive"],
        accuracy=float(np.mean(right)),
        chance=float(np.nanmean(chance)),
        mean_unfairness=mean_unfairness,
        max_unfairness=max_unfairness,
        intervened=settable is not None,
        constant_factors=rows.constant_factors,
    )


def _predict(
    trees: Trees, rows: Labelled, target: int, learned: NDArray[np.int64], asked: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Levels of *target* for the rows *asked* by trees that *learned* others; -1 elsewhere."""
    said = np.full(len(rows.codes), -1)
    said[asked] = trees.fit(
        rows.codes[learned], rows.levels[learned, target], rows.codes[asked]
    ).test_prediction
    return said


def _count(
    predicted: NDArray[np.int64], levels: NDArray[np.int64], sizes: tuple[int, int]
) -> NDArray[np.int64]:
    """How often each level was *predicted* at each of the sensitive *levels*, `sizes`."""
    return np.bincount(predicted * sizes[1] + levels, minlength=sizes[0] * sizes[1]).reshape(sizes)
