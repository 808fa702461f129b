# SPDX-License-Identifier: Apache-2.0
"""Index arithmetic by hand, round trips by search, refusals in full."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.core.grid import FactorGrid, relabel, samples_grid

GRID = FactorGrid(("shape", "x", "y"), (2, 3, 4))


def message(call, *given):
    with pytest.raises(InputError) as told:
        call(*given)
    return str(told.value)


@st.composite
def grids(draw):
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    return FactorGrid(tuple(f"f{k}" for k in range(len(sizes))), tuple(sizes))


def test_c_order_by_hand():
    assert GRID.size == 24
    assert GRID.to_index([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 3]]).tolist() == [
        0,
        1,
        4,
        12,
        23,
    ]
    assert GRID.to_factors([0, 1, 4, 12, 23]).tolist() == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 1, 0],
        [1, 0, 0],
        [1, 2, 3],
    ]
    assert GRID.to_factors(np.arange(24)).tolist() == [
        list(row) for row in itertools.product(range(2), range(3), range(4))
    ]


@given(grids(), st.data())
def test_round_trips(grid, data):
    indices = data.draw(st.lists(st.integers(0, grid.size - 1), min_size=1, max_size=20))
    factors = grid.to_factors(indices)
    assert factors.dtype == np.int64
    assert factors.shape == (len(indices), len(grid.sizes))
    assert grid.to_index(factors).tolist() == indices
    assert ((factors >= 0) & (factors < np.array(grid.sizes))).all()
    assert np.array_equal(factors.T, np.unravel_index(np.array(indices), grid.sizes))


@given(grids(), st.data())
def test_factors_round_trip_in_any_shape(grid, data):
    row = np.array([data.draw(st.integers(0, size - 1)) for size in grid.sizes])
    block = np.tile(row, (2, 3, 1))
    index = grid.to_index(block)
    assert index.shape == (2, 3)
    assert np.array_equal(grid.to_factors(index), block)
    assert grid.to_index(row).shape == ()


@given(grids(), st.data())
def test_traversal_moves_one_factor_only(grid, data):
    index = data.draw(st.integers(0, grid.size - 1))
    name = data.draw(st.sampled_from(grid.names))
    walk = grid.to_factors(grid.traversal(index, name))
    axis = grid.axis(name)
    assert walk[:, axis].tolist() == list(range(grid.sizes[axis]))
    rest = np.delete(walk, axis, axis=1)
    assert (rest == np.delete(grid.to_factors([index]), axis, axis=1)).all()
    assert np.array_equal(grid.traversal(index, axis), grid.traversal(index, name))


@given(grids(), st.sampled_from([-1, 0, 1, 1000]))
def test_indices_outside_are_refused(grid, beyond):
    outside = grid.size + beyond if beyond >= 0 else beyond
    expected = f"indices must lie in 0..{grid.size - 1}; got {outside}."
    assert message(grid.to_factors, [0, outside]) == expected
    assert message(grid.check_index, outside) == expected


def test_refused_factors():
    assert message(GRID.to_index, [[0, 3, 0]]) == "factor 'x' must lie in 0..2; got 3."
    assert (
        message(GRID.to_index, [[0, 0, 0], [-1, 0, 0]])
        == "factor 'shape' must lie in 0..1; got -1."
    )
    assert (
        message(GRID.to_index, [[0, 0]])
        == "factors need 3 columns ('shape', 'x', 'y'); got shape (1, 2)."
    )
    assert message(GRID.to_index, 5) == "factors need 3 columns ('shape', 'x', 'y'); got shape ()."
    assert (
        message(GRID.to_index, [[0.0, 0.0, 0.0]])
        == "factors must be whole numbers; got dtype float64."
    )
    assert message(GRID.to_factors, [1.5]) == "indices must be whole numbers; got dtype float64."
    assert message(GRID.to_factors, [True]) == "indices must be whole numbers; got dtype bool."
    assert message(GRID.axis, "z") == "factor 'z' is unknown. Known: shape, x, y."
    assert (
        message(GRID.traversal, 0, "shap")
        == "factor 'shap' is unknown; did you mean 'shape'? Known: shape, x, y."
    )


def test_nothing_asked_nothing_given():
    assert GRID.to_factors([]).shape == (0, 3)
    assert GRID.to_index(np.empty((0, 3))).shape == (0,)
    assert GRID.check_index([]).dtype == np.int64


def test_refused_grids():
    assert (
        message(FactorGrid, ("a", "b"), (2,))
        == "grid needs one size for each name; got ('a', 'b') and (2,)."
    )
    assert message(FactorGrid, (), ()) == "grid needs at least one factor; got ()."
    assert (
        message(FactorGrid, ("a", "a"), (2, 3))
        == "grid names must differ from each other; got ('a', 'a')."
    )
    assert message(FactorGrid, ("a", "b"), (2, 0)) == "grid sizes must be at least 1; got (2, 0)."
    assert (
        message(FactorGrid, ("a", "b"), (2, 2.5))
        == "grid sizes must be whole numbers; got (2, 2.5)."
    )
    assert (
        message(FactorGrid, ("a", "a"), ("2", 3))
        == "grid names must differ from each other; got ('a', 'a').\ngrid sizes must be whole"
        " numbers; got ('2', 3)."
    )


def test_lists_and_numpy_sizes_are_stored_as_plain_tuples():
    grid = FactorGrid(["a", "b"], list(np.array([2, 3])))  # type: ignore[arg-type]
    assert grid == FactorGrid(("a", "b"), (2, 3))
    assert hash(grid) == hash(FactorGrid(("a", "b"), (2, 3)))
    assert all(type(size) is int for size in grid.sizes)


def test_data_without_factors_has_one_axis():
    assert samples_grid(7) == FactorGrid(("sample",), (7,))


def test_relabel_by_hand():
    # 99 lies too far from -3 to be counted, 7 near enough to 5.
    rows, counts = relabel([[10, 5], [-3, 5], [10, 7], [99, 5]])
    assert rows.tolist() == [[1, 0], [0, 0], [1, 1], [2, 0]]
    assert counts == (3, 2)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 10**12)), min_size=1, max_size=30))
def test_relabel_keeps_order_and_counts(values):
    rows, counts = relabel(values)
    table = np.array(values)
    for column in range(2):
        assert counts[column] == len(set(table[:, column]))
        assert set(rows[:, column]) == set(range(counts[column]))
        assert np.array_equal(
            np.sort(np.unique(table[:, column]))[rows[:, column]], table[:, column]
        )


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_relabel_counts_as_sorting_does_at_the_ends_of_every_type(kind):
    info = np.iinfo(kind)
    for values in (
        [info.min, info.min + 2],
        [info.max, info.max - 3, info.max],
        [info.min, info.max],
        [info.max] * 3,
    ):
        column = np.array(values, dtype=kind)[:, None]
        rows, counts = relabel(column)
        known, inverse = np.unique(column[:, 0], return_inverse=True)
        assert rows[:, 0].tolist() == inverse.tolist()
        assert counts == (len(known),)
