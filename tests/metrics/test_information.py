# SPDX-License-Identifier: Apache-2.0
"""Bins, entropy and mutual information: closed forms, then NumPy, scikit-learn and the golden
matrices.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unbraid.core.grid import relabel
from unbraid.metrics._information import entropy, histogram_bins, mutual_information


def test_bins_of_equal_width_with_the_largest_value_in_the_last() -> None:
    codes = np.array([[0.0], [0.24], [0.25], [0.5], [0.99], [1.0]])
    assert histogram_bins(codes, 4).ravel().tolist() == [0, 0, 1, 2, 3, 3]


def test_a_constant_latent_fills_one_bin() -> None:
    assert not histogram_bins(np.full((5, 1), 3.7), 20).any()


def test_a_latent_of_neighbouring_floats_is_binned() -> None:
    # NumPy's histogram refuses 20 bins between neighbouring numbers.
    codes = np.array([[1.0], [np.nextafter(1.0, 2.0)]])
    assert histogram_bins(codes, 20)[1, 0] == 19


@settings(deadline=None, max_examples=50)
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(2, 60), st.integers(1, 3)),
        elements=st.floats(-1e3, 1e3, width=32),
    )
)
def test_bins_agree_with_numpy(codes: np.ndarray) -> None:
    placed = histogram_bins(codes, 20)
    for latent in range(codes.shape[1]):
        column = codes[:, latent]
        if np.ptp(column) > 1e-6:
            edges = np.histogram(column, 20)[1]
            assert np.array_equal(placed[:, latent], np.digitize(column, edges[:-1]) - 1)


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 64), st.floats(-1e3, 1e3), st.floats(1e-6, 1e9))
def test_codes_on_an_edge_and_beside_it_are_placed_as_numpy_does(
    bins: int, start: float, width: float
) -> None:
    edges = np.histogram_bin_edges([start, start + width], bins)
    codes = np.concatenate(
        [edges, np.nextafter(edges[1:], start), np.nextafter(edges[:-1], np.inf)]
    )
    assert np.array_equal(
        histogram_bins(codes[:, None], bins)[:, 0], np.digitize(codes, edges[:-1]) - 1
    )


def test_a_constant_latent_beside_it_does_not_move_the_edges_of_a_latent() -> None:
    # np.linspace of many latents at once rounds otherwise as soon as one of them has no width.
    ends = np.sort(np.random.default_rng(0).normal(size=(2, 50)), axis=0)
    edges = np.stack([np.histogram_bin_edges(column, 20) for column in ends.T], axis=1)
    placed = histogram_bins(np.column_stack([edges, np.full(21, 0.1)]), 20)
    assert np.array_equal(placed[:, :50], np.tile([*range(20), 19], (50, 1)).T)


@pytest.mark.parametrize("scale", [1e-320, 1e-30, 1e30])
def test_codes_of_any_size_are_placed(scale: float) -> None:
    assert histogram_bins(np.arange(21.0)[:, None] * scale, 20).ravel().tolist() == [*range(20), 19]


def test_entropy_closed_forms() -> None:
    labels = np.array([[0, 0, 0], [1, 0, 1], [2, 0, 1], [3, 0, 1]])
    expected = [np.log(4), 0.0, -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))]
    assert entropy(labels, (4, 1, 2)) == pytest.approx(expected, abs=1e-15)


def test_information_closed_forms() -> None:
    left = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]])
    right = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    nats = mutual_information(left, 2, right, (2, 2))
    assert nats == pytest.approx(np.array([[np.log(2), 0.0], [0.0, 0.0], [0.0, 0.0]]), abs=1e-15)
    assert not nats[2].any()  # exactly nothing: modularity depends on it


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.integers(1, 200))
def test_information_agrees_with_sklearn(seed: int, rows: int) -> None:
    from sklearn.metrics import mutual_info_score

    generator = np.random.default_rng(seed)
    left, right = generator.integers(6, size=(rows, 2)), generator.integers([3, 9], size=(rows, 2))
    nats = mutual_information(left, 6, right, (3, 9))
    peer = [[mutual_info_score(left[:, a], right[:, b]) for b in range(2)] for a in range(2)]
    assert nats == pytest.approx(np.array(peer), abs=1e-12)
    assert (nats >= 0).all()


def test_information_of_columns_of_all_sizes_at_once_is_that_of_each_alone() -> None:
    generator = np.random.default_rng(0)
    left, sizes = generator.integers(7, size=(300, 4)), (1, 40, 2, 1, 13)
    right = generator.integers(sizes, size=(300, 5))
    together = mutual_information(left, 7, right, sizes)
    for column, size in enumerate(sizes):
        assert together[:, [column]] == pytest.approx(
            mutual_information(left, 7, right[:, [column]], [size]), abs=1e-13
        )
    assert not together[:, [0, 3]].any()


def test_the_layout_of_the_arrays_does_not_matter() -> None:
    generator = np.random.default_rng(0)
    codes, right = generator.normal(size=(200, 3)), generator.integers(4, size=(200, 2))
    placed = histogram_bins(np.asfortranarray(codes), 20)
    assert np.array_equal(placed, histogram_bins(codes, 20))
    nats = mutual_information(np.ascontiguousarray(placed), 20, np.asfortranarray(right), (4, 4))
    assert np.array_equal(nats, mutual_information(placed, 20, right, (4, 4)))


def test_golden_information_and_entropy(golden_case) -> None:
    codes, factors = golden_case.sample
    levels, sizes = relabel(factors)
    nats = mutual_information(histogram_bins(codes, 20), 20, levels, sizes)
    assert nats == pytest.approx(np.array(golden_case.expected["mutual_information"]), abs=1e-9)
    assert entropy(levels, sizes) == pytest.approx(
        np.array(golden_case.expected["factor_entropy"]), abs=1e-9
    )
