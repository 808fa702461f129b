# SPDX-License-Identifier: Apache-2.0
"""The factor grid: names and sizes of the factors, and C-order index arithmetic."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import InputError, Problems, Shown, invalid, unknown


@dataclass(frozen=True)
class FactorGrid:
    """Every combination of the factors' values, numbered in C order.

    >>> grid = FactorGrid(("shape", "x"), (3, 4))
    >>> grid.size
    12
    >>> grid.to_index([[2, 1]])
    array([9])
    >>> grid.to_factors([9])
    array([[2, 1]])
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check names and sizes; lists are accepted and stored as tuples."""
        object.__setattr__(self, "names", tuple(str(name) for name in self.names))
        object.__setattr__(self, "sizes", tuple(self.sizes))
        problems = Problems()
        if len(self.names) != len(self.sizes):
            problems.add(
                "grid", "needs one size for each name", Shown(f"{self.names} and {self.sizes}")
            )
        if not self.names:
            problems.add("grid", "needs at least one factor", self.names)
        if len(set(self.names)) != len(self.names):
            problems.add("grid names", "must differ from each other", self.names)
        if not all(isinstance(size, numbers.Integral) for size in self.sizes):
            problems.add("grid sizes", "must be whole numbers", self.sizes)
        elif any(size < 1 for size in self.sizes):
            problems.add("grid sizes", "must be at least 1", self.sizes)
        problems.raise_if_any()
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return math.prod(self.sizes)

    def to_index(self, factors: ArrayLike) -> NDArray[np.int64]:
        """Flat index of each row of *factors*; a value outside its factor is refused."""
        rows = np.asarray(factors)
        if rows.shape[-1:] != (len(self.sizes),):
            raise invalid(
                "factors",
                f"need {len(self.sizes)} columns {self.names}",
                Shown(f"shape {rows.shape}"),
            )
        if rows.size and not np.issubdtype(rows.dtype, np.integer):
            raise invalid("factors", "must be whole numbers", Shown(f"dtype {rows.dtype}"))
        rows = rows.astype(np.int64, copy=False)
        for column, (name, size) in enumerate(zip(self.names, self.sizes, strict=True)):
            values = rows[..., column]
            outside = (values < 0) | (values >= size)
            if outside.any():
                raise invalid(
                    f"factor '{name}'", f"must lie in 0..{size - 1}", int(values[outside].flat[0])
                )
        strides = np.array(
            [math.prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes))], dtype=np.int64
        )
        return np.asarray(rows @ strides)

    def to_factors(self, index: ArrayLike) -> NDArray[np.int64]:
        """Factor values of each flat *index*; an index outside the grid is refused."""
        flat = self.check_index(index)
        return np.stack(np.unravel_index(flat, self.sizes), axis=-1).astype(np.int64, copy=False)

    def check_index(self, index: ArrayLike) -> NDArray[np.int64]:
        """*index* as int64, refused where it is not a whole number in 0..size-1."""
        flat = np.asarray(index)
        if flat.size == 0:
            return flat.astype(np.int64)
        if not np.issubdtype(flat.dtype, np.integer):
            raise invalid("indices", "must be whole numbers", Shown(f"dtype {flat.dtype}"))
        flat = flat.astype(np.int64, copy=False)
        outside = (flat < 0) | (flat >= self.size)
        if outside.any():
            raise invalid("indices", f"must lie in 0..{self.size - 1}", int(flat[outside].flat[0]))
        return flat

    def axis(self, name: str) -> int:
        """Position of the factor called *name*."""
        if name not in self.names:
            raise InputError(unknown("factor", name, self.names))
        return self.names.index(name)

    def traversal(self, index: int, factor: str | int) -> NDArray[np.int64]:
        """Indices of all values of one factor with the others fixed as at *index*."""
        axis = self.axis(factor) if isinstance(factor, str) else factor
        rows = np.repeat(self.to_factors([index]), self.sizes[axis], axis=0)
        rows[:, axis] = np.arange(self.sizes[axis])
        return self.to_index(rows)


def samples_grid(count: int) -> FactorGrid:
    """The grid of data without a factor structure: one axis, `sample`."""
    return FactorGrid(("sample",), (count,))


def relabel(factors: Sequence[ArrayLike] | ArrayLike) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Each column of whole-number *factors* renumbered 0..k-1 by value, with the counts k."""
    rows = np.asarray(factors)
    columns = [_renumber(rows[:, column]) for column in range(rows.shape[1])]
    return np.stack([numbers for numbers, _ in columns], axis=1), tuple(
        count for _, count in columns
    )


def _renumber(values: NDArray) -> tuple[NDArray[np.int64], int]:
    """One column renumbered, and how many values it takes."""
    if values.dtype.kind in "iu" and len(values):
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest <= 4 * len(values) and highest < 2**62 and lowest > -(2**62):
            # Values close together are counted, not sorted: ten times faster.
            above = values.astype(np.int64) - lowest
            taken = np.bincount(above) > 0
            return (np.cumsum(taken) - 1)[above], int(taken.sum())
    kinds, numbers = np.unique(values, return_inverse=True)
    return numbers.astype(np.int64), len(kinds)
