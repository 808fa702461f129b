# SPDX-License-Identifier: Apache-2.0
"""Scream-dSprites (Locatello et al. 2019): sprites as negatives of pieces of The Scream.

A piece of 64x64 pixels of the painting, which is scaled to fit 350x274, is averaged with a random
colour; where the sprite is, one minus that. Departs: none in the recipe; but the painting is not
part of this package, and another reproduction of it gives other images. See `dsprites_variant` for
which image is shown when.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core import random
from unbraid.core.errors import Shown, invalid
from unbraid.core.random import Stream
from unbraid.data.drawn.dsprites_variant import DSpritesVariant
from unbraid.data.home import data_home

if TYPE_CHECKING:
    import torch

FITS = (350, 274)
"""Width and height that the painting is scaled to fit, keeping its proportions."""
FILE_NAME = "scream.jpg"


class ScreamDSprites(DSpritesVariant):
    """Scream-dSprites: sprites as negatives in pieces of a painting, drawn afresh at every step.

    `painting` is an image file of The Scream; by default scream.jpg in the folder where datasets
    are kept.
    """

    def __init__(
        self,
        painting: str | os.PathLike[str] | None = None,
        seed: int = 0,
        file: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(seed, file)
        self.name = "scream_dsprites"
        path = (
            data_home() / FILE_NAME if painting is None else Path(painting).expanduser()
        ).resolve()
        self._painting = _read(path)
        if painting is not None:
            self.options["painting"] = str(path)

    def painter(self, device: torch.device) -> Any:
        """Pieces of the painting averaged with a colour, inverted under the sprite."""
        import torch

        seed = torch.tensor([self.seed], device=device)
        # Divided on the host: a GPU divides by a plain number inexactly.
        painting = (torch.from_numpy(self._painting).to(torch.float32) / 255.0).to(device)
        side, channels = self.image_shape[0], painting.shape[2]
        places = torch.tensor([painting.shape[0] - side, painting.shape[1] - side], device=device)
        within = torch.arange(side, device=device)

        def paint(masks: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
            chance = random.uniform(seed, steps, Stream.IMAGE_NOISE, (2 + channels,))[0]
            # The product may round up to the number of places itself.
            corner = torch.minimum((chance[:, :2] * places).to(torch.int64), places - 1)
            rows, columns = corner[:, 0, None] + within, corner[:, 1, None] + within
            piece = painting[rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
            background = (piece + chance[:, 2:, None, None]) / 2
            return torch.where(masks > 0.5, 1.0 - background, background)

        return paint


def _read(path: Path) -> NDArray[np.uint8]:
    """The painting, scaled: uint8 `(height, width, 3)`."""
    from PIL import Image, UnidentifiedImageError

    remedy = (
        f"Put an image of Munch's The Scream at {data_home() / FILE_NAME}, or give its path:"
        " scream_dsprites:painting=PATH."
    )
    if not path.is_file():
        value = Shown(f"{path}, which {'is a folder' if path.is_dir() else 'does not exist'}")
        raise invalid("painting", "must be an existing image file", value, remedy)
    try:
        with Image.open(path) as opened:
            opened.thumbnail(FITS, Image.Resampling.BICUBIC)
            image = opened.convert("RGB")
    except (
        UnidentifiedImageError,
        OSError,
        ValueError,
        SyntaxError,
        Image.DecompressionBombError,
    ) as error:
        raise invalid(
            "painting", "must be an image that can be read", Shown(f"{path} ({error})"), remedy
        ) from error
    if min(image.size) <= 64:
        value = Shown(f"{image.width}x{image.height} after scaling to fit {FITS[0]}x{FITS[1]}")
        raise invalid("painting", "must be larger than 64x64 pixels", value, remedy)
    return np.array(image)
