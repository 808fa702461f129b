# SPDX-License-Identifier: Apache-2.0
"""Modularity: closed forms, golden numbers, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.grid import FactorGrid
from unbraid.metrics import modularity
from unbraid.metrics.modularity import modularity_per_latent

FULL = FactorGrid(("a", "b", "c"), (4, 4, 4)).to_factors(np.arange(64))


def test_formula_by_hand() -> None:
    information = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    assert modularity_per_latent(information).tolist() == [1 - 1 / (2 * 4), 0.0, 1.0, 0.0]


def test_perfect_codes_score_one_and_dead_latents_count_as_zero() -> None:
    assert modularity(FULL, FULL).score == pytest.approx(1.0, abs=1e-12)
    with_dead = modularity(np.column_stack([FULL, np.full(64, 0.3)]), FULL)
    assert with_dead.per_latent[3] == 0.0
    assert with_dead.score == pytest.approx(0.75, abs=1e-12)


def test_a_latent_that_counts_two_factors_alike() -> None:
    # 4 a + b in 16 bins knows a and b entirely and c not at all: 1 - 1 / 2.
    assert modularity(4 * FULL[:, [0]] + FULL[:, [1]], FULL, bins=16).score == pytest.approx(
        0.5, abs=1e-12
    )


def test_constant_factors_are_no_factors() -> None:
    mixed = 4 * FULL[:, [0]] + FULL[:, [1]]
    result = modularity(mixed, np.column_stack([FULL, np.zeros(64, dtype=int)]), bins=16)
    assert result.constant_factors == (3,)
    assert result.score == pytest.approx(0.5, abs=1e-12)


def test_the_reference_counts_constant_factors() -> None:
    # 1 - 1 / (K - 1) with K = 4 instead of 3.
    mixed, factors = (
        4 * FULL[:, [0]] + FULL[:, [1]],
        np.column_stack([FULL, np.zeros(64, dtype=int)]),
    )
    theirs = modularity(mixed, factors, bins=16, compat="disentanglement_lib")
    assert theirs.score == pytest.approx(2 / 3, abs=1e-12)
    assert theirs.constant_factors == (3,)


def test_the_reference_agrees_where_every_factor_varies(sample) -> None:
    assert modularity(*sample, compat="disentanglement_lib").score == modularity(*sample).score


def test_refusals(refused) -> None:
    assert refused(modularity, FULL, FULL, compat="dlib") == [("compat", "is unknown", "dlib")]
    assert refused(modularity, FULL, FULL, bins=0) == [
        ("bins", "must be a whole number of at least 2", "0")
    ]
    assert refused(modularity, FULL[:1], FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 3)")
    ]


def test_one_varying_factor_cannot_be_mixed_with_anything() -> None:
    result = modularity(np.column_stack([FULL[:, 0], np.ones(64)]), FULL[:, :1])
    assert result.per_latent.tolist() == [1.0, 0.0]


def test_golden(golden_case) -> None:
    result = modularity(*golden_case.sample)
    assert result.score == pytest.approx(golden_case.expected["modularity"], abs=1e-9)
    assert result.per_latent == pytest.approx(
        np.array(golden_case.expected["modularity_per_latent"]), abs=1e-9
    )
