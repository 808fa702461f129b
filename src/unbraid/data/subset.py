# SPDX-License-Identifier: Apache-2.0
"""Part of another dataset's images, chosen by their indices.

For training on what a search has narrowed the data down to.

Nothing is copied. Position p of a subset shows image `indices[p]` of the data it is part of, in
memory and on the training device alike, where the sampler looks the index up and asks the other's
sampler. The grid has one axis, `sample`, since a part of a factor grid is no grid; factors keep the
names, sizes and values they have in the whole, also those that take fewer values in the part.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.arrays import read_npy
from unbraid.core.errors import Shown, invalid
from unbraid.core.folders import whole_path
from unbraid.core.grid import samples_grid
from unbraid.data.dataset import IN_MEMORY, Dataset
from unbraid.data.own.image_arrays import FEWEST_IMAGES

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler


class Subset(Dataset):
    """Part of another dataset: the images of chosen indices, in the order given.

    `base` is the other dataset; `indices` are different whole numbers, or the path of an .npy that
    holds them. Of a subset of a subset `base` is the whole data, and `indices` are those of the
    whole.
    """

    def __init__(self, base: Dataset, indices: ArrayLike | str | os.PathLike[str]) -> None:
        if not isinstance(base, Dataset):
            value = Shown(type(base).__name__)
            raise invalid("base", "must be a Dataset", value, "Make one with unbraid.load.")
        path, given = (
            _opened(indices) if isinstance(indices, (str, os.PathLike)) else (None, indices)
        )
        chosen = _checked(given, base)
        self.name = "subset"
        self.options = {
            "of": base.name,
            "of_options": base.options,
            "indices": IN_MEMORY if path is None else str(path),
        }
        self._repeatable = base.repeatable and path is not None
        self.base = base.base if isinstance(base, Subset) else base
        self.indices: NDArray[np.int64] = (
            base.indices[chosen] if isinstance(base, Subset) else chosen
        )
        """Index in `base` of each image."""
        self.indices.setflags(write=False)
        self.grid = samples_grid(len(self.indices))
        self.image_shape = base.image_shape
        self.bounded = base.bounded
        # What a class says of itself elsewhere, a subset says after the data it is part of.
        for name in ("citation", "licence", "factor_meanings", "fresh"):
            setattr(self, name, getattr(base, name))

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Those of the whole data."""
        return self.base.factor_names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """How many values each factor takes in the whole data."""
        return self.base.factor_sizes

    @property
    def factor_values(self) -> tuple[NDArray[np.int64], ...]:
        """Those of the whole data."""
        return self.base.factor_values

    @property
    def about(self) -> list[tuple[str, str]]:
        """What it is part of, and what there is to know of that."""
        return [
            ("Part of", f"{self.base.name}: {len(self):,} of {len(self.base):,} images"),
            *self.base.about,
        ]

    @property
    def repeatable(self) -> bool:
        """Whether the indices came from a file and the other dataset can be loaded again."""
        return self._repeatable

    @property
    def device_bytes(self) -> int:
        """Those of the whole data, and the indices."""
        return self.base.device_bytes + self.indices.nbytes

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """That of the whole data."""
        return self.base.sample_shape

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Images at these positions of the subset."""
        return self.base.images(self.indices[self.grid.check_index(indices)])

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Factor values at these positions of the subset, numbered as in the whole data."""
        return self.base.factors(self.indices[self.grid.check_index(indices)])

    def sampler(self, device: torch.device | str) -> Sampler:
        """The sampler of the whole data behind a table of indices, both on *device*."""
        import torch

        of_whole, table = self.base.sampler(device), torch.tensor(self.indices, device=device)

        def draw(indices: torch.Tensor, *numbers: torch.Tensor | None) -> torch.Tensor:
            return of_whole(table[indices], *numbers)

        return draw

    def as_images(self, samples: ArrayLike) -> NDArray[np.uint8]:
        """Images of *samples*, as the whole data shows them."""
        return self.base.as_images(samples)

    def check_files(self) -> None:
        """Those of the whole data."""
        self.base.check_files()

    def fingerprint(self) -> str:
        """A digest of the whole data's fingerprint and the indices."""
        digest = hashlib.sha256(json.dumps([self.name, self.base.fingerprint()]).encode())
        digest.update(self.indices.astype("<i8").tobytes())
        return digest.hexdigest()


def _opened(indices: str | os.PathLike[str]) -> tuple[Path, NDArray[Any]]:
    """The file of indices by its full path, and what it holds."""
    path = whole_path("indices", indices)
    if path.suffix.lower() != ".npy" or not path.is_file():
        raise invalid(
            "subset indices",
            "must be an existing .npy file",
            Shown(str(path)),
            "Write it with numpy.save.",
        )
    return path, read_npy(path)


def _checked(indices: ArrayLike, base: Dataset) -> NDArray[np.int64]:
    """*indices* as int64; refused unless they choose two or more different images of *base*."""
    given = np.asarray(indices)
    if given.ndim != 1:
        raise invalid(
            "subset indices",
            "must be a flat array",
            Shown(f"shape {given.shape}"),
            "Use indices.reshape(-1).",
        )
    if given.size < FEWEST_IMAGES:
        raise invalid("subset indices", f"must choose at least {FEWEST_IMAGES} images", given.size)
    if not np.issubdtype(given.dtype, np.integer):
        remedy = (
            "Use numpy.flatnonzero(mask) for a mask."
            if given.dtype == np.bool_
            else "Use indices.astype(int)."
        )
        raise invalid(
            "subset indices", "must be whole numbers", Shown(f"dtype {given.dtype}"), remedy
        )
    outside = (given < 0) | (given >= len(base))
    if outside.any():
        rule = f"must lie in 0..{len(base) - 1}, the images of {base.name}"
        raise invalid("subset indices", rule, int(given[outside][0]))
    ordered = np.sort(given)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        remedy = "Use numpy.unique(indices)."
        raise invalid(
            "subset indices",
            "must name every image once",
            Shown(f"{repeated[0]} more than once"),
            remedy,
        )
    return given.astype(np.int64)
