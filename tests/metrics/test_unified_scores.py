# SPDX-License-Identifier: Apache-2.0
"""Unified scores: closed forms, golden numbers, the graph against a plain search, the four scores,
degenerate input.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import dci, mig, modularity, sap, unified_scores
from unbraid.metrics.unified_scores import aggregate, connected_groups

FULL = np.tile(FactorGrid(("a", "b"), (2, 3)).to_factors(np.arange(6)), (10, 1))


def test_aggregations_of_a_diagonal() -> None:
    found = aggregate(np.diag([3.0, 1.0]), np.array([2.0, 0.5]))
    assert found.disentanglement == pytest.approx(1.0, abs=1e-9)
    assert found.completeness == pytest.approx(1.0, abs=1e-9)
    assert found.mig == pytest.approx((3 / 2 + 1 / 0.5) / 2)
    assert found.sap == 2.0
    assert found.modularity == 1.0
    assert found.four == pytest.approx([1.0, 1.75, 2.0, 1.0], abs=1e-9)


def test_groups_come_together_as_the_threshold_falls() -> None:
    # 5 joins latent 0 and factor 0, 4 makes a second group, 2 joins the two; zeros join nothing.
    thresholds, groups = connected_groups(np.array([[5.0, 2.0], [0.0, 4.0]]))
    assert thresholds.tolist() == [5.0, 4.0, 2.0, 0.0]
    assert groups.tolist() == [1, 2, 1, 1]
    found = aggregate(np.array([[5.0, 2.0], [0.0, 4.0]]), np.ones(2))
    assert found.area_precision == pytest.approx(1.5 * 1 + 1.5 * 2 + 1.0 * 2)
    assert found.max_precision == 2


def test_edges_of_one_size_come_at_once() -> None:
    thresholds, groups = connected_groups(np.array([[1.0, 1.0], [0.0, 1.0], [0.5, 0.0]]))
    assert thresholds.tolist() == [1.0, 0.5, 0.0]
    assert groups.tolist() == [1, 1, 1]


def groups_by_plain_search(matrix: np.ndarray, threshold: float) -> int:
    edges = (matrix >= threshold) & (matrix != 0)
    seen, groups = set(), 0
    for start in range(len(matrix)):
        if start in seen or not edges[start].any():
            continue
        groups += 1
        latents, reached = {start}, set()
        while latents - reached:
            latent = (latents - reached).pop()
            reached.add(latent)
            for factor in np.flatnonzero(edges[latent]):
                latents |= set(np.flatnonzero(edges[:, factor]))
        seen |= latents
    return groups


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 5), st.booleans())
def test_groups_are_those_of_a_plain_search(
    seed: int, latents: int, factors: int, coarse: bool
) -> None:
    matrix = np.random.default_rng(seed).random((latents, factors))
    matrix = np.round(matrix * 3) / 3 if coarse else matrix
    thresholds, groups = connected_groups(matrix)
    assert groups.tolist() == [
        groups_by_plain_search(matrix, threshold) for threshold in thresholds
    ]


def test_golden_aggregations(golden_case) -> None:
    expected = golden_case.expected
    found = aggregate(
        np.array(expected["mutual_information"]), np.array(expected["factor_entropy"])
    )
    theirs = expected["unified_mi_aggregations"]
    ours = {
        "dci_disentanglement": found.disentanglement,
        "dci": found.disentanglement,
        "dci_completeness": found.completeness,
        "mig": found.mig,
        "sap": found.sap,
        "modularity": found.modularity,
    }
    assert ours == pytest.approx(theirs, abs=1e-9)
    for matrix, curve in (("mutual_information", "pr_curves_mi"), ("importance", "pr_curves_dci")):
        table = np.array(expected["dci"][matrix] if matrix == "importance" else expected[matrix])
        found = aggregate(table, np.array(expected["factor_entropy"]))
        assert found.area_precision == pytest.approx(expected[curve]["area_precision"], abs=1e-9)
        assert found.max_precision == expected[curve]["max_precision"]


def test_golden_codes(make_case) -> None:
    case = make_case("A/one_missing")
    result = unified_scores(*case.split)
    theirs = case.expected["unified_mi_aggregations"]
    assert result.information.four == pytest.approx(
        [theirs[name] for name in ("dci", "mig", "sap", "modularity")], abs=1e-9
    )
    assert result.information.area_precision == pytest.approx(
        case.expected["pr_curves_mi"]["area_precision"], abs=1e-9
    )
    assert result.importance.area_precision == pytest.approx(
        case.expected["pr_curves_dci"]["area_precision"], abs=0.05
    )
    assert result.importance.max_precision == case.expected["pr_curves_dci"]["max_precision"]


@pytest.mark.parametrize("backend", ["lightgbm", "sklearn"])
def test_four_of_the_twelve_are_the_published_scores(sample, backend) -> None:
    codes, factors = sample[0][:150], sample[1][:150, :2]
    split = codes[:100], factors[:100], codes[100:], factors[100:]
    result = unified_scores(*split, backend=backend, seed=3)
    trees = dci(*split, backend=backend, seed=3)
    assert np.array_equal(result.importance.matrix, trees.importance)
    assert result.importance.disentanglement == trees.disentanglement
    assert result.importance.completeness == trees.completeness
    assert result.information.mig == pytest.approx(mig(*split[:2]).score, abs=1e-12)
    assert result.information.modularity == modularity(*split[:2]).score
    assert result.accuracy.sap == pytest.approx(sap(*split).score, abs=1e-12)
    assert result.twelve.shape == (3, 4)
    assert result.score == pytest.approx(result.twelve.mean())


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_order_of_latents_and_factors_does_not_matter(seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix, nats = generator.random((4, 3)), generator.random(3) + 0.5
    latents, factors = generator.permutation(4), generator.permutation(3)
    one, other = aggregate(matrix, nats), aggregate(matrix[latents][:, factors], nats[factors])
    assert other.four == pytest.approx(one.four, abs=1e-12)
    assert (other.completeness, other.area_precision) == pytest.approx(
        (one.completeness, one.area_precision), abs=1e-12
    )
    assert np.array_equal(other.groups, one.groups)


def test_a_constant_factor_is_left_out_and_listed() -> None:
    wider = np.column_stack([FULL[:, 0], np.full(60, 4), FULL[:, 1]])
    result, without = (unified_scores(FULL * 1.0, each, FULL * 1.0, each) for each in (wider, FULL))
    assert result.constant_factors == (1,)
    assert np.array_equal(result.twelve, without.twelve)
    assert result.accuracy.matrix.shape == (2, 2)


def test_one_latent_and_one_factor_have_defined_values() -> None:
    result = unified_scores(FULL[:, :1], FULL[:, :1], FULL[:, :1], FULL[:, :1])
    assert np.isfinite(result.twelve).all()
    assert result.importance.four == pytest.approx([1.0, 1 / np.log(2), 1.0, 1.0])
    assert result.importance.max_precision == 1
    assert result.importance.area_precision == 0.0


def test_constant_codes_say_nothing() -> None:
    result = unified_scores(np.ones((60, 2)), FULL, np.ones((60, 2)), FULL)
    assert result.importance.four == pytest.approx([0.0] * 4, abs=1e-9)
    assert result.information.four == pytest.approx([0.0] * 4, abs=1e-9)
    assert result.information.max_precision == 0
    assert result.accuracy.sap == 0.0


def test_values_missing_from_either_part_are_no_error(sample) -> None:
    codes, factors = sample[0][:120], sample[1][:120]
    low = factors[:, 2] < 2
    for split in (
        (codes, factors, codes[low], factors[low]),
        (codes[low], factors[low], codes, factors),
    ):
        assert np.isfinite(unified_scores(*split).twelve).all()


def test_all_that_is_wrong_with_the_options(refused) -> None:
    assert refused(unified_scores, FULL, FULL, FULL, FULL, bins=1, seed=-1) == [
        ("bins", "must be a whole number of at least 2", "1"),
        ("seed", "must be a whole number of at least 0", "-1"),
    ]
    assert refused(unified_scores, FULL, FULL, FULL, FULL, backend="trees") == [
        ("backend", "is unknown", "trees")
    ]
