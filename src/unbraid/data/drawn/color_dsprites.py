# SPDX-License-Identifier: Apache-2.0
"""Color-dSprites (Locatello et al. 2019): each sprite in a random bright colour on black.

Each channel of the colour is uniform on [0.5, 1].

Departs: none. See `dsprites_variant` for which image is shown when.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.data.drawn.dsprites_variant import DSpritesVariant

if TYPE_CHECKING:
    import torch


class ColorDSprites(DSpritesVariant):
    """Color-dSprites: dSprites in random bright colours, drawn afresh at every training step."""

    def __init__(self, seed: int = 0, file: str | os.PathLike[str] | None = None) -> None:
        super().__init__(seed, file)
        self.name = "color_dsprites"

    def painter(self, device: torch.device) -> Any:
        """Sprites times their colour."""
        import torch

        seed = torch.tensor([self.seed], device=device)

        def paint(masks: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
            colour = 0.5 + 0.5 * random.uniform(seed, steps, Stream.IMAGE_NOISE, (3,))[0]
            return masks * colour[:, :, None, None]

        return paint
