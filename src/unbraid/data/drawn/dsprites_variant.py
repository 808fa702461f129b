# SPDX-License-Identifier: Apache-2.0
"""What Color-, Noisy- and Scream-dSprites share: dSprites painted by chance, anew each time.

An index has as many images as there are whole numbers below 2^31. `images`, codes and scores use
image 0 of every index, so that all members are compared on the same images; training draws the
number with the index. An image is a pure function of `seed`, index and number: the same on every
device, whoever asks, and never stored.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import read_whole
from unbraid.core.citations import LOCATELLO_2019
from unbraid.data.dataset import Dataset
from unbraid.data.drawn.dsprites import DSprites

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler


class DSpritesVariant(Dataset):
    """dSprites in colour by a rule of chance; a subclass says how to paint."""

    citation: ClassVar = LOCATELLO_2019
    licence: ClassVar[str] = "Apache-2.0 (dSprites and the recipe); drawn here"
    factor_meanings: ClassVar[dict[str, str]] = DSprites.factor_meanings
    fresh: ClassVar[bool] = True

    def __init__(self, seed: int, file: str | os.PathLike[str] | None) -> None:
        self._sprites = DSprites(file)
        self.seed = read_whole("seed", seed, 0, 2**62)
        self.grid = self._sprites.grid
        height, width, _ = self._sprites.image_shape
        self.image_shape = (height, width, 3)
        self.options: dict[str, Any] = {"seed": self.seed, **self._sprites.options}

    @abstractmethod
    def painter(self, device: torch.device) -> Any:
        """A function `(masks, steps) -> float32 (n, 3, 64, 64)` on *device*, from *steps* alone.

        Masks `(n, 1, 64, 64)` hold 0 and 1, steps are `(n,)`.

        A step is the index of an image and, above its 32 bits, the number of the image: what
        `unbraid.core.random` takes.
        """

    @property
    def device_bytes(self) -> int:
        """Those of dSprites."""
        return self._sprites.device_bytes

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Image 0 of each of *indices*."""
        import torch

        checked = self.grid.check_index(indices)
        flat = np.ascontiguousarray(checked).reshape(-1)
        masks = torch.from_numpy(self._sprites.images(flat)[..., 0][:, None] // 255).to(
            torch.float32
        )
        painted = self.painter(torch.device("cpu"))(masks, torch.from_numpy(flat))
        return self.as_images(painted.numpy()).reshape(*checked.shape, *self.image_shape)

    def sampler(self, device: torch.device | str) -> Sampler:
        """Packed dSprites on *device*; colours are drawn there."""
        import torch

        sprites, paint = self._sprites.sampler(device), self.painter(torch.device(device))

        def draw(indices: torch.Tensor, numbers: torch.Tensor | None = None) -> torch.Tensor:
            steps = indices if numbers is None else indices | (numbers << 32)
            masks = sprites(indices.reshape(-1))
            return paint(masks, steps.reshape(-1)).view(*indices.shape, *self.sample_shape)

        return draw
