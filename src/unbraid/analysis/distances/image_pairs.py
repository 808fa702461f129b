# SPDX-License-Identifier: Apache-2.0
"""Which images to compare: traversals of one factor with the others fixed, and random pairs.

On a full grid a traversal has every value of its factor. Labels on samples need not fill a grid:
there, samples that agree in all other labels form a group, and a traversal takes one sample of each
value that its group has. Samples with the same labels are dealt out to different traversals of
their group. Choices come from numpy's generator, seeded by (seed, factor).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Problem, Shown
from unbraid.data.dataset import Dataset

ABSENT = -1
MOST_VALUES = 128
"""A factor with more values is traversed at so many of them, evenly spread."""
ENOUGH_TRAVERSALS = 1024
"""Pairs of one traversal are alike; more traversals than the pairs would need make a mean over them
steadier.
"""


@dataclass(frozen=True)
class Traversals:
    """Traversals of one factor, in random order."""

    factor: str
    values: NDArray[np.int64]
    """The factor's values along a traversal `(values,)`, ascending."""
    indices: NDArray[np.int64]
    """Dataset indices `(traversals, values)`; -1 where a traversal has no sample of the value."""
    complete: bool
    """Every pair that differs in this factor only is in here once: means over it are exact."""

    def leading(self, images: int) -> Traversals:
        """The first traversals, about *images* images of them, at least one."""
        count = max(1, images // len(self.values))
        return (
            self
            if count >= len(self.indices)
            else Traversals(self.factor, self.values, self.indices[:count], False)
        )


@dataclass(frozen=True)
class RandomPairs:
    """Pairs of independent random samples; the two may be the same one."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    complete: bool
    """All ordered pairs are in here once."""

    def leading(self, count: int) -> RandomPairs:
        """The first *count* pairs."""
        if count >= len(self.first):
            return self
        return RandomPairs(self.first[:count], self.second[:count], False)


def choose_pairs(count: int, pairs: int, seed: int) -> RandomPairs:
    """*pairs* random pairs of *count* samples, or all ordered ones where there are no more."""
    draws = np.random.default_rng([seed, 0])
    if count * count <= pairs:
        every = draws.permutation(count * count)
        return RandomPairs(every // count, every % count, True)
    return RandomPairs(draws.integers(0, count, pairs), draws.integers(0, count, pairs), False)


def labels_needed(dataset: Dataset) -> list[Problem]:
    """That *dataset* has no factors, if so."""
    if dataset.labelled:
        return []
    remedy = "Give labels when loading it: factors=..., or a factors.csv in the folder of images."
    rule = "needs known factors, whose values are compared"
    return [Problem("data", rule, Shown(f"'{dataset.name}' without labels"), remedy)]


def choose_traversals(
    dataset: Dataset, pairs: int, seed: int
) -> tuple[list[Traversals], list[Problem]]:
    """Traversals of every factor that has any, and why others have none.

    There are at least *pairs* pairs where the data has them.
    """
    names, sizes = dataset.factor_names, dataset.factor_sizes
    on_grid = (names, sizes) == (dataset.grid.names, dataset.grid.sizes)
    rows = None if on_grid else dataset.factors(np.arange(len(dataset)))
    found, missing = [], []
    for axis, (name, size) in enumerate(zip(names, sizes, strict=True)):
        if size < 2:
            rule, value = "needs two values to be compared", Shown("one in all samples")
            missing.append(Problem(f"factor '{name}'", rule, value))
            continue
        values = np.unique(np.linspace(0, size - 1, min(size, MOST_VALUES)).astype(np.int64))
        wanted = _wanted(len(values), pairs)
        draws = np.random.default_rng([seed, axis + 1])
        if rows is None:
            indices, complete = _on_grid(sizes, axis, values, wanted, draws)
        else:
            indices, complete = _among_samples(rows, axis, values, wanted, draws)
        if len(indices):
            found.append(Traversals(name, values, indices, complete and len(values) == size))
        else:
            rule = "needs samples that differ in it and agree in every other factor"
            remedy = "Add such samples, or leave out labels that are nearly unique to a sample."
            value = Shown(f"none among {len(dataset):,} samples")
            missing.append(Problem(f"factor '{name}'", rule, value, remedy))
    return found, missing


def _wanted(values: int, pairs: int) -> int:
    """How many traversals give so many pairs, or more while images stay fewer than pairs."""
    per_traversal = values * (values - 1) // 2
    return max(-(-pairs // per_traversal), min(ENOUGH_TRAVERSALS, -(-pairs // values)))


def _on_grid(
    sizes: tuple[int, ...],
    axis: int,
    values: NDArray[np.int64],
    wanted: int,
    draws: np.random.Generator,
) -> tuple[NDArray[np.int64], bool]:
    stride = int(np.prod(sizes[axis + 1 :], dtype=np.int64))
    count = int(np.prod(sizes, dtype=np.int64)) // sizes[axis]
    # One from each of equally long stretches of the grid, in random order: as fair as any, and it
    # covers the slow factors evenly.
    ends = np.arange(min(wanted, count) + 1) * count // min(wanted, count)
    chosen = draws.permutation(
        ends[:-1] + (draws.random(len(ends) - 1) * np.diff(ends)).astype(np.int64)
    )
    start = chosen // stride * (stride * sizes[axis]) + chosen % stride
    return start[:, None] + stride * values[None, :], wanted >= count


def _among_samples(
    rows: NDArray[np.int64],
    axis: int,
    values: NDArray[np.int64],
    wanted: int,
    draws: np.random.Generator,
) -> tuple[NDArray[np.int64], bool]:
    """Traversals through labels that need not fill a grid.

    A cell holds the samples of one group and one value. A group with several cells offers as many
    traversals as its largest cell has samples: its nth traversal takes the nth sample of each cell,
    where smaller cells start again from their first. Cells are shuffled before each round.
    """
    samples = np.flatnonzero(np.isin(rows[:, axis], values))
    group_of = _groups(np.delete(rows[samples], axis, axis=1))
    value_of = np.searchsorted(values, rows[samples, axis])
    cells, cell_of, counts = np.unique(
        group_of * len(values) + value_of, return_inverse=True, return_counts=True
    )
    first_of_cell = np.cumsum(counts) - counts
    group_of_cell = cells // len(values)
    offered = np.zeros(int(group_of.max()) + 1, np.int64)
    np.maximum.at(offered, group_of_cell, counts)
    offered[np.bincount(group_of_cell) < 2] = 0
    total = int(offered.sum())
    if total == 0:
        return np.empty((0, len(values)), np.int64), True
    no_choice = bool((counts[offered[group_of_cell] > 0] == 1).all())
    rounds = 1 if no_choice else -(-wanted // total)
    end_of_group = np.cumsum(offered)
    tables = []
    for number in range(rounds):
        shuffled = samples[np.lexsort((draws.random(len(samples)), cell_of.reshape(-1)))]
        chosen = draws.permutation(total)[: wanted - number * total]
        group = np.searchsorted(end_of_group, chosen, side="right")
        nth = chosen - (end_of_group - offered)[group]
        key = group[:, None] * len(values) + np.arange(len(values))
        cell = np.minimum(np.searchsorted(cells, key), len(cells) - 1)
        sample = shuffled[first_of_cell[cell] + nth[:, None] % counts[cell]]
        tables.append(np.where(cells[cell] == key, sample, ABSENT))
    return np.concatenate(tables), no_choice and wanted >= total


def _groups(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each row of *labels*, the same for equal rows."""
    if labels.shape[1] == 0:
        return np.zeros(len(labels), np.int64)
    return np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
