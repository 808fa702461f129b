# SPDX-License-Identifier: Apache-2.0
"""DCI-ES, explicitness and size beside DCI (Eastwood et al. 2023): how little capacity codes need.

Probes of growing capacity `c_1 < ... < c_T` predict each factor from all latents, with test losses
`l_1 ... l_T`. The less capacity the lowest loss `l*` takes, the more explicit the codes:

`E = 1 - A / Z`, where `A` is the area between the curve of losses over capacities and the line
`l*`, and `Z = (c_T - c_1) (l_b - l*) / 2`, the triangle of a loss that falls evenly from the
baseline `l_b` to `l*`.

So E is 1 where the smallest probe does as well as any, 0 where each bit of capacity helps alike,
and -1 where only the largest probe helps at all; the score is the mean over factors. At each
capacity the loss is the lowest reached so far, and at most the baseline. As in the authors' code
the probes are random forests of 100 trees, their capacity is the largest depth (1 to 32), and the
loss is the share of wrong test predictions; the baseline always says the commonest training value.
One forest is grown for each factor and read at every depth, which gives what forests grown to that
depth give on average. Size is `S = factors / latents`, 1 where there are as many latents as
factors. D, C and I are those of `dci`.

Traps: E says how, not how well: read it beside informativeness. With trees as probes it prefers
latents along the factors (at 1,000 samples of factors of 3 to 10 values perfect codes have 0.96, a
rotation of them 0.82), with linear probes it would not. Most of the curve lies at depths that few
codes need, so that values crowd near 1. Other probes, depths or numbers of samples give other
values; compare only what was measured alike.

Not in disentanglement_lib: the formula is the paper's, with depths and forests of the authors'
code, and its losses for factors without order. That code divides by the triangle down to a loss of
0 instead of `l*`, and so gives noise 0.99, more than perfect codes; for factors without order
`per_factor_as_released` has its numbers. Factors with an order (four of dSprites' five) it predicts
by regression forests with the loss 1 - R^2 and the baseline 1, where here every factor is one of
classes, so that its numbers for them are not given again: with its normaliser perfect codes had
0.978 here and 0.992 there, a rotation by 45 degrees 0.933 and 0.972, two factors in one latent
0.888 and 0.946. Here a factor whose lowest loss is not below the baseline by more than three
standard errors of their difference counts as never predicted, E = -1, for no capacity that was
tried makes use of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import Labelled, check_counts, check_split
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Fitted
from unbraid.metrics._logistic import accept_unconverged
from unbraid.metrics._standardise import standard_deviations, standardised

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

DEPTHS = (1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20, 32)
"""Those of the authors' configuration."""
STANDARD_ERRORS = 3.0
SMALL_SPREAD, FAR_OFFSET = 0.01, 1e3


