# SPDX-License-Identifier: Apache-2.0
"""β-VAE score: exact values, golden numbers over whole grids, invariants, degenerate input."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import beta_vae_score, beta_vae_score_of_pairs
from unbraid.metrics._arrays import check_codes_grid
from unbraid.metrics._sharing import SharedFactor

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
    assert beta_vae_score(np.ones((GRID.size, 2)), GRID, **FEW).score == pytest.approx(
        1 / 3, abs=1e-9
    )


def test_one_varying_factor_needs_no_telling_apart() -> None:
    assert beta_vae_score(FACTORS, GRID.to_factors(np.arange(64))[:, :1], **FEW).score == 1.0


def test_constant_factors_are_never_chosen() -> None:
    values = np.column_stack(
        [np.zeros(GRID.size, dtype=int), GRID.to_factors(np.arange(GRID.size))]
    )
    result = beta_vae_score(FACTORS, values, **FEW)
    assert result.constant_factors == (0,)
    assert result.score == 1.0
    assert np.isnan(result.mean_difference).all(axis=1).tolist() == [True, False, False, False]


def away_from_golden(case, **options) -> list[tuple[float, float]]:
    """How far seed 0 and the mean of three seeds are from the reference's means, in what is
    allowed.
    """
    codes = case.codes_of(case.grid.to_factors(np.arange(case.grid.size)))
    few = {"train_points": 2000, "test_points": 1000, **options}
    results = [beta_vae_score(codes, case.grid, seed=seed, **few) for seed in range(3)]
    found = []
    for name, ours, points in (
        ("eval_accuracy", "score", 1000),
        ("train_accuracy", "train_accuracy", 2000),
    ):
        golden = case.expected["sampling"]["beta_vae"][name]
        # Five seeds can agree by chance; one point of the reference's sample is the least
        # difference that means anything.
        allowed = max(4 * golden["std"], 1 / points)
        away = np.array([getattr(result, ours) for result in results]) - golden["mean"]
        found.append((abs(away[0]) / allowed, abs(away.mean()) / allowed))
    return found


def test_golden(golden_case) -> None:
    assert np.max(away_from_golden(golden_case)) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["A/rotation", "A/noise", "A/one_missing", "A/noisy_mixture"])
def test_golden_with_compat(make_case, name: str) -> None:
    # Drawn factors scatter more than the five seeds of the reference happened to: the mean of three
    # is compared.
    assert (
        max(mean for _, mean in away_from_golden(make_case(name), compat="disentanglement_lib"))
        <= 1 + 1e-9
    )


def test_compat_draws_factors_and_constant_ones_too() -> None:
    values = np.column_stack(
        [np.zeros(GRID.size, dtype=int), GRID.to_factors(np.arange(GRID.size))]
    )
    result = beta_vae_score(FACTORS, values, compat="disentanglement_lib", **FEW)
    assert result.constant_factors == (0,)
    assert result.mean_difference[0] == pytest.approx(np.full(3, 1.25), abs=0.05)
    # Codes without any news about the factors: the classifier is right for the class drawn most
    # often, one of four.
    nothing = beta_vae_score(np.ones((GRID.size, 2)), values, compat="disentanglement_lib", **FEW)
    assert nothing.score == pytest.approx(1 / 4, abs=0.1)
    assert beta_vae_score(np.ones((GRID.size, 2)), values, **FEW).score == pytest.approx(
        1 / 3, abs=1e-9
    )


def drawn(codes: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """The pairs that `beta_vae_score` draws, with their factors."""
    shared, generator = SharedFactor.of(check_codes_grid(codes, GRID)), np.random.default_rng(seed)
    factor, first, second = shared.draw_pairs(FEW["train_points"], 64, generator)
    test_factor, test_first, test_second = shared.draw_pairs(FEW["test_points"], 64, generator)
    return codes[first], codes[second], factor, codes[test_first], codes[test_second], test_factor


@pytest.mark.parametrize("rows_at_once", [64 * 7, 1 << 16])
def test_the_same_pairs_drawn_elsewhere_score_the_same(
    rows_at_once, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(5)
    codes = FACTORS @ generator.normal(size=(3, 3)) + 2.0 * generator.normal(size=(GRID.size, 3))
    expected = beta_vae_score(codes, GRID, seed=3, **FEW)
    monkeypatch.setattr(sys.modules["unbraid.metrics.beta_vae_score"], "ROWS_AT_ONCE", rows_at_once)
    given_pairs = drawn(codes, 3)
    kept = [array.copy() for array in given_pairs]
    result = beta_vae_score_of_pairs(*given_pairs, seed=3)
    assert (result.score, result.train_accuracy) == (expected.score, expected.train_accuracy)
    assert 1 / 3 < result.score < 1.0
    assert np.array_equal(result.mean_difference, expected.mean_difference)
    assert all(
        np.array_equal(before, after) for before, after in zip(kept, given_pairs, strict=True)
    )


def test_a_factor_only_among_the_test_pairs_counts_as_wrong() -> None:
    first, second, factor, *test = drawn(FACTORS, 0)
    seen = factor < 2
    result = beta_vae_score_of_pairs(first[seen], second[seen], factor[seen], *test)
    assert result.score == pytest.approx(2 / 3)
    assert np.isnan(result.mean_difference[2]).all()
    only = factor == 1
    assert beta_vae_score_of_pairs(
        first[only], second[only], factor[only], *test
    ).score == pytest.approx(1 / 3)


def test_bad_pairs_are_refused_with_every_problem_at_once(refused) -> None:
    first, second, factor, test_first, test_second, test_factor = drawn(FACTORS, 0)
    assert refused(
        beta_vae_score_of_pairs,
        first[:-1],
        second,
        factor,
        test_first[..., :2] + np.inf,
        test_second[..., :2],
        test_factor + 10_000,
    ) == [
        ("first and second", "must have the same shape", "(599, 64, 3) and (600, 64, 3)"),
        ("first and factor", "must have the same length", "599 and 600"),
        (
            "test_first",
            "must be finite and at most 1e+30 in size",
            "inf at batch 0, row 0, latent 0",
        ),
        ("test_factor", "must lie in 0..9999", "10000"),
        ("first and test_first", "must have the same latents", "3, 2"),
    ]
    assert refused(
        beta_vae_score_of_pairs,
        first[:0],
        second[:0],
        factor[:0],
        test_first,
        test_second,
        test_factor,
    ) == [
        (
            "first",
            "must have the shape (batches, batch, latents), none of them 0",
            "shape (0, 64, 3)",
        ),
        (
            "second",
            "must have the shape (batches, batch, latents), none of them 0",
            "shape (0, 64, 3)",
        ),
    ]


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = FACTORS @ generator.normal(size=(3, 3)) + 2.0 * generator.normal(size=(GRID.size, 3))
    score = beta_vae_score(codes, GRID, **FEW).score
    assert 0.25 < score <= 1.0
    # The same pairs; the classifier stops a little elsewhere when its inputs change places.
    turned = codes[:, ::-1] * [1, -1, 1] + 3.0
    assert beta_vae_score(turned, GRID, **FEW).score == pytest.approx(score, abs=3 / 300)
    # Other pairs: 300 points have a standard deviation of at most 0.029, the difference of two sets
    # 0.041.
    values = GRID.to_factors(np.arange(GRID.size))
    assert beta_vae_score(codes, np.array([9, 3, 4, -1])[values], **FEW).score == pytest.approx(
        score, abs=0.2
    )
    assert beta_vae_score(
        np.tile(codes, (2, 1)), np.tile(values, (2, 1)), **FEW
    ).score == pytest.approx(score, abs=0.2)
    assert beta_vae_score(codes, GRID, seed=1, **FEW).score == pytest.approx(score, abs=0.2)


def test_one_latent_and_a_constant_one_have_scores() -> None:
    one = beta_vae_score(FACTORS[:, :1], GRID, **FEW)
    # The latent tells its own factor from the others, which it cannot tell apart.
    assert one.score == pytest.approx(2 / 3, abs=0.06)
    beside = np.column_stack([FACTORS[:, 0], np.full(GRID.size, 0.1)])
    assert beta_vae_score(beside, GRID, **FEW).score == pytest.approx(one.score, abs=3 / 300)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_the_scale_of_the_codes_never_stops_the_classifier(scale: float) -> None:
    assert 1 / 3 - 1e-9 <= beta_vae_score(FACTORS / 4 * scale, GRID, **FEW).score <= 1.0


def test_one_row_is_refused(refused) -> None:
    assert refused(beta_vae_score, FACTORS[:1], np.zeros((1, 3), dtype=int), **FEW) == [
        ("codes", "must have at least 2 rows", "shape (1, 3)")
    ]


def test_bad_options_are_refused(refused) -> None:
    assert refused(beta_vae_score, FACTORS, GRID, test_points=0, seed=-1) == [
        ("test_points", "must be a whole number of at least 1", "0"),
        ("seed", "must be a whole number of at least 0", "-1"),
    ]
    assert refused(beta_vae_score, FACTORS, GRID, compat="dlib") == [
        ("compat", "is unknown", "dlib")
    ]
