# SPDX-License-Identifier: Apache-2.0
"""SAP: closed forms, golden numbers of both variants, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import sap
from unbraid.metrics._line_svm import train_lines

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20))


def test_continuous_scores_are_squared_correlations() -> None:
    codes = np.column_stack([FULL[:, 0] * 3.0, FULL[:, 0] + FULL[:, 1] * 1.0])
    result = sap(codes, FULL, codes, FULL, continuous=True)
    # Var a = 5/4, var b = 2 and no covariance over the grid: shares 5/13 and 8/13 of the sum.
    assert result.score_matrix == pytest.approx(np.array([[1, 0], [5 / 13, 8 / 13]]), abs=1e-12)
    assert result.per_factor == pytest.approx([8 / 13, 8 / 13], abs=1e-12)


def test_continuous_ignores_a_latent_without_variance() -> None:
    codes = np.column_stack([FULL[:, 0], np.full(20, 2.0), FULL[:, 0] * 1e-7])
    assert sap(codes, FULL, codes, FULL, continuous=True).score_matrix[1:].tolist() == [
        [0, 0],
        [0, 0],
    ]


def test_two_separable_classes_are_told_apart_exactly() -> None:
    # One latent splits factor a without error, the other is at chance: the gap is a half.
    factors = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 50, axis=0)
    codes = np.column_stack([factors[:, 0] * 20.0 - 10.0, factors[:, 1] * 20.0 - 10.0])
    result = sap(codes, factors, codes, factors)
    assert result.score_matrix == pytest.approx(np.array([[1.0, 0.5], [0.5, 1.0]]))
    assert result.score == pytest.approx(0.5)


def test_a_single_latent_is_compared_with_nothing() -> None:
    result = sap(FULL[:, :1], FULL, FULL[:, :1], FULL, continuous=True)
    assert result.per_factor == pytest.approx([1.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("continuous", [True, False])
def test_a_constant_factor_is_left_out_and_listed(sample, continuous: bool) -> None:
    codes, factors = sample
    wider = np.column_stack([factors[:, :1], np.full(len(codes), 3), factors[:, 1:]])
    result = sap(codes, wider, codes, wider, continuous=continuous)
    assert result.constant_factors == (1,)
    assert np.isnan(result.score_matrix).any(axis=0).tolist() == [False, True, False, False]
    assert result.score == sap(codes, factors, codes, factors, continuous=continuous).score


def test_values_unseen_in_training_count_as_wrong(sample) -> None:
    codes, factors = sample
    unseen = factors.copy()
    unseen[:150, 0] = 9
    seen, half = sap(codes, factors, codes[150:], factors[150:]), sap(codes, factors, codes, unseen)
    assert half.score_matrix[:, 0] == pytest.approx(seen.score_matrix[:, 0] / 2)


def test_values_missing_from_the_test_part_are_no_error(sample) -> None:
    codes, factors = sample
    low = factors[:, 2] < 2
    result = sap(codes, factors, codes[low], factors[low])
    assert 0.0 <= result.score <= 1.0


def test_golden_classes(golden_case) -> None:
    result = sap(*golden_case.split)
    expected = golden_case.expected["sap"]
    # Accuracies on 500 test samples; another machine may round a single sample to the other side of
    # a line.
    assert result.score_matrix == pytest.approx(np.array(expected["score_matrix"]), abs=1.1 / 500)
    assert result.score == pytest.approx(expected["SAP_score"], abs=4.1e-4)


def test_golden_continuous(golden_case) -> None:
    result = sap(*golden_case.split, continuous=True)
    expected = golden_case.expected["sap_continuous"]
    assert result.score_matrix == pytest.approx(np.array(expected["score_matrix"]), abs=1e-9)
    assert result.score == pytest.approx(expected["SAP_score"], abs=1e-9)


def test_latents_may_change_places_and_signs_and_classes_names(sample) -> None:
    codes, factors = sample
    expected = sap(codes, factors, codes, factors).score
    turned, renamed = codes[:, ::-1] * [1, -1, 1, -1], np.array([5, 6, 8, 9, 40])[factors]
    assert sap(turned, renamed, turned, renamed).score == pytest.approx(expected, abs=1 / 300)


def test_continuous_is_free_of_scale_and_shift(sample) -> None:
    codes, factors = sample
    expected = sap(codes, factors, codes, factors, continuous=True).score
    moved = codes * [1e-3, 1.0, -7.0, 1e3] + [1, 2, 3, 4]
    assert sap(moved, factors * 3 - 5, moved, factors, continuous=True).score == pytest.approx(
        expected, abs=1e-9
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([40, 300]), st.sampled_from([1e-3, 1.0, 1e3]))
def test_lines_are_those_of_liblinear(seed: int, samples: int, scale: float) -> None:
    from sklearn.svm import LinearSVC

    generator = np.random.default_rng(seed)
    sizes = [3, 4, 6]
    levels = generator.integers(sizes, size=(samples, 3))
    levels[:6] = np.arange(6)[:, None] % sizes  # so that all occur
    numbers = scale * (
        levels @ generator.normal(size=3)
        + generator.normal(size=samples)
        + 5.0 * generator.normal()
    )
    lines = train_lines(numbers, levels, sizes)
    for factor, end in enumerate(np.cumsum(sizes)):
        svm = LinearSVC(C=0.01, class_weight="balanced", dual=False).fit(
            numbers[:, None], levels[:, factor]
        )
        expected = np.stack([svm.coef_[:, 0], svm.intercept_])
        mine = lines[:, end - expected.shape[1] : end]
        # Where numbers are large LIBLINEAR itself stops up to 5e-7 from the minimum.
        assert mine == pytest.approx(expected, rel=1e-6, abs=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("seed", [0, 1761])
def test_accuracies_are_those_of_liblinear_for_two_classes_too(seed: int, scale: float) -> None:
    from sklearn.svm import LinearSVC

    generator = np.random.default_rng(seed)
    factors = generator.integers([2, 3, 2], size=(90, 3))
    codes = scale * np.column_stack(
        [
            factors @ [1.0, 0.3, 0.0] + generator.normal(size=90),
            generator.normal(size=90),
            np.ones(90),
        ]
    )
    found = sap(codes[:60], factors[:60], codes[60:], factors[60:]).score_matrix
    for latent in range(3):
        for factor in range(3):
            svm = LinearSVC(C=0.01, class_weight="balanced", dual="auto").fit(
                codes[:60, [latent]], factors[:60, factor]
            )
            if (
                latent < 2 or factor != 1
            ):  # of a constant latent with three classes rounding decides
                assert found[latent, factor] == svm.score(
                    codes[60:, [latent]], factors[60:, factor]
                )


def test_lines_of_equal_classes_on_a_constant_latent_are_equal() -> None:
    lines = train_lines(np.full(30, 0.1), np.repeat(np.arange(3), 10)[:, None], [3])
    assert np.array_equal(lines[:, [0, 0, 0]], lines)


@pytest.mark.parametrize("scale", [1e-30, 1e28])
def test_any_scale_gives_a_defined_value(scale: float, sample) -> None:
    codes, factors = sample
    for continuous in (True, False):
        result = sap(codes * scale, factors, codes * scale, factors, continuous=continuous)
        assert 0.0 <= result.score <= 1.0


def test_constant_codes_score_zero_and_find_the_commonest_value_at_best(sample) -> None:
    codes, factors = sample
    constant = np.full_like(codes, 2.5)
    result = sap(constant, factors, constant, factors)
    assert result.score == 0.0
    shares = [np.bincount(column) / len(column) for column in factors.T]
    assert all(value in share for value, share in zip(result.score_matrix[0], shares, strict=True))


def test_two_samples_are_enough_and_one_is_not(refused) -> None:
    codes, factors = np.array([[0.0], [1.0]]), np.array([[0], [1]])
    assert sap(codes, factors, codes[:1], factors[:1]).score == 1.0
    assert refused(sap, codes[:1], factors[:1], codes, factors) == [
        ("codes", "must have at least 2 rows", "shape (1, 1)")
    ]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_copies_of_samples_do_not_move_the_continuous_score(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factors = generator.integers([3, 4], size=(60, 2))
    codes = factors @ generator.normal(size=(2, 3)) + 0.3 * generator.normal(size=(60, 3))
    once = sap(codes, factors, codes, factors, continuous=True).score
    copies = np.tile(codes, (3, 1)), np.tile(factors, (3, 1))
    assert sap(*copies, *copies, continuous=True).score == pytest.approx(once, abs=1e-12)
