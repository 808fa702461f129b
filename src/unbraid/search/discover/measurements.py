# SPDX-License-Identifier: Apache-2.0
"""Measurements of images that people have words for: place, size, brightness, colour.

What stands out of an image is what differs from the background: the one colour of all borders, or
where they have several colours the median of every pixel over the images. With d the largest
difference over the channels, it is the pixels where d is at least a quarter of the image's largest,
weighted by d. From these come the centre (first moments), the extent (root of the trace of the
second moments), the orientation (the angle of their main axis, doubled, since half a turn brings a
shape back), the colour and the shade. They mean something only where the backdrop is plain or most
of the scene holds still, and are left out elsewhere: a room whose walls change colour has no
background. The rest is taken from the whole image, its border, and each cell of a 3 x 3 grid; hues
also from each quarter of a cell, since over a larger area colours mix.

Ours; no paper. Angles (`is_circular`) are in radians, orientations doubled; places along diagonals
are in standard deviations; all else lies between 0 and 1. Where an image has no such thing (no
colour in a grey cell, no orientation of a disc) there is NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid

CELLS = tuple(
    f"{row}_{column}"
    for row in ("upper", "middle", "lower")
    for column in ("left", "middle", "right")
)
"""The nine parts of an image, row by row."""
_LARGEST_SIDE = 64
"""Larger images are measured on means of blocks of pixels: no word needs more."""
_VALUES_AT_ONCE = 2**22
_BACKGROUND_IMAGES = 1_000
_STANDS_OUT = 0.1
"""A difference from the background, of 1 for black to white, below which nothing stands out."""
_PLAIN_SHARE = 0.9
"""Share of the border's pixels that must have one colour, for that to be the background everywhere.
"""
_STILL_SHARE = 0.6
"""Share of pixels that must be background on average, for what stands out to mean something,"""
_PLAIN_STILL_SHARE = 0.1
"""and where the backdrop is plain."""
_LEAST_CHROMA = 0.04
"""Distance of a mean colour from grey below which its hue is left to chance."""
_LEAST_ELONGATION = 0.08
_BORDER = 8
"""The border is this part of the image's side wide."""


def is_circular(measurement: str) -> bool:
    """Whether a measurement is an angle: a hue or the doubled orientation.

    >>> is_circular("hue_upper_left"), is_circular("centre_x")
    (True, False)
    """
    return measurement.startswith("hue") or measurement == "orientation"


def is_of_part(measurement: str) -> bool:
    """Whether a measurement is taken from a cell or the border of the image.

    >>> is_of_part("brightness_border"), is_of_part("brightness"), is_of_part("hue_whole")
    (True, False, False)
    """
    return measurement.endswith("_border") or bool(cell_of(measurement))


