# SPDX-License-Identifier: Apache-2.0
"""MIG-sup: closed forms, the formula written out slowly, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.grid import FactorGrid
from unbraid.metrics import mig, mig_sup

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20))


def test_perfect_codes_over_a_whole_grid_score_one() -> None:
    result = mig_sup(np.column_stack([-2.0 * FULL[:, 1], FULL[:, 0]]), FULL)
    assert result.score == pytest.approx(1.0, abs=1e-12)
    assert result.normalised_information == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-12)


def test_a_latent_of_two_factors_scores_the_difference_of_its_shares() -> None:
    # The value of a, and whether b is 0: shares 1 and H(1/5) / ln 5.
    mixed = 2 * FULL[:, 0] + (FULL[:, 1] == 0)
    known = -(0.2 * np.log(0.2) + 0.8 * np.log(0.8)) / np.log(5)
    result = mig_sup(mixed[:, None], FULL)
    assert result.score == pytest.approx(1.0 - known, abs=1e-12)


def test_shares_are_of_the_factor_not_of_the_latent() -> None:
    # Half of what a is: the latent is determined by a, yet knows only ln 2 of ln 4.
    assert mig_sup((FULL[:, [0]] < 2) * 1.0, FULL).score == pytest.approx(0.5, abs=1e-12)


def test_duplicated_latents_do_not_matter_here_as_they_do_for_mig() -> None:
    codes = np.column_stack([FULL, FULL])
    assert mig_sup(codes, FULL).score == pytest.approx(1.0, abs=1e-12)
    assert mig(codes, FULL).score == 0.0


def test_dead_latents_count_unless_left_out() -> None:
    codes = np.column_stack([FULL, np.full(20, 0.3), 1e-3 * FULL[:, 0]])
    counted = mig_sup(codes, FULL)
    assert counted.score == pytest.approx(0.75, abs=1e-12)
    assert counted.active.all()
    without = mig_sup(codes, FULL, least_variance=0.01)
    assert without.active.tolist() == [True, True, False, False]
    assert without.score == pytest.approx(1.0, abs=1e-12)
    assert without.per_latent.tolist() == counted.per_latent.tolist()


def test_constant_codes_score_zero_counted_or_not() -> None:
    assert mig_sup(np.ones((20, 3)), FULL).score == 0.0
    nobody = mig_sup(np.ones((20, 3)), FULL, least_variance=0.01)
    assert nobody.score == 0.0
    assert not nobody.active.any()


def test_a_constant_factor_is_left_out_and_listed() -> None:
    result = mig_sup(FULL, np.column_stack([FULL[:, 0], np.full(20, 7), FULL[:, 1]]))
    assert result.constant_factors == (1,)
    assert result.score == mig_sup(FULL, FULL).score
    assert np.isnan(result.normalised_information).tolist() == [[False, True, False]] * 2


def test_a_single_factor_is_compared_with_nothing() -> None:
    result = mig_sup(np.column_stack([FULL[:, 0], FULL[:, 0] < 2]), FULL[:, :1])
    assert result.per_latent == pytest.approx([1.0, 0.5], abs=1e-12)


def test_refusals(refused) -> None:
    assert refused(mig_sup, FULL, FULL, bins=1) == [
        ("bins", "must be a whole number of at least 2", "1")
    ]
    assert refused(mig_sup, FULL[:1], FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]
    assert refused(mig_sup, FULL, FULL, least_variance=-0.5) == [
        ("least_variance", "must be at least 0 and finite", "-0.5")
    ]
    assert refused(mig_sup, FULL, FULL, least_variance=float("nan")) == [
        ("least_variance", "must be at least 0 and finite", "nan")
    ]


def test_the_formula_written_out(golden_case) -> None:
    codes, factors = golden_case.sample
    information = np.array(golden_case.expected["mutual_information"])
    shares = information / np.array(golden_case.expected["factor_entropy"])
    expected = []
    for row in shares:
        best, second = sorted(row)[::-1][:2]
        expected.append(best - second)
    result = mig_sup(codes, factors)
    assert result.per_latent == pytest.approx(np.array(expected), abs=1e-9)
    assert result.score == pytest.approx(np.mean(expected), abs=1e-9)
