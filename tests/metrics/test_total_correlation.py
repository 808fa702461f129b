# SPDX-License-Identifier: Apache-2.0
"""Total correlation: closed forms, golden numbers, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.metrics import total_correlation


def white(samples: int, latents: int, seed: int = 0) -> np.ndarray:
    """Codes with mean exactly 0 and covariance exactly the identity (dividing by n)."""
    raw = np.random.default_rng(seed).normal(size=(samples, latents))
    return np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(samples)


def test_two_latents_of_known_correlation() -> None:
    first, second = white(50, 2).T
    result = total_correlation(np.column_stack([3.0 * first + 7.0, 0.6 * first + 0.8 * second]))
    assert result.score == pytest.approx(-0.5 * np.log(1 - 0.36), abs=1e-12)
    assert result.correlation == pytest.approx(np.array([[1.0, 0.6], [0.6, 1.0]]), abs=1e-12)
    assert (result.dependent_latents, result.constant_latents) == (0, ())


def test_uncorrelated_latents_score_zero_and_so_does_their_rotation() -> None:
    codes = white(200, 6)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    assert total_correlation(codes).score == pytest.approx(0.0, abs=1e-12)
    assert total_correlation(codes @ rotation).score == pytest.approx(0.0, abs=1e-12)


def test_independent_latents_score_about_d_squared_over_four_n() -> None:
    generator = np.random.default_rng(0)
    scores = [total_correlation(generator.normal(size=(1000, 10))).score for _ in range(40)]
    assert np.mean(scores) == pytest.approx(10 * 9 / 4000, rel=0.1)


def test_nearly_dependent_latents_keep_their_digits() -> None:
    # An eigenvalue of 1e-10: a product of the codes with themselves would leave six digits of it.
    first, second = white(100, 2).T
    codes = np.column_stack([first, first + 1e-5 * second])
    correlation = 1 / np.hypot(1, 1e-5)
    expected = -0.5 * (np.log1p(-correlation) + np.log1p(correlation))
    assert total_correlation(codes).score == pytest.approx(expected, rel=1e-6)
    assert total_correlation(codes).dependent_latents == 0


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_each_dependent_latent_adds_fifteen_nats(precision: type) -> None:
    codes = white(400, 3).astype(precision)
    copied = np.column_stack([codes, codes[:, :2] * precision(1.7)])
    result = total_correlation(copied)
    assert result.dependent_latents == 2
    # A pair of copies has the eigenvalues 2 and 0, of which 1e-13 is kept.
    assert result.score == pytest.approx(-np.log(2e-13), abs=1e-5)


@pytest.mark.parametrize(("offset", "nats"), [(100.0, 12.7), (1_000.0, 10.6)])
def test_copies_in_single_precision_far_from_zero_add_less(offset: float, nats: float) -> None:
    codes = (np.random.default_rng(0).normal(size=(10_000, 1)) + offset).astype(np.float32)
    result = total_correlation(np.column_stack([codes, codes * np.float32(1.7)]))
    assert result.dependent_latents == 0
    assert result.score == pytest.approx(nats, abs=0.3)


def test_no_more_samples_than_latents_are_always_dependent() -> None:
    result = total_correlation(np.random.default_rng(0).normal(size=(4, 6)))
    assert result.dependent_latents == 3
    assert np.isfinite(result.score)


@pytest.mark.parametrize("constant", [0.0, 0.1, -3e7])
def test_a_constant_latent_adds_nothing(constant: float) -> None:
    codes = np.random.default_rng(0).normal(size=(60, 3)) @ np.array(
        [[1.0, 0.5, 0], [0, 1, 0.5], [0, 0, 1]]
    )
    with_constant = np.insert(codes, 1, constant, axis=1)
    result = total_correlation(with_constant)
    assert result.score == pytest.approx(total_correlation(codes).score, abs=1e-12)
    assert result.constant_latents == (1,)
    assert result.correlation[1].tolist() == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "codes", [np.ones((5, 3)), np.arange(5.0)[:, None], np.array([[0.0, 1.0], [1.0, 1.0]])]
)
def test_nothing_to_depend_on_scores_zero(codes: np.ndarray) -> None:
    score = total_correlation(codes).score
    assert score == pytest.approx(0.0, abs=1e-14)
    assert not np.signbit(score)


def test_any_scale_of_codes_gives_the_same_score() -> None:
    codes = np.random.default_rng(0).normal(size=(60, 3)).cumsum(axis=1)
    for scale in (1e29, 1e-200):
        assert total_correlation(codes * scale).score == pytest.approx(
            total_correlation(codes).score, rel=1e-9
        )


def test_golden(golden_case) -> None:
    score = total_correlation(golden_case.sample[0]).score
    expected = golden_case.expected["unsupervised"]["gaussian_total_correlation"]
    kind = golden_case.name.split("/")[1]
    if kind == "duplicated":  # ill-conditioned there, infinite in truth
        assert total_correlation(golden_case.sample[0]).dependent_latents == len(
            golden_case.expected["sizes"]
        )
        assert 60 < score < 110
    elif kind == "const_latent":  # NaN there
        assert score == pytest.approx(
            total_correlation(golden_case.sample[0][:, :-1]).score, abs=1e-12
        )
    else:
        assert score == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = generator.normal(size=(80, 4)) @ generator.normal(size=(4, 4))
    score = total_correlation(codes).score
    assert score >= 0
    turned = codes[:, generator.permutation(4)] * [-1.0, 1.0, -1.0, 1.0]
    assert total_correlation(turned).score == pytest.approx(score, rel=1e-9)
    assert total_correlation(
        codes * [0.01, 5.0, 300.0, 1.0] + [3.0, -2.0, 0.0, 9.0]
    ).score == pytest.approx(score, rel=1e-9)
    assert total_correlation(np.tile(codes, (3, 1))).score == pytest.approx(score, rel=1e-9)
    # The determinant of the covariance says the same.
    covariance = np.cov(codes.T)
    expected = 0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1])
    assert score == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_one_row_is_refused(refused) -> None:
    assert refused(total_correlation, np.zeros((1, 3))) == [
        ("codes", "must have at least 2 rows", "shape (1, 3)")
    ]


def test_infinite_codes_are_refused(refused) -> None:
    assert refused(total_correlation, np.array([[0.0, 1.0], [np.inf, 2.0]])) == [
        ("codes", "must be finite and at most 1e+30 in size", "inf at row 1, latent 0")
    ]
