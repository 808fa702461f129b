# SPDX-License-Identifier: Apache-2.0
"""Block sizes of the kernels, measured on an H200 with `benchmarks/tune_kernels.py`.

They are a table and not found at run time: another block size adds in another order, and a resumed
run must find its bits again.
"""

from __future__ import annotations

from typing import NamedTuple

_MANY = 32
"""From so many members on, every program repeats with the same weights; fewer members need their
programs to fill the device.
"""
_SPLIT = "tf32x3"
"""A float32 product as three of the matrix units' own, each factor split in two parts of 11 bits:
errors as small as one by one (both are a few 1e-7 of the result), and faster in some kernels."""


class Block(NamedTuple):
    """How a kernel is cut."""

    rows: int
    """Positions or blocks of pixels that one product takes."""
    depth: int = 0
    columns: int = 0
    """Tile of the product's other two sides, where the kernel cuts them."""
    warps: int = 4
    stages: int = 1
    """Loads in flight."""
    loops: int = 1
    """How often a program repeats with the same weights."""
    products: str = "ieee"
    """How float32 factors are multiplied: in one ("ieee") or split ("tf32x3"); never rounded to
    TF32.
    """
    programs: int = 792
    """Programs wanted where a sum is split: six for each of the 132 multiprocessors of an H200."""


def conv_block(members: int, height: int, big: int, small: int, low: bool) -> Block:
    """Of `conv_kernel`."""
    if not low:
        return Block(64, 32, loops=height // 2 if members >= _MANY else 2, products=_SPLIT)
    many = members >= 2 * _MANY
    if small > 64:
        return Block(64, 128, loops=height // 2 if many else 1)
    if big >= 64:
        return Block(128, 256, warps=8, loops=height // 2) if many else Block(64, 128)
    return Block(64, 256, loops=height // 2 if many else 4)


def conv_transpose_block(members: int, small: int, masked: bool, low: bool) -> Block:
    """Of `conv_transpose_kernel`."""
    many = members >= _MANY
    if not low:
        return (
            Block(64, 128, 64, loops=4 if many else 1, products=_SPLIT)
            if small <= 32
            else Block(64, 32, 64)
        )
    if small > 64:
        return Block(64, 128, 128, warps=8, loops=4 if many else 1)
    if many and small <= 32 and not masked:
        return Block(64, 128, 128, warps=8, stages=3, loops=8)
    return Block(64, 256, 128, warps=8, loops=4 if many else 1)


def weight_block(low: bool) -> Block:
    """Of `weight_kernel`."""
    return Block(32, 128, 128, stages=4, programs=396) if low else Block(32, 64, 64, stages=2)


def first_block(channels: int, low: bool) -> Block:
    """Of `first_kernel`."""
    return Block(128, loops=1 if channels == 1 else 16) if low else Block(64, products=_SPLIT)


def first_weight_block(low: bool) -> Block:
    """Of `first_weight_kernel`."""
    return Block(64, warps=2, stages=2, programs=1056) if low else Block(64, programs=1056)


def last_block(members: int, height: int, low: bool) -> Block:
    """Of `last_kernel`."""
    loops = height + 1 if members >= _MANY else 9
    if not low:
        return Block(64, stages=2, loops=loops, products=_SPLIT)
    return Block(128, stages=2, loops=loops)


def last_backward_block(channels: int, low: bool) -> Block:
    """Of `last_backward_kernel`."""
    if channels > 1 and low:
        return Block(64, stages=2, programs=2112)
    return Block(
        64, warps=2, stages=2 if low else 1, programs=2112, products="ieee" if low else _SPLIT
    )


def norm_block() -> Block:
    """Of batch norm's kernels."""
    return Block(128, programs=1056)


def splits(programs: int, positions: int, block: Block) -> int:
    """How many parts a sum over *positions* is cut into, so that *programs* fill the device."""
    return max(1, min(-(-block.programs // programs), -(-positions // (2 * block.rows))))
