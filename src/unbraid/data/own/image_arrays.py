# SPDX-License-Identifier: Apache-2.0
"""Arrays of images brought to uint8 `(n, height, width, channels)`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Shown, invalid
from unbraid.data.own.image_depth import ValueRange, array_to_bytes

SMALLEST_SIDE, LARGEST_SIDE = 8, 512
FEWEST_IMAGES = 2


def as_pixels(
    images: NDArray[Any], name: str, any_side: bool = False
) -> tuple[NDArray[np.uint8], ValueRange | None]:
    """*images* as uint8 `(n, height, width, channels)`.

    Bytes stay as they are, booleans become 0 and 255, floats in [0, 1] are scaled to 0..255.

    uint16 is scaled as `image_depth` says; the range that its values had comes second, None for all
    other kinds.
    """
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4:
        rule = "must have shape (n, height, width) or (n, height, width, channels)"
        remedy = "Give images, one behind the other along the first axis."
        raise invalid(name, rule, Shown(f"shape {images.shape}"), remedy)
    count, height, width, channels = images.shape
    if channels not in (1, 3):
        remedy = "Keep one or three of the channels."
        if height in (1, 3):
            remedy = "Channels come last: use numpy.moveaxis(images, 1, -1)."
        elif channels == 4:
            remedy = "Drop the transparency: images[..., :3]."
        raise invalid(
            name,
            "must have 1 or 3 channels on the last axis",
            Shown(f"shape {images.shape}"),
            remedy,
        )
    if min(height, width) < 1 or not any_side:
        check_sides(name, height, width)
    if count < FEWEST_IMAGES:
        raise invalid(name, f"must hold at least {FEWEST_IMAGES} images", count)
    if images.dtype.kind == "u" and images.dtype.itemsize == 2:
        return array_to_bytes(images)
    return _as_bytes(images, name), None


def check_sides(name: str, height: int, width: int) -> None:
    """Refuse images with a side outside 8..512."""
    if not (SMALLEST_SIDE <= min(height, width) and max(height, width) <= LARGEST_SIDE):
        rule = f"must have sides of {SMALLEST_SIDE} to {LARGEST_SIDE} pixels"
        value = Shown(f"height {height}, width {width}")
        raise invalid(name, rule, value, "Set resize=64 to scale every image to 64x64.")


def _as_bytes(images: NDArray[Any], name: str) -> NDArray[np.uint8]:
    if images.dtype == np.uint8:
        return np.ascontiguousarray(images)
    if images.dtype == np.bool_:
        return images.astype(np.uint8) * np.uint8(255)
    if images.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            low, high = float(images.min()), float(images.max())
        if not (low >= 0.0 and high <= 1.0):
            finite = np.isfinite(images).all()
            value = (
                Shown(f"values from {low:g} to {high:g}")
                if finite
                else Shown(f"{int((~np.isfinite(images)).sum())} not finite")
            )
            remedy = (
                "Scale them: (images - low) / (high - low)."
                if finite
                else "Replace values that are not numbers."
            )
            raise invalid(name, "as floats must lie in [0, 1]", value, remedy)
        return np.rint(
            images.astype(np.promote_types(images.dtype, np.float32), copy=False) * 255.0
        ).astype(np.uint8)
    rule = "must be uint8 (0..255), uint16, bool, or floats in [0, 1]"
    remedy = (
        "Scale them: (images * (255 / images.max())).astype(numpy.uint8)."
        if images.dtype.kind in "iu"
        else "Make them an array of numbers."
    )
    raise invalid(name, rule, Shown(f"dtype {images.dtype}"), remedy)


def resized(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """*pixels* scaled to *side* x *side* with the Lanczos filter."""
    from PIL import Image

    out = np.empty((len(pixels), side, side, pixels.shape[-1]), dtype=np.uint8)
    for nth, image in enumerate(pixels):
        image = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
        out[nth] = np.asarray(image.resize((side, side), Image.Resampling.LANCZOS)).reshape(
            side, side, -1
        )
    return out
