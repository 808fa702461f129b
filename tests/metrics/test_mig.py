# SPDX-License-Identifier: Apache-2.0
"""MIG: closed forms, golden numbers, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.errors import InputError
from unbraid.core.grid import FactorGrid
from unbraid.metrics import mig

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20))


def test_perfect_codes_over_a_whole_grid_score_one() -> None:
    result = mig(np.column_stack([-2.0 * FULL[:, 1], FULL[:, 0]]), FULL)
    assert result.score == pytest.approx(1.0, abs=1e-12)
    assert result.mutual_information == pytest.approx(
        np.array([[0, np.log(5)], [np.log(4), 0]]), abs=1e-12
    )
    assert result.factor_entropy == pytest.approx([np.log(4), np.log(5)], abs=1e-12)


def test_a_shared_latent_halves_the_gap() -> None:
    # The third latent knows whether factor a is below 2: ln 2 of ln 4 nats.
    result = mig(np.column_stack([FULL, FULL[:, 0] < 2]), FULL)
    assert result.per_factor == pytest.approx([0.5, 1.0], abs=1e-12)
    assert result.score == pytest.approx(0.75, abs=1e-12)


def test_duplicated_latents_score_zero() -> None:
    assert mig(np.column_stack([FULL, FULL]), FULL).score == 0.0


def test_a_single_latent_is_compared_with_nothing() -> None:
    assert mig(FULL[:, :1], FULL).per_factor == pytest.approx([1.0, 0.0], abs=1e-12)


def test_a_constant_factor_is_left_out_and_listed() -> None:
    with_constant = np.column_stack([FULL[:, 0], np.full(20, 7), FULL[:, 1]])
    result = mig(FULL, with_constant)
    assert result.constant_factors == (1,)
    assert result.score == mig(FULL, FULL).score
    assert np.isnan(result.per_factor).tolist() == [False, True, False]


def test_only_constant_factors_are_refused(refused) -> None:
    assert refused(mig, FULL, np.zeros((20, 2), dtype=int)) == [
        (
            "factors",
            "must take at least two values in some column",
            "one value in each of 2 columns",
        )
    ]


def test_constant_codes_score_zero() -> None:
    assert mig(np.ones((20, 3)), FULL).score == 0.0


def test_refusals(refused) -> None:
    assert refused(mig, FULL, FULL, bins=1) == [
        ("bins", "must be a whole number of at least 2", "1")
    ]
    assert refused(mig, FULL[:1], FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]


def test_bins_bound_the_score_of_a_fine_factor() -> None:
    # 40 values in 20 bins: a latent can know ln 20 of ln 40.
    fine = np.arange(40)[:, None]
    assert mig(fine, fine).score == pytest.approx(np.log(20) / np.log(40), abs=1e-12)
    assert mig(fine, fine, bins=40).score == pytest.approx(1.0, abs=1e-12)


def test_golden(golden_case) -> None:
    result = mig(*golden_case.sample)
    assert result.score == pytest.approx(golden_case.expected["mig"], abs=1e-9)
    assert result.per_factor == pytest.approx(
        np.array(golden_case.expected["mig_per_factor"]), abs=1e-9
    )


def test_shuffled_factors_leave_next_to_nothing(sample) -> None:
    codes, factors = np.tile(sample[0], (20, 1)), np.tile(sample[1], (20, 1))
    assert (
        mig(codes, np.random.default_rng(0).permutation(factors)).score
        < 0.01
        < 0.1
        < mig(codes, factors).score
    )


@pytest.mark.parametrize("bins", [10_001, 10**9])
def test_more_bins_than_memory_can_hold_are_refused(bins: int):
    with pytest.raises(InputError, match=r"bins must be at most 10000; got"):
        mig(np.zeros((4, 2)), [[0], [1], [0], [1]], bins=bins)
