# SPDX-License-Identifier: Apache-2.0
"""SAP: closed forms, golden numbers of both variants, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.grid import FactorGrid
from unbraid.metrics import sap

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20))


def test_continuous_scores_are_squared_correlations() -> None:
    codes = np.column_stack([FULL[:, 0] * 3.0, FULL[:, 0] + FULL[:, 1] * 1.0])
    result = sap(codes, FULL, codes, FULL, continuous=True)
    # Var a = 5/4, var b = 2 and no covariance over the grid: shares 5/13 and 8/13 of the sum.
    assert result.score_matrix == pytest.approx(np.array([[1, 0], [5 / 13, 8 / 13]]), abs=1e-12)
    assert result.per_factor == pytest.approx([8 / 13, 8 / 13], abs=1e-12)


def test_continuous_ignores_a_latent_without_variance() -> None:
    codes = np.column_stack([FULL[:, 0], np.full(20, 2.0), FULL[:, 0] * 1e-7])
    assert sap(codes, FULL, codes, FULL, continuous=True).score_matrix[1:].tolist() == [[0, 0], [0, 0]]


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
    # Accuracies on 500 test samples; another scikit-learn may decide single samples otherwise.
    assert result.score_matrix == pytest.approx(np.array(expected["score_matrix"]), abs=2.1 / 500)
    assert result.score == pytest.approx(expected["SAP_score"], abs=1e-3)


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
    assert sap(moved, factors * 3 - 5, moved, factors, continuous=True).score == pytest.approx(expected, abs=1e-9)
