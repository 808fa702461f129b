# SPDX-License-Identifier: Apache-2.0
"""Explicitness: closed forms, golden numbers, scikit-learn's area under the curve, invariants,
degenerate input.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import explicitness
from unbraid.metrics.explicitness import area_under_roc

FULL = FactorGrid(("a", "b"), (2, 3)).to_factors(np.arange(6))


def test_separable_values_score_one() -> None:
    one_hot = np.column_stack([FULL[:, :1], np.eye(3)[FULL[:, 1]]])
    result = explicitness(one_hot, FULL, one_hot, FULL)
    assert result.score == result.train_score == result.above_chance == 1.0
    assert result.per_factor.tolist() == [1.0, 1.0]


def test_three_values_in_a_row_are_ranked_by_one_latent() -> None:
    # No threshold picks the middle value, but its probability peaks in the middle, and ranking is
    # all that is asked.
    line = FULL[:, 1:] * 1.0
    assert explicitness(line, FULL[:, 1:], line, FULL[:, 1:]).score == pytest.approx(1.0)


def test_a_tie_counts_half() -> None:
    # Value 0 is at -1 and 0, value 1 at 0 and 1: of four kinds of pairs three are ranked and one is
    # tied.
    codes, factor = (
        np.array([[-1.0], [0.0], [0.0], [1.0]] * 10),
        np.array([[0], [0], [1], [1]] * 10),
    )
    assert explicitness(codes, factor, codes, factor).score == pytest.approx((3 + 0.5) / 4)


def test_constant_codes_are_at_chance() -> None:
    constant = np.full((6, 3), 4.0)
    result = explicitness(constant, FULL, constant, FULL)
    assert result.score == 0.5
    assert result.above_chance == 0.0


def test_a_constant_latent_changes_nothing(sample) -> None:
    codes, factors = sample
    wider, moved = (
        np.column_stack([codes, np.full(len(codes), 3.0)]),
        np.column_stack([codes, np.full(len(codes), 9.0)]),
    )
    expected = explicitness(codes, factors, codes, factors).score
    assert explicitness(wider, factors, moved, factors).score == pytest.approx(expected, abs=1e-9)


def test_golden(golden_case) -> None:
    expected = golden_case.expected["explicitness"]
    result = explicitness(*golden_case.split)
    if "error" in expected:  # the reference divides by the deviation of a constant latent
        without = [
            part[:, :-1] if place % 2 == 0 else part for place, part in enumerate(golden_case.split)
        ]
        assert result.score == pytest.approx(explicitness(*without).score, abs=1e-6)
        return
    assert result.score == pytest.approx(expected["test"], abs=1e-6)
    assert result.train_score == pytest.approx(expected["train"], abs=1e-6)
    assert result.per_factor == pytest.approx(np.array(expected["per_factor_test"]), abs=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_the_area_is_that_of_scikit_learn(pairs: list[tuple[int, bool]]) -> None:
    from sklearn.metrics import roc_auc_score

    rating, positive = (
        np.array([pair[0] for pair in pairs]) / 7,
        np.array([pair[1] for pair in pairs]),
    )
    if positive.all() or not positive.any():
        return
    assert area_under_roc(rating, positive) == pytest.approx(
        roc_auc_score(positive, rating), abs=1e-12
    )


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factors = generator.integers([2, 4], size=(120, 2))
    codes = factors @ generator.normal(size=(2, 3)) + 0.5 * generator.normal(size=(120, 3))
    score = explicitness(codes, factors, codes, factors).score
    # The solver stops at a tolerance, which moves single pairs of thousands.
    moved = codes[:, generator.permutation(3)] * generator.choice(
        [-2.0, 0.3, 50.0], size=3
    ) + generator.normal(size=3)
    assert explicitness(moved, factors, moved, factors).score == pytest.approx(score, abs=2e-3)
    renamed = np.array([5, -2, 11, 3])[factors]
    assert explicitness(codes, renamed, codes, renamed).score == pytest.approx(score, abs=2e-3)
    twice = np.tile(codes, (2, 1)), np.tile(factors, (2, 1))
    assert explicitness(codes, factors, *twice).score == pytest.approx(score, abs=1e-12)


def test_a_constant_factor_is_left_out_and_listed(sample) -> None:
    codes, factors = sample
    wider = np.column_stack([factors[:, :1], np.full(len(codes), 3), factors[:, 1:]])
    result = explicitness(codes, wider, codes, wider)
    assert result.constant_factors == (1,)
    assert (
        np.isnan(result.per_factor).tolist()
        == np.isnan(result.train_per_factor).tolist()
        == [False, True, False, False]
    )
    assert result.score == explicitness(codes, factors, codes, factors).score


def test_values_missing_from_the_test_part_are_left_out_of_the_mean(sample) -> None:
    codes, factors = sample[0] + np.random.default_rng(0).normal(size=sample[0].shape), sample[1]
    low = factors[:, 2] < 2
    fewer, both = (
        explicitness(codes, factors, codes[low], factors[low]),
        explicitness(codes, factors, codes, factors),
    )
    # The two values that are left need only be told from each other, which is harder than from all.
    assert 0.5 < fewer.per_factor[2] < both.per_factor[2]
    assert np.array_equal(fewer.train_per_factor, both.train_per_factor)


def test_a_value_that_training_never_showed_counts_as_chance() -> None:
    line = np.array([[0.0], [1.0]] * 8)
    factor = np.array([[0], [1]] * 8)
    unseen = np.array([[0], [1], [7]] * 8)
    result = explicitness(line, factor, np.array([[0.0], [1.0], [0.5]] * 8), unseen)
    # Values 0 and 1 are still ranked before all else, value 7 is at chance.
    assert result.score == pytest.approx((1.0 + 1.0 + 0.5) / 3)


def test_a_factor_that_stands_still_in_the_test_part_is_left_out_and_listed(sample) -> None:
    codes, factors = sample
    still = factors[:, 0] == 1
    result = explicitness(codes, factors, codes[still], factors[still])
    assert result.untested_factors == (0,)
    assert result.constant_factors == ()
    assert result.score == pytest.approx(result.per_factor[1:].mean())


def test_a_test_part_without_any_difference_is_refused(sample, refused) -> None:
    codes, factors = sample
    ((name, _, shown),) = refused(explicitness, codes, factors, codes[:1], factors[:1])
    assert (name, shown) == ("test_factors", "one value in each of them")


def test_one_latent_one_factor_two_samples() -> None:
    codes, factors = np.array([[0.0], [1.0]]), np.array([[0], [1]])
    assert explicitness(codes, factors, codes, factors).score == 1.0


def test_shuffled_factors_are_at_chance(sample) -> None:
    codes, factors = sample
    shuffled = np.random.default_rng(0).permutation(factors)
    assert explicitness(
        codes[:200], shuffled[:200], codes[200:], shuffled[200:]
    ).score == pytest.approx(0.5, abs=0.08)


def test_labels_may_lie_as_far_apart_as_numbers_go() -> None:
    factors = np.random.default_rng(0).integers(2, size=(40, 2))
    far = np.where(factors == 0, -(2**62) - 5, 2**62 + 5)
    result = explicitness(factors * 1.0, far, factors * 1.0, far)
    assert result.untested_factors == ()
    assert result.score == 1.0
