# SPDX-License-Identifier: Apache-2.0
"""Batches that share a factor: they do, they are uniform otherwise, factors take turns, rows
without company stay out.
"""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.grid import FactorGrid
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
    # 15,000 draws over 12 rows: the standard deviation of a share is 0.0023, more for rows of one
    # batch.
    assert np.bincount(row.ravel(), minlength=12) / row.size == pytest.approx(
        np.full(12, 1 / 12), abs=0.015
    )
    other = FACTORS[row[factor == 0], 2]
    assert np.mean(other[:, 0] == other[:, 1]) == pytest.approx(1 / 4, abs=0.05)


def test_pairs_agree_one_by_one() -> None:
    factor, first, second = grouped().draw_pairs(3000, 5, np.random.default_rng(0))
    left, right = FACTORS[first, factor[:, None]], FACTORS[second, factor[:, None]]
    assert np.array_equal(left, right)
    assert (left != left[:, :1]).any()  # every pair has its own value
    assert np.bincount(second.ravel(), minlength=12) / second.size == pytest.approx(
        np.full(12, 1 / 12), abs=0.01
    )


def test_values_are_as_frequent_as_in_the_sample() -> None:
    factors = np.repeat([[0, 0], [0, 1], [5, 0], [5, 1]], [30, 30, 10, 10], axis=0)
    shared = SharedFactor.of(check_codes_factors(np.zeros((80, 1)), factors))
    factor, row = shared.draw(20_000, 1, np.random.default_rng(0))
    assert np.mean(factors[row[factor == 0, 0], 0] == 5) == pytest.approx(0.25, abs=0.02)


def test_a_value_that_one_row_has_is_never_shared() -> None:
    # Value 7 of factor 0 and value 1 of factor 1 are alone.
    factors = np.array([[0, 0], [0, 0], [5, 0], [5, 2], [7, 2], [5, 1]])
    shared = SharedFactor.of(check_codes_factors(np.zeros((6, 1)), factors))
    generator = np.random.default_rng(0)
    factor, row = shared.draw(2000, 3, generator)
    pair_factor, first, second = shared.draw_pairs(2000, 3, generator)
    for column, alone in ((0, 4), (1, 5)):
        for rows in (
            row[factor == column],
            first[pair_factor == column],
            second[pair_factor == column],
        ):
            assert alone not in rows
            assert np.bincount(rows.ravel(), minlength=6)[
                np.arange(6) != alone
            ] / rows.size == pytest.approx(0.2, abs=0.03)
    shown = factors[row, factor[:, None]]
    assert (shown == shown[:, :1]).all()


def test_as_the_reference_all_factors_are_drawn() -> None:
    shared = SharedFactor.of(check_codes_grid(np.zeros((12, 1)), GRID), as_reference=True)
    factor, row = shared.draw(3000, 5, np.random.default_rng(0))
    drawn = np.bincount(factor, minlength=3)
    assert drawn == pytest.approx(np.full(3, 1000), abs=120)
    assert drawn.tolist() != [1000, 1000, 1000]
    common = FACTORS[row, factor[:, None]]
    assert (common == common[:, :1]).all()
    # Sharing a constant factor leaves all rows free.
    assert np.bincount(row[factor == 1].ravel(), minlength=12) / (5 * drawn[1]) == pytest.approx(
        np.full(12, 1 / 12), abs=0.02
    )


def test_rows_of_a_value() -> None:
    assert grouped().rows_of(0, 2).tolist() == [8, 9, 10, 11]
    assert grouped().rows_of(1, 3).tolist() == [3, 7, 11]


def test_a_factor_that_never_repeats_is_refused(refused) -> None:
    factors = np.column_stack([np.arange(6) % 2, np.arange(6)])
    assert refused(SharedFactor.of, check_codes_factors(np.zeros((6, 1)), factors)) == [
        ("factor 1", "must have rows that share a value", "6 rows with 6 values")
    ]
