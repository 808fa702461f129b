# SPDX-License-Identifier: Apache-2.0
"""β-VAE score: exact values, golden numbers over whole grids, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.errors import InputError
from unbraid.grid import FactorGrid
from unbraid.metrics import beta_vae_score

GRID = FactorGrid(("a", "b", "c"), (4, 4, 4))
FACTORS = GRID.to_factors(np.arange(GRID.size)) * 1.0
FEW = {"train_points": 600, "test_points": 300}


def test_perfect_codes_score_one_on_the_differences_that_theory_gives() -> None:
    result = beta_vae_score(FACTORS, GRID, **FEW)
    assert result.score == result.train_accuracy == 1.0
    # Two uniform values of 0..3 differ by 5/4 on average; the shared factor by nothing.
    assert result.mean_difference == pytest.approx(1.25 * (1 - np.eye(3)), abs=0.05)
    assert not np.diag(result.mean_difference).any()


def test_constant_codes_are_at_chance() -> None:
    assert beta_vae_score(np.ones((GRID.size, 2)), GRID, **FEW).score == pytest.approx(1 / 3, abs=1e-9)


def test_one_varying_factor_needs_no_telling_apart() -> None:
    assert beta_vae_score(FACTORS, GRID.to_factors(np.arange(64))[:, :1], **FEW).score == 1.0


def test_constant_factors_are_never_chosen() -> None:
    values = np.column_stack([np.zeros(GRID.size, dtype=int), GRID.to_factors(np.arange(GRID.size))])
    result = beta_vae_score(FACTORS, values, **FEW)
    assert result.constant_factors == (0,)
    assert result.score == 1.0
    assert np.isnan(result.mean_difference).all(axis=1).tolist() == [True, False, False, False]


def test_golden(golden_case) -> None:
    factors = golden_case.grid.to_factors(np.arange(golden_case.grid.size))
    result = beta_vae_score(golden_case.codes_of(factors), golden_case.grid, train_points=2000, test_points=1000)
    expected = golden_case.expected["sampling"]["beta_vae"]
    # Five seeds can agree by chance; one point of the reference's sample is the least difference that means anything.
    for ours, name, points in ((result.score, "eval_accuracy", 1000), (result.train_accuracy, "train_accuracy", 2000)):
        assert abs(ours - expected[name]["mean"]) <= max(4 * expected[name]["std"], 1 / points)


def test_invariants() -> None:
    generator = np.random.default_rng(0)
    codes = FACTORS @ generator.normal(size=(3, 3)) + 2.0 * generator.normal(size=(GRID.size, 3))
    score = beta_vae_score(codes, GRID, **FEW).score
    assert 1 / 3 < score < 1.0
    turned = codes[:, ::-1] * [1, -1, 1] + 3.0
    assert beta_vae_score(turned, GRID, **FEW).score == pytest.approx(score, abs=1 / 300)
    assert beta_vae_score(codes, GRID, seed=1, **FEW).score == pytest.approx(score, abs=0.1)


def test_bad_options_are_refused() -> None:
    with pytest.raises(InputError) as told:
        beta_vae_score(FACTORS, GRID, test_points=0, seed=-1)
    assert str(told.value).splitlines() == [
        "test_points must be a whole number of at least 1; got 0.",
        "seed must be a whole number of at least 0; got -1.",
    ]
