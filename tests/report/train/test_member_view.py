# SPDX-License-Identifier: Apache-2.0
"""What is shown of a member agrees with its codes."""

import numpy as np
import pytest

from unbraid.codes.codes import Codes, CodeStore
from unbraid.commands.run import Run
from unbraid.metrics.mig import mig
from unbraid.report.train.member_view import (
    FactorPlace,
    carried,
    diagonal_order,
    factor_place,
    information_shares,
    latent_sizes,
    moves_images,
    view_member,
)
from unbraid.scoring.collapse import which_active


def codes_of(mean: np.ndarray, factors: np.ndarray) -> Codes:
    count = len(mean)
    return Codes(
        np.arange(count),
        factors,
        mean.astype(np.float32),
        np.zeros(mean.shape, dtype=np.float32),
        seed=0,
    )


def test_latents_that_copy_factors_hold_all_of_their_information() -> None:
    factors = np.stack(np.meshgrid(np.arange(4), np.arange(5), indexing="ij"), axis=-1).reshape(
        -1, 2
    )
    factors = np.concatenate([factors, np.zeros((20, 1), dtype=np.int64)], axis=1)
    shares = information_shares(codes_of(factors[:, [1, 0]].astype(float), factors))
    assert shares[:, :2] == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert np.isnan(shares[:, 2]).all()


def test_the_order_is_diagonal_with_silent_latents_last() -> None:
    shares = np.array([[0.0, 0.9], [0.02, 0.01], [0.5, 0.1], [0.8, 0.2], [0.6, 0.7]])
    active = np.array([True, True, True, True, False])
    assert diagonal_order(shares, active) == [3, 2, 0, 1, 4]


def test_activity_by_kl_and_by_spread() -> None:
    assert moves_images("kl", np.array([0.5, 0.0099, 0.01])).tolist() == [True, False, True]
    assert moves_images("spread", np.array([2.0, 0.001, 0.0])).tolist() == [True, False, False]


def test_sizes_are_kl_where_there_is_a_posterior_else_spread() -> None:
    codes = codes_of(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros((2, 1), dtype=np.int64))
    kind, sizes = latent_sizes(codes, True)
    assert (kind, sizes.tolist()) == ("kl", [0.5, 0.0])
    kind, sizes = latent_sizes(codes, False)
    assert (kind, sizes.tolist()) == ("spread", [1.0, 0.0])


ALL_ACTIVE = np.ones(3, dtype=bool)


@pytest.mark.parametrize(
    ("shares", "active", "place"),
    [
        ([0.05, 0.81, 0.0], ALL_ACTIVE, FactorPlace("one", 1, 0.81, 0, 0.05)),
        ([0.4, 0.1, 0.5], ALL_ACTIVE, FactorPlace("spread", 2, 0.5, 0, 0.4)),
        ([0.01, 0.04, 0.02], ALL_ACTIVE, FactorPlace("none", 1, 0.04, 2, 0.02)),
        ([0.3], np.array([True]), FactorPlace("only", 0, 0.3)),
        ([np.nan] * 3, ALL_ACTIVE, FactorPlace("constant")),
        # Means that hardly move can seem to know much: a latent that is not active holds nothing.
        ([0.24, 0.17, 0.9], np.array([False, True, False]), FactorPlace("inactive", 1, 0.17)),
        ([0.24, 0.17, 0.9], np.array([False, True, True]), FactorPlace("one", 2, 0.9, 1, 0.17)),
        ([0.24, 0.7, 0.5], np.array([False, True, False]), FactorPlace("only", 1, 0.7)),
        ([0.24, 0.17, 0.9], np.zeros(3, dtype=bool), FactorPlace("no active latent")),
    ],
)
def test_where_a_factor_is(shares: list[float], active: np.ndarray, place: FactorPlace) -> None:
    assert factor_place(np.array(shares), active) == place


def test_a_factor_is_found_where_an_active_latent_carries_it() -> None:
    found = {
        kind: FactorPlace(kind, 0, 0.05).found
        for kind in ("one", "spread", "constant", "only", "none", "inactive", "no active latent")
    }
    assert [kind for kind, holds in found.items() if holds] == ["one", "spread", "constant"]
    assert FactorPlace("only", 0, 0.3).found


def test_carried_factors_come_largest_first_and_small_ones_are_left_out() -> None:
    shares = np.array([0.2, 0.09, 0.7, np.nan])
    assert carried(("x", "y", "z", "c"), shares) == [("z", 0.7), ("x", 0.2)]


def test_the_table_of_a_real_member_is_its_mig_evidence(runs: dict[str, Run]) -> None:
    run = runs["sweep"].folder
    codes = CodeStore(run).load(3)
    evidence = mig(codes.mean, codes.factors)
    view = view_member(run, 3, "three", "best of the run")
    assert [row.name for row in view.rows] == ["scale", "x", "y"]
    assert sorted(view.columns) == [0, 1, 2, 3]
    for at, row in enumerate(view.rows):
        expected = evidence.mutual_information[list(view.columns), at] / evidence.factor_entropy[at]
        assert row.shares == pytest.approx(expected)
    assert view.sizes == pytest.approx(codes.kl_per_latent())
    sizes = [row.size for row in view.latents]
    assert sizes == sorted(sizes, reverse=True)
    assert {row.number for row in view.latents} == set(
        np.flatnonzero(codes.kl_per_latent() >= 0.01).tolist()
    )


def test_what_carries_a_factor_is_active_as_the_table_of_scores_counts_it(
    runs: dict[str, Run],
) -> None:
    """Faint latents are drawn, and nothing is said to be in them."""
    run = runs["one"].folder
    codes = CodeStore(run).load(0)
    assert information_shares(codes).max() > 0.2
    active = which_active(codes.mean, codes.mean_variances())
    view = view_member(run, 0, "one", "the only model")
    assert view.active == set(np.flatnonzero(active).tolist())
    faint = [row for row in view.latents if not row.active]
    assert faint
    assert all(row.factors == () for row in faint)
