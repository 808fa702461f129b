# SPDX-License-Identifier: Apache-2.0
"""FactorVAE score: exact values, golden numbers over whole grids, the constant latent, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.errors import InputError
from unbraid.grid import FactorGrid
from unbraid.metrics import factor_vae_score

GRID = FactorGrid(("a", "b", "c", "d", "e"), (4, 4, 4, 4, 4))
FACTORS = GRID.to_factors(np.arange(GRID.size)) * 1.0
FEW = {"train_votes": 500, "test_votes": 250}


def test_perfect_codes_score_one_with_every_vote_in_place() -> None:
    result = factor_vae_score(FACTORS[:, ::-1], GRID, **FEW)
    assert result.score == result.train_accuracy == 1.0
    assert np.array_equal(result.votes, 100 * np.eye(5, dtype=int)[::-1])
    assert result.factor_of_latent.tolist() == [4, 3, 2, 1, 0]


def test_a_missing_factor_costs_its_share() -> None:
    # Votes for the missing factor go to latents that others hold: 4 of 5 votes are right.
    assert factor_vae_score(FACTORS[:, :4], GRID, **FEW).score == 0.8


@pytest.mark.parametrize("active_std", [0.0, 0.05])
def test_a_constant_latent_changes_nothing(active_std: float) -> None:
    # 0.1 has no exact mean in binary: the computed variance of a constant need not be 0.
    with_constant = np.column_stack([np.full(len(FACTORS), 0.1), FACTORS])
    result = factor_vae_score(with_constant, GRID, active_std=active_std, **FEW)
    assert result.score == 1.0
    assert result.active.tolist() == [False, True, True, True, True, True]
    assert not result.votes[:, 0].any()


def test_the_threshold_is_on_the_standard_deviation() -> None:
    spread = FACTORS.std(axis=0, ddof=1)[0]
    scaled = FACTORS * [1.0, 0.051 / spread, 0.049 / spread, 1.0, 1.0]
    result = factor_vae_score(scaled, GRID, **FEW)
    assert result.active.tolist() == [True, True, False, True, True]
    assert result.score == 0.8
    assert factor_vae_score(scaled, GRID, active_std=0.0, **FEW).score == 1.0


def test_without_an_active_latent_the_score_is_zero() -> None:
    result = factor_vae_score(np.ones((GRID.size, 3)), GRID, **FEW)
    assert result.score == result.train_accuracy == 0.0
    assert result.votes.shape == (5, 3)
    assert not result.active.any()


def test_constant_factors_are_never_chosen() -> None:
    values = np.column_stack([GRID.to_factors(np.arange(GRID.size)), np.zeros(GRID.size, dtype=int)])
    result = factor_vae_score(FACTORS, values, **FEW)
    assert result.score == 1.0
    assert result.constant_factors == (5,)
    assert not result.votes[5].any()


def test_golden(golden_case) -> None:
    factors = golden_case.grid.to_factors(np.arange(golden_case.grid.size))
    result = factor_vae_score(golden_case.codes_of(factors), golden_case.grid, train_votes=2000, test_votes=1000)
    expected = golden_case.expected["sampling"]["factor_vae"]
    # Five seeds can agree by chance; one vote of the reference's sample is the least difference that means anything.
    for ours, name, votes in ((result.score, "eval_accuracy", 1000), (result.train_accuracy, "train_accuracy", 2000)):
        assert abs(ours - expected[name]["mean"]) <= max(4 * expected[name]["std"], 1 / votes)


def test_the_maps_that_make_golden_codes_are_theirs(golden_case) -> None:
    made = golden_case.codes_of(golden_case.arrays["factors"].astype(int))
    away = made - golden_case.arrays["codes"]
    kind = golden_case.name.split("/")[1]
    noise = {"noise": 1.0, "noisy_mixture": 0.3, "perfect_jitter": 0.1, "perm_flip_dead": 1e-3}.get(kind, 0.0)
    scale = golden_case.arrays["parameter_scale"] if kind == "perfect_jitter" else 1.0
    # Two independent noises differ by sqrt(2) of one; dead latents are a part of all.
    assert (away / scale).std(axis=0).max() == pytest.approx(noise * np.sqrt(2), rel=0.1, abs=1e-12)


def test_pieces_of_votes_cover_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["unbraid.metrics.factor_vae_score"], "ROWS_AT_ONCE", 64 * 7)
    result = factor_vae_score(FACTORS, GRID, **FEW)
    assert result.votes.sum() == 500
    assert result.score == 1.0


def test_invariants() -> None:
    generator = np.random.default_rng(0)
    codes = FACTORS @ generator.normal(size=(5, 5)) + generator.normal(size=(GRID.size, 5))
    score = factor_vae_score(codes, GRID, **FEW).score
    assert 0.2 < score < 1.0
    assert factor_vae_score(codes[:, ::-1] * [1, -1, 2, -4, 8] + 3.0, GRID, **FEW).score == pytest.approx(score, abs=1e-12)
    renamed = np.array([9, 3, 4, -1])[GRID.to_factors(np.arange(GRID.size))]
    assert factor_vae_score(codes, renamed, **FEW).score == pytest.approx(score, abs=0.08)
    assert factor_vae_score(codes, GRID, seed=1, **FEW).score == pytest.approx(score, abs=0.08)


def test_bad_options_are_refused() -> None:
    with pytest.raises(InputError) as told:
        factor_vae_score(FACTORS, GRID, batch=1, train_votes=0)
    assert str(told.value).splitlines() == [
        "train_votes must be a whole number of at least 1; got 0.",
        "batch must be a whole number of at least 2; got 1.",
    ]
    with pytest.raises(InputError, match=r"^active_std must be at least 0 and finite; got nan\.$"):
        factor_vae_score(FACTORS, GRID, active_std=float("nan"))
