# SPDX-License-Identifier: Apache-2.0
"""Noisy-dSprites (Locatello et al. 2019): a white sprite on noise, uniform in each channel.

Departs: noise has 256 levels, as images have, so that four values come from one 32-bit random word.
See `dsprites_variant` for which image is shown when.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.data.drawn.dsprites_variant import DSpritesVariant

if TYPE_CHECKING:
    import torch


class NoisyDSprites(DSpritesVariant):
    """Noisy-dSprites: white sprites on coloured noise, drawn afresh at every training step."""

    def __init__(self, seed: int = 0, file: str | os.PathLike[str] | None = None) -> None:
        super().__init__(seed, file)
        self.name = "noisy_dsprites"

    def painter(self, device: torch.device) -> Any:
        """The sum of sprite and noise, at most 1."""
        import torch

        seed = torch.tensor([self.seed], device=device)
        words = math.prod(self.sample_shape) // 4
        # A tensor: by a plain number a GPU divides inexactly, and noise would differ from a CPU's
        # in the last bit.
        most = torch.full((), 255.0, device=device)

        def paint(masks: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
            drawn = random.words(seed, steps, Stream.IMAGE_NOISE, (words,))[0]
            # The four low bytes of each 64-bit number are the random word.
            noise = (
                drawn.view(torch.uint8).view(-1, words, 8)[..., :4].reshape(-1, *self.sample_shape)
            )
            return torch.clamp(masks + noise.to(torch.float32) / most, max=1.0)

        return paint
