# SPDX-License-Identifier: Apache-2.0
"""Change and explained variance of the factors of all dSprites, counted on packed bits.

Zietlow et al. 2021, eqs. 7 and 9.

The squared distance of two binary images is the number of bits that differ, and the mean image a
count of bits, so the 3 billion pixels take seconds and no more memory than one sprite at its 1,024
places. Departs: as `expansiveness` does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BITS_OF_BYTE = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.uint8)


def examine(
    words: NDArray[np.uint64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean change, least change and explained variance of each factor of *words*.

    *words* is `(*sizes, rows)`, a bit per pixel.

    The last two factors must have at most 255 values each.
    """
    sizes, rows = words.shape[:-1], words.shape[-1]
    sprites = words.reshape(-1, *sizes[-2:], rows)
    places = np.arange(len(sprites)).reshape(sizes[:-2])
    total, count, least = np.zeros(len(sizes)), np.zeros(len(sizes)), np.full(len(sizes), np.inf)
    sums = [np.zeros((size, 64 * rows)) for size in sizes]

    def compare(factor: int, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> None:
        if a.size:
            distances = np.sqrt(_ones(a ^ b))
            total[factor] += distances.sum()
            count[factor] += distances.size
            least[factor] = min(least[factor], distances.min())

    for place in np.ndindex(*places.shape):
        sprite = sprites[places[place]]
        for factor, value in enumerate(place):
            if value + 1 < sizes[factor]:
                following = (*place[:factor], value + 1, *place[factor + 1 :])
                compare(factor, sprite, sprites[places[following]])
        compare(len(sizes) - 2, sprite[:-1], sprite[1:])
        compare(len(sizes) - 1, sprite[:, :-1], sprite[:, 1:])
        bits = np.unpackbits(
            np.ascontiguousarray(sprite).view(np.uint8), bitorder="little"
        ).reshape(*sizes[-2:], -1)
        # Bytes hold counts of up to 255 ones, and adding bytes is several times as fast as adding
        # words.
        along = bits.sum(axis=1, dtype=np.uint8)
        sums[-2] += along
        sums[-1] += bits.sum(axis=0, dtype=np.uint8)
        whole = along.sum(axis=0, dtype=np.float64)
        for factor, value in enumerate(place):
            sums[factor][value] += whole

    images = words[..., 0].size
    means = [part * (len(part) / images) for part in sums]
    variance = np.array([mean.var(axis=0).sum() for mean in means])
    compared = count > 0
    change = np.divide(total, count, out=np.full(len(sizes), np.nan), where=compared)
    return change, np.where(compared, least, np.nan), variance


def _ones(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many bits are set in the last axis."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words).sum(axis=-1, dtype=np.int64)
    return _BITS_OF_BYTE[np.ascontiguousarray(words).view(np.uint8)].sum(axis=-1, dtype=np.int64)
