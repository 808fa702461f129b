# SPDX-License-Identifier: Apache-2.0
"""IRS: closed forms, golden numbers, the formula written out, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import irs

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20))
SQUARE = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])


def written_out(codes: np.ndarray, groups: np.ndarray, quantile: float) -> tuple[float, np.ndarray]:
    """The score and its matrix, value by value; every row of *groups* has the number of its value
    or bin.
    """
    largest = np.abs(codes - codes.mean(axis=0)).max(axis=0)
    matrix = np.zeros((codes.shape[1], groups.shape[1]))
    for factor in range(groups.shape[1]):
        of_values = []
        for value in np.unique(groups[:, factor]):
            rows = codes[groups[:, factor] == value]
            of_values.append(
                np.percentile(np.abs(rows - rows.mean(axis=0)), 100 * quantile, axis=0)
            )
        matrix[:, factor] = 1 - np.mean(of_values, axis=0) / largest
    return float(np.average(matrix.max(axis=1), weights=largest)), matrix


def in_20_bins(factors: np.ndarray) -> np.ndarray:
    columns = [np.digitize(column, np.histogram(column, 20)[1][:-1]) for column in factors.T]
    return np.stack(columns, axis=1)


def test_perfect_codes_score_one() -> None:
    result = irs(np.column_stack([-2.0 * FULL[:, 1], FULL[:, 0]]), FULL)
    assert result.score == pytest.approx(1.0, abs=1e-12)
    assert result.parent.tolist() == [1, 0]
    assert result.max_deviation == pytest.approx([4.0, 1.5], abs=1e-12)
    # With one factor held the latent of the other deviates as far as it ever does.
    assert result.irs_matrix == pytest.approx(np.array([[0, 1], [1, 0]]), abs=0.04)


def test_a_mixture_by_hand() -> None:
    # z = a + 2b: 0, 2, 1, 3. Largest deviation 1.5; 1 within either value of a, 0.5 within either
    # value of b.
    result = irs(SQUARE @ np.array([[1.0, 1.0], [2.0, 0.0]]), SQUARE, quantile=1.0)
    assert result.irs_matrix == pytest.approx(np.array([[1 / 3, 2 / 3], [1.0, 0.0]]), abs=1e-12)
    assert result.per_latent == pytest.approx([2 / 3, 1.0], abs=1e-12)
    assert result.parent.tolist() == [1, 0]
    assert result.max_deviation == pytest.approx([1.5, 0.5], abs=1e-12)
    assert result.score == pytest.approx((1.5 * 2 / 3 + 0.5 * 1.0) / 2, abs=1e-12)


def test_the_quantile_is_interpolated_by_hand() -> None:
    # Deviations 2, 1, 0, 1, 2 within the first value and 0 within the second; half of the way from
    # 1 to 2 at 5/8.
    codes = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])[:, None]
    result = irs(codes, np.repeat([0, 1], 5)[:, None], quantile=0.625)
    assert result.score == pytest.approx(1 - (1.5 / 2 + 0.0) / 2, abs=1e-12)


def test_a_score_can_be_negative() -> None:
    # Three of four rows of either value lie together, the fourth where the other value has its
    # three.
    codes, factors = np.array([0, 1, 1, 1, 0, 0, 0, 1.0])[:, None], np.repeat([0, 1], 4)[:, None]
    assert irs(codes, factors, quantile=1.0).score == pytest.approx(-0.5, abs=1e-12)
    # The reference then prefers a constant factor, at which the score is 0.
    beside = np.column_stack([factors, np.full(8, 3)])
    ours, theirs = (
        irs(codes, beside, quantile=1.0),
        irs(codes, beside, quantile=1.0, compat="disentanglement_lib"),
    )
    assert (ours.score, ours.parent.tolist(), ours.constant_factors) == (
        pytest.approx(-0.5),
        [0],
        (1,),
    )
    assert np.isnan(ours.irs_matrix).tolist() == [[False, True]]
    assert (theirs.score, theirs.parent.tolist(), theirs.constant_factors) == (
        pytest.approx(0.0),
        [1],
        (1,),
    )
    assert theirs.irs_matrix == pytest.approx(np.array([[-0.5, 0.0]]))


@pytest.mark.parametrize("compat", [None, "disentanglement_lib"])
@pytest.mark.parametrize("quantile", [0.99, 1.0])
def test_golden(golden_case, quantile: float, compat) -> None:
    expected = golden_case.expected[f"irs_q{quantile}"]
    result = irs(*golden_case.sample, quantile=quantile, compat=compat)
    assert result.score == pytest.approx(expected["avg_score"], abs=1e-9)
    assert result.irs_matrix[result.active] == pytest.approx(
        np.array(expected["IRS_matrix"]), abs=1e-9
    )
    assert result.per_latent[result.active] == pytest.approx(
        np.array(expected["disentanglement_scores"]), abs=1e-9
    )
    assert result.max_deviation[result.active] == pytest.approx(
        np.array(expected["max_deviations"]), abs=1e-9
    )
    assert result.parent[result.active].tolist() == expected["parents"]
    assert np.array_equal(result.active, golden_case.sample[0].std(axis=0) > 0)


def test_golden_samples(golden_case) -> None:
    expected, sizes = golden_case.expected["sampling"]["irs"]["IRS"], golden_case.expected["sizes"]
    scores = []
    for seed in range(5):
        factors = np.random.default_rng(seed).integers(sizes, size=(2000, len(sizes)))
        scores.append(irs(golden_case.codes_of(factors, seed), factors).score)
    allowed = max(4 * expected["std"], 1e-9)
    assert abs(scores[0] - expected["mean"]) <= allowed
    assert abs(np.mean(scores) - expected["mean"]) <= allowed


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from([0.3, 0.5, 0.9, 0.99, 1.0]))
def test_the_formula_written_out(seed: int, quantile: float) -> None:
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(2, 300))
    sizes = generator.choice([2, 3, 7, 20, 21, 22, 25, 31, 40, 41, 60], size=3)
    factors = generator.integers(sizes, size=(rows, 3))
    factors[0], factors[1] = 0, 1  # every factor varies
    codes = (
        np.round(generator.normal(size=(rows, 4)), int(generator.integers(1, 6)))
        + generator.normal(size=4) * 100
    )
    codes[0] += 0.5  # every latent varies
    score, matrix = written_out(codes, in_20_bins(factors), quantile)
    theirs = irs(codes, factors, quantile=quantile, compat="disentanglement_lib")
    assert theirs.score == pytest.approx(score, abs=1e-9)
    assert theirs.irs_matrix == pytest.approx(matrix, abs=1e-9)
    few = [len(np.unique(column)) <= 20 for column in factors.T]
    ours = irs(codes, factors, quantile=quantile)
    score, matrix = written_out(codes, np.where(few, factors, in_20_bins(factors)), quantile)
    assert ours.score == pytest.approx(score, abs=1e-9)
    assert ours.irs_matrix == pytest.approx(matrix, abs=1e-9)


def test_many_values_are_cut_into_twenty_bins() -> None:
    # 40 values two by two, so that a perfect latent deviates by half a step of its 19.5 at the
    # most.
    fine = np.arange(40)[:, None]
    assert irs(fine, fine).score == pytest.approx(1 - 0.5 / 19.5, abs=1e-12)
    assert irs(fine[:20], fine[:20]).score == pytest.approx(1.0, abs=1e-12)


def test_few_values_are_never_binned_however_they_are_numbered() -> None:
    codes = np.repeat([0.0, 1.0, 2.0], 10)[:, None]
    wide = np.repeat([0, 1, 1000], 10)[:, None]
    assert irs(codes, wide).score == pytest.approx(1.0, abs=1e-12)
    # The reference has 0 and 1 in one bin: the deviation is half there and nothing at the other.
    assert irs(codes, wide, compat="disentanglement_lib").score == pytest.approx(0.75, abs=1e-12)


def test_noise_grows_with_the_sample() -> None:
    generator = np.random.default_rng(0)
    scores = []
    for rows in (1000, 10_000):
        factors = generator.integers([3, 6, 10], size=(rows, 3))
        scores.append(irs(generator.normal(size=(rows, 10)), factors).score)
    assert 0.2 < scores[0] < scores[1] < 0.45


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factors = generator.integers([3, 4], size=(120, 2))
    codes = factors @ generator.normal(size=(2, 3)) + 0.3 * generator.normal(size=(120, 3))
    result = irs(codes, factors)
    order = generator.permutation(3)
    turned = irs(codes[:, order] * generator.choice([-1.0, 1.0], size=3), factors)
    assert turned.score == pytest.approx(result.score, abs=1e-12)
    assert turned.irs_matrix == pytest.approx(result.irs_matrix[order], abs=1e-12)
    # One unit for all latents cancels; units of their own leave the matrix and move the weights.
    assert irs(codes * 37.0 - 5.0, factors).score == pytest.approx(result.score, abs=1e-9)
    scaled = irs(codes * [0.1, 3.0, 50.0], factors)
    assert scaled.irs_matrix == pytest.approx(result.irs_matrix, abs=1e-9)
    assert scaled.score == pytest.approx(
        np.average(result.per_latent, weights=result.max_deviation * [0.1, 3.0, 50.0]), abs=1e-9
    )
    assert irs(codes, np.array([5, -2, 1100, 3])[factors]).score == pytest.approx(
        result.score, abs=1e-12
    )
    rows = generator.permutation(120)
    assert irs(codes[rows], factors[rows]).score == pytest.approx(result.score, abs=1e-12)
    # Quantiles below the largest move by interpolation when rows are repeated.
    largest = irs(codes, factors, quantile=1.0).score
    assert irs(
        np.tile(codes, (3, 1)), np.tile(factors, (3, 1)), quantile=1.0
    ).score == pytest.approx(largest, abs=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_a_constant_latent_has_no_say(constant: float) -> None:
    plain = irs(FULL[:, :1] + 0.2 * FULL[:, 1:], FULL)
    result = irs(np.column_stack([np.full(20, constant), FULL[:, 0] + 0.2 * FULL[:, 1]]), FULL)
    assert result.score == pytest.approx(plain.score, abs=1e-12)
    assert result.active.tolist() == [False, True]
    assert result.parent.tolist() == [-1, 0]
    assert result.max_deviation[0] == 0.0
    assert np.isnan(result.per_latent).tolist() == [True, False]
    assert np.isnan(result.irs_matrix).tolist() == [[True, True], [False, False]]


def test_constant_codes_score_zero() -> None:
    result = irs(np.full((20, 3), 0.1), FULL)
    assert result.score == 0.0
    assert not result.active.any()
    assert np.isnan(result.irs_matrix).all()


def test_a_value_of_one_row_does_not_deviate() -> None:
    result = irs(np.array([[0.0], [2.0], [9.0]]), np.array([[0], [0], [1]]), quantile=1.0)
    assert result.score == pytest.approx(1 - (1.0 + 0.0) / 2 / (9 - 11 / 3), abs=1e-12)


def test_a_single_varying_factor_does_not_make_noise_perfect() -> None:
    noise = np.random.default_rng(0).normal(size=(500, 3))
    assert irs(noise, np.arange(500)[:, None] % 4).score < 0.5


def test_two_values_a_rounding_apart_stay_within_the_range() -> None:
    codes = np.full((4000, 1), 0.1)
    codes[7:500, 0] = np.nextafter(0.1, 1.0)
    assert -1.0 <= irs(codes, np.arange(4000)[:, None] % 5).score <= 1.0


def test_refusals(refused) -> None:
    for quantile in (0.0, 1.01, float("nan")):
        assert refused(irs, FULL, FULL, quantile=quantile) == [
            ("quantile", "must be above 0 and at most 1", str(quantile))
        ]
    assert refused(irs, FULL, FULL, compat="dlib") == [("compat", "is unknown", "dlib")]
    assert refused(irs, FULL[:1], FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]
    assert refused(irs, FULL, np.zeros((20, 2), dtype=int)) == [
        (
            "factors",
            "must take at least two values in some column",
            "one value in each of 2 columns",
        )
    ]
    assert refused(irs, np.full((3, 2), np.nan), FULL * 1.0) == [
        ("codes", "must be finite and at most 1e+30 in size", "nan at row 0, latent 0"),
        ("factors", "must be whole numbers", "dtype float64"),
        ("codes and factors", "must have the same number of rows", "3 and 20"),
    ]
