# SPDX-License-Identifier: Apache-2.0
"""Statistics that studies share, and 95% intervals for them.

Seeds are the only chance in a study: settings and data are chosen. Models of one seed start from
the same weights and see the same batches whatever their setting, so a seed is left out with all of
its models (jackknife, Tukey 1958): `leave_out_seeds`. With the five seeds of a reduced study a
bootstrap of whole seeds would be too narrow, since it knows nothing of degrees of freedom: of 95%
intervals for a mean 84% hold the truth. The jackknife's, with Student's t, are as wide as they
must be, and of a mean they are the textbook's. A seed starts from the same weights on every data
set, so that its luck may be the same there, or not: of the intervals for either, the wider is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from unbraid.studies.finding import Estimate

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95
Statistics = Callable[["pd.DataFrame"], Mapping[str, float]]
"""From a table of models to named numbers."""


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Rank correlation over the pairs without NaN, ties sharing their mean rank.

    NaN where one side is constant or fewer than three pairs are left.

    >>> spearman([1, 2, 3, 4], [10, 30, 20, 40])
    0.8
    """
    pair = np.stack([np.asarray(first, dtype=float), np.asarray(second, dtype=float)])
    pair = pair[:, np.isfinite(pair).all(axis=0)]
    if pair.shape[1] < 3:
        return math.nan
    ranks = stats.rankdata(pair, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    size = math.sqrt(float((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    return float(ranks[0] @ ranks[1]) / size if size > 0 else math.nan


def spearman_matrix(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank correlations `(columns, columns)` of *columns* `(n, columns)`, as `spearman`."""
    count = columns.shape[1]
    return np.array(
        [[spearman(columns[:, i], columns[:, j]) for j in range(count)] for i in range(count)]
    )


def variance_explained(scores: ArrayLike, groups: ArrayLike, *, adjusted: bool = True) -> float:
    """Share of the variance of *scores* that their groups explain: R² of a one-hot regression.

    Plain R² of k groups explains (k - 1) / (n - 1) of pure noise, 19.6% with 36 groups of 5; the
    *adjusted* one explains none on average, and can be below 0. NaN where nothing varies or every
    model is a group of its own.

    >>> variance_explained([0.0, 2.0, 4.0, 6.0], ["a", "a", "b", "b"], adjusted=False)
    0.8
    """
    values = np.asarray(scores, dtype=float)
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    sizes = np.bincount(group)
    if not len(values) or np.ptp(values) == 0 or len(values) <= len(sizes):
        return math.nan
    total = float(((values - values.mean()) ** 2).sum())
    means = np.bincount(group, values) / sizes
    within = float(((values - means[group]) ** 2).sum())
    freedom = (len(values) - 1) / (len(values) - len(sizes)) if adjusted else 1.0
    return 1.0 - freedom * within / total


def leave_out_seeds(
    rows: pd.DataFrame,
    statistics: Statistics,
    *,
    paper: Mapping[str, float] | None = None,
    within: tuple[float, float] = (-math.inf, math.inf),
    differences: Container[str] = (),
) -> tuple[Estimate, ...]:
    """Every number that *statistics* tells of *rows*, with the interval that seeds leave it.

    The seeds of each data set are left out one at a time, a seed with all its models; variances of
    data sets add up, and the degrees of freedom are Satterthwaite's. Where data sets share seeds,
    these are also left out of all of them at once, and the wider interval is told. *within* are the
    bounds that intervals end at; those of *differences* of two such numbers follow from them. A
    data set with one seed leaves the interval open: NaN.
    """
    whole = dict(statistics(rows))
    widths = dict.fromkeys(whole, math.nan)
    data, seeds = rows["data"].to_numpy(), rows["seed"].to_numpy()
    counts = [len(np.unique(seeds[data == name])) for name in dict.fromkeys(data)]
    if min(counts) > 1:
        apart = [_without_each(rows, statistics, data == name) for name in dict.fromkeys(data)]
        widths = {name: _width([part[name] for part in apart]) for name in whole}
        if len(np.unique(seeds)) < sum(counts):
            together = _without_each(rows, statistics, np.ones(len(rows), dtype=bool))
            for name, own in widths.items():
                shared = _width([together[name]], min(counts) - 1)
                widths[name] = float(np.maximum(own, shared))
    apart_by = within[1] - within[0]
    return tuple(
        _estimate(name, value, widths[name], len(rows), paper or {},
                  (-apart_by, apart_by) if name in differences else within)
        for name, value in whole.items()
    )  # fmt: skip


def _without_each(
    rows: pd.DataFrame, statistics: Statistics, here: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """The *statistics* without each seed that the rows *here* have, left out there."""
    seeds = rows["seed"].to_numpy()
    found = [statistics(rows.loc[~(here & (seeds == seed))]) for seed in np.unique(seeds[here])]
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def _width(parts: Sequence[NDArray[np.float64]], most: float = math.inf) -> float:
    """Half the width of the interval of a number whose chance is in independent *parts*.

    A part is told by the number's values without each of its seeds. Degrees of freedom are *most*
    at the most: seeds that few data sets have hardly move what is told of all.
    """
    variances = np.array([(len(one) - 1) * float(one.var()) for one in parts])
    freedoms = np.array([len(one) - 1 for one in parts])
    total = float(variances.sum())
    if not total > 0:
        return total  # 0, or NaN
    freedom = min(most, total**2 / float((variances**2 / freedoms).sum()))
    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * math.sqrt(total)


def _estimate(
    name: str,
    value: float,
    width: float,
    count: int,
    paper: Mapping[str, float],
    within: tuple[float, float],
) -> Estimate:
    """A *value* with an interval of *width* to either side, cut to *within*."""
    if math.isnan(value) or math.isnan(width):
        return Estimate(name, value, math.nan, math.nan, count, paper.get(name))
    low = min(value, max(value - width, within[0]))
    high = max(value, min(value + width, within[1]))
    return Estimate(name, value, low, high, count, paper.get(name))


def mean_of(name: str, values: ArrayLike, paper: float | None = None) -> Estimate:
    """Mean of independent *values*, one a seed, with Student's interval; NaN are left out.

    >>> one = mean_of("x", [1.0, 2.0, 3.0])
    >>> one.value, round(one.low, 2), round(one.high, 2)
    (2.0, -0.48, 4.48)
    """
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < 2:
        value = float(numbers[0]) if len(numbers) else math.nan
        return Estimate(name, value, math.nan, math.nan, len(numbers), paper)
    value, error = float(numbers.mean()), float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    width = float(stats.t.ppf(0.5 + LEVEL / 2, len(numbers) - 1)) * error
    return Estimate(name, value, value - width, value + width, len(numbers), paper)


def share_of(name: str, hits: int, count: int, paper: float | None = None) -> Estimate:
    """Share of *count* independent trials that were *hits*, with Clopper and Pearson's interval.

    >>> one = share_of("x", 10, 10)
    >>> one.value, round(one.low, 2), one.high
    (1.0, 0.69, 1.0)
    """
    if not count:
        return Estimate(name, math.nan, math.nan, math.nan, 0, paper)
    tail = (1.0 - LEVEL) / 2
    low = float(stats.beta.ppf(tail, hits, count - hits + 1)) if hits else 0.0
    high = float(stats.beta.isf(tail, hits + 1, count - hits)) if hits < count else 1.0
    return Estimate(name, hits / count, low, high, count, paper)


def fall_of_share(
    name: str, before: tuple[int, int], after: tuple[int, int], *, level: float = LEVEL
) -> Estimate:
    """By how much a share of hits falls between two lots of independent trials, each (hits, count).

    Newcombe's interval (1998, method 10) of *level*, by Wilson's of each share: it stays open where
    one of them is 0 or 1.

    >>> one = fall_of_share("x", (8, 20), (0, 20), level=0.99)
    >>> round(one.value, 2), round(one.low, 2), round(one.high, 2)
    (0.4, 0.07, 0.67)
    """
    (first, low, high), (second, least, most) = (_wilson(*one, level) for one in (before, after))
    return Estimate(
        name,
        first - second,
        first - second - math.hypot(first - low, most - second),
        first - second + math.hypot(high - first, second - least),
        before[1] + after[1],
    )


def _wilson(hits: int, count: int, level: float) -> tuple[float, float, float]:
    """A share with the ends of Wilson's score interval."""
    z = float(stats.norm.ppf(0.5 + level / 2))
    share = hits / count
    middle = share + z**2 / (2 * count)
    width = z * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    whole = 1 + z**2 / count
    return share, max(0.0, (middle - width) / whole), min(1.0, (middle + width) / whole)


def ratio_of_spreads(
    name: str, ones: Sequence[ArrayLike], others: Sequence[ArrayLike], paper: float | None = None
) -> Estimate:
    """Standard deviation within each of the groups *ones* over that within *others*, with the
    interval of the F distribution of variances; NaN are left out.

    >>> one = ratio_of_spreads("x", [[1.0, 2.0, 3.0]], [[2.0, 4.0, 6.0], [0.0, 2.0, 4.0]])
    >>> one.value, round(one.low, 2), round(one.high, 2), one.count
    (0.5, 0.15, 3.13, 9)
    """
    (above, freedom, count), (below, other_freedom, others_count) = map(_within, (ones, others))
    total = count + others_count
    if not (freedom > 0 and other_freedom > 0 and below > 0):
        return Estimate(name, math.nan, math.nan, math.nan, total, paper)
    ratio, tail = above / below, (1.0 - LEVEL) / 2
    ends = stats.f.ppf([1.0 - tail, tail], freedom, other_freedom)
    low, high = (math.sqrt(ratio / float(end)) for end in ends)
    return Estimate(name, math.sqrt(ratio), low, high, total, paper)


def _within(groups: Sequence[ArrayLike]) -> tuple[float, int, int]:
    """Mean square of deviations from the means of *groups*, degrees of freedom, and how many."""
    known = [np.asarray(one, dtype=float) for one in groups]
    known = [one[np.isfinite(one)] for one in known]
    count, freedom = sum(map(len, known)), sum(len(one) - 1 for one in known if len(one))
    total = sum(float(((one - one.mean()) ** 2).sum()) for one in known if len(one))
    return total / freedom if freedom else math.nan, freedom, count


def exactly(name: str, value: float, count: int, paper: float | None = None) -> Estimate:
    """A number that chance has no part in."""
    return Estimate(name, value, value, value, count, paper)


def permutation_null(
    name: str,
    rows: pd.DataFrame,
    columns: Sequence[str],
    statistic: Callable[[pd.DataFrame], float],
    *,
    draws: int = 100,
    seed: int = 0,
) -> Estimate:
    """What *statistic* is where nothing matters: models' *columns* are shuffled within each data
    set, all together. Mean and the middle 95% of *draws*.
    """
    chance = np.random.default_rng(seed)
    places = list(rows.groupby("data", sort=False).indices.values())
    values, shuffled = rows[list(columns)].to_numpy(), rows.copy()
    found = []
    for _ in range(draws):
        order = np.arange(len(rows))
        for place in places:
            order[place] = chance.permutation(place)
        shuffled[list(columns)] = values[order]
        found.append(statistic(shuffled))
    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(found, [tail, 1.0 - tail])
    return Estimate(name, float(np.mean(found)), float(low), float(high), len(rows))
