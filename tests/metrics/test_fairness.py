# SPDX-License-Identifier: Apache-2.0
"""Unfairness: closed forms, golden aggregations and scores, interventions, degenerate input."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import fairness
from unbraid.metrics._arrays import check_codes_grid
from unbraid.metrics._downstream_predictors import Trees
from unbraid.metrics._interventions import Interventions
from unbraid.metrics._trees import Fit
from unbraid.metrics.fairness import aggregate, total_variation

tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("tiny_reference.py"))))

GRID = FactorGrid(("a", "b", "c"), (3, 4, 5))
FULL = GRID.to_factors(np.tile(np.arange(60), 5))
PERFECT = FULL * [2.0, -1.0, 0.5]


def test_total_variation_by_hand() -> None:
    # Columns (1, 0) and (1/4, 3/4) beside (1/2, 1/2) pooled by their weights 4 and 8.
    assert total_variation(np.array([[4, 2], [0, 6]])) == pytest.approx(
        (4 / 12 * 0.5 + 8 / 12 * 0.25, 0.5), abs=1e-12
    )
    assert total_variation(np.array([[3, 6], [1, 2]])) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_an_empty_column_is_left_out() -> None:
    assert total_variation(np.array([[4, 0, 2], [0, 0, 6]])) == total_variation(
        np.array([[4, 2], [0, 6]])
    )


def test_golden_total_variation() -> None:
    golden = tiny.EXTRAS["inter_group_fairness"]
    # The reference sums in single precision.
    assert total_variation(np.array(golden["counts"])) == pytest.approx(golden["result"], abs=1e-7)


def test_golden_aggregation() -> None:
    golden = tiny.EXTRAS["fairness_compute_scores_dict"]
    matrix = np.array(golden["matrix"])
    np.fill_diagonal(matrix, np.nan)
    found = aggregate(matrix)
    assert len(found) == 8
    for name, value in found.items():
        theirs = name.replace("target", "pred").replace("sensitive", "sens")
        assert value == pytest.approx(golden["result"][f"p:{theirs}"], abs=1e-9)


def test_codes_that_separate_the_factors_are_fair() -> None:
    result = fairness(PERFECT, FULL)
    assert (result.score, result.max_over_values, result.worst_pair, result.accuracy) == (
        0.0,
        0.0,
        0.0,
        1.0,
    )
    # Values dealt among rows that are all predicted alike change nothing.
    assert (result.intervened, result.chance) == (True, 0.0)
    assert np.isnan(result.mean_unfairness).tolist() == np.eye(3, dtype=bool).tolist()


def test_a_factor_that_is_visible_only_beside_another() -> None:
    # The latent is y where s = 0, and 0 where s = 1. Trees say y = 0 whenever it is 0: half of the
    # rows at s = 0 and all of them at s = 1. Pooled that is 3/4, a quarter from each. For the
    # target s it is the same: 0 means s = 1 in two of three cases.
    factors = FactorGrid(("y", "s"), (2, 2)).to_factors(np.tile(np.arange(4), 100))
    codes = (factors[:, 0] * (factors[:, 1] == 0))[:, None] * 1.0
    result = fairness(codes, factors, points=4_000)
    assert result.mean_unfairness[[0, 1], [1, 0]] == pytest.approx([0.25, 0.25], abs=0.02)
    assert result.accuracy == pytest.approx(0.75, abs=0.02)
    assert result.score == pytest.approx(0.25, abs=0.02)


def test_what_is_summed_over_values_and_over_pairs_by_hand() -> None:
    # The latent is s. At s = 0 and s = 1 most rows have y = 0, at s = 2 most have y = 1, and trees
    # say so: p(y = 1 | s) is 0, 0 and 1, pooled 1/3, which is 1/3, 1/3 and 2/3 away. What s is can
    # be seen whatever y is.
    factors = np.repeat(
        [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]], [90, 30, 90, 30, 30, 90], axis=0
    )
    result = fairness(factors[:, 1:] * 1.0, factors)
    assert result.intervened
    assert result.mean_unfairness[[0, 1], [1, 0]] == pytest.approx([4 / 9, 0.0], abs=1e-12)
    assert result.max_unfairness[[0, 1], [1, 0]] == pytest.approx([2 / 3, 0.0], abs=1e-12)
    assert result.score == pytest.approx(2 / 9, abs=1e-12)
    assert result.max_over_values == pytest.approx(1 / 3, abs=1e-12)
    assert result.worst_pair == pytest.approx(4 / 9, abs=1e-12)
    assert 0.0 < result.chance < 0.1


@pytest.mark.parametrize(
    ("factors", "options", "learned"),
    [
        (FULL, {}, 150),  # half of a grid
        (FULL, {"train": 7}, 7),
        (FULL[:59], {}, 39),  # two thirds of a sample
        (FULL[:59], {"train": 11}, 11),
    ],
)
def test_how_many_rows_are_learned_from(
    monkeypatch: pytest.MonkeyPatch, factors: np.ndarray, options: dict, learned: int
) -> None:
    fits, fit = [], Trees.fit

    def record(self: Trees, codes: np.ndarray, levels: np.ndarray, test_codes: np.ndarray) -> Fit:
        fits.append((set(codes[:, 0]), set(test_codes[:, 0])))
        return fit(self, codes, levels, test_codes)

    monkeypatch.setattr(Trees, "fit", record)
    # Codes number the rows.
    result = fairness(np.arange(len(factors))[:, None] * 1.0, factors, **options)
    assert [len(rows) for rows, _ in fits] == [learned] * 3
    if not result.intervened:
        assert all(asked == set(range(len(factors))) - rows for rows, asked in fits)


def test_chance_is_the_floor_of_unrelated_codes_that_are_set() -> None:
    # 9,000 rows over 60 combinations: hardly any row is drawn twice, and few of those drawn were
    # remembered.
    factors = GRID.to_factors(np.tile(np.arange(60), 150))
    result = fairness(np.random.default_rng(0).normal(size=(9_000, 2)), factors, train=300)
    assert result.intervened
    assert result.chance > 0.05
    assert result.score == pytest.approx(result.chance, abs=0.015)


def test_in_a_sample_groups_stand_for_interventions() -> None:
    # One combination never occurs, so that nothing can be set; of the rest, y is predicted
    # perfectly: p(y | s) itself is compared.
    factors = np.array([[0, 0], [1, 0], [0, 1]] * 300)
    result = fairness(factors * 1.0, factors)
    assert not result.intervened
    # p(y = 1) is 1/2 at s = 0, 0 at s = 1 and 1/3 in all: 1/6 and 1/3, weighted 2/3 and 1/3.
    assert result.mean_unfairness[0, 1] == pytest.approx(2 / 3 * 1 / 6 + 1 / 3 * 1 / 3, abs=0.04)
    assert result.max_unfairness[0, 1] == pytest.approx(1 / 3, abs=0.06)
    assert 0.0 < result.chance < 0.1


def test_chance_is_what_fair_codes_score_in_a_sample() -> None:
    factors = np.random.default_rng(0).integers(12, size=(900, 3))
    result = fairness(factors * 1.0, factors)
    assert (result.intervened, result.accuracy) == (False, 1.0)
    assert result.score == pytest.approx(result.chance, abs=0.04)
    assert result.chance > 0.15


def test_setting_a_factor_leaves_the_others() -> None:
    rows = check_codes_grid(PERFECT, FULL)
    setting = Interventions.of(rows)
    drawn = FULL[setting.draw(1, 50, np.random.default_rng(0))].reshape(50, 4, 3)
    assert np.all(drawn[:, :, 1] == np.arange(4))
    assert np.all(drawn[:, :, [0, 2]] == drawn[:, :1, [0, 2]])
    assert len(np.unique(drawn[:, 0, [0, 2]], axis=0)) > 10
    assert Interventions.of(check_codes_grid(PERFECT[:59], FULL[:59])) is None


def test_any_row_is_drawn_and_any_of_those_that_share_a_combination() -> None:
    setting = Interventions.of(check_codes_grid(PERFECT, FULL))
    drawn = np.concatenate([setting.draw(1, 4, np.random.default_rng(seed)) for seed in range(60)])
    # The row of copy c with combination p is 60 c + p: 240 groups of four, all 15 lines of the
    # grid, copies as often as another.
    assert len(np.unique(FULL[drawn][:, [0, 2]], axis=0)) == 15
    assert np.bincount(drawn // 60, minlength=5) == pytest.approx(
        np.full(5, 960 / 5), abs=4 * np.sqrt(960 * 0.16)
    )


def test_trees_cannot_remember_the_rows_of_a_sample() -> None:
    # Unrelated codes could be remembered, and would then be predicted right.
    factors = np.random.default_rng(1).integers(9, size=(600, 2))
    assert (
        fairness(np.random.default_rng(0).normal(size=(600, 3)), factors[:, [0, 1, 1]]).accuracy
        < 0.25
    )


def test_trees_remember_at_most_half_of_a_grid() -> None:
    result = fairness(np.random.default_rng(0).normal(size=(300, 3)), FULL)
    chance = np.mean([1 / 3, 1 / 4, 1 / 5])
    assert result.accuracy == pytest.approx(0.5 + 0.5 * chance, abs=0.1)
    assert result.score > 0.02


@pytest.mark.parametrize(
    "kind",
    [
        # The slow kinds repeat the quick one, which alone is not perfectly fair.
        pytest.param(kind, marks=[pytest.mark.slow] * (kind != "noisy_mixture"))
        for kind in tiny.KINDS
    ],
)
def test_golden(kind: str) -> None:
    # The rows are ours; the reference's two seeds lie 0.01 apart for the mixture, and the other two
    # are fair without exception.
    codes, factors = tiny.large_sample(kind, 9_000)
    results = [
        fairness(codes, factors, train=400, backend="sklearn", seed=seed) for seed in tiny.SEEDS
    ]
    expected = [tiny.expected(kind, "fairness", seed) for seed in tiny.SEEDS]
    allowed = 0.015 if kind == "noisy_mixture" else 0.0
    for ours, theirs in (
        ("score", "mean_fairness:mean_pred:mean_sens"),
        ("max_over_values", "max_fairness:mean_pred:mean_sens"),
    ):
        found = np.mean([getattr(result, ours) for result in results])
        assert found == pytest.approx(
            np.mean([numbers[theirs] for numbers in expected]), abs=allowed
        )
    for target, sensitive in ((0, 1), (1, 2), (2, 0)):
        found = np.mean([result.mean_unfairness[target, sensitive] for result in results])
        theirs = np.mean(
            [numbers[f"mean_fairness:pred{target}:sens{sensitive}"] for numbers in expected]
        )
        assert found == pytest.approx(theirs, abs=3 * allowed)


def test_golden_with_trees_of_lightgbm() -> None:
    result = fairness(*tiny.large_sample("noisy_mixture", 9_000), train=400)
    expected = np.mean(
        [
            tiny.expected("noisy_mixture", "fairness", seed)["mean_fairness:mean_pred:mean_sens"]
            for seed in (0, 1)
        ]
    )
    assert result.score == pytest.approx(expected, abs=0.015)
    assert result.intervened


def test_a_grid_says_the_same_as_its_factors() -> None:
    codes = GRID.to_factors(np.arange(60)) + 0.4 * np.random.default_rng(0).normal(size=(60, 3))
    assert (
        fairness(codes, GRID).score == fairness(codes, GRID.to_factors(np.arange(60))).score > 0.0
    )


def test_constant_codes_are_fair_and_useless() -> None:
    result = fairness(np.ones((300, 2)), FULL, points=4_000)
    assert (result.score, result.chance) == (0.0, 0.0)
    assert result.accuracy == pytest.approx((1 / 3 + 1 / 4 + 1 / 5) / 3, abs=0.015)


def test_a_constant_factor_is_left_out_and_listed() -> None:
    result = fairness(PERFECT, np.column_stack([FULL[:, 0], np.full(300, 7), FULL[:, 1]]))
    assert result.constant_factors == (1,)
    assert result.score == 0.0
    assert np.isnan(result.mean_unfairness).tolist() == [
        [True, True, False],
        [True] * 3,
        [False, True, True],
    ]


def test_two_rows_are_enough() -> None:
    result = fairness(np.array([[0.0], [1.0]]), np.array([[0, 0], [1, 1]]))
    assert (result.score, result.accuracy, result.intervened) == (0.0, 0.0, False)


def test_the_seed_decides_what_is_drawn() -> None:
    noise = np.random.default_rng(0).normal(size=(60, 3))
    assert len({fairness(noise, GRID, seed=seed).score for seed in range(3)}) == 3
    assert fairness(noise, GRID, seed=1).score == fairness(noise, GRID, seed=1).score


@settings(deadline=None, max_examples=2)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factors = generator.permutation(
        FactorGrid(("a", "b"), (3, 3)).to_factors(np.tile(np.arange(9), 9))
    )
    codes = factors @ generator.normal(size=(2, 3)) + 0.3 * generator.normal(size=(81, 3))
    score = fairness(codes, factors, seed=seed).score
    assert 0.0 <= score <= 1.0
    assert fairness(codes * [0.25, 4.0, 64.0], factors, seed=seed).score == score
    assert fairness(codes, factors * 3 - 4, seed=seed).score == score


def test_a_single_factor_has_no_sensitive_one(refused) -> None:
    assert refused(fairness, PERFECT, FULL[:, :1]) == [
        ("factors", "must vary in at least two columns", "1")
    ]


def test_problems_are_told_at_once(refused) -> None:
    assert refused(fairness, PERFECT, FULL, train=0, points=0, seed=-1) == [
        ("train", "must be a whole number of at least 1", "0"),
        ("points", "must be a whole number of at least 1", "0"),
        ("seed", "must be a whole number of at least 0", "-1"),
    ]
    assert refused(fairness, PERFECT[:3] * np.nan, FULL * 1.0) == [
        ("codes", "must be finite and at most 1e+30 in size", "nan at row 0, latent 0"),
        ("factors", "must be whole numbers", "dtype float64"),
        ("codes and factors", "must have the same number of rows", "3 and 300"),
    ]
    assert refused(fairness, PERFECT[:1], FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 3)")
    ]
