# SPDX-License-Identifier: Apache-2.0
"""Pairwise information: closed forms, golden numbers, a peer, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import pairwise_information

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20)) * 1.0


def test_independent_latents_of_a_whole_grid_share_nothing() -> None:
    result = pairwise_information(FULL)
    assert result.score == 0.0
    assert result.mutual_information == pytest.approx(np.diag(np.log([4.0, 5.0])), abs=1e-12)


def test_copies_share_their_entropy_also_where_nothing_correlates() -> None:
    first = FULL[:, 1] - 2.0
    square = first**2  # uncorrelated with the first, and determined by it: shares 1/5, 2/5, 2/5
    entropy = -(0.2 * np.log(0.2) + 0.8 * np.log(0.4))
    assert pairwise_information(np.column_stack([first, square])).score == pytest.approx(
        entropy, abs=1e-12
    )
    assert pairwise_information(np.column_stack([first, 7.0 - 3.0 * first])).score == pytest.approx(
        np.log(5), abs=1e-12
    )


def test_the_mean_is_over_ordered_pairs_of_different_latents() -> None:
    # Of three pairs one shares ln 4.
    result = pairwise_information(np.column_stack([FULL, FULL[:, 0]]))
    assert result.score == pytest.approx(np.log(4) / 3, abs=1e-12)


def test_a_constant_latent_counts_in_the_mean() -> None:
    copies = np.column_stack([FULL[:, 0], FULL[:, 0], np.full(20, 0.1)])
    assert pairwise_information(copies).score == pytest.approx(np.log(4) / 3, abs=1e-12)


@pytest.mark.parametrize("codes", [FULL[:, :1], np.ones((4, 3)), np.ones((4, 1))])
def test_nothing_to_share_scores_zero(codes: np.ndarray) -> None:
    assert pairwise_information(codes).score == 0.0


def test_bins_bound_what_is_resolved() -> None:
    fine = np.arange(40.0)
    codes = np.column_stack([fine, fine])
    assert pairwise_information(codes).score == pytest.approx(np.log(20), abs=1e-12)
    assert pairwise_information(codes, bins=40).score == pytest.approx(np.log(40), abs=1e-12)


def test_bias_of_independent_latents_falls_with_the_samples() -> None:
    generator = np.random.default_rng(0)
    few, many = (
        pairwise_information(generator.normal(size=(samples, 6))).score
        for samples in (1_000, 10_000)
    )
    assert few == pytest.approx(0.15, abs=0.02)
    assert many == pytest.approx(0.015, abs=0.003)


def test_golden(golden_case) -> None:
    score = pairwise_information(golden_case.sample[0]).score
    assert score == pytest.approx(
        golden_case.expected["unsupervised"]["mutual_info_score"], abs=1e-9
    )


def test_peer_is_scikit_learn(sample) -> None:
    from sklearn.metrics import mutual_info_score

    codes = sample[0]
    binned = [np.digitize(column, np.histogram_bin_edges(column, 7)[1:-1]) for column in codes.T]
    pairs = [
        mutual_info_score(a, b)
        for i, a in enumerate(binned)
        for j, b in enumerate(binned)
        if i != j
    ]
    assert pairwise_information(codes, bins=7).score == pytest.approx(np.mean(pairs), abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = generator.normal(size=(120, 3)) @ generator.normal(size=(3, 4))
    score = pairwise_information(codes).score
    assert pairwise_information(codes[:, generator.permutation(4)]).score == pytest.approx(
        score, abs=1e-12
    )
    assert pairwise_information(-codes).score == pytest.approx(score, abs=1e-12)
    # Powers of two scale without rounding, so no code crosses the edge of a bin.
    assert pairwise_information(codes * [0.25, 4.0, 64.0, 1.0]).score == pytest.approx(
        score, abs=1e-12
    )
    assert pairwise_information(np.tile(codes, (3, 1))).score == pytest.approx(score, abs=1e-12)


def test_bad_bins_and_too_few_rows_are_refused(refused) -> None:
    assert refused(pairwise_information, FULL, bins=1) == [
        ("bins", "must be a whole number of at least 2", "1")
    ]
    assert refused(pairwise_information, FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]
