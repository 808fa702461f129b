# SPDX-License-Identifier: Apache-2.0
"""Statistics of studies against closed forms, and the coverage of their intervals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from unbraid.studies.intervals import (
    exactly,
    fall_of_share,
    leave_out_seeds,
    mean_of,
    permutation_null,
    ratio_of_spreads,
    share_of,
    spearman,
    spearman_matrix,
    variance_explained,
)


def table(seeds: dict[str, int], settings: int = 1) -> pd.DataFrame:
    rows = [
        (data, setting, seed)
        for data, count in seeds.items()
        for setting, seed in product(range(settings), range(count))
    ]
    return pd.DataFrame(rows, columns=["data", "setting", "seed"])


def test_spearman_of_known_orders():
    assert spearman([1, 2, 3], [1, 4, 9]) == 1.0
    assert spearman([1, 2, 3], [9, 4, 1]) == -1.0
    ties = ([1, 1, 2, 3, 5], [2, 1, 1, 4, 4])
    assert spearman(*ties) == pytest.approx(stats.spearmanr(*ties).statistic)


def test_spearman_leaves_out_nan_and_needs_something_that_varies():
    assert spearman([1, 2, math.nan, 3, 4], [1, 2, 9, math.nan, 3]) == 1.0
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))
    assert math.isnan(spearman([1, 2], [1, 2]))
    assert math.isnan(spearman([], []))
    matrix = spearman_matrix(np.array([[1.0, 3.0, 5.0], [2.0, 2.0, 5.0], [3.0, 1.0, 5.0]]))
    assert matrix[:2, :2].tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    assert np.isnan(matrix[2]).all()


def test_variance_explained_of_a_constructed_table():
    # Between groups 4 * 4 = 16 of 20, within 4.
    scores, groups = [0.0, 2.0, 4.0, 6.0], [0, 0, 1, 1]
    assert variance_explained(scores, groups, adjusted=False) == pytest.approx(0.8)
    assert variance_explained(scores, groups) == pytest.approx(1 - (4 / 2) / (20 / 3))
    for constant in (0.1, 0.3, 1.0):  # the mean of equal numbers may round
        assert math.isnan(variance_explained([constant] * 180, [0, 0, 1] * 60))
    assert math.isnan(variance_explained([1.0, 2.0], [0, 1]))
    assert math.isnan(variance_explained([], []))


def test_settings_explain_a_fifth_of_noise_unless_adjusted():
    groups = np.repeat(np.arange(36), 5)
    noise = np.random.default_rng(0).normal(size=(1000, 180))
    plain = np.mean([variance_explained(one, groups, adjusted=False) for one in noise])
    adjusted = np.mean([variance_explained(one, groups) for one in noise])
    assert plain == pytest.approx(35 / 179, abs=0.005)
    assert adjusted == pytest.approx(0.0, abs=0.005)


def test_leaving_out_seeds_of_a_mean_gives_students_interval():
    values = np.array([1.0, 4.0, 2.0, 7.0, 3.0])
    rows = table({"a": 5}).assign(y=values)
    (found,) = leave_out_seeds(rows, lambda part: {"mean": part["y"].mean()}, paper={"mean": 2.0})
    known = mean_of("mean", values, 2.0)
    assert (found.value, found.low, found.high) == pytest.approx(
        (known.value, known.low, known.high)
    )
    assert (found.count, found.paper) == (5, 2.0)


def test_leaving_out_seeds_of_two_data_sets_gives_welchs_interval():
    chance = np.random.default_rng(0)
    one, other = chance.normal(size=10), 3 * chance.normal(size=5)
    rows = table({"a": 10, "b": 5}).assign(y=np.r_[one, other])
    rows["seed"] += 10 * (rows["data"] == "b")  # seeds of their own
    (found,) = leave_out_seeds(
        rows, lambda part: {"d": -np.diff(part.groupby("data")["y"].mean())[0]}
    )
    welch = stats.ttest_ind(one, other, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((welch.low, welch.high))


def test_seeds_that_data_sets_share_may_be_lucky_everywhere():
    """Where they are, two data sets of the same numbers are worth one."""
    once = table({"a": 5}).assign(y=[1.0, 4.0, 2.0, 7.0, 3.0])
    twice = pd.concat([once, once.assign(data="b")], ignore_index=True)
    found = [
        leave_out_seeds(rows, lambda part: {"y": part["y"].mean()})[0] for rows in (once, twice)
    ]
    assert (found[0].low, found[0].high) == pytest.approx((found[1].low, found[1].high))


def test_a_seed_is_left_out_with_all_its_models():
    """Models that are copies of each other are worth one."""
    once = table({"a": 4}).assign(y=[1.0, 2.0, 3.0, 5.0])
    many = pd.concat([once.assign(setting=setting) for setting in range(20)], ignore_index=True)
    found = [
        leave_out_seeds(rows, lambda part: {"y": part["y"].mean()})[0] for rows in (once, many)
    ]
    assert (found[0].low, found[0].high) == pytest.approx((found[1].low, found[1].high))


def test_intervals_without_enough_seeds_are_open_and_bounds_are_kept():
    (alone,) = leave_out_seeds(table({"a": 3, "b": 1}), lambda part: {"n": float(len(part))})
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    rows = table({"a": 3}).assign(y=[0.9, 1.0, 0.2])
    mean = leave_out_seeds(rows, lambda part: {"y": part["y"].mean()}, within=(0.0, 1.0))[0]
    assert (mean.low, mean.high) == (0.0, 1.0)
    less = leave_out_seeds(
        rows, lambda part: {"y": part["y"].mean() - 0.5}, within=(0.0, 1.0), differences=["y"]
    )[0]
    # Student's interval of 0.7 is 0.7 ± 1.08.
    assert (less.low, less.high) == pytest.approx((-0.883, 1.0), abs=0.001)
    (torn,) = leave_out_seeds(rows, lambda part: {"y": math.nan if len(part) < 3 else 1.0})
    assert torn.value == 1.0
    assert math.isnan(torn.low)
    (equal,) = leave_out_seeds(rows, lambda part: {"y": 1.0})
    assert (equal.low, equal.high) == (1.0, 1.0)


def test_means_shares_and_counts():
    assert math.isnan(mean_of("x", [1.0]).low)
    assert mean_of("x", [1.0, math.nan, 3.0]).value == 2.0
    none, half = share_of("x", 0, 10), share_of("x", 5, 10)
    assert (none.low, round(none.high, 4)) == (0.0, 0.3085)
    assert (round(half.low, 4), round(half.high, 4)) == (0.1871, 0.8129)
    assert math.isnan(share_of("x", 0, 0).value)
    assert exactly("x", 3.0, 2).low == 3.0


COVERED = 0.90
"""The least share of nominal 95% intervals that may hold the truth."""


def coverage(draw, truth: float, times: int) -> float:
    found = [draw() for _ in range(times)]
    return float(np.mean([one.low <= truth <= one.high for one in found]))


def test_students_intervals_cover():
    chance = np.random.default_rng(0)
    assert coverage(lambda: mean_of("x", chance.normal(2.0, 3.0, size=10)), 2.0, 1000) > COVERED


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_intervals_of_shares_cover(share):
    chance = np.random.default_rng(0)
    drawn = coverage(lambda: share_of("x", int(chance.binomial(10, share)), 10), share, 1000)
    assert drawn > COVERED


def models_of(
    chance: np.random.Generator, seeds: dict[str, int], luck: tuple[str, ...] = ("data", "seed")
) -> pd.DataFrame:
    """Twelve settings with effects of their own, and *luck* that models share in part."""
    rows = table(seeds, settings=12)
    places = rows.groupby([*luck]).ngroup().to_numpy()
    shared = 0.5 * chance.normal(size=places.max() + 1)[places]
    effect = (rows["setting"] % 4).to_numpy() - 1.5
    return rows.assign(
        y=effect + shared + chance.normal(size=len(rows)),
        x=0.5 * effect + shared + chance.normal(size=len(rows)),
    )


STATISTICS = {
    "mean": lambda rows: {"y": rows["y"].mean()},
    "correlation": lambda rows: {"y": spearman(rows["x"], rows["y"])},
    "variance": lambda rows: {"y": variance_explained(rows["y"], rows["setting"] % 4)},
    "mean over data": lambda rows: {"y": rows.groupby("data")["y"].mean().mean()},
}


@pytest.mark.slow
@pytest.mark.parametrize("luck", [("data", "seed"), ("seed",)], ids=["own luck", "shared luck"])
@pytest.mark.parametrize("name", list(STATISTICS))
def test_intervals_of_left_out_seeds_cover(name, luck):
    chance, statistic = np.random.default_rng(0), STATISTICS[name]
    seeds = {"a": 8, "b": 5, "c": 5} if name == "mean over data" else {"a": 5}
    many = {data: 1000 for data in seeds}
    (truth,) = statistic(models_of(chance, many, luck)).values()

    def draw():
        return leave_out_seeds(models_of(chance, seeds, luck), statistic)[0]

    assert coverage(draw, truth, 250) > COVERED


def test_a_bootstrap_of_five_seeds_would_not_cover():
    """Why seeds are left out instead of drawn again."""
    chance = np.random.default_rng(0)
    values = chance.normal(size=(1000, 5))
    again = values[:, chance.integers(5, size=(400, 5))].mean(axis=2)
    low, high = np.quantile(again, [0.025, 0.975], axis=1)
    assert 0.80 < np.mean((low <= 0) & (high >= 0)) < 0.88


@pytest.mark.slow
def test_the_permutation_null_holds_noise():
    chance = np.random.default_rng(0)

    def mean_share(rows: pd.DataFrame) -> float:
        return float(
            np.mean(
                [variance_explained(part["y"], part["setting"]) for _, part in rows.groupby("data")]
            )
        )

    inside = []
    for seed in range(60):
        rows = table({"a": 4, "b": 3}, settings=6)
        rows = rows.assign(y=chance.normal(size=len(rows)) + 100.0 * (rows["data"] == "b"))
        null = permutation_null("n", rows, ["y"], mean_share, draws=60, seed=seed)
        assert null.value == pytest.approx(0.0, abs=0.15)
        inside.append(null.low <= mean_share(rows) <= null.high)
    assert np.mean(inside) > 0.85


@pytest.mark.parametrize(("before", "after"), [(0.4, 0.0), (0.4, 0.1), (0.5, 0.5), (0.05, 0.3)])
def test_the_fall_of_a_share_is_covered(before: float, after: float):
    """The chance that the interval holds the truth, summed over all outcomes of 20 and 20."""
    counts = np.arange(21)
    chances = np.outer(*(stats.binom.pmf(counts, 20, share) for share in (before, after)))
    held = sum(
        chances[one, other]
        for one in counts
        for other in counts
        for found in [fall_of_share("x", (int(one), 20), (int(other), 20))]
        if found.low - 1e-12 <= before - after <= found.high + 1e-12
    )
    assert 0.93 < held
    whole = fall_of_share("x", (20, 20), (0, 20))
    assert whole.value == 1.0 == whole.high
    assert whole.low < 0.85


def test_the_interval_of_a_ratio_of_spreads_covers_it():
    chance, hits, draws = np.random.default_rng(0), 0, 400
    for _ in range(draws):
        ones = [chance.normal(level, 0.5, 5) for level in (0.0, 9.0)]
        others = [chance.normal(level, 1.0, 5) for level in (3.0, -9.0, 0.0)]
        found = ratio_of_spreads("x", ones, others)
        hits += found.low <= 0.5 <= found.high
    assert 0.92 < hits / draws < 0.98


def test_a_ratio_of_spreads_needs_two_of_each():
    assert math.isnan(ratio_of_spreads("x", [[1.0]], [[1.0, 2.0]]).value)
    assert math.isnan(ratio_of_spreads("x", [[1.0, 2.0]], [[3.0, 3.0]]).low)
    assert ratio_of_spreads("x", [[1.0, math.nan, 3.0]], [[1.0, 3.0]]).value == 1.0
