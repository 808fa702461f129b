# SPDX-License-Identifier: Apache-2.0
"""XColumns: XYSquares without vertical positions; three columns, one in each colour channel.

Ours follows `XColumnsData` of the library disent (Michlo 2021). At the default spacing of 8 pixels
columns never overlap, so every change of a factor moves the image by the same distance, as in
XYSquares. Departs: none.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unbraid.core.checks import read_whole
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.data.dataset import PixelDataset
from unbraid.data.drawn.xysquares import POSITIONS, SIDE, SQUARE, covers


class XColumns(PixelDataset):
    """XColumns: three coloured columns, 3 positions; `spacing` (1..8 pixels) sets the overlap."""

    citation: ClassVar = Citation(
        "N. Michlo",
        2021,
        "Disent: a modular disentangled representation learning framework",
        "GitHub",
    )
    licence: ClassVar[str] = "none needed: drawn from its published description"
    factor_meanings: ClassVar[dict[str, str]] = {
        f"x_{colour[0].upper()}": f"left to right, the {colour} column"
        for colour in ("red", "green", "blue")
    }

    def __init__(self, spacing: int = 8) -> None:
        self.name = "xcolumns"
        self.spacing = read_whole(
            "spacing",
            spacing,
            1,
            8,
            "Use 8 for columns that never overlap, 1 for the most overlap.",
        )
        self.offset = (SIDE - (SQUARE + (POSITIONS - 1) * self.spacing)) // 2
        self.grid = FactorGrid(("x_R", "x_G", "x_B"), (POSITIONS,) * 3)
        self.image_shape = (SIDE, SIDE, 3)
        self.options = {"spacing": self.spacing}
        row = covers(
            self.offset + self.spacing * self.factors(np.arange(self.grid.size)), SQUARE, SIDE
        )
        self.planes = np.repeat(row[:, :, None, :], SIDE, axis=2).astype(np.uint8) * np.uint8(255)
