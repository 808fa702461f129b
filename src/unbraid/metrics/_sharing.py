# SPDX-License-Identifier: Apache-2.0
"""Batches of rows that share a factor's value, for the β-VAE and FactorVAE scores.

On a whole factor grid this is the sampling of the papers: the shared value and all other factors
are uniform. On any other labelled sample, "shares factor k" means drawn uniformly, with
replacement, from the rows of the sample with that value, and the shared value is as frequent as in
the sample, values that a single row has left out: that row shares them with nobody.

Departs: factors take turns instead of being drawn, which leaves every expectation as it is and
takes the scatter of the draw out of the score (at 1,000 votes 0.013 for a code that misses one
factor of five); constant factors are left out. With `as_reference` factors are drawn, constant ones
too, as disentanglement_lib does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Shown, invalid
from unbraid.metrics._arrays import Labelled


@dataclass(frozen=True)
class SharedFactor:
    """Rows grouped by value, for each factor that can be shared."""

    factors: NDArray[np.int64]
    """Columns that can be shared, `(shared,)`."""
    levels: NDArray[np.int64]
    """Their values renumbered from 0, `(n, shared)`."""
    order: NDArray[np.int64]
    """Rows sorted by the factor's level, `(shared, n)`."""
    start: NDArray[np.int64]
    """Where the group of each level begins in `order`, `(shared, levels)`."""
    count: NDArray[np.int64]
    """How many rows each level has, `(shared, levels)`."""
    in_turns: bool
    """Whether factors take turns; otherwise each batch draws its own."""

    @classmethod
    def of(cls, rows: Labelled, *, as_reference: bool = False) -> SharedFactor:
        """Group *rows* by each varying factor; a factor that never repeats a value is refused."""
        factors = np.arange(len(rows.sizes)) if as_reference else np.flatnonzero(rows.varying)
        levels = rows.levels[:, factors]
        most = max(rows.sizes)
        order = np.empty((len(factors), len(levels)), dtype=np.int64)
        count = np.empty((len(factors), most), dtype=np.int64)
        # NumPy sorts 16-bit numbers by counting, ten times faster than wider ones.
        narrow = levels.astype(np.uint16) if most <= 2**16 else levels
        for place, factor in enumerate(factors):
            count[place] = np.bincount(levels[:, place], minlength=most)
            if count[place].max() == 1:
                remedy = "Pass codes of a whole grid, or drop the factor."
                shown = Shown(f"{len(levels)} rows with {rows.sizes[factor]} values")
                raise invalid(
                    f"factor {factor}", "must have rows that share a value", shown, remedy
                )
            order[place] = np.argsort(narrow[:, place], kind="stable")
        return cls(
            factors, levels, order, np.cumsum(count, axis=1) - count, count, not as_reference
        )

    def rows_of(self, place: int, level: int) -> NDArray[np.int64]:
        """All rows with *level* of the factor at *place*."""
        begin = self.start[place, level]
        return self.order[place, begin : begin + self.count[place, level]]

    def draw(
        self, batches: int, batch: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Factors `(batches,)` and rows `(batches, batch)` that share their batch's factor."""
        place = self._places(batches, generator)[:, None]
        example = self._examples(place, 1, generator)
        return self.factors[place[:, 0]], self._alike(
            place, example, generator.random((batches, batch))
        )

    def draw_pairs(
        self, batches: int, batch: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Factors `(batches,)` and pairs of rows `(batches, batch)` that share that factor."""
        place = self._places(batches, generator)[:, None]
        first = self._examples(place, batch, generator)
        return (
            self.factors[place[:, 0]],
            first,
            self._alike(place, first, generator.random((batches, batch))),
        )

    def _places(self, batches: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Places of the factors of *batches*: in turns from one that is drawn, or all drawn."""
        if not self.in_turns:
            return generator.integers(len(self.factors), size=batches)
        return (np.arange(batches) + generator.integers(len(self.factors))) % len(self.factors)

    def _examples(
        self, place: NDArray[np.int64], width: int, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Rows `(batches, width)` drawn from those that share the factor at *place*."""
        alone = self.count == 1
        if not alone.any():
            return generator.integers(len(self.levels), size=(len(place), width))
        row = np.empty((len(place), width), dtype=np.int64)
        for factor in range(len(self.factors)):
            mine = place[:, 0] == factor
            accompanied = np.flatnonzero(~alone[factor, self.levels[:, factor]])
            row[mine] = generator.choice(accompanied, size=(int(mine.sum()), width))
        return row

    def _alike(
        self, place: NDArray[np.int64], example: NDArray[np.int64], uniform: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """A row for each *uniform* number with *example*'s value of the factor at *place*."""
        level = self.levels[example, place]
        within = (uniform * self.count[place, level]).astype(np.int64)
        within += self.start[place, level]
        return self.order[place, within]