@dataclass(frozen=True)
class DCIES:
    """Explicitness and size, with the loss-capacity curve of each factor."""

    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    explicitness: float
    size: float
    """Varying factors over latents."""
    per_factor: NDArray[np.float64]
    """Explicitness; NaN for a factor left out, as in the others."""
    per_factor_as_released: NDArray[np.float64]
    """With the normaliser of the authors' code, whose lowest loss is 0."""
    depths: tuple[int, ...]
    loss: NDArray[np.float64]
    """`(factors, depths)`: share of wrong predictions on the test part."""
    baseline: NDArray[np.float64]
    """The same for always saying the commonest value."""
    never_predicted: tuple[int, ...]
    """Columns that no probe predicted better than the baseline."""
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value."""
    untested_factors: tuple[int, ...]
    """Columns left out because the test part has nothing but their commonest training value."""

    @property
    def score(self) -> float:
        """Explicitness."""
        return self.explicitness


@describe(
    label="DCI-ES explicitness",
    needs="split",
    revision=2,
    citation=Citation(
        "Eastwood et al.",
        2023,
        "DCI-ES: An Extended Disentanglement Framework with Connections to Identifiability",
        "ICLR",
    ),
    result=DCIES,
    least_samples=Fitted(),
)
def dci_es(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike,
    test_factors: ArrayLike,
    *,
    depths: Sequence[int] = DEPTHS,
    trees: int = 100,
    seed: int = 0,
) -> DCIES:
    """How little depth random forests need to predict the factors from all latents.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`. Forests have *trees* trees
    and are read at *depths*.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10)
    >>> dci_es(values * 2.5, values, values * 2.5, values).score
    1.0
    """
    check_counts(trees=(trees, 1), seed=(seed, 0))
    depths = _check_depths(depths)
    train, test = _at_hand(*check_split(codes, factors, test_codes, test_factors))
    loss = np.full((len(train.sizes), len(depths)), np.nan)
    baseline, explicit, released = (np.full(len(train.sizes), np.nan) for _ in range(3))
    for factor in np.flatnonzero(train.varying):
        baseline[factor] = np.mean(
            test.levels[:, factor] != np.bincount(train.levels[:, factor]).argmax()
        )
    counted = np.flatnonzero(baseline > 0)
    if len(counted) == 0:
        rule = "must somewhere take another value than the commonest of factors"
        raise invalid("test_factors", rule, Shown("that value in every row"))
    for factor in counted:
        forest = _grow(train.codes, train.levels[:, factor], max(depths), trees, seed)
        said = predictions_by_depth(forest, test.codes, depths)
        loss[factor] = np.mean(said != test.levels[:, factor], axis=1)
        explicit[factor] = explicitness_of_curve(depths, loss[factor], baseline[factor])
        released[factor] = 1.0 - 2.0 * _area_above_lowest(depths, loss[factor]) / (
            (depths[-1] - depths[0]) * baseline[factor]
        )
    lowest = loss.min(axis=1)
    error = np.sqrt((baseline * (1.0 - baseline) + lowest * (1.0 - lowest)) / len(test.codes))
    never = [
        factor
        for factor in counted
        if baseline[factor] - lowest[factor] <= STANDARD_ERRORS * error[factor]
    ]
    explicit[never] = -1.0
    return DCIES(
        explicitness=float(explicit[counted].mean()),
        size=float(train.varying.sum() / train.codes.shape[1]),
        per_factor=explicit,
        per_factor_as_released=released,
        depths=depths,
        loss=loss,
        baseline=baseline,
        never_predicted=tuple(int(factor) for factor in never),
        constant_factors=train.constant_factors,
        untested_factors=tuple(int(factor) for factor in np.flatnonzero(baseline == 0)),
    )


def explicitness_of_curve(
    capacities: Sequence[float], losses: Sequence[float] | NDArray[np.float64], baseline: float
) -> float:
    """Explicitness of a loss-capacity curve: 1 for the lowest loss at once, -1 for none.

    >>> curves = [0.8, 0.4, 0.0], [0.0, 0.0, 0.0]
    >>> [explicitness_of_curve([1, 2, 3], losses, 0.8) for losses in curves]
    [0.0, 1.0]
    """
    reached = np.minimum(losses, baseline)
    lowest = float(reached.min())
    if lowest == baseline:
        return -1.0
    triangle = (capacities[-1] - capacities[0]) * (baseline - lowest) / 2
    return 1.0 - _area_above_lowest(capacities, reached) / triangle


def _area_above_lowest(capacities: Sequence[float], losses: NDArray[np.float64]) -> float:
    """Area between the lowest loss reached up to each capacity and the lowest of all."""
    reached = np.minimum.accumulate(losses)
    above = (reached[1:] + reached[:-1]) / 2 - reached[-1]
    return float(np.sum(above * np.diff(capacities)))


def _check_depths(depths: Sequence[int]) -> tuple[int, ...]:
    given = depths if isinstance(depths, (Sequence, np.ndarray)) else ()
    whole = tuple(
        int(depth) for depth in given if isinstance(depth, (int, np.integer)) and depth >= 1
    )
    if len(whole) < 2 or whole != tuple(given) or any(np.diff(whole) <= 0):
        raise invalid("depths", "must be at least two whole numbers of at least 1, rising", depths)
    return whole


def _at_hand(train: Labelled, test: Labelled) -> tuple[Labelled, Labelled]:
    """Both parts with latents that single precision or scikit-learn would blur standardised.

    Trees see order alone, but scikit-learn's overlook differences below 1e-7.
    """
    spread, offset = standard_deviations(train.codes), np.abs(train.codes.mean(axis=0))
    blurred = (spread < SMALL_SPREAD) | (offset > FAR_OFFSET * spread)
    common = standardised(train, test)
    first, second = (
        replace(part, codes=np.where(blurred, other.codes, part.codes))
        for part, other in zip((train, test), common, strict=True)
    )
    return first, second


def _grow(
    codes: NDArray[np.float64], levels: NDArray[np.int64], depth: int, trees: int, seed: int
) -> RandomForestClassifier:
    from sklearn.ensemble import RandomForestClassifier

    with accept_unconverged():
        return RandomForestClassifier(
            n_estimators=trees, max_depth=depth, random_state=seed % 2**32
        ).fit(codes, levels)


def predictions_by_depth(
    forest: RandomForestClassifier, codes: NDArray[np.float64], depths: Sequence[int]
) -> NDArray[np.int64]:
    """What *forest* says of *codes* at each of *depths* if its trees end there: `(depths, n)`.

    A tree splits a node without looking below it, so that its upper part is the tree that a smaller
    largest depth grows.
    """
    single = codes.astype(np.float32)  # as scikit-learn compares them
    rows = np.arange(len(codes))
    votes = np.zeros((len(depths), len(codes), len(forest.classes_)))
    for estimator in forest.estimators_:
        tree = estimator.tree_
        shares = tree.value[:, 0]
        node, depth = np.zeros(len(codes), dtype=np.int64), 0
        for vote, asked in zip(votes, depths, strict=True):
            for _ in range(depth, min(asked, tree.max_depth)):
                # A leaf has none, and stays where it is below.
                latent = np.maximum(tree.feature[node], 0)
                goes_left = single[rows, latent] <= tree.threshold[node]
                below = np.where(goes_left, tree.children_left[node], tree.children_right[node])
                node = np.where(tree.children_left[node] >= 0, below, node)
            depth = asked
            vote += shares[node]
    return forest.classes_[votes.argmax(axis=2)]
