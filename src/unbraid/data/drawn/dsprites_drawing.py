# SPDX-License-Identifier: Apache-2.0
"""Drawing dSprites (Matthey et al. 2017): polygon fill as the original renderer did it.

The published array was drawn by LOVE2D vector calls, that is OpenGL polygon fill without
antialiasing. The constants here were calibrated on the 320 images of the dataset's own gif, all of
which come out without a wrong pixel. Departs: the full set holds 128,328,864 white pixels against
128,328,862 in the published file, so a few images may differ from it by one pixel.

Lengths below are whole numbers of 1/256 pixel. Pixel j has its centre at j + 1/2, y grows downward.
An image is 64 words of 64 bits: word r is row r, bit j is column j.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

SIDE = 64
SHAPES, SCALES, ORIENTATIONS, POSITIONS = 3, 6, 40, 32
SPRITES = SHAPES * SCALES * ORIENTATIONS
"""Combinations of shape, scale and orientation; each is drawn at every position in one go."""
IMAGES_PER_SPRITE = POSITIONS * POSITIONS

_UNIT = 0.15 * SIDE
_SUBPIXELS = 256
_CENTRE = _SUBPIXELS // 2


def _outline(shape: int) -> NDArray[np.float64]:
    """Vertices `(edges, 2)` of square, ellipse or heart at scale 1, in pixels."""
    if shape == 0:
        return _UNIT * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    if shape == 1:
        t = np.arange(100) * (2 * np.pi / 100)
        return _UNIT * np.stack([1.33 * np.cos(t), np.sin(t) / 1.33], axis=1)
    t = np.arange(150) * (2 * np.pi / 150)
    height = (13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 14.5 + 0.15
    return _UNIT * np.stack([np.sin(t) ** 3, -height], axis=1)


@functools.cache
def _outlines() -> tuple[NDArray[np.float64], ...]:
    return tuple(_outline(shape) for shape in range(SHAPES))


def draw_sprite(sprite: int) -> NDArray[np.uint64]:
    """Packed rows `(posX, posY, 64)` of one *sprite* at every position.

    *sprite* is the flat index of shape, scale, orientation.

    A vertex's snapped x depends on posX alone and its snapped y on posY alone, so the edges that
    cross each row of pixel centres are found once per posY and where they cross is evaluated for
    all posX together. Every crossing flips the pixels whose centres lie at or right of it: left
    edges are in, right edges out, bottom edges in, top edges out.
    """
    shape, scale, orientation = np.unravel_index(sprite, (SHAPES, SCALES, ORIENTATIONS))
    size = np.linspace(0.5, 1.0, SCALES)[scale]
    angle = np.linspace(0.0, 2 * np.pi, ORIENTATIONS)[orientation]
    outline = _outlines()[shape] * size
    cosine, sine = np.cos(angle), np.sin(angle)
    turned_x = cosine * outline[:, 0] + sine * outline[:, 1]
    turned_y = cosine * outline[:, 1] - sine * outline[:, 0]
    origin = 16.0 + 32.0 * np.linspace(0.0, 1.0, POSITIONS)[:, None]
    x_start = np.rint((origin + turned_x) * _SUBPIXELS)
    y_start = np.rint((origin + turned_y) * _SUBPIXELS)
    x_end, y_end = np.roll(x_start, -1, axis=1), np.roll(y_start, -1, axis=1)

    first_row = np.floor((y_start.min(axis=1) - _CENTRE) / _SUBPIXELS).astype(np.int64)
    last_row = np.ceil((y_start.max(axis=1) - _CENTRE) / _SUBPIXELS).astype(np.int64)
    rows = first_row[:, None] + np.arange((last_row - first_row).max() + 1)
    row_y = rows * float(_SUBPIXELS) + _CENTRE
    above_start = y_start[:, None, :] < row_y[:, :, None]
    crosses = above_start != np.roll(above_start, -1, axis=2)
    pos_y, nth_row, edge = np.nonzero(crosses)

    fraction = (row_y[pos_y, nth_row] - y_start[pos_y, edge]) / (
        y_end[pos_y, edge] - y_start[pos_y, edge]
    )
    # The rounding to 1/256 px makes whole-pixel copies inexact, so x is evaluated for each posX
    # rather than shifted.
    x = x_start.T[edge] + (x_end - x_start).T[edge] * fraction[:, None]
    first_column = np.ceil((x - _CENTRE) / _SUBPIXELS).astype(np.uint64)
    flipped = np.left_shift(np.uint64(2**64 - 1), first_column)

    line = pos_y * rows.shape[1] + nth_row
    starts = np.flatnonzero(np.diff(line, prepend=-1))
    words = np.bitwise_xor.reduceat(flipped, starts, axis=0)
    block = np.zeros((POSITIONS, POSITIONS, SIDE), dtype=np.uint64)
    block[:, pos_y[starts], rows[pos_y[starts], nth_row[starts]]] = words.T
    return block


def draw_all() -> NDArray[np.uint64]:
    """Packed rows `(737280, 64)` of the whole set.

    Index order: shape, scale, orientation, posX, posY.
    """
    packed = np.empty((SPRITES, IMAGES_PER_SPRITE, SIDE), dtype=np.uint64)
    for sprite in range(SPRITES):
        packed[sprite] = draw_sprite(sprite).reshape(IMAGES_PER_SPRITE, SIDE)
    return packed.reshape(-1, SIDE)


def draw_some(indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Packed rows `(n, 64)` of flat *indices* `(n,)`, drawing only the sprites that occur."""
    packed = np.empty((len(indices), SIDE), dtype=np.uint64)
    sprites, places = np.divmod(indices, IMAGES_PER_SPRITE)
    for sprite in np.unique(sprites):
        chosen = sprites == sprite
        packed[chosen] = draw_sprite(int(sprite)).reshape(IMAGES_PER_SPRITE, SIDE)[places[chosen]]
    return packed


def pack(images: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Packed rows `(n, 64)` of 0/1 *images* `(n, 64, 64)`."""
    return (
        np.packbits(images, axis=-1, bitorder="little")
        .view("<u8")[..., 0]
        .astype(np.uint64, copy=False)
    )


def unpack(packed: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """0/1 images `(n, 64, 64)` of *packed* rows `(n, 64)`."""
    octets = (
        np.ascontiguousarray(packed)
        .astype("<u8", copy=False)
        .view(np.uint8)
        .reshape(*packed.shape, 8)
    )
    return np.unpackbits(octets, axis=-1, bitorder="little")
