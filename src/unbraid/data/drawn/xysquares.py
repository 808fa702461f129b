# SPDX-License-Identifier: Apache-2.0
"""XYSquares (Michlo et al. 2023): three 8x8 squares, one in each colour channel, on a grid.

At the default spacing of 8 pixels two positions of a square never overlap, so every change of a
factor moves the image by the same distance 128/12288 and pixel losses see no order among the
values. Departs: none; drawn when asked for, never stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import read_whole
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler

SIDE, SQUARE, POSITIONS = 64, 8, 8
_NAMES = ("x_R", "y_R", "x_G", "y_G", "x_B", "y_B")


class XYSquares(Dataset):
    """XYSquares: three coloured squares, 6 positions; `spacing` (1..8 pixels) sets the overlap."""

    citation: ClassVar = Citation(
        "N. Michlo, R. Klein, S. James",
        2023,
        "Overlooked implications of the reconstruction loss for VAE disentanglement",
        "IJCAI",
    )
    licence: ClassVar[str] = "none needed: drawn from its published description"
    factor_meanings: ClassVar[dict[str, str]] = {
        name: f"{'left to right' if name.startswith('x') else 'top to bottom'}, the {colour} square"
        for name, colour in zip(
            _NAMES, ("red", "red", "green", "green", "blue", "blue"), strict=True
        )
    }

    def __init__(self, spacing: int = 8) -> None:
        self.name = "xysquares"
        self.spacing = read_whole(
            "spacing",
            spacing,
            1,
            8,
            "Use 8 for squares that never overlap, 1 for the most overlap.",
        )
        self.offset = (SIDE - (SQUARE + (POSITIONS - 1) * self.spacing)) // 2
        self.grid = FactorGrid(_NAMES, (POSITIONS,) * len(_NAMES))
        self.image_shape = (SIDE, SIDE, 3)
        self.options = {"spacing": self.spacing}

    @property
    def device_bytes(self) -> int:
        """The images of one square."""
        return 4 * POSITIONS**2 * SIDE**2

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Images of *indices*, drawn now."""
        covered = covers(self.offset + self.spacing * self.factors(indices), SQUARE, SIDE)
        columns, rows = covered[..., 0::2, :], covered[..., 1::2, :]
        images = (
            np.swapaxes(rows, -1, -2)[..., :, None, :]
            & np.swapaxes(columns, -1, -2)[..., None, :, :]
        )
        return images.astype(np.uint8) * np.uint8(255)

    def sampler(self, device: torch.device | str) -> Sampler:
        """The 64 images of one square on *device* (1 MiB); each channel is a copy of one."""
        import torch

        places = covers(self.offset + self.spacing * np.arange(POSITIONS), SQUARE, SIDE).astype(
            np.float32
        )
        squares = (
            torch.from_numpy(places[None, :, :, None] * places[:, None, None, :])
            .reshape(-1, SIDE * SIDE)
            .to(device)
        )
        strides = POSITIONS ** torch.arange(len(_NAMES) - 2, -1, -2, device=device)

        def draw(indices: torch.Tensor) -> torch.Tensor:
            # x and y of a square are neighbours on the grid: together a number in 0..63.
            square = (indices.unsqueeze(-1) // strides) % POSITIONS**2
            return squares.index_select(0, square.reshape(-1)).view(*indices.shape, 3, SIDE, SIDE)

        return draw


def covers(
    start: NDArray[np.int64], length: int | NDArray[np.int64], side: int
) -> NDArray[np.bool_]:
    """Which of *side* pixels stretches of *length* from *start* cover: `(*start.shape, side)`."""
    distance = np.arange(side) - np.asarray(start)[..., None]
    return (distance >= 0) & (distance < np.asarray(length)[..., None])
