# SPDX-License-Identifier: Apache-2.0
"""Kim-Mnih score: exact values, the definition written out, the Student-t map, invariants,
degenerate input.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import factor_vae_score, kim_mnih_score

GRID = FactorGrid(("a", "b", "c", "d", "e"), (4, 4, 4, 4, 4))
VALUES = GRID.to_factors(np.arange(GRID.size))
FACTORS = VALUES * 1.0
FEW = {"votes": 600, "batch": 50}


def written_out(codes: np.ndarray, factors: np.ndarray, votes: int, batch: int, seed: int) -> float:
    """The authors' definition, vote by vote: factor and value drawn, rows shuffled and cut."""
    generator = np.random.default_rng(seed)
    standard = codes / codes.std(axis=0, ddof=1)
    counted = np.zeros((codes.shape[1], factors.shape[1]))
    for _ in range(votes):
        factor = generator.integers(factors.shape[1])
        value = generator.choice(np.unique(factors[:, factor]))
        rows = generator.permutation(np.flatnonzero(factors[:, factor] == value))[:batch]
        counted[standard[rows].var(axis=0, ddof=1).argmin(), factor] += 1
    return counted.max(axis=1).sum() / votes


def test_perfect_codes_score_one_with_every_vote_in_place() -> None:
    result = kim_mnih_score(FACTORS[:, ::-1], GRID, votes=500)
    assert result.score == 1.0
    assert np.array_equal(result.votes, 100 * np.eye(5, dtype=int)[::-1])
    assert result.factor_of_latent.tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("batch", [50, 1000])
def test_a_missing_factor_costs_its_share(batch: int) -> None:
    assert kim_mnih_score(FACTORS[:, :4], GRID, votes=600, batch=batch).score == 0.8


def test_the_votes_that_are_scored_are_those_that_decide() -> None:
    # Noise: the best factor of each latent has more than its share of these very votes.
    noise = np.random.default_rng(0).normal(size=(GRID.size, 5))
    result = kim_mnih_score(noise, GRID, votes=200, batch=50)
    assert result.score == result.votes.max(axis=0).sum() / 200 > 0.25
    assert factor_vae_score(
        noise, GRID, train_votes=200, test_votes=2000, batch=50
    ).score == pytest.approx(0.2, abs=0.04)


def test_small_values_are_taken_whole(sample) -> None:
    codes, factors = sample
    # 300 rows: no value has more than 1,000, so the batch of a value is all its rows and its vote
    # the same each time.
    ratio = [
        [
            codes[factors[:, factor] == value].var(axis=0, ddof=1) / codes.var(axis=0, ddof=1)
            for value in range(size)
        ]
        for factor, size in enumerate((3, 4, 5))
    ]
    expected = np.zeros((3, 4), dtype=int)
    for factor, of_values in enumerate(ratio):
        for of_value in of_values:
            expected[factor, of_value.argmin()] += 600 // len(of_values)
    result = kim_mnih_score(codes, factors, votes=1800)
    assert np.array_equal(result.votes, expected)
    assert result.score == expected.max(axis=0).sum() / 1800


@pytest.mark.parametrize("batch", [5, 40, 90])
def test_the_definition_written_out(sample, batch: int) -> None:
    # Values have 56 to 112 rows; two scores of 3,000 votes differ by 0.013 at the most.
    codes, factors = sample
    codes = codes + np.random.default_rng(1).normal(size=codes.shape)
    expected = written_out(codes, factors, 3000, batch, 0)
    assert kim_mnih_score(codes, factors, votes=3000, batch=batch).score == pytest.approx(
        expected, abs=0.04
    )


def test_batches_have_no_row_twice() -> None:
    # The first latent varies only in row 0; a batch of 15 of the 16 rows holds it or has no
    # variance there at all.
    factors = np.column_stack([np.repeat([0, 1], 16), np.arange(32) % 2])
    codes = np.column_stack([np.eye(32)[0], np.arange(32) * 1.0])
    all_rows = kim_mnih_score(codes, factors, votes=400, batch=16)
    assert all_rows.votes.tolist() == [[100, 100], [100, 100]]
    nearly = kim_mnih_score(codes, factors, votes=4000, batch=15)
    # One batch in 16 of the values with row 0 misses it.
    assert nearly.votes[0].tolist() == [
        pytest.approx(1000 + 1000 / 16, abs=40),
        pytest.approx(1000 - 1000 / 16, abs=40),
    ]


def test_factors_and_values_take_turns() -> None:
    factors = np.column_stack(
        [np.repeat([0, 1, 2], [30, 6, 4]), np.arange(40) % 2, np.zeros(40, dtype=int)]
    )
    codes = np.random.default_rng(0).normal(size=(40, 3))
    for votes in (1, 7, 100):
        result = kim_mnih_score(codes, factors, votes=votes)
        assert result.votes.sum() == votes
        assert abs(result.votes[0].sum() - result.votes[1].sum()) <= 1
    assert result.constant_factors == (2,)
    assert not result.votes[2].any()


