# SPDX-License-Identifier: Apache-2.0
"""JEMMIG: closed forms, the formula written out slowly, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.grid import FactorGrid
from unbraid.metrics import jemmig

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20))


def test_codes_that_are_the_factors_score_one() -> None:
    result = jemmig(np.column_stack([-2.0 * FULL[:, 1], FULL[:, 0]]), FULL)
    assert result.score == pytest.approx(1.0, abs=1e-12)
    assert result.nats == pytest.approx(0.0, abs=1e-12)
    assert result.joint_entropy == pytest.approx(
        np.array([[np.log(20), np.log(5)], [np.log(4), np.log(20)]]), abs=1e-12
    )


def test_what_the_latent_holds_besides_is_fined() -> None:
    # One latent counts all 20 points: H(z, a) - I(z; a) = ln 20 - ln 4 = ln 5, and for b ln 4.
    result = jemmig(5 * FULL[:, [0]] + FULL[:, [1]], FULL)
    assert result.nats_per_factor == pytest.approx([np.log(5), np.log(4)], abs=1e-12)
    assert result.per_factor == pytest.approx(
        [1 - np.log(5) / np.log(80), 1 - np.log(4) / np.log(100)], abs=1e-12
    )
    assert result.nats == pytest.approx(np.log(20) / 2, abs=1e-12)


def test_a_second_latent_is_fined_by_what_it_knows() -> None:
    # Whether a is below 2 is ln 2 nats.
    result = jemmig(np.column_stack([FULL, FULL[:, 0] < 2]), FULL)
    assert result.nats_per_factor == pytest.approx([np.log(2), 0.0], abs=1e-12)


def test_the_largest_value_belongs_to_even_codes_that_know_nothing() -> None:
    # Every bin of 4 as often with every value: nothing is known, all entropy is excess.
    grid = FactorGrid(("z", "v"), (4, 3)).to_factors(np.arange(12))
    assert jemmig(grid[:, [0]], grid[:, [1]], bins=4).score == pytest.approx(0.0, abs=1e-12)


def test_constant_codes_score_by_their_lack_of_excess() -> None:
    result = jemmig(np.zeros((20, 2)), FULL)
    assert result.per_factor == pytest.approx(
        [np.log(20) / np.log(80), np.log(20) / np.log(100)], abs=1e-12
    )


def test_more_bins_than_values_are_no_excess() -> None:
    assert jemmig(FULL, FULL, bins=50).score == pytest.approx(1.0, abs=1e-12)


def test_of_latents_that_tie_the_leaner_counts_in_any_order() -> None:
    # Both tell a without fail; one of them tells b too.
    lean, rich = FULL[:, 0], 5 * FULL[:, 0] + FULL[:, 1]
    one, other = (
        jemmig(np.column_stack([lean, rich]), FULL),
        jemmig(np.column_stack([rich, lean]), FULL),
    )
    assert one.nats_per_factor[0] == pytest.approx(np.log(4), abs=1e-12)  # ln 4 - ln 4 + ln 4
    assert other.nats_per_factor == pytest.approx(one.nats_per_factor, abs=1e-12)


def test_a_constant_factor_is_left_out_and_listed() -> None:
    result = jemmig(FULL, np.column_stack([FULL[:, 0], np.full(20, 7), FULL[:, 1]]))
    assert result.constant_factors == (1,)
    assert result.score == jemmig(FULL, FULL).score
    assert (
        np.isnan(result.per_factor).tolist()
        == np.isnan(result.nats_per_factor).tolist()
        == [False, True, False]
    )


def test_refusals(refused) -> None:
    assert refused(jemmig, FULL, FULL, bins=2.5) == [
        ("bins", "must be a whole number of at least 2", "2.5")
    ]
    assert refused(jemmig, FULL[:1], FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]


def test_the_formula_written_out(golden_case) -> None:
    codes, factors = golden_case.sample
    information = np.array(golden_case.expected["mutual_information"])
    expected = []
    for factor in range(factors.shape[1]):
        order = np.argsort(information[:, factor])[::-1]
        edges = np.histogram(codes[:, order[0]], 20)[1]
        _, pairs = np.unique(
            np.column_stack([np.digitize(codes[:, order[0]], edges[:-1]), factors[:, factor]]),
            axis=0,
            return_counts=True,
        )
        joint = -np.sum(pairs / len(codes) * np.log(pairs / len(codes)))
        expected.append(joint - information[order[0], factor] + information[order[1], factor])
    result = jemmig(codes, factors)
    assert result.nats_per_factor == pytest.approx(np.array(expected), abs=1e-9)
    scale = np.array(golden_case.expected["factor_entropy"]) + np.log(20)
    assert result.score == pytest.approx(np.mean(1 - np.array(expected) / scale), abs=1e-9)
