# SPDX-License-Identifier: Apache-2.0
"""Batches that share a factor: they do, they are uniform otherwise, and factors take turns."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.errors import InputError
from unbraid.grid import FactorGrid
from unbraid.metrics._arrays import check_codes_factors, check_codes_grid
from unbraid.metrics._sharing import SharedFactor

GRID = FactorGrid(("a", "b", "c"), (3, 1, 4))
FACTORS = GRID.to_factors(np.arange(GRID.size))


def grouped() -> SharedFactor:
    return SharedFactor.of(check_codes_grid(np.zeros((12, 1)), GRID))


def test_rows_of_a_batch_agree_in_their_factor_and_are_uniform_otherwise() -> None:
    factor, row = grouped().draw(3000, 5, np.random.default_rng(0))
    assert np.bincount(factor, minlength=3).tolist() == [1500, 0, 1500]
    shared = FACTORS[row, factor[:, None]]
    assert (shared == shared[:, :1]).all()
    # 15,000 draws over 12 rows: the standard deviation of a share is 0.0023, more for rows of one batch.
    assert np.bincount(row.ravel(), minlength=12) / row.size == pytest.approx(np.full(12, 1 / 12), abs=0.015)
    other = FACTORS[row[factor == 0], 2]
    assert np.mean(other[:, 0] == other[:, 1]) == pytest.approx(1 / 4, abs=0.05)


def test_pairs_agree_one_by_one() -> None:
    factor, first, second = grouped().draw_pairs(3000, 5, np.random.default_rng(0))
    left, right = FACTORS[first, factor[:, None]], FACTORS[second, factor[:, None]]
    assert np.array_equal(left, right)
    assert (left != left[:, :1]).any()  # every pair has its own value
    assert np.bincount(second.ravel(), minlength=12) / second.size == pytest.approx(np.full(12, 1 / 12), abs=0.01)


def test_values_are_as_frequent_as_in_the_sample() -> None:
    factors = np.repeat([[0, 0], [0, 1], [5, 0], [5, 1]], [30, 30, 10, 10], axis=0)
    shared = SharedFactor.of(check_codes_factors(np.zeros((80, 1)), factors))
    factor, row = shared.draw(20_000, 1, np.random.default_rng(0))
    assert np.mean(factors[row[factor == 0, 0], 0] == 5) == pytest.approx(0.25, abs=0.02)


def test_a_factor_that_never_repeats_is_refused() -> None:
    factors = np.column_stack([np.arange(6) % 2, np.arange(6)])
    with pytest.raises(InputError) as told:
        SharedFactor.of(check_codes_factors(np.zeros((6, 1)), factors))
    assert str(told.value) == (
        "factor 1 must have rows that share a value; got 6 rows with 6 values. Pass codes of a whole grid, or drop the factor."
    )
