# SPDX-License-Identifier: Apache-2.0
"""Standardised codes: moments, constants, extreme scales."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.metrics._standardise import (
    constant_latents,
    standard_deviations,
    standardise,
    varying_latents,
)


def test_standardised_codes_have_mean_zero_and_variance_one() -> None:
    codes = np.random.default_rng(0).normal(size=(2, 50, 3)) * [1e-200, 1.0, 1e29] + [0.0, 1e3, 0.0]
    result = standardise(codes)
    assert result.mean(axis=1) == pytest.approx(np.zeros((2, 3)), abs=1e-12)
    assert (result**2).mean(axis=1) == pytest.approx(np.ones((2, 3)), abs=1e-12)
    assert standardise(codes[1]) == pytest.approx(result[1], abs=1e-15)


def test_deviations_divide_by_what_is_asked() -> None:
    codes = np.random.default_rng(0).normal(size=(7, 2)) + 100.0
    assert standard_deviations(codes) == pytest.approx(codes.std(axis=0), rel=1e-12)
    assert standard_deviations(codes, lost=1) == pytest.approx(codes.std(axis=0, ddof=1), rel=1e-12)


def test_constants_are_found_in_spite_of_rounding() -> None:
    # The mean of 0.1 three times is not 0.1; one unit in the last place is rounding, single
    # precision is not.
    step = np.array([1.0, 1.0, np.nextafter(1.0, 2.0)])
    single = np.array([1.0, 1.0, np.nextafter(np.float32(1.0), np.float32(2.0))])
    codes = np.column_stack([np.full(3, 0.1), step, single, np.zeros(3)])
    assert varying_latents(codes).tolist() == [False, False, True, False]
    assert constant_latents(codes) == (0, 1, 3)
    assert standard_deviations(codes)[[0, 1, 3]].tolist() == [0.0, 0.0, 0.0]
    assert not standardise(codes)[:, [0, 1, 3]].any()


def test_a_move_of_a_ten_trillionth_is_no_rounding() -> None:
    codes = np.array([[1.0, -3e5], [1.0 + 1e-13, -3e5 * (1 - 1e-13)]])
    assert varying_latents(codes).tolist() == [True, True]
    assert standard_deviations(codes) == pytest.approx([0.5e-13, 1.5e-8], rel=2e-3)


def test_a_move_smaller_than_any_number_with_all_its_digits_is_rounding() -> None:
    smallest = np.finfo(float).tiny
    codes = np.array([[0.0, 0.0, 0.0], [5e-324, 0.5 * smallest, 4 * smallest]])
    assert varying_latents(codes).tolist() == [False, False, True]
    assert standardise(codes).tolist() == [[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]


def test_one_row_is_constant() -> None:
    assert standard_deviations(np.array([[5.0, -1.0]])).tolist() == [0.0, 0.0]


def test_standardise_leaves_constants_at_zero() -> None:
    standard = standardise(np.column_stack([[1.0, 2.0, 3.0, 6.0], np.full(4, 0.1)]))
    assert standard.mean(axis=0) == pytest.approx([0, 0], abs=1e-15)
    assert standard.std(axis=0) == pytest.approx([1, 0], abs=1e-15)
    assert not standard[:, 1].any()


@pytest.mark.parametrize("scale", [1e-300, 1e30])
def test_standardise_codes_of_any_size(scale: float) -> None:
    codes = np.array([[1.0], [2.0], [3.0], [6.0]])
    assert standardise(codes * scale) == pytest.approx(standardise(codes), abs=1e-12)
