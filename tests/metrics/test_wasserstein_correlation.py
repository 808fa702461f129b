# SPDX-License-Identifier: Apache-2.0
"""Wasserstein correlation: closed forms, golden numbers, a peer, invariants, degenerate input."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.metrics import wasserstein_correlation


def white(samples: int, latents: int) -> np.ndarray:
    """Codes with mean exactly 0 and covariance exactly the identity (dividing by n - 1)."""
    raw = np.random.default_rng(0).normal(size=(samples, latents))
    return np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(samples - 1)


def test_two_latents_of_equal_variance_and_known_correlation() -> None:
    # The covariance s [[1, r], [r, 1]] has the eigenvalues s (1 + r) and s (1 - r).
    first, second = white(50, 2).T
    scale, correlation = 2.5, 0.6
    codes = np.sqrt(scale) * np.column_stack([first, correlation * first + 0.8 * second])
    result = wasserstein_correlation(codes)
    expected = scale * (4.0 - 2.0 * (np.sqrt(1 + correlation) + np.sqrt(1 - correlation)))
    assert result.score == pytest.approx(expected, abs=1e-12)
    assert result.normalised == pytest.approx(expected / (2 * scale), abs=1e-12)
    assert result.variance == pytest.approx([scale, scale], abs=1e-12)


@pytest.mark.parametrize("copies", [1, 2, 3, 10])
def test_copies_of_one_latent(copies: int) -> None:
    result = wasserstein_correlation(np.tile(white(30, 1), (1, copies)))
    # The general square root of a matrix of rank 1 keeps half of the digits.
    assert result.normalised == pytest.approx(
        2 - 2 / np.sqrt(copies), abs=1e-12 if copies == 1 else 1e-6
    )


def test_uncorrelated_latents_score_zero() -> None:
    result = wasserstein_correlation(white(40, 4) * [1.0, 5.0, 0.1, 1e-3])
    assert (result.score, result.normalised) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_constant_latents_add_nothing() -> None:
    codes = white(40, 3).cumsum(axis=1)
    assert wasserstein_correlation(np.insert(codes, 2, 0.1, axis=1)).score == pytest.approx(
        wasserstein_correlation(codes).score, abs=1e-12
    )


@pytest.mark.parametrize("codes", [np.full((4, 2), 0.1), np.zeros((3, 1)), np.arange(4.0)[:, None]])
def test_nothing_to_depend_on_scores_zero(codes: np.ndarray) -> None:
    result = wasserstein_correlation(codes)
    assert (result.score, result.normalised) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_fewer_samples_than_latents() -> None:
    codes = np.random.default_rng(0).normal(size=(3, 5))
    assert 0 < wasserstein_correlation(codes).normalised < 2


@pytest.mark.parametrize("scale", [1e29, 1e-200])
def test_any_scale_has_the_same_normalised_score(scale: float) -> None:
    codes = white(40, 3).cumsum(axis=1)
    assert wasserstein_correlation(codes * scale).normalised == pytest.approx(
        wasserstein_correlation(codes).normalised, abs=1e-12
    )


def test_golden(golden_case) -> None:
    result = wasserstein_correlation(golden_case.sample[0])
    expected = golden_case.expected["unsupervised"]
    # Of copied latents the general square root keeps half the digits, which another processor may
    # round otherwise.
    tolerance = 1e-6 if "duplicated" in golden_case.name else 1e-9
    assert result.score == pytest.approx(
        expected["gaussian_wasserstein_correlation"], abs=tolerance
    )
    assert result.normalised == pytest.approx(
        expected["gaussian_wasserstein_correlation_norm"], abs=tolerance
    )


def test_without_a_root_singular_values_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(3).normal(size=(50, 3)).cumsum(axis=1)
    expected = wasserstein_correlation(codes).score
    monkeypatch.setattr(
        sys.modules["unbraid.metrics.wasserstein_correlation"],
        "_trace_of_root",
        lambda product: np.nan,
    )
    assert wasserstein_correlation(codes).score == pytest.approx(expected, rel=1e-10)


def test_peer_is_the_general_distance_of_two_gaussians() -> None:
    from scipy.linalg import sqrtm

    generator = np.random.default_rng(2)
    codes = generator.normal(size=(200, 5)) @ generator.normal(size=(5, 5))
    joint = np.cov(codes.T)
    product = np.diag(np.diag(joint))
    root = sqrtm(product)
    expected = np.trace(joint + product - 2 * sqrtm(root @ joint @ root))
    assert wasserstein_correlation(codes).score == pytest.approx(float(expected), rel=1e-10)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = generator.normal(size=(60, 4)) @ generator.normal(size=(4, 4))
    result = wasserstein_correlation(codes)
    turned = codes[:, generator.permutation(4)] * [-1.0, 1.0, -1.0, 1.0] + 5.0
    assert wasserstein_correlation(turned).score == pytest.approx(result.score, rel=1e-9)
    # The unit of all codes takes its square with it, and leaves the share alone.
    assert wasserstein_correlation(3.0 * codes).score == pytest.approx(9.0 * result.score, rel=1e-9)
    assert wasserstein_correlation(3.0 * codes).normalised == pytest.approx(
        result.normalised, rel=1e-9
    )
    assert wasserstein_correlation(np.tile(codes, (3, 1))).normalised == pytest.approx(
        result.normalised, rel=1e-9
    )


def test_one_row_is_refused(refused) -> None:
    assert refused(wasserstein_correlation, np.zeros((1, 3))) == [
        ("codes", "must have at least 2 rows", "shape (1, 3)")
    ]
