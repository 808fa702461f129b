# SPDX-License-Identifier: Apache-2.0
"""Values of 16 bits brought to 8, for all images of a source together.

The smallest value of the whole source becomes 0, the largest 255, and what lies between is rounded
to the nearest of 256 levels: byte(v) = floor(255 (v - low) / (high - low) + 1/2). One rule for all
keeps the brightness of images comparable, which a rule for each image would not. It is a function
of the images alone, so that loading them again gives the same bytes.

Of colour files with 16 bits a channel Pillow gives the upper 8 bits. Where such images use the
lower part of the range only, give them as a uint16 array, which is scaled by the rule above.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

ABOUT = "Depth"
"""What `Dataset.about` calls the sentence on it."""
UPPER_BITS = "Of 16 bits a channel the upper 8 were used: 0 to 0, 65,535 to 255."


class Depth(StrEnum):
    """How many bits the values of an image file have, in words for messages."""

    BYTES = "8 bits"
    GREY_16 = "16 bits"
    CHANNELS_16 = "several channels of 16 bits"


def depth_of(opened: ImageFile) -> Depth:
    """The depth of an image file that was opened and not read yet."""
    if opened.mode.startswith("I;16") or (
        opened.mode == "I" and opened.format == "PNG"
    ):  # the second by older Pillows
        return Depth.GREY_16
    if opened.format not in ("PNG", "TIFF") or opened.mode == "I" or not opened.tile:
        return Depth.BYTES
    # What Pillow reads as RGB may be RGB;16B in the file, which only the raw mode of its tiles
    # says.
    arguments = opened.tile[0][3] or ("",)
    raw = arguments if isinstance(arguments, str) else str(arguments[0])
    return Depth.CHANNELS_16 if ";16" in raw else Depth.BYTES


@dataclass(frozen=True)
class ValueRange:
    """The smallest and the largest 16-bit value of all images of a source."""

    low: int
    high: int

    @classmethod
    def of(cls, values: NDArray[Any]) -> ValueRange:
        """The range of one array."""
        return cls(int(values.min()), int(values.max()))

    def joined(self, other: ValueRange | None) -> ValueRange:
        """The range of both."""
        return (
            self
            if other is None
            else ValueRange(min(self.low, other.low), max(self.high, other.high))
        )

    def to_bytes(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """*values*, all within the range, as bytes; where all are equal, as 0.

        >>> ValueRange(100, 4195).to_bytes(np.array([100, 108, 109, 4195], dtype=np.uint16))
        array([  0,   0,   1, 255], dtype=uint8)
        """
        span = max(1, self.high - self.low)
        # Rounded in whole numbers: 2 * 255 * 65,535 fits, and no float decides what lies in the
        # middle.
        found = values.astype(np.uint32)
        found -= np.uint32(self.low)
        found *= np.uint32(2 * 255)
        found += np.uint32(span)
        found //= np.uint32(2 * span)
        return found.astype(np.uint8)

    def sentence(self) -> str:
        """The scaling in words.

        >>> ValueRange(112, 40211).sentence()
        '16-bit images were scaled to 8 bits: 112 to 0, 40,211 to 255.'
        """
        ends = f"{self.low:,} to 0" + (f", {self.high:,} to 255" if self.high > self.low else "")
        return f"16-bit images were scaled to 8 bits: {ends}."


WHOLE_RANGE = ValueRange(0, 2**16 - 1)


def array_to_bytes(images: NDArray[Any]) -> tuple[NDArray[np.uint8], ValueRange]:
    """An array of 16-bit images as bytes, image by image, and the range they had."""
    found = ValueRange.of(images)
    pixels = np.empty(images.shape, dtype=np.uint8)
    for nth, image in enumerate(images):
        pixels[nth] = found.to_bytes(image)
    return pixels, found
