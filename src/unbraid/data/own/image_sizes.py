# SPDX-License-Identifier: Apache-2.0
"""Sizes of image files from their headers alone, before anything is decoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from unbraid.core.checks import raise_shortened
from unbraid.core.errors import Problems, Shown
from unbraid.data.own.image_folder import image_files, strict_decoding, unusable_files

_EXIF_ORIENTATION = 0x0112
SHAPE = "Shape"
"""What `Dataset.about` calls the sentence on images that were stretched."""


def folder_size(folder: Path) -> tuple[int, int]:
    """Height and width of all images of a folder, from their headers alone.

    Images of several sizes are refused, together with every file that cannot be used.
    """
    files, problems = image_files(folder), Problems()
    sizes = sizes_of(files)
    readable = [
        (path.name, size) for path, size in zip(files, sizes, strict=True) if size is not None
    ]
    if strays := [one for one in readable if one[1] != readable[0][1]]:
        (first, one), (second, other) = readable[0], strays[0]
        value = Shown(
            f"'{first}' of {one[1]}x{one[0]} and '{second}' of {other[1]}x{other[0]} pixels"
        )
        problems.add(
            "images",
            "must all have one size",
            value,
            "Crop them to one size, or scale all with {resize=64}.",
        )
    if strays or len(readable) < len(files):
        for line in unusable_files(files):
            problems.say(line)
    raise_shortened(problems)
    return readable[0][1]


def sizes_of(files: Sequence[Path]) -> list[tuple[int, int] | None]:
    """Height and width of every image, turned upright, from headers; None where unreadable."""
    from PIL import Image

    found: list[tuple[int, int] | None] = []
    with strict_decoding():
        for path in files:
            try:
                with Image.open(path) as opened:
                    turned = opened.getexif().get(_EXIF_ORIENTATION, 1) >= 5  # lies on its side
                    found.append(
                        (opened.width, opened.height) if turned else (opened.height, opened.width)
                    )
            except Exception:  # decoders raise many kinds
                found.append(None)
    return found


def stretched(sizes: Iterable[tuple[int, int] | None], side: int) -> str:
    """What must be known of images of such heights and widths that are scaled to a square of
    *side*; empty where all are square.

    >>> stretched([(32, 32)], 16)
    ''
    """
    size = next((size for size in sizes if size and size[0] != size[1]), None)
    if size is None:
        return ""
    return (
        f"Images of {size[0]} × {size[1]} pixels were stretched to {side} × {side}, which changes"
        " the shape of what they show: cut them to squares first to keep it."
    )
