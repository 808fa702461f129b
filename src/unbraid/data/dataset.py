# SPDX-License-Identifier: Apache-2.0
"""What every dataset offers: a grid, images, factor values where known, samples for training.

Images for people are uint8 `(n, height, width, channels)` with values 0..255. Samples for training
are float32 `(..., channels, height, width)` in [0, 1] on the training device, made there from the
smallest stored form, so that no loader stands between the data and the step.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation

if TYPE_CHECKING:
    import torch

    Sampler = Callable[..., torch.Tensor]


IN_MEMORY = "array"
"""What `options` say in place of an array that was given in memory and cannot be loaded again."""


class Dataset(ABC):
    """Images on a factor grid.

    A subclass sets `name`, `grid`, `image_shape` and `options` in its `__init__` and implements
    `images` and `sampler`. `factor_names` and `factor_sizes` describe the columns that `factors`
    returns; both are empty where nothing is known about how the data was made.
    """

    citation: ClassVar[Citation | None] = None
    licence: ClassVar[str] = ""
    bounded: bool = True
    """Samples lie in [0, 1]; a Bernoulli likelihood makes sense only then."""

    factor_meanings: ClassVar[dict[str, str]] = {}
    """What the values of a factor mean, first to last, where its name does not say it."""
    fresh: ClassVar[bool] = False
    """An index has many images, as with a background of noise; see `sampler`."""

    name: str
    grid: FactorGrid
    image_shape: tuple[int, int, int]
    """Height, width, channels of an image."""
    options: dict[str, Any]
    """What `load(name, **options)` needs to make this dataset again; JSON values only."""

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the known factors; empty for unlabelled data."""
        return self.grid.names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """How many values each known factor takes."""
        return self.grid.sizes

    @property
    def factor_values(self) -> tuple[NDArray[np.int64], ...]:
        """For each factor its values as people wrote them, which `factors` numbers."""
        return tuple(np.arange(size) for size in self.factor_sizes)

    @property
    def about(self) -> list[tuple[str, str]]:
        """What else a person should know of this very data, as names and sentences."""
        return []

    @property
    def labelled(self) -> bool:
        """Whether factor values are known, so that factor metrics make sense."""
        return bool(self.factor_names)

    @property
    def repeatable(self) -> bool:
        """Whether `load(name, **options)` makes this dataset again; not so for arrays."""
        return True

    @property
    def training_indices(self) -> NDArray[np.int64] | None:
        """Which images training draws from; None for all."""
        return None

    def every_training_index(self) -> NDArray[np.int64]:
        """The same, all of them written out."""
        chosen = self.training_indices
        return np.arange(len(self)) if chosen is None else chosen

    @property
    def scoring_indices(self) -> NDArray[np.int64] | None:
        """Which images trained models are encoded and scored on; None for all."""
        return None

    @property
    def device_bytes(self) -> int:
        """About what `sampler` keeps on its device; by default a byte for every value."""
        return len(self) * math.prod(self.sample_shape)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one training sample: channels, height, width for images."""
        height, width, channels = self.image_shape
        return (channels, height, width)

    def __len__(self) -> int:
        return self.grid.size

    def __repr__(self) -> str:
        """Name, number and size of the images, factors."""
        named = ", ".join(
            f"{name} {size}"
            for name, size in zip(self.factor_names, self.factor_sizes, strict=True)
        )
        shape = "x".join(map(str, self.image_shape))
        return (
            f"<Dataset {self.name}: {len(self):,} images of {shape}, {named or 'no factors known'}>"
        )

    @abstractmethod
    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Images of *indices*: uint8 `(n, height, width, channels)`, 0..255."""

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Factor values of *indices*: int64 `(n, factors)`; zero columns where nothing is known."""
        return self.grid.to_factors(indices)

    @abstractmethod
    def sampler(self, device: torch.device | str) -> Sampler:
        """Put the smallest stored form on *device*; returns what draws samples there.

        It maps indices `(...)` to float32 samples `(..., *sample_shape)`.

        On a GPU the returned function becomes part of a captured step, so it must work on tensors
        alone, without asking the host for their values; where it does ask, training is slower.

        Where the dataset is `fresh`, the function takes a second argument, whole numbers in
        0..2^31-1 of the indices' shape: each names one of the images of its index, and training
        draws them at random. Without it, it gives the images of `images`.
        """

    def as_images(self, samples: ArrayLike) -> NDArray[np.uint8]:
        """Images of *samples* `(n, *sample_shape)`: clipped to [0, 1] and scaled."""
        values = np.clip(np.asarray(samples, dtype=np.float32), 0.0, 1.0)
        return np.rint(np.moveaxis(values, 1, -1) * 255.0).astype(np.uint8)

    def check_files(self) -> None:  # noqa: B027  (most data have none to check)
        """Compare what the data are read from with checksums, where there are any."""

    def fingerprint(self) -> str:
        """A digest that changes with the data: options, sizes, 64 images with their factors."""
        spread = np.unique(np.linspace(0, self.grid.size - 1, 64).astype(np.int64))
        digest = hashlib.sha256(
            json.dumps(
                [self.name, self.options, self.grid.names, self.grid.sizes], sort_keys=True
            ).encode()
        )
        digest.update(self.images(spread).tobytes())
        digest.update(self.factors(spread).tobytes())
        return digest.hexdigest()


class PixelDataset(Dataset):
    """A dataset whose images are stored as bytes in the order that training reads."""

    planes: NDArray[np.uint8]
    """All images, `(n, channels, height, width)`; the only copy on the host."""

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """All images `(n, height, width, channels)`: a view of `planes`."""
        return np.moveaxis(self.planes, 1, -1)

    @pixels.setter
    def pixels(self, images: NDArray[np.uint8]) -> None:
        self.planes = as_planes(images)

    @property
    def device_bytes(self) -> int:
        """The stored bytes."""
        return self.planes.nbytes

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Images of *indices*, copied out of the stored array."""
        return np.ascontiguousarray(
            np.moveaxis(self.planes[self.grid.check_index(indices)], -3, -1)
        )

    def sampler(self, device: torch.device | str) -> Sampler:
        """The stored bytes on *device*, not copied on a CPU, scaled to [0, 1] when drawn."""
        import torch

        stored = torch.from_numpy(self.planes).to(device)
        if (gather := gather_on(stored.device)) is not None:
            return lambda indices: gather(stored, indices, self.sample_shape)

        def draw(indices: torch.Tensor) -> torch.Tensor:
            return stored[indices].to(torch.float32) / 255.0

        return draw


def as_planes(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images `(n, height, width, channels)` as `PixelDataset.planes` holds them."""
    return np.ascontiguousarray(np.moveaxis(pixels, -1, 1))


def gather_on(device: torch.device) -> Callable[..., torch.Tensor] | None:
    """The kernel that makes samples of stored images in one pass, where *device* can run it."""
    from unbraid.core import triton_support

    if not triton_support.usable(device):
        return None
    from unbraid.data.gather_kernel import gather

    return gather
