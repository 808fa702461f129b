# SPDX-License-Identifier: Apache-2.0
"""A row of images as one PNG, inlined in the page as a data URI."""

from __future__ import annotations

import base64
import io
import math

import numpy as np
from numpy.typing import NDArray

_SMALLEST_SIDE = 96
"""Smaller images are enlarged by a whole factor, every pixel a crisp square, whatever size the page
then shows them at.
"""
_GAP_SHARE = 0.06


def strip(images: NDArray[np.uint8], *, gap: bool = True) -> NDArray[np.uint8]:
    """Images `(n, height, width, channels)` side by side, with an alpha channel: clear between."""
    count, height, width, channels = images.shape
    factor = max(1, math.ceil(_SMALLEST_SIDE / max(height, width)))
    enlarged = images.repeat(factor, axis=1).repeat(factor, axis=2)
    height, width = height * factor, width * factor
    between = max(1, round(width * _GAP_SHARE)) if gap else 0
    sheet = np.zeros((height, count * (width + between) - between, channels + 1), dtype=np.uint8)
    for number in range(count):
        columns = slice(number * (width + between), number * (width + between) + width)
        sheet[:, columns, :channels] = enlarged[number]
        sheet[:, columns, channels] = 255
    return sheet


def row_uri(images: NDArray[np.uint8], *, gap: bool = True) -> str:
    """Images side by side as the data URI of a PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(strip(images, gap=gap)).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