def test_a_value_that_one_row_has_is_never_chosen() -> None:
    factors = np.column_stack([np.repeat([0, 1, 2], [20, 19, 1]), np.arange(40) % 2])
    codes = np.column_stack([factors[:, 1], factors[:, 0] + 0.1 * factors[:, 1]])
    assert kim_mnih_score(codes, factors, votes=100).score == 1.0


def test_student_t_codes_are_carried_to_a_gaussian() -> None:
    from scipy import stats

    generator = np.random.default_rng(0)
    codes = FACTORS @ generator.normal(size=(5, 5)) + generator.standard_t(3.0, size=(GRID.size, 5))
    plain = kim_mnih_score(codes, GRID, **FEW)
    carried = kim_mnih_score(codes, GRID, student_t_df=3.0, **FEW)
    outside = kim_mnih_score(stats.norm.ppf(stats.t.cdf(codes, 3.0)), GRID, **FEW)
    assert np.array_equal(carried.votes, outside.votes)
    assert not np.array_equal(carried.votes, plain.votes)
    # Many degrees of freedom are a Gaussian already.
    assert kim_mnih_score(codes, GRID, student_t_df=1e9, **FEW).score == pytest.approx(
        plain.score, abs=0.005
    )


def test_the_student_t_map_is_odd_and_finite_everywhere() -> None:
    from scipy import stats

    to_gaussian = sys.modules["unbraid.metrics.kim_mnih_score"]._to_gaussian
    points = np.array([[0.0, 1.0, -1.0, 30.0, -30.0, 1e30, -1e30]])
    mapped = to_gaussian(points, 9.0)[0]
    assert np.isfinite(mapped).all()
    assert mapped[0] == 0.0
    assert np.array_equal(mapped[1::2], -mapped[2::2])
    assert mapped[1::2].tolist() == sorted(mapped[1::2])
    assert mapped[4] == pytest.approx(stats.norm.ppf(stats.t.cdf(-30.0, 9.0)), rel=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_a_constant_latent_changes_nothing(constant: float) -> None:
    result = kim_mnih_score(np.column_stack([np.full(GRID.size, constant), FACTORS]), GRID, **FEW)
    assert result.score == 1.0
    assert result.active.tolist() == [False] + [True] * 5
    assert not result.votes[:, 0].any()


def test_without_an_active_latent_the_score_is_zero() -> None:
    result = kim_mnih_score(np.ones((GRID.size, 3)), GRID)
    assert result.score == 0.0
    assert result.votes.shape == (5, 3)
    assert not result.active.any()


def test_one_latent_and_one_factor() -> None:
    assert kim_mnih_score(FACTORS[:, :1], GRID, votes=500).score == 0.2
    assert kim_mnih_score(FACTORS, VALUES[:, :1], votes=500).score == 1.0


def test_pieces_of_votes_cover_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = FACTORS + 3.0 * np.random.default_rng(0).normal(size=FACTORS.shape)
    whole = kim_mnih_score(noisy, GRID, **FEW)
    monkeypatch.setattr(sys.modules["unbraid.metrics.kim_mnih_score"], "ROWS_AT_ONCE", 100)
    pieces = kim_mnih_score(noisy, GRID, **FEW)
    assert pieces.votes.sum() == 600
    assert pieces.score == pytest.approx(whole.score, abs=0.1)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = FACTORS @ generator.normal(size=(5, 5)) + generator.normal(size=(GRID.size, 5))
    result = kim_mnih_score(codes, GRID, **FEW)
    assert 0.2 <= result.score <= 1.0
    order = generator.permutation(5)
    turned = kim_mnih_score(codes[:, order] * [1, -1, 1e3, -1e-3, 8] + 3.0, GRID, **FEW)
    assert np.array_equal(turned.votes, result.votes[:, order])
    # With all rows of a value in its batch nothing is drawn but the turns, and 600 votes are a
    # whole number of them.
    exact = kim_mnih_score(codes, GRID, votes=600)
    assert kim_mnih_score(codes, GRID, votes=600, seed=1).score == exact.score
    assert kim_mnih_score(codes, np.array([9, 3, 4, -1])[VALUES], votes=600).score == exact.score
    assert (
        kim_mnih_score(np.tile(codes, (3, 1)), np.tile(VALUES, (3, 1)), votes=600).score
        == exact.score
    )


def test_refusals(refused) -> None:
    assert refused(kim_mnih_score, FACTORS, GRID, votes=0, batch=1, seed=-1) == [
        ("votes", "must be a whole number of at least 1", "0"),
        ("batch", "must be a whole number of at least 2", "1"),
        ("seed", "must be a whole number of at least 0", "-1"),
    ]
    for df in (0.0, float("inf"), float("nan")):
        assert refused(kim_mnih_score, FACTORS, GRID, student_t_df=df) == [
            ("student_t_df", "must be above 0 and finite, or None", str(df))
        ]
    assert refused(kim_mnih_score, FACTORS[:1], VALUES[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 5)")
    ]
    assert refused(
        kim_mnih_score, FACTORS[:6], np.column_stack([np.arange(6) % 2, np.arange(6)])
    ) == [("factor 1", "must have rows that share a value", "6 rows with 6 values")]
