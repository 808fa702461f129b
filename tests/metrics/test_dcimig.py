# SPDX-License-Identifier: Apache-2.0
"""DCIMIG: closed forms, the formula written out slowly, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.grid import FactorGrid
from unbraid.metrics import dcimig

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20))


def test_perfect_codes_over_a_whole_grid_score_one() -> None:
    result = dcimig(np.column_stack([-2.0 * FULL[:, 1], FULL[:, 0]]), FULL)
    assert result.score == pytest.approx(1.0, abs=1e-12)
    assert result.factor_of_latent.tolist() == [1, 0]
    assert result.gap_per_latent == pytest.approx([np.log(5), np.log(4)], abs=1e-12)


def test_factors_weigh_by_their_entropy() -> None:
    result = dcimig(FULL[:, [1]], FULL)
    assert result.score == pytest.approx(np.log(5) / np.log(20), abs=1e-12)
    assert result.per_factor == pytest.approx([0.0, 1.0], abs=1e-12)


def test_a_latent_of_two_factors_is_credited_with_the_difference() -> None:
    # One latent counts all 20 points: it knows ln 4 of a and ln 5 of b, and is credited to b.
    result = dcimig(5 * FULL[:, [0]] + FULL[:, [1]], FULL)
    assert result.factor_of_latent.tolist() == [1]
    assert result.score == pytest.approx((np.log(5) - np.log(4)) / np.log(20), abs=1e-12)


def test_a_factor_takes_its_best_latent_and_the_others_do_not_matter() -> None:
    codes = np.column_stack([FULL[:, 0] < 2, FULL, FULL, np.zeros(20)])
    assert dcimig(codes, FULL).score == pytest.approx(1.0, abs=1e-12)


def test_two_latents_on_one_factor_leave_the_other_without() -> None:
    result = dcimig(np.column_stack([FULL[:, 0], FULL[:, 0] < 2]), FULL)
    assert result.per_factor == pytest.approx([1.0, 0.0], abs=1e-12)


def test_constant_codes_score_zero() -> None:
    assert dcimig(np.ones((20, 3)), FULL).score == 0.0


def test_a_constant_factor_weighs_nothing_and_is_listed() -> None:
    result = dcimig(FULL, np.column_stack([np.full(20, 7), FULL[:, 0], FULL[:, 1]]))
    assert result.constant_factors == (0,)
    assert result.score == dcimig(FULL, FULL).score
    assert result.factor_of_latent.tolist() == [1, 2]
    assert np.isnan(result.per_factor).tolist() == [True, False, False]


def test_a_single_factor_is_compared_with_nothing() -> None:
    assert dcimig((FULL[:, [0]] < 2) * 1.0, FULL[:, [0]]).score == pytest.approx(0.5, abs=1e-12)


def test_refusals(refused) -> None:
    assert refused(dcimig, FULL, FULL, bins=True) == [
        ("bins", "must be a whole number of at least 2", "True")
    ]
    assert refused(dcimig, FULL[:1], FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]


def test_the_formula_written_out(golden_case) -> None:
    codes, factors = golden_case.sample
    held = [0.0] * factors.shape[1]
    for row in golden_case.expected["mutual_information"]:
        best, second = sorted(row)[::-1][:2]
        held[row.index(best)] = max(held[row.index(best)], best - second)
    entropies = golden_case.expected["factor_entropy"]
    result = dcimig(codes, factors)
    assert result.score == pytest.approx(sum(held) / sum(entropies), abs=1e-9)
    assert result.per_factor == pytest.approx(np.array(held) / entropies, abs=1e-9)
