# SPDX-License-Identifier: Apache-2.0
"""Hoyer sparsity: closed forms, a plain re-implementation, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.metrics import hoyer


def test_one_latent_at_a_time_is_as_sparse_as_can_be() -> None:
    result = hoyer(np.eye(5) * [1.0, -2.0, 3.0, 40.0, 1e-3])
    assert result.score == pytest.approx(1.0, abs=1e-12)
    assert result.per_sample == pytest.approx(np.ones(5), abs=1e-12)


def test_equally_large_latents_are_not_sparse_whatever_their_signs_and_scales() -> None:
    signs = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])  # all deviations equal
    assert hoyer(signs * [1.0, 7.0, 0.01]).score == pytest.approx(0.0, abs=1e-12)


def test_half_the_latents_in_use() -> None:
    # Two of four latents, equally large: (2 - sqrt 2) / (2 - 1).
    codes = np.array([[1.0, 1.0, 0, 0], [0, 0, 1.0, 1.0], [-1.0, -1.0, 0, 0], [0, 0, -1.0, -1.0]])
    assert hoyer(codes).score == pytest.approx(2 - np.sqrt(2), abs=1e-12)


def test_normal_codes_score_what_the_docstring_says() -> None:
    generator = np.random.default_rng(0)
    for latents, expected in ((10, 0.27), (50, 0.23)):
        assert hoyer(generator.normal(size=(5_000, latents))).score == pytest.approx(
            expected, abs=0.008
        )


def test_a_collapsed_latent_does_not_make_codes_sparse() -> None:
    codes = np.random.default_rng(0).normal(size=(2_000, 4))
    assert hoyer(codes * [1.0, 1.0, 1e-4, 1e-4]).score == pytest.approx(
        hoyer(codes).score, abs=1e-12
    )


def test_constant_latents_are_left_out_and_listed() -> None:
    codes = np.random.default_rng(0).normal(size=(30, 3))
    result = hoyer(np.insert(codes, [0, 2], [0.0, 0.1], axis=1))
    assert result.constant_latents == (0, 3)
    assert result.score == pytest.approx(hoyer(codes).score, abs=1e-12)


def test_latents_too_small_to_have_digits_are_constant() -> None:
    codes = np.random.default_rng(0).normal(size=(30, 3))
    result = hoyer(np.column_stack([codes, np.eye(30)[:, :2] * 5e-324, codes[:, 0] * 5e-324]))
    assert result.constant_latents == (3, 4, 5)
    assert result.score == pytest.approx(hoyer(codes).score, abs=1e-12)
    assert hoyer(codes * 5e-324).score == 0.0
    assert hoyer(codes * 1e-300).score == pytest.approx(hoyer(codes).score, abs=1e-12)


def test_rows_of_zeros_have_no_sparsity_and_are_left_out() -> None:
    codes = np.concatenate([np.eye(3), np.zeros((2, 3))])
    result = hoyer(codes)
    assert result.score == pytest.approx(1.0, abs=1e-12)
    assert np.isnan(result.per_sample).tolist() == [False, False, False, True, True]


@pytest.mark.parametrize(
    "codes",
    [np.arange(4.0)[:, None], np.ones((4, 3)), np.zeros((4, 2)), np.eye(4)[:, :1] * [1.0, 0.0]],
)
def test_fewer_than_two_varying_latents_score_zero(codes: np.ndarray) -> None:
    result = hoyer(codes)
    assert result.score == 0.0
    assert result.per_sample.tolist() == [0.0] * len(codes)


def test_peer_is_the_formula_sample_by_sample(sample) -> None:
    codes = sample[0]
    # Which degrees of freedom does not matter: a common factor cancels.
    deviations = codes.std(axis=0, ddof=1)
    expected = []
    for row in codes / deviations:
        root = len(row) ** 0.5
        expected.append(
            (root - sum(abs(x) for x in row) / sum(x * x for x in row) ** 0.5) / (root - 1)
        )
    assert hoyer(codes).per_sample == pytest.approx(np.array(expected), abs=1e-12)
    assert hoyer(codes).score == pytest.approx(np.mean(expected), abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = generator.normal(size=(50, 4)) ** 3
    score = hoyer(codes).score
    assert 0 <= score <= 1
    assert hoyer(
        codes[:, generator.permutation(4)] * [-1.0, 1.0, -1.0, 1.0]
    ).score == pytest.approx(score, abs=1e-12)
    assert hoyer(codes * [1e-150, 3.0, 500.0, 1e20]).score == pytest.approx(score, abs=1e-9)
    assert hoyer(np.tile(codes, (3, 1))).score == pytest.approx(score, abs=1e-12)


def test_codes_without_rows_to_compare_are_refused(refused) -> None:
    assert refused(hoyer, np.ones((1, 2))) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]
    assert refused(hoyer, np.array([["a", "b"], ["c", "d"]])) == [
        ("codes", "must be numbers", "dtype <U1")
    ]
