# SPDX-License-Identifier: Apache-2.0
"""Images of the data that the page shows, encodes and compares models by: the same for all models.

They are the first of the recorded sample, whose order is random, as one PNG of all of them.
"""

from __future__ import annotations

import base64
import functools
import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.codes.codes import scored_sample
from unbraid.data.dataset import Dataset

MOST = 256
_MOST_VALUES = 4_000_000
"""Of all samples together: larger images, fewer of them."""
_COLUMNS = 16
_MOST_LABELS = 200
"""With more values than this a factor has numbers."""


@dataclass(frozen=True)
class Samples:
    """Images of the data with their factor values."""

    dataset: Dataset
    wanted: int
    """Images of the recorded sample that they are the first of."""

    @functools.cached_property
    def indices(self) -> NDArray[np.int64]:
        """Which images they are."""
        count = min(MOST, max(1, _MOST_VALUES // math.prod(self.dataset.image_shape)))
        return scored_sample(self.dataset, self.wanted)[:count]

    def record(self) -> dict[str, Any]:
        """What the page is given: the images side by side in rows, and their factor values."""
        indices, columns = self.indices, min(_COLUMNS, len(self.indices))
        factors = self.dataset.factors(indices) if self.dataset.labelled else None
        return {
            "count": len(indices),
            "columns": columns,
            "sprite": _png_uri(_sheet(self.dataset.images(indices), columns)),
            "factors": [] if factors is None else factors.tolist(),
        }

    def factors(self) -> list[dict[str, Any]]:
        """Names, sizes and values of the factors; none where they are not known."""
        if not self.dataset.labelled:
            return []
        sizes, values = self.dataset.factor_sizes, self.dataset.factor_values
        return [
            {
                "name": name,
                "size": size,
                "values": [str(one) for one in own] if size <= _MOST_LABELS else [],
            }
            for name, size, own in zip(self.dataset.factor_names, sizes, values, strict=True)
        ]

    def image_of_factors(self, values: tuple[int, ...]) -> NDArray[np.uint8]:
        """The image with these factor values, or the one that differs in the fewest."""
        grid = self.dataset.grid
        if grid.sizes == self.dataset.factor_sizes:
            index = int(grid.to_index([values])[0])
        else:
            off = self._all_factors != np.asarray(values)
            index = int(off.sum(axis=1).argmin())
        return self.dataset.images([index])[0]

    @functools.cached_property
    def _all_factors(self) -> NDArray[np.int64]:
        return self.dataset.factors(np.arange(len(self.dataset)))


def _sheet(images: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """Images `(n, height, width, channels)` in rows of *columns*, black where there are no more."""
    count, height, width, channels = images.shape
    rows = -(-count // columns)
    sheet = np.zeros((rows * columns, height, width, channels), dtype=np.uint8)
    sheet[:count] = images
    by_row = sheet.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return by_row.reshape(rows * height, columns * width, channels)


def _png_uri(sheet: NDArray[np.uint8]) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(sheet.squeeze(2) if sheet.shape[2] == 1 else sheet).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