def measurements(images: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """What can be measured of *images*, uint8 `(n, height, width, channels)`: `(n,)` by name.

    They are measured block by block, in bounded memory.

    >>> white = np.zeros((3, 8, 8, 1), np.uint8)
    >>> white[0, 1:3, 1:3] = white[1, 1:3, 4:6] = white[2, 5:7, 4:6] = 255
    >>> found = measurements(white)
    >>> found["centre_x"], found["centre_y"]
    (array([0.25 , 0.625, 0.625]), array([0.25, 0.25, 0.75]))
    """
    images = check_images(images)
    background = _background(images)
    parts = [
        {**_whole_image(block), **_standing_out(block, background)}
        for block in blocks(images, _LARGEST_SIDE)
    ]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    still = float(found.pop("background_share").mean())
    standing = [name for name in _STANDING if name in found]
    if (
        still < (_PLAIN_STILL_SHARE if background.ndim == 1 else _STILL_SHARE)
        or np.isnan(found["centre_x"]).mean() > 0.1
    ):
        for name in standing:
            del found[name]
        return found
    return found | _diagonals(found["centre_x"], found["centre_y"])


def check_images(images: ArrayLike) -> NDArray[np.uint8]:
    """*images*, refused unless they are at least two images in bytes."""
    images = np.asarray(images)
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or len(images) < 2 or 0 in images.shape:
        rule = "must be at least two images (n, height, width, channels) of 1 or 3 channels"
        raise invalid("images", rule, Shown(f"shape {images.shape}"))
    if images.dtype != np.uint8:
        raise invalid(
            "images",
            "must be uint8, 0..255",
            Shown(f"dtype {images.dtype}"),
            "Use dataset.images(...).",
        )
    return images


def blocks(
    images: NDArray[np.uint8], side: int, rows: NDArray[np.int64] | None = None
) -> Iterator[NDArray[np.float32]]:
    """*images*, or those of *rows*, in [0, 1], a bounded number at a time.

    They are means of blocks, so that no side exceeds *side*.
    """
    step = -(-max(images.shape[1:3]) // side)
    height, width = (max(1, length // step) for length in images.shape[1:3])
    down, across = (min(step, length) for length in images.shape[1:3])
    at_once = max(1, _VALUES_AT_ONCE // int(np.prod(images.shape[1:])))
    for start in range(0, len(images) if rows is None else len(rows), at_once):
        part = slice(start, start + at_once)
        chosen = images[part if rows is None else rows[part]]
        block = chosen[:, : height * down, : width * across].astype(np.float32) / np.float32(255.0)
        if step > 1:
            block = block.reshape(len(block), height, down, width, across, -1).mean(axis=(2, 4))
        yield block


def cell_slices(height: int, width: int, parts: int = 1) -> dict[str, tuple[slice, slice]]:
    """Rows and columns of the nine cells of an image, or of *parts* x *parts* of each cell.

    >>> list(cell_slices(64, 64, 2))[:3], cell_slices(64, 64, 2)["upper_middle_3"]
    (['upper_left_0', 'upper_left_1', 'upper_left_2'], (slice(11, 21, None), slice(32, 43, None)))
    """
    count = 3 * parts
    # Where a side has fewer pixels than there are parts, neighbours share one.
    edges = [
        [min(round(part * length / count), length - 1) for part in range(count)] + [length]
        for length in (height, width)
    ]
    down, across = (
        [slice(low, max(high, low + 1)) for low, high in itertools.pairwise(ends)] for ends in edges
    )
    found = {}
    for nth, cell in enumerate(CELLS):
        for part in range(parts * parts):
            row, column = nth // 3 * parts + part // parts, nth % 3 * parts + part % parts
            found[cell if parts == 1 else f"{cell}_{part}"] = (down[row], across[column])
    return found


def cell_of(measurement: str) -> str:
    """The cell of the image that a measurement is taken from; empty for those of other things.

    >>> cell_of("hue_upper_left_3"), cell_of("brightness_lower_middle"), cell_of("hue_border")
    ('upper_left', 'lower_middle', '')
    """
    cell = measurement.partition("_")[2].rstrip("_0123456789")
    return cell if cell in CELLS else ""


def hue(colours: NDArray[np.floating]) -> NDArray[np.float64]:
    """Angle of *colours* `(..., 3)` around the grey axis, red 0, green a third of a turn.

    It is NaN where a colour is nearly grey.

    >>> red, green, violet, grey = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.5] * 3
    >>> np.degrees(hue(np.array([red, green, violet, grey]))).round()
    array([  0., 120., 300.,  nan])
    """
    red, green, blue = np.moveaxis(colours.astype(np.float64), -1, 0)
    along, aside = red - (green + blue) / 2, np.sqrt(0.75) * (green - blue)
    return np.where(
        np.hypot(along, aside) >= _LEAST_CHROMA, np.arctan2(aside, along) % (2 * np.pi), np.nan
    )


def _background(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What a sample of the images has behind it, `(height, width, channels)` or one colour."""
    rows = np.random.default_rng(0).permutation(len(images))[:_BACKGROUND_IMAGES]
    sample = np.concatenate(list(blocks(images, _LARGEST_SIDE, np.sort(rows))))
    rim = sample[:, _ring(*sample.shape[1:3])]
    colour = np.median(rim.reshape(-1, rim.shape[-1]), axis=0)
    # A plain backdrop is seen all around. The median would take for part of it what always covers
    # the middle.
    if (np.abs(rim - colour).max(axis=-1) < _STANDS_OUT).mean() >= _PLAIN_SHARE:
        return colour
    return np.median(sample, axis=0, overwrite_input=True)


def _ring(height: int, width: int) -> NDArray[np.bool_]:
    """The pixels of the border."""
    ring = np.ones((height, width), dtype=bool)
    down, across = max(1, height // _BORDER), max(1, width // _BORDER)
    ring[down : height - down, across : width - across] = False
    return ring


def _whole_image(block: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """Brightness, contrast and hue of whole images, their borders and their cells."""
    light = block.mean(axis=-1, dtype=np.float64)
    height, width = block.shape[1:3]
    ring = _ring(height, width)
    found = {
        "contrast": light.std(axis=(1, 2)),
        "brightness": light.mean(axis=(1, 2)),
        "brightness_border": light[:, ring].mean(axis=1),
    }
    for cell, place in cell_slices(height, width).items():
        found[f"brightness_{cell}"] = light[:, *place].mean(axis=(1, 2))
    if block.shape[-1] == 3:
        parts = {"whole": block.reshape(len(block), -1, 3), "border": block[:, ring]}
        for cell, place in cell_slices(height, width, 2).items():
            parts[cell] = block[:, *place].reshape(len(block), -1, 3)
        found |= {
            f"hue_{name}": hue(part.mean(axis=1, dtype=np.float64)) for name, part in parts.items()
        }
    return found


_STANDING = ("centre_x", "centre_y", "extent", "area", "shade", "orientation", "hue")


def _standing_out(
    block: NDArray[np.float32], background: NDArray[np.float32]
) -> dict[str, NDArray[np.float64]]:
    """Measurements of what differs from the *background*."""
    difference = np.abs(block - background).max(axis=-1)
    top = difference.max(axis=(1, 2), keepdims=True)
    seen = top[:, 0, 0] >= _STANDS_OUT
    weight = np.where((difference >= 0.25 * top) & seen[:, None, None], difference, 0.0).astype(
        np.float64
    )
    total = np.where(seen, weight.sum(axis=(1, 2)), np.nan)
    height, width = block.shape[1:3]
    y, x = (np.arange(length) + 0.5 for length in (height, width))
    across, down = weight.sum(axis=1), weight.sum(axis=2)
    centre_x, centre_y = across @ x / total, down @ y / total
    spread_x, spread_y = across @ x**2 / total - centre_x**2, down @ y**2 / total - centre_y**2
    tilt = np.einsum("nyx,y,x->n", weight, y, x, optimize=True) / total - centre_x * centre_y
    both = np.maximum(spread_x + spread_y, 0.0)
    elongated = np.hypot(spread_x - spread_y, 2 * tilt) > _LEAST_ELONGATION * both
    core = np.where((difference >= 0.8 * top) & seen[:, None, None], 1.0, 0.0)
    with np.errstate(invalid="ignore"):  # images in which nothing stands out
        shade = (core * block.max(axis=-1)).sum(axis=(1, 2)) / np.where(
            seen, core.sum(axis=(1, 2)), np.nan
        )
    found = {
        "background_share": (difference < _STANDS_OUT).mean(axis=(1, 2), dtype=np.float64),
        "centre_x": centre_x / width,
        "centre_y": centre_y / height,
        "extent": np.sqrt(both) / max(height, width),
        "area": np.where(
            seen, (difference >= 0.5 * top).mean(axis=(1, 2), dtype=np.float64), np.nan
        ),
        "shade": shade,
        "orientation": np.where(
            elongated, np.arctan2(2 * tilt, spread_x - spread_y) % (2 * np.pi), np.nan
        ),
    }
    if block.shape[-1] == 3:
        found["hue"] = hue(
            np.einsum("nyx,nyxc->nc", weight, block.astype(np.float64), optimize=True)
            / total[:, None]
        )
    return found


def _diagonals(
    centre_x: NDArray[np.float64], centre_y: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """The place along both diagonals, where things move about as far across as down."""
    wide, high = float(np.nanstd(centre_x)), float(np.nanstd(centre_y))
    if min(wide, high) < max(wide, high, 1e-9) / 3:
        return {}
    across, down = (
        (centre_x - np.nanmean(centre_x)) / wide,
        (centre_y - np.nanmean(centre_y)) / high,
    )
    return {"diagonal_falling": (across + down) / 2, "diagonal_rising": (across - down) / 2}
