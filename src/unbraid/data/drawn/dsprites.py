# SPDX-License-Identifier: Apache-2.0
"""dSprites (Matthey et al. 2017): 737,280 binary images of 64x64, held as bits.

Departs: drawn from code rather than downloaded (see `dsprites_drawing`), so a few images may differ
from the published file by one pixel; the constant colour is not a factor here. Orientation 0 and 39
are the same angle, as published.
"""

from __future__ import annotations

import functools
import os
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid
from unbraid.core.folders import whole_path
from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset, gather_on
from unbraid.data.drawn.dsprites_drawing import (
    IMAGES_PER_SPRITE,
    SIDE,
    SPRITES,
    draw_all,
    draw_some,
    unpack,
)
from unbraid.data.drawn.dsprites_grid import CITATION, GRID, MEANINGS

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler

_drawn = functools.cache(draw_all)


class DSprites(Dataset):
    """dSprites: white squares, ellipses and hearts with 5 factors, drawn without a download.

    `file` may name the published npz, which is then checked and used instead of the drawing.
    """

    citation: ClassVar[Citation] = CITATION
    licence: ClassVar[str] = (
        "Apache-2.0 (the published set); drawn here from its published description"
    )

    factor_meanings: ClassVar[dict[str, str]] = MEANINGS

    def __init__(self, file: str | os.PathLike[str] | None = None) -> None:
        self.name = "dsprites"
        self.grid = GRID
        self.image_shape = (SIDE, SIDE, 1)
        self.options: dict[str, Any] = {}
        self._packed: NDArray[np.uint64] | None = None
        self._on_device: weakref.WeakValueDictionary[str, torch.Tensor] = (
            weakref.WeakValueDictionary()
        )
        if file is not None:
            self._packed = self._read(file)

    def _read(self, file: object) -> NDArray[np.uint64]:
        from unbraid.data.official.dsprites_file import read_file

        remedy = "Leave `file` out: the same images are drawn without it."
        if not isinstance(file, (str, os.PathLike)) or not str(file):
            raise invalid("dsprites file", "must be the path of the published npz", file, remedy)
        if str(file) == "added":
            from unbraid.data.official.dsprites import added_rows

            self.options = {"file": "added"}
            return added_rows()
        path = whole_path("file", file)
        if not path.is_file():
            raise invalid("dsprites file", "must be an existing file", Shown(str(path)), remedy)
        self.options = {"file": str(path)}
        return read_file(path, self.grid, path.stat().st_mtime_ns)

    def packed_rows(self) -> NDArray[np.uint64]:
        """The whole set `(737280, 64)`, drawn once per process; not a copy.

        Word r of an image is its row r, bit j its column j.
        """
        if self._packed is None:
            self._packed = _drawn()
        return self._packed

    @property
    def device_bytes(self) -> int:
        """A bit for every pixel."""
        return len(self) * SIDE * SIDE // 8

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Images of *indices*; a few are drawn alone, many draw the whole set."""
        flat = self.grid.check_index(indices)
        sprites = len(np.unique(flat // IMAGES_PER_SPRITE))
        whole_set = self._packed is not None or sprites > SPRITES // 4
        packed = (
            self.packed_rows()[flat]
            if whole_set
            else draw_some(flat.reshape(-1)).reshape(*flat.shape, SIDE)
        )
        return unpack(packed)[..., None] * np.uint8(255)

    def sampler(self, device: torch.device | str) -> Sampler:
        """Packed rows on *device* (360 MiB), turned into float32 there by shifts."""
        import torch

        home = torch.device(device)
        stored = self._on_device.get(str(home))
        if stored is None:
            stored = torch.from_numpy(self.packed_rows().view(np.int64)).to(home)
            self._on_device[str(home)] = stored
        if (gather := gather_on(home)) is not None:
            octets_of_all = stored.view(torch.uint8)
            return lambda indices: gather(octets_of_all, indices, self.sample_shape, bits=True)
        bits = torch.arange(8, dtype=torch.uint8, device=home)

        def draw(indices: torch.Tensor) -> torch.Tensor:
            # As bytes the bits take an eighth of the memory that shifting whole words would.
            octets = stored[indices].view(torch.uint8)
            pixels = (octets.unsqueeze(-1) >> bits) & 1
            return pixels.reshape(*indices.shape, 1, SIDE, SIDE).to(torch.float32)

        return draw
