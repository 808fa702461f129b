# SPDX-License-Identifier: Apache-2.0
"""Original, pattern and changed images side by side, with their peak signal-to-noise ratio.

`PSNR = -10 log10(mean squared change)` in dB, for values in [0, 1]; infinite where nothing changes.
Of values that change by ε everywhere it is `-20 log10 ε`, 20 dB at ε = 0.1; clipping lets binary
images keep every other value, which is 3 dB more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from unbraid.data.perturbed.dataset import Perturbed
    from unbraid.data.perturbed.with_s import WithS

_GREY = 0.5


@dataclass(frozen=True)
class SideBySide:
    """Images `(n, height, width, channels)` and how far each is changed."""

    original: NDArray[np.uint8]
    pattern: NDArray[np.uint8]
    """The change, grey where there is none, black and white at the largest."""
    changed: NDArray[np.uint8]
    psnr: NDArray[np.float64]
    """dB, one an image."""


def side_by_side(data: Perturbed | WithS, indices: ArrayLike) -> SideBySide:
    """Images of *data* at *indices* beside those they were made from."""
    import torch

    from unbraid.data.perturbed.with_s import WithS

    places = torch.from_numpy(data.grid.check_index(indices))
    own = (
        torch.div(places, data.steps, rounding_mode="floor") if isinstance(data, WithS) else places
    )
    changed = data.sampler("cpu")(places).double()
    original = data.base.sampler("cpu")(own).double()
    change = changed - original
    squared = change.square().flatten(1).mean(dim=1).numpy()
    with np.errstate(divide="ignore"):
        psnr = -10.0 * np.log10(squared)
    pattern = (_GREY + _GREY * change / data.epsilon).clamp(0.0, 1.0)
    images = [data.as_images(one.numpy()) for one in (original, pattern, changed)]
    return SideBySide(*images, psnr=psnr)
