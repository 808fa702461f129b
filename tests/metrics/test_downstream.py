# SPDX-License-Identifier: Apache-2.0
"""Downstream accuracy: closed forms, golden numbers of both predictors, scikit-learn as a peer,
small and broken samples.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import Downstream, downstream
from unbraid.metrics._downstream_predictors import Trees, fit_logistic

tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("tiny_reference.py"))))

FULL = FactorGrid(("a", "b"), (3, 4)).to_factors(np.tile(np.arange(12), 8))
CODES = FULL * [2.0, -1.0] + 0.5
QUICK = ("A/rotation", "B/noise")


def test_perfect_codes_are_learned_by_both() -> None:
    result = downstream(CODES, FULL, CODES, FULL, train_sizes=(24, 96))
    assert result.score == result.trees_min == result.logistic_min == result.trees_train == 1.0
    assert (
        result.logistic.test_accuracy.tolist()
        == result.trees.test_accuracy.tolist()
        == [[1.0, 1.0], [1.0, 1.0]]
    )


def test_codes_that_say_nothing_leave_the_most_frequent_value() -> None:
    factors = np.array([[0, 1], [0, 0], [1, 1], [0, 1]] * 10)
    result = downstream(np.ones((40, 2)), factors, np.ones((40, 2)), factors)
    assert result.trees.test_accuracy.tolist() == result.logistic.test_accuracy.tolist()
    assert result.score == 0.75


def test_a_latent_that_knows_one_factor_leaves_the_other_to_chance() -> None:
    result = downstream(CODES[:, :1], FULL, CODES[:, :1], FULL, train_sizes=(96,))
    assert result.trees.test_accuracy[0] == pytest.approx([1.0, 0.25])
    assert result.score == pytest.approx(0.625)
    assert result.trees_min == pytest.approx(0.25)


def test_the_table_of_the_study() -> None:
    generator = np.random.default_rng(1)
    factors = generator.integers([2, 3], size=(1_300, 2))
    codes = factors + 0.6 * generator.normal(size=(1_300, 2))
    result = downstream(codes[:1_200], factors[:1_200], codes[1_200:], factors[1_200:])
    for name, curve in (("logistic", result.logistic), ("trees", result.trees)):
        assert curve.sizes == (10, 100, 1_000, 1_200)
        found = [getattr(result, f"{name}_{size}") for size in (10, 100, 1_000, 10_000)]
        assert found == [*curve.test_accuracy.mean(axis=1)[:3], None]
        assert getattr(result, f"{name}_efficiency_100") == pytest.approx(
            found[1] / curve.mean_test[-1]
        )
        assert getattr(result, f"{name}_efficiency_1000") == pytest.approx(
            found[2] / curve.mean_test[-1]
        )
        assert getattr(result, f"{name}_train") == curve.train_accuracy[-1].mean()
        assert getattr(result, f"{name}_min") == curve.min_test[-1] == curve.test_accuracy[-1].min()
        assert curve.min_train.tolist() == curve.train_accuracy.min(axis=1).tolist()
    assert result.score == result.trees.mean_test[-1]


def test_a_single_predictor_gives_the_score() -> None:
    result = downstream(
        CODES[:, :1], FULL, CODES[:, :1], FULL, predictor="logistic", train_sizes=(10, 96)
    )
    assert result.trees is None
    assert (result.trees_10, result.trees_min) == (None, None)
    assert result.score == result.logistic.mean_test[-1]
    assert result.logistic_10 == result.logistic.mean_test[0]
    assert (
        downstream(CODES, FULL, CODES, FULL, predictor="trees", train_sizes=(96,)).logistic is None
    )


def test_leading_rows_are_what_is_learned_from() -> None:
    shuffled = np.random.default_rng(0).permutation(FULL)
    small = downstream(CODES, shuffled, CODES, FULL, train_sizes=(30,), backend="sklearn")
    alone = downstream(CODES[:30], shuffled[:30], CODES, FULL, backend="sklearn", train_sizes=(30,))
    assert small.trees.test_accuracy.tolist() == alone.trees.test_accuracy.tolist()
    assert small.logistic.train_accuracy.tolist() == alone.logistic.train_accuracy.tolist()


@pytest.mark.parametrize("name", QUICK)
def test_golden_logistic(make_case, name: str) -> None:
    _check_golden_logistic(make_case(name))


@pytest.mark.slow  # repeats test_golden_logistic for all cases
def test_golden_logistic_everywhere(golden_case) -> None:
    _check_golden_logistic(golden_case)


def _check_golden_logistic(case) -> None:
    """All 104 accuracies are equal with the reference's scikit-learn; other versions may stop
    elsewhere, by a step or two.
    """
    result = downstream(*case.split, predictor="logistic", train_sizes=(1_000,))
    expected = case.expected["downstream_lr_cv"]
    assert result.logistic.test_accuracy[0] == pytest.approx(
        np.array(expected["test"]), abs=2.1 / 500
    )
    assert result.logistic.train_accuracy[0] == pytest.approx(
        np.array(expected["train"]), abs=3.1 / 1_000
    )
    assert result.score == pytest.approx(expected["mean_test"], abs=1 / 500)


@pytest.mark.parametrize(
    "kind",
    [
        # The slow kinds repeat the quick one.
        pytest.param(kind, marks=[pytest.mark.slow] * (kind != "noisy_mixture"))
        for kind in tiny.KINDS
    ],
)
def test_golden_trees(kind: str) -> None:
    # The stream that breaks ties is the reference's at its first size and another one at the
    # second.
    for size, allowed in ((100, 0.0), (400, 0.012)):
        part = tiny.splits(kind, 0, (100, 400), 500)[(100, 400).index(size)]
        result = downstream(*part, predictor="trees", train_sizes=(size,), backend="sklearn")
        expected = tiny.expected(kind, "downstream_gbt", 0)
        test = [expected[f"{size}:test_accuracy_factor_{factor}"] for factor in range(3)]
        assert result.trees.test_accuracy[0] == pytest.approx(test, abs=allowed + 1e-12)
        assert result.trees.mean_train[0] == expected[f"{size}:mean_train_accuracy"]
        assert result.trees.min_test[0] == pytest.approx(
            expected[f"{size}:min_test_accuracy"], abs=allowed + 1e-12
        )


@pytest.mark.parametrize("seed", tiny.SEEDS)
def test_golden_trees_of_lightgbm_are_as_good(seed: int) -> None:
    # Other trees on the same rows: a few standard errors of an accuracy of 0.9 over 500 rows.
    for size, part in zip(
        (100, 400), tiny.splits("noisy_mixture", seed, (100, 400), 500), strict=True
    ):
        found = downstream(
            *part, predictor="trees", train_sizes=(size,), seed=seed
        ).trees.mean_test[0]
        assert found == pytest.approx(
            tiny.expected("noisy_mixture", "downstream_gbt", seed)[f"{size}:mean_test_accuracy"],
            abs=0.04,
        )


def test_a_sample_of_one_value_predicts_it() -> None:
    codes = np.random.default_rng(0).normal(size=(5, 2))
    seen, unseen = fit_logistic(codes[:3], np.array([7, 7, 7]), codes)
    assert (seen.tolist(), unseen.tolist()) == ([7] * 3, [7] * 5)
    for backend in ("lightgbm", "sklearn"):
        fitted = Trees.of(backend, 0).fit(codes[:3], np.array([7, 7, 7]), codes)
        assert (fitted.test_prediction.tolist(), fitted.importance.tolist()) == (
            [7] * 5,
            [0.0, 0.0],
        )


@pytest.mark.parametrize("rows", [2, 3, 4, 10])
def test_the_smallest_samples_have_an_accuracy(rows: int) -> None:
    # Fewer rows than folds, folds that lack a value, and parts of a single row or value.
    factors = np.column_stack([np.arange(rows) % 2, np.arange(rows)])
    codes = factors + 0.1 * np.random.default_rng(rows).normal(size=(rows, 2))
    result = downstream(codes, factors, codes, factors, train_sizes=(1, 2, 10))
    assert result.trees.sizes == tuple(sorted({1, 2, rows}))
    assert result.trees.train_accuracy.tolist() == [[1.0, 1.0]] * len(result.trees.sizes)
    assert result.logistic.test_accuracy[0].tolist() == [np.mean(factors[:, 0] == 0), 1 / rows]
    assert np.all((result.logistic.test_accuracy > 0) & (result.logistic.test_accuracy <= 1))


def test_values_that_training_never_showed_are_wrong() -> None:
    test_factors = FULL.copy()
    test_factors[:48, 1] = 9
    result = downstream(CODES, FULL, CODES, test_factors, train_sizes=(96,))
    assert (
        result.trees.test_accuracy.tolist()
        == result.logistic.test_accuracy.tolist()
        == [[1.0, 0.5]]
    )
    nothing = downstream(
        np.tile(CODES, (2, 1)),
        np.tile(FULL, (2, 1)),
        CODES,
        FULL * 0 + 9,
        predictor="trees",
        train_sizes=(100, 192),
    )
    assert (nothing.score, nothing.trees_efficiency_100) == (0.0, None)


def test_a_value_that_few_rows_do_not_show_is_wrong_for_them() -> None:
    # The first 10 rows hold values 0, 1 and 2 of the first factor but, sorted, only value 0 of the
    # second.
    order = np.lexsort((FULL[:, 0], FULL[:, 1]))
    result = downstream(
        CODES[order], FULL[order], CODES, FULL, train_sizes=(10,), predictor="trees"
    )
    assert result.trees.train_accuracy[0, 1] == 1.0
    assert result.trees.test_accuracy[0, 1] == 0.25


def test_a_constant_factor_is_left_out_and_listed() -> None:
    with_constant = np.column_stack([FULL[:, 0], np.full(96, 7), FULL[:, 1]])
    result = downstream(CODES, with_constant, CODES, with_constant, train_sizes=(96,))
    assert result.constant_factors == (1,)
    assert result.score == 1.0
    assert np.isnan(result.trees.test_accuracy[0]).tolist() == [False, True, False]


def test_a_single_factor_and_a_single_latent_are_enough() -> None:
    assert (
        downstream(CODES[:, :1], FULL[:, :1], CODES[:, :1], FULL[:, :1], train_sizes=(96,)).score
        == 1.0
    )


def test_a_constant_latent_changes_nothing() -> None:
    plain = downstream(CODES[:, :1], FULL, CODES[:, :1], FULL, train_sizes=(96,))
    dull = np.column_stack([CODES[:, 0], np.full(96, 3.0)])
    assert (
        downstream(dull, FULL, dull, FULL, train_sizes=(96,)).trees.test_accuracy.tolist()
        == plain.trees.test_accuracy.tolist()
    )


def test_the_seed_breaks_ties() -> None:
    generator = np.random.default_rng(0)
    codes, factors = generator.integers(3, size=(60, 4)) * 1.0, generator.integers(3, size=(60, 1))
    part = (codes[:30], factors[:30], codes[30:], factors[30:])
    scores = {
        downstream(*part, predictor="trees", backend="sklearn", train_sizes=(30,), seed=seed).score
        for seed in range(3)
    }
    assert len(scores) > 1


@settings(deadline=None, max_examples=2)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factors = generator.integers([2, 3], size=(50, 2))
    codes = factors @ generator.normal(size=(2, 3)) + 0.2 * generator.normal(size=(50, 3))

    def curves(codes: np.ndarray, factors: np.ndarray, predictor: str) -> Downstream:
        part = (codes[:30], factors[:30], codes[30:], factors[30:])
        return downstream(*part, train_sizes=(30,), predictor=predictor)

    plain, renamed = curves(codes, factors, "both"), curves(codes, factors + 5, "both")
    assert renamed.trees.test_accuracy.tolist() == plain.trees.test_accuracy.tolist()
    assert renamed.logistic.test_accuracy.tolist() == plain.logistic.test_accuracy.tolist()
    # Trees see the order of a latent's values alone.
    scaled = curves(codes * [0.25, 4.0, 64.0], factors, "trees")
    assert scaled.trees.test_accuracy.tolist() == plain.trees.test_accuracy.tolist()


def test_all_problems_of_a_request_are_told(refused) -> None:
    assert refused(
        downstream,
        np.full((3, 2), np.nan),
        np.ones((4, 2)),
        np.ones((2, 3)),
        np.ones((2, 2), dtype=int),
    ) == [
        ("codes", "must be finite and at most 1e+30 in size", "nan at row 0, latent 0"),
        ("factors", "must be whole numbers", "dtype float64"),
        ("codes and factors", "must have the same number of rows", "3 and 4"),
        ("codes and test_codes", "must have the same latents", "2 and 3"),
    ]


@pytest.mark.parametrize("sizes", [(0, 10), (), 0, "10", (True,), (10, 2.5)])
def test_bad_sizes_are_refused(sizes, refused) -> None:
    assert refused(downstream, CODES, FULL, CODES, FULL, train_sizes=sizes) == [
        ("train_sizes", "must be whole numbers of at least 1, one or more", str(sizes))
    ]


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("seed", -1, "must be a whole number of at least 0"),
        ("predictor", "tree", "is unknown"),
        ("backend", "xgboost", "is unknown"),
    ],
)
def test_bad_options_are_refused(option: str, value, rule: str, refused) -> None:
    found = refused(downstream, CODES, FULL, CODES, FULL, **{option: value})
    assert found == [(option, rule, str(value))]


def test_a_single_row_is_refused(refused) -> None:
    assert refused(downstream, CODES[:1], FULL[:1], CODES, FULL) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]
