# SPDX-License-Identifier: Apache-2.0
"""3D Shapes (Burgess and Kim 2018), 480,000 images drawn from code: see `shapes3d_drawing`.

Factors, sizes and index order are those of the published file: floor, wall and object hue in tenths
of the colour circle, scale, shape (cube, cylinder, sphere, capsule), orientation. Departs: the
faint hexagons and decals on floor and walls are left out, so those surfaces are smooth; camera,
room, sizes and lights were calibrated on 16 published images. On 67 others the mean absolute error
is 1.3 of 255, and the surface (sky, wall, floor, object) is the published one in 99.7% of pixels
(`benchmarks/shapes3d_error.py`).
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset
from unbraid.data.drawn.shapes3d_drawing import (
    HUES,
    MAPS,
    SIDE,
    STEPS,
    VIEWS,
    draw_views,
    map_choice,
)
from unbraid.data.drawn.shapes3d_scene import ORIENTATIONS, SCALES, SHAPES

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler

_GRID = FactorGrid(
    ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
    (HUES, HUES, HUES, SCALES, SHAPES, ORIENTATIONS),
)
_CHUNK = 4096
"""Most samples put together at a time; bounds the memory beside the result to 200 MiB."""
_CACHED = 64
"""Images put together at a time on the CPU: few enough that sums stay in its cache."""


@functools.cache
def _drawn() -> NDArray[np.int16]:
    return draw_views(np.arange(VIEWS))


class Shapes3DDrawn(Dataset):
    """3D Shapes drawn: a ray-cast copy of the scene with 6 factors; not the published file."""

    citation: ClassVar[Citation] = Citation(
        "C. Burgess, H. Kim",
        2018,
        "3D Shapes Dataset",
        "https://github.com/google-deepmind/3d-shapes",
    )
    licence: ClassVar[str] = (
        "Apache-2.0 (the published set); drawn here by code calibrated on some of its images"
    )
    factor_meanings: ClassVar[dict[str, str]] = {
        "floor_hue": "10 hues around the colour circle, 0 to 0.9",
        "wall_hue": "10 hues around the colour circle, 0 to 0.9",
        "object_hue": "10 hues around the colour circle, 0 to 0.9",
        "scale": "size of the object, 0.75 to 1.25",
        "shape": "cube, cylinder, sphere, capsule",
        "orientation": "turn of the room, -30 to 30 degrees",
    }

    def __init__(self) -> None:
        self.name = "shapes3d_drawn"
        self.grid = _GRID
        self.image_shape = (SIDE, SIDE, 3)
        self.options: dict[str, Any] = {}
        self._rows: NDArray[np.int16] | None = None
        self._on_device: weakref.WeakValueDictionary[str, torch.Tensor] = (
            weakref.WeakValueDictionary()
        )

    def map_rows(self) -> NDArray[np.int16]:
        """Maps of all 480 views (71 MiB), see `draw_views`. Drawn once a process; not a copy."""
        if self._rows is None:
            self._rows = _drawn()
        return self._rows

    @property
    def device_bytes(self) -> int:
        """The maps of all views."""
        return 2 * (VIEWS * MAPS + 1) * SIDE * SIDE

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Images of *indices*; a few draw only the views that occur, many draw all views."""
        given = self.grid.check_index(indices)
        hues, views = np.divmod(given.reshape(-1), VIEWS)
        occurring, places = np.unique(views, return_inverse=True)
        if self._rows is None and len(occurring) <= VIEWS // 4:
            rows, first = draw_views(occurring), places * MAPS
        else:
            rows, first = self.map_rows(), views * MAPS
        blank = len(rows) - 1
        surfaces = (hues // HUES**2, hues // HUES % HUES, hues % HUES)
        images = np.empty((len(hues), SIDE * SIDE, 3), dtype=np.uint8)
        for start in range(0, len(hues), _CACHED):
            part = slice(start, start + _CACHED)
            for channel in range(3):
                total = rows[first[part] + channel]
                for choice, hue in zip(map_choice(), surfaces, strict=True):
                    chosen = choice[hue[part], channel]
                    total += rows[np.where(chosen < 0, blank, first[part] + chosen)]
                total += STEPS // 2
                total //= STEPS
                images[part, :, channel] = np.clip(total, 0, 255, out=total)
        return images.reshape(*given.shape, SIDE, SIDE, 3)

    def sampler(self, device: torch.device | str) -> Sampler:
        """Maps on *device* (71 MiB), added up there to float32 samples, not rounded."""
        import torch

        home = torch.device(device)
        stored = self._on_device.get(str(home))
        if stored is None:
            stored = torch.from_numpy(self.map_rows()).to(home)
            self._on_device[str(home)] = stored
        blank = len(stored) - 1
        floor_choice, wall_choice, object_choice = (
            torch.from_numpy(choice).to(home) for choice in map_choice()
        )
        sky_choice = torch.arange(3, device=home)
        chunk = _CHUNK if home.type != "cpu" else _CACHED

        def put_together(indices: torch.Tensor, samples: torch.Tensor) -> None:
            hues = indices // VIEWS
            first = (indices % VIEWS * MAPS).unsqueeze(-1)
            # index_select copies whole rows; indexing by brackets would visit every number.
            total = stored.index_select(0, (first + sky_choice).view(-1))
            for choice, hue in (
                (floor_choice, hues // HUES**2),
                (wall_choice, hues // HUES % HUES),
                (object_choice, hues % HUES),
            ):
                chosen = choice[hue]
                total += stored.index_select(
                    0, torch.where(chosen < 0, blank, first + chosen).view(-1)
                )
            samples.copy_(total.view_as(samples)).mul_(1.0 / (255 * STEPS)).clamp_(0.0, 1.0)

        def draw(indices: torch.Tensor) -> torch.Tensor:
            flat = indices.reshape(-1)
            samples = torch.empty((len(flat), 3, SIDE * SIDE), dtype=torch.float32, device=home)
            for start in range(0, len(flat), chunk):
                put_together(flat[start : start + chunk], samples[start : start + chunk])
            return samples.reshape(*indices.shape, 3, SIDE, SIDE)

        return draw
