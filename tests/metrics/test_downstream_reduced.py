# SPDX-License-Identifier: Apache-2.0
"""Reduced downstream accuracy: closed forms, golden numbers, invariants, degenerate input."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import downstream, downstream_reduced

tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("tiny_reference.py"))))

FULL = FactorGrid(("a", "b", "c"), (3, 4, 5)).to_factors(np.tile(np.arange(60), 3))
PERFECT = FULL * [2.0, -1.0, 0.5]


def test_perfect_codes_lose_one_factor_and_keep_the_others() -> None:
    result = downstream_reduced(PERFECT, FULL, PERFECT, FULL)
    assert result.removed == ((0,), (1,), (2,))
    expected = np.where(np.eye(3, dtype=bool), [1 / 3, 1 / 4, 1 / 5], 1.0)
    assert result.test_accuracy == pytest.approx(expected, abs=1e-12)
    assert result.train_accuracy == pytest.approx(expected, abs=1e-12)
    assert (
        result.reduced_test
        == result.reduced_train
        == pytest.approx((1 / 3 + 1 / 4 + 1 / 5) / 3, abs=1e-12)
    )
    assert (result.other_test, result.other_train, result.full_test) == (1.0, 1.0, 1.0)
    assert result.score == pytest.approx(1.0 - result.reduced_test, abs=1e-12)


def test_copies_of_latents_have_to_go_too() -> None:
    codes, factors = np.column_stack([PERFECT[:, :2], -3.0 * PERFECT[:, :2]]), FULL[:, :2]
    assert downstream_reduced(codes, factors, codes, factors).score == 0.0
    twice = downstream_reduced(codes, factors, codes, factors, remove=2)
    assert [sorted(latents) for latents in twice.removed] == [[0, 2], [1, 3]]
    assert twice.score == pytest.approx(1.0 - (1 / 3 + 1 / 4) / 2, abs=1e-12)


def test_a_latent_of_two_factors_takes_both_with_it() -> None:
    shared = np.column_stack([FULL[:, 0] + 10.0 * FULL[:, 1], FULL[:, 2]])
    result = downstream_reduced(shared, FULL, shared, FULL)
    assert result.removed == ((0,), (0,), (1,))
    chance = [1 / 3, 1 / 4, 1 / 5]
    assert result.test_accuracy == pytest.approx(
        np.array([[*chance[:2], 1.0]] * 2 + [[1.0, 1.0, chance[2]]]), abs=1e-12
    )


def test_what_is_left_is_what_downstream_says_of_it() -> None:
    generator = np.random.default_rng(4)
    codes = FULL @ generator.normal(size=(3, 4)) + generator.normal(size=(180, 4))
    part = (codes[:120], FULL[:120], codes[120:], FULL[120:])
    result = downstream_reduced(*part)
    for factor, (latent,) in enumerate(result.removed):
        left = np.delete(codes, latent, axis=1)
        peer = downstream(
            left[:120], FULL[:120], left[120:], FULL[120:], predictor="trees", train_sizes=(120,)
        )
        assert result.test_accuracy[factor].tolist() == peer.trees.test_accuracy[0].tolist()
        assert result.train_accuracy[factor].tolist() == peer.trees.train_accuracy[0].tolist()
    assert result.full_test == downstream(*part, predictor="trees", train_sizes=(120,)).score


def test_leading_rows_are_used() -> None:
    fewer = downstream_reduced(PERFECT[:60], FULL[:60], PERFECT[:60], FULL[:60])
    shuffled = np.concatenate([FULL[:60], np.random.default_rng(0).permutation(FULL[60:])])
    assert (
        downstream_reduced(PERFECT, shuffled, PERFECT, FULL, train=60, test=60).score == fewer.score
    )


def test_golden() -> None:
    _check_golden("perfect_jitter", 0)


@pytest.mark.slow  # repeats test_golden for all kinds and seeds
@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("seed", tiny.SEEDS)
def test_golden_everywhere(kind: str, seed: int) -> None:
    _check_golden(kind, seed)


def _check_golden(kind: str, seed: int) -> None:
    # On the reference's own rows; ties are broken by another part of the stream, which moves means
    # by 0.003 at most.
    (part,) = tiny.splits(kind, seed, (400,), 500)
    result = downstream_reduced(*part, backend="sklearn", seed=seed)
    expected = tiny.expected(kind, "reduced", seed)
    for ours, theirs in (
        ("reduced_test", "test_accuracy_reduced_factor"),
        ("other_test", "test_accuracy_other_factors"),
    ):
        assert getattr(result, ours) == pytest.approx(expected[f"400:mean_{theirs}"], abs=0.008)
        train = ours.replace("test", "train")
        assert getattr(result, train) == pytest.approx(
            expected[f"400:mean_{theirs.replace('test', 'train')}"], abs=0.008
        )


@pytest.mark.parametrize("kind", ["perfect_jitter", "noisy_mixture"])
def test_golden_with_trees_of_lightgbm(kind: str) -> None:
    # Other trees on the same 500 rows: a few standard errors.
    (part,) = tiny.splits(kind, 0, (400,), 500)
    result, expected = downstream_reduced(*part), tiny.expected(kind, "reduced", 0)
    assert result.reduced_test == pytest.approx(
        expected["400:mean_test_accuracy_reduced_factor"], abs=0.04
    )
    assert result.other_test == pytest.approx(
        expected["400:mean_test_accuracy_other_factors"], abs=0.02
    )


@pytest.mark.parametrize("remove", [1, 3])
def test_without_a_latent_left_the_most_frequent_value_is_predicted(remove: int) -> None:
    factors = np.array([[0, 1], [0, 0], [1, 1], [0, 1]] * 10)
    codes = factors[:, :1] * 1.0
    result = downstream_reduced(codes, factors, codes, factors, remove=remove)
    assert result.removed == ((0,), (0,))
    assert result.test_accuracy.tolist() == [[0.75, 0.75], [0.75, 0.75]]
    assert (result.score, result.full_test) == (0.0, 0.875)


def test_constant_codes_are_all_alike() -> None:
    codes = np.ones((180, 2))
    assert downstream_reduced(codes, FULL, codes, FULL).removed == ((0,), (0,), (0,))


def test_a_constant_factor_is_left_out_and_listed() -> None:
    with_constant = np.column_stack([FULL[:, 0], np.full(180, 7), FULL[:, 1]])
    result = downstream_reduced(PERFECT, with_constant, PERFECT, with_constant)
    assert result.constant_factors == (1,)
    assert result.removed == ((0,), (), (1,))
    assert np.isnan(result.test_accuracy).tolist() == [
        [False, True, False],
        [True] * 3,
        [False, True, False],
    ]
    assert result.score == pytest.approx(1.0 - (1 / 3 + 1 / 4) / 2, abs=1e-12)


def test_values_that_training_never_showed_are_wrong() -> None:
    result = downstream_reduced(PERFECT, FULL, PERFECT, np.where([[True, False, False]], 9, FULL))
    assert result.test_accuracy[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert result.full_test == pytest.approx(2 / 3)


@settings(deadline=None, max_examples=2)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factors = generator.integers([3, 3], size=(60, 2))
    codes = factors * [1.0, -2.0] + 0.3 * generator.normal(size=(60, 2))

    def score(codes: np.ndarray, factors: np.ndarray) -> float:
        return downstream_reduced(codes[:40], factors[:40], codes[40:], factors[40:]).score

    expected = score(codes, factors)
    assert score(codes * [0.25, 4.0], factors) == expected
    assert score(codes[:, ::-1], factors) == pytest.approx(expected, abs=0.05)
    assert score(codes, factors * 3 - 4) == expected
    assert score(codes, factors[:, ::-1]) == pytest.approx(expected, abs=1e-12)


def test_a_single_factor_has_no_others(refused) -> None:
    assert refused(downstream_reduced, PERFECT, FULL[:, :1], PERFECT, FULL[:, :1]) == [
        ("factors", "must vary in at least two columns", "1")
    ]


def test_bad_options_are_told_at_once(refused) -> None:
    assert refused(
        downstream_reduced, PERFECT, FULL, PERFECT, FULL, remove=0, train=1, test=0, seed=-1
    ) == [
        ("remove", "must be a whole number of at least 1", "0"),
        ("train", "must be a whole number of at least 2", "1"),
        ("test", "must be a whole number of at least 1", "0"),
        ("seed", "must be a whole number of at least 0", "-1"),
    ]
    assert refused(downstream_reduced, PERFECT, FULL, PERFECT, FULL, backend="forest") == [
        ("backend", "is unknown", "forest")
    ]
    assert refused(downstream_reduced, PERFECT[:1], FULL[:1], PERFECT, FULL) == [
        ("codes", "must have at least 2 rows", "shape (1, 3)")
    ]
