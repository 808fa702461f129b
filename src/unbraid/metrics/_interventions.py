# SPDX-License-Identifier: Apache-2.0
"""Setting one factor and leaving the others: rows looked up among all combinations of values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbraid.metrics._arrays import Labelled


@dataclass(frozen=True)
class Interventions:
    """Rows grouped by the combination of levels they have, of which none is missing."""

    levels: NDArray[np.int64]
    sizes: tuple[int, ...]
    order: NDArray[np.int64]
    """Rows sorted by combination, in C order."""
    start: NDArray[np.int64]
    """Where each combination begins in `order`."""
    count: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Labelled) -> Interventions | None:
        """Group *rows*; None where a combination is missing, so that no factor can be set."""
        combinations = math.prod(rows.sizes)
        if combinations > len(rows.levels):
            return None
        point = np.ravel_multi_index(tuple(rows.levels.T), rows.sizes)
        count = np.bincount(point, minlength=combinations)
        if not count.all():
            return None
        return cls(
            rows.levels,
            rows.sizes,
            np.argsort(point, kind="stable"),
            np.cumsum(count) - count,
            count,
        )

    def draw(self, factor: int, points: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """*points* groups of rows that differ in *factor* alone, which has each of its values once.

        The first of them is any row; of several rows with a combination one is drawn.
        """
        base = self.levels[generator.integers(len(self.levels), size=points)]
        asked = np.repeat(base[:, None, :], self.sizes[factor], axis=1)
        asked[:, :, factor] = np.arange(self.sizes[factor])
        point = np.ravel_multi_index(tuple(np.moveaxis(asked, -1, 0)), self.sizes)
        within = (generator.random(point.shape) * self.count[point]).astype(np.int64)
        return self.order[self.start[point] + within].ravel()
