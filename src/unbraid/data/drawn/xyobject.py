# SPDX-License-Identifier: Apache-2.0
"""XYObject: one square of varying place, size and colour on black.

Ours follows `XYObjectData` of the library disent (Michlo 2021): positions two pixels apart, sides
of 7 to 15 pixels, six hues of four shades counted as one factor `color`, all hues of a shade before
the next shade. Departs: none; drawn when asked for, never stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import whole
from unbraid.core.errors import InputError, Problems, invalid, unknown
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset
from unbraid.data.drawn.xysquares import covers

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler

SIDE = 64
_RED, _YELLOW, _GREEN, _CYAN, _BLUE, _MAGENTA = (
    (1, 0, 0),
    (1, 1, 0),
    (0, 1, 0),
    (0, 1, 1),
    (0, 0, 1),
    (1, 0, 1),
)
_WHITE = (1, 1, 1)
PALETTES = {
    "rainbow": (_RED, _YELLOW, _GREEN, _CYAN, _BLUE, _MAGENTA),
    "rgb": (_RED, _GREEN, _BLUE),
    "colors": (_RED, _GREEN, _BLUE, _YELLOW, _CYAN, _MAGENTA, _WHITE),
    "greys": (_WHITE,),
}


class XYObject(Dataset):
    """XYObject: one coloured square with factors x, y, scale and color, `spacing` pixels apart."""

    citation: ClassVar = Citation(
        "N. Michlo",
        2021,
        "Disent: a modular disentangled representation learning framework",
        "GitHub",
    )
    licence: ClassVar[str] = "none needed: drawn from its published description"
    factor_meanings: ClassVar[dict[str, str]] = {
        "x": "left to right",
        "y": "top to bottom",
        "scale": "small to large",
        "color": "all hues of the darkest shade, then of the next",
    }

    def __init__(
        self,
        spacing: int = 2,
        smallest: int = 7,
        largest: int = 15,
        size_step: int = 2,
        palette: str = "rainbow",
        shades: int = 4,
    ) -> None:
        self.name = "xyobject"
        if palette not in PALETTES:
            raise InputError(unknown("palette", palette, PALETTES))
        problems = Problems()
        self.options = {
            "spacing": whole(problems, "spacing", spacing, 1, SIDE),
            "smallest": whole(
                problems, "smallest", smallest, 1, SIDE - 1, "It is a side in pixels."
            ),
            "largest": whole(problems, "largest", largest, 1, SIDE - 1, "It is a side in pixels."),
            "size_step": whole(problems, "size_step", size_step, 1, SIDE),
            "palette": palette,
            "shades": whole(problems, "shades", shades, 1, 255),
        }
        problems.raise_if_any()
        spacing, smallest, largest, size_step = (
            int(self.options[name]) for name in ("spacing", "smallest", "largest", "size_step")
        )
        if smallest > largest:
            raise invalid("smallest", f"must be at most largest, {largest}", smallest)
        self._sizes = np.arange(smallest, largest + 1, size_step)
        shade = np.arange(1, int(self.options["shades"]) + 1)
        self._colours = (
            255 * np.array(PALETTES[palette])[None] * shade[:, None, None] // shade[-1]
        ).reshape(-1, 3)
        places = (SIDE - largest) // spacing + 1
        self.grid = FactorGrid(
            ("x", "y", "scale", "color"), (places, places, len(self._sizes), len(self._colours))
        )
        self.image_shape = (SIDE, SIDE, 3)
        self._spacing, self._margin = spacing, (largest - self._sizes) // 2

    @property
    def device_bytes(self) -> int:
        """Three short tables."""
        return 8 * (2 * len(self._sizes) + self._colours.size)

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Images of *indices*, drawn now."""
        x, y, scale, colour = np.moveaxis(self.factors(indices), -1, 0)
        start, length = self._margin[scale], self._sizes[scale]
        rows = covers(self._spacing * y + start, length, SIDE)
        columns = covers(self._spacing * x + start, length, SIDE)
        square = rows[..., :, None] & columns[..., None, :]
        return square[..., None] * self._colours[colour].astype(np.uint8)[..., None, None, :]

    def sampler(self, device: torch.device | str) -> Sampler:
        """Three short tables on *device*: squares are drawn there by comparing positions."""
        import torch

        tables = [
            torch.from_numpy(table).to(device)
            for table in (self._margin, self._sizes, self._colours / np.float32(255))
        ]
        margin, sizes, colours = tables[0], tables[1], tables[2].to(torch.float32)
        places, _, scales, shades = self.grid.sizes
        pixels = torch.arange(SIDE, device=device)

        def draw(indices: torch.Tensor) -> torch.Tensor:
            scale = indices // shades % scales
            first = torch.stack(
                [indices // (shades * scales) % places, indices // (shades * scales * places)],
                dim=-1,
            )
            distance = pixels - (self._spacing * first + margin[scale].unsqueeze(-1)).unsqueeze(-1)
            covered = (distance >= 0) & (distance < sizes[scale][..., None, None])
            square = (covered[..., 0, :, None] & covered[..., 1, None, :]).to(torch.float32)
            return square.unsqueeze(-3) * colours[indices % shades][..., None, None]

        return draw
