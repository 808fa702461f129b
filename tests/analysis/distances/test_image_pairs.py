# SPDX-License-Identifier: Apache-2.0
"""Traversals differ in one factor alone, on grids and among labelled samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unbraid as ub
from unbraid.analysis.distances.image_pairs import ABSENT, choose_pairs, choose_traversals
from unbraid.data.dataset import Dataset


def labelled(rows: np.ndarray) -> Dataset:
    """Own images with these labels; the first pixel of an image is its number."""
    images = np.zeros((len(rows), 16, 16, 1), np.uint8)
    images[:, 0, 0, 0] = np.arange(len(rows)) % 256
    return ub.load(
        images, factors=rows, factor_names=[f"f{column}" for column in range(rows.shape[1])]
    )


def assert_sound(dataset: Dataset, pairs: int, seed: int = 0) -> None:
    """Every row of every table is a traversal."""
    for one in choose_traversals(dataset, pairs, seed)[0]:
        axis = dataset.factor_names.index(one.factor)
        for row in one.indices:
            there = row != ABSENT
            values = dataset.factors(row[there])
            assert there.sum() >= 2
            assert values[:, axis].tolist() == one.values[there].tolist()
            others = np.delete(values, axis, axis=1)
            assert (others == others[0]).all()


def test_grid_traversals_are_the_grids_own() -> None:
    data = ub.load("sprites", image_size=16, x=4, y=3, scale=2)
    found, missing = choose_traversals(data, 10**6, 0)
    assert missing == []
    assert [one.factor for one in found] == list(data.factor_names)
    for one in found:
        assert one.complete
        assert len(one.indices) == 24 // len(one.values)
        assert sorted(one.indices.ravel()) == list(range(24))
        for row in one.indices:
            assert row.tolist() == data.grid.traversal(int(row[0]), one.factor).tolist()


@pytest.mark.parametrize("pairs", [1, 50, 50_000])
def test_as_many_pairs_as_asked_for(pairs: int) -> None:
    for one in choose_traversals(ub.load("xysquares"), pairs, 0)[0]:
        assert len(one.indices) * 28 >= pairs
        assert len(one.indices) <= 1 + pairs / 8 + pairs / 28
        assert not one.complete
        assert len({tuple(row) for row in one.indices}) == len(one.indices)


def test_the_seed_chooses() -> None:
    data = ub.load("xysquares")
    first, again, other = (choose_traversals(data, 100, seed)[0][0].indices for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_many_values_are_thinned() -> None:
    data = labelled(np.arange(500)[:, None])
    (one,), _ = choose_traversals(data, 100, 0)
    assert len(one.values) == 128
    assert (one.values[0], one.values[-1]) == (0, 499)
    assert not one.complete
    assert_sound(data, 100)


def test_labels_that_fill_no_grid() -> None:
    rows = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [2, 1], [1, 2], [3, 3]])
    (first, second), missing = choose_traversals(labelled(rows), 100, 0)
    assert missing == []
    assert sorted(map(tuple, first.indices.tolist())) == [(0, 1, 2, -1), (3, -1, 4, -1)]
    assert sorted(map(tuple, second.indices.tolist())) == [
        (0, 3, -1, -1),
        (1, -1, 5, -1),
        (2, 4, -1, -1),
    ]
    assert first.complete
    assert second.complete


def test_samples_with_the_same_labels_are_dealt_out() -> None:
    rows = np.repeat(np.array([[0], [1]]), [3, 2], axis=0)
    (one,), _ = choose_traversals(labelled(rows), 3, 0)
    assert len(one.indices) == 3
    assert sorted(one.indices[:, 0]) == [0, 1, 2]
    assert set(one.indices[:, 1]) == {3, 4}
    assert not one.complete


def test_more_pairs_are_found_by_dealing_again() -> None:
    found, _ = choose_traversals(ub.load("pinwheel"), 5000, 0)
    assert len(found[0].indices) * 6 >= 5000
    assert_sound(ub.load("pinwheel"), 5000)


def test_factors_without_traversals_are_named() -> None:
    rows = np.array([[0, 0, 5], [1, 1, 5], [2, 2, 5]])
    found, missing = choose_traversals(labelled(rows), 100, 0)
    assert found == []
    assert [problem.name for problem in missing] == ["factor 'f0'", "factor 'f1'", "factor 'f2'"]
    assert [problem.value for problem in missing] == [
        *["none among 3 samples"] * 2,
        "one in all samples",
    ]
    assert "agree in every other factor" in missing[0].rule
    assert missing[0].remedy.startswith("Add such samples")


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(2, 40), st.integers(1, 3), st.integers(1, 60))
def test_any_labels_give_sound_traversals(seed: int, count: int, factors: int, pairs: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 4, (count, factors))
    assert_sound(labelled(rows), pairs, seed)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(2, 30))
def test_without_repeated_labels_every_pair_is_found_once(seed: int, count: int) -> None:
    rows = np.unique(np.random.default_rng(seed).integers(0, 4, (count, 2)), axis=0)
    rows = np.concatenate([rows, [[9, 9]]])  # two images at least
    data = labelled(rows)
    labels = data.factors(np.arange(len(rows)))
    expected = {0: set(), 1: set()}
    for a in range(len(rows)):
        for b in range(a):
            differing = np.flatnonzero(labels[a] != labels[b])
            if len(differing) == 1:
                expected[int(differing[0])].add((b, a))
    for one in choose_traversals(data, 10**5, 0)[0]:
        found = [
            (min(a, b), max(a, b))
            for row in one.indices
            for i, a in enumerate(row)
            for b in row[:i]
            if a != ABSENT and b != ABSENT
        ]
        assert len(found) == len(set(found))
        assert set(found) == expected.pop(int(one.factor[1:]))
        assert one.complete
    assert all(not pairs for pairs in expected.values())


def test_random_pairs() -> None:
    few = choose_pairs(5, 25, 0)
    assert few.complete
    assert sorted(zip(few.first.tolist(), few.second.tolist(), strict=True)) == [
        (a, b) for a in range(5) for b in range(5)
    ]
    many = choose_pairs(1000, 500, 0)
    assert not many.complete
    assert len(many.first) == len(many.second) == 500
    assert 0 <= min(many.first.min(), many.second.min())
    assert max(many.first.max(), many.second.max()) < 1000
    assert not np.array_equal(many.first, many.second)
    assert np.array_equal(many.leading(10).first, many.first[:10])
