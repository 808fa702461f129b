# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for stride-2 convolutions with a member axis, im2col without stored columns.

Kernels are 4x4 or 2x2.

A stride-2 convolution ties a big image `(members, batch, height, width, big)` to a small one of
half the height and width with `small` channels, through weights `(members, small, kernel, kernel,
big)`. Three kernels follow that tie:

- `conv_kernel`, big -> small: a convolution's value and a transposed convolution's input
  gradient;
- `conv_transpose_kernel`, small -> big: a transposed convolution's value and a convolution's input
  gradient;
- `weight_kernel`, both -> weights and bias: the weight gradient of either.

The last two see the big image as 2x2 blocks, shifted by one pixel for the 4x4 kernel (which is
padded by one). Block (r, c) then touches exactly the small pixels (r - 1, c - 1) to (r, c), with
kernel row `pixel row + 2 * (r - small row)`, so all 16 taps are one dense product of 4 small pixels
with 4 big ones: nothing is computed twice, and no big pixel is read twice. With the 2x2 kernel a
block touches one small pixel. Channels lie last: neighbouring pixels are one stretch of memory.

Sums are in float32; nothing is added atomically, so results repeat bit by bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

CHANNELS_AT_ONCE = tl.constexpr(16)
"""Channels come in multiples of so many, and 16 bytes, the widest load, hold no more."""


@triton.jit
def stretches(offset, LENGTH: tl.constexpr = CHANNELS_AT_ONCE):
    """Tell the compiler that *offset* runs in stretches of LENGTH: 16 bytes move at a time."""
    return tl.max_contiguous(tl.multiple_of(offset, LENGTH), LENGTH)


@triton.jit
def steady(index, LENGTH: tl.constexpr = CHANNELS_AT_ONCE):
    """Tell the compiler that *index* stays the same for LENGTH entries: one test for a load."""
    return tl.max_constancy(index, LENGTH)


@triton.jit
def column_sums(matrix, total, PRECISION: tl.constexpr):
    """Add the sums of the columns of *matrix* `(rows, columns)` to *total* `(columns, 16)`.

    All columns of *total* are the same.

    As a product with ones: that runs beside the other products, where a sum across threads would
    make them wait.
    """
    ones = tl.full((matrix.shape[0], 16), 1.0, matrix.dtype)
    return tl.dot(tl.trans(matrix), ones, total, input_precision=PRECISION)


@triton.jit
def _small_columns(
    small_ptr, image, r, c, k, seen,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SMALL: tl.constexpr, REACH: tl.constexpr,
):  # fmt: skip
    """Columns *k* of the small pixels that blocks (r, c) touch.

    k = (rows back · REACH + column) · SMALL + channel.
    """
    back, along = steady(k // (REACH * SMALL)), steady(k // SMALL % REACH)
    row, column = r[:, None] - back[None, :], (c - (REACH - 1))[:, None] + along[None, :]
    inside = seen[:, None] & (row >= 0) & (row < HEIGHT) & (column >= 0) & (column < WIDTH)
    start = ((image * HEIGHT + r) * WIDTH + c - (REACH - 1)) * SMALL
    offset = stretches(k % (REACH * SMALL) - k // (REACH * SMALL) * (WIDTH * SMALL))
    return tl.load(small_ptr + start[:, None] + offset[None, :], mask=inside, other=0.0)


@triton.jit
def _big_columns(
    image, r, c, q, seen, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BIG: tl.constexpr,
    REACH: tl.constexpr,
):  # fmt: skip
    """Where columns *q* of blocks (r, c) lie, and which of them exist.

    q = (pixel row · 2 + pixel column) · BIG + channel.
    """
    down, along = steady(q // (2 * BIG)), steady(q // BIG % 2)
    row, column = (
        (2 * r - (REACH - 1))[:, None] + down[None, :],
        (2 * c - (REACH - 1))[:, None] + along[None, :],
    )
    inside = seen[:, None] & (row >= 0) & (row < HEIGHT) & (column >= 0) & (column < WIDTH)
    start = ((image * HEIGHT + 2 * r - (REACH - 1)) * WIDTH + 2 * c - (REACH - 1)) * BIG
    offset = stretches(q % (2 * BIG) + q // (2 * BIG) * (WIDTH * BIG))
    return start[:, None] + offset[None, :], inside


@triton.jit
def _weight_places(k, q, BIG: tl.constexpr, SMALL: tl.constexpr, REACH: tl.constexpr):
    """Where the weight between small columns *k* and big columns *q* lies.

    The weight is `(small, kernel, kernel, big)`.
    """
    back, along, s = k // (REACH * SMALL), REACH - 1 - k // SMALL % REACH, k % SMALL
    here = s * (4 * REACH * REACH * BIG) + (4 * REACH * back + 2 * along) * BIG
    return here[:, None] + stretches(q // (2 * BIG) * (2 * REACH * BIG) + q % (2 * BIG))[None, :]


@triton.jit
def conv_transpose_kernel(
    small_ptr, weight_ptr, bias_ptr, mask_ptr, big_ptr, blocks, weight_stride, bias_stride,
    small_values, big_values,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr,
    REACH: tl.constexpr,
    BIAS: tl.constexpr, RELU: tl.constexpr, MASK: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr, LOOPS: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Big blocks from the small pixels they touch, then bias, ReLU or a mask where wanted."""
    BLOCK_HEIGHT: tl.constexpr = HEIGHT // 2 + REACH - 1
    BLOCK_WIDTH: tl.constexpr = WIDTH // 2 + REACH - 1
    ALL: tl.constexpr = REACH * REACH * SMALL
    member = tl.program_id(1).to(tl.int64)
    q = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    small_ptr += member * small_values
    weight_ptr += member * weight_stride
    big_ptr += member * big_values
    mask_ptr += member * big_values
    if DEPTH == ALL:
        k = tl.arange(0, DEPTH)
        kept = tl.load(weight_ptr + _weight_places(k, q, BIG, SMALL, REACH))
    if BIAS:
        bias = tl.load(bias_ptr + member * bias_stride + q % BIG).to(tl.float32)[None, :]
    for loop in tl.range(LOOPS, num_stages=STAGES):
        m = (tl.program_id(0) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        image, r, c = (
            m // (BLOCK_HEIGHT * BLOCK_WIDTH),
            m // BLOCK_WIDTH % BLOCK_HEIGHT,
            m % BLOCK_WIDTH,
        )
        seen = m < blocks
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        if DEPTH == ALL:
            small = _small_columns(
                small_ptr, image, r, c, k, seen, HEIGHT // 2, WIDTH // 2, SMALL, REACH
            )
            total = tl.dot(small, kept, total, input_precision=PRECISION)
        else:
            for part in tl.range(ALL // DEPTH):
                some = part * DEPTH + tl.arange(0, DEPTH)
                small = _small_columns(
                    small_ptr, image, r, c, some, seen, HEIGHT // 2, WIDTH // 2, SMALL, REACH
                )
                weight = tl.load(weight_ptr + _weight_places(some, q, BIG, SMALL, REACH))
                total = tl.dot(small, weight, total, input_precision=PRECISION)
        if BIAS:
            total += bias
        if RELU:
            total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
        where, inside = _big_columns(image, r, c, q, seen, HEIGHT, WIDTH, BIG, REACH)
        if MASK:
            total = tl.where(tl.load(mask_ptr + where, mask=inside, other=0.0) > 0.0, total, 0.0)
        tl.store(big_ptr + where, total.to(big_ptr.dtype.element_ty), mask=inside)


# Both differ with the number of members: a kernel of its own for each would be compiled again
# whenever a population is regrouped.
@triton.jit(do_not_specialize=["splits", "loops"])
def weight_kernel(
    big_ptr, small_ptr, weight_ptr, bias_ptr, blocks, small_values, big_values, splits, loops,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr,
    REACH: tl.constexpr,
    BIAS_OF_BIG: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Weight gradient: sums over blocks of small pixel times big pixel.

    Each split of the blocks writes a sum of its own.

    The bias belongs to the side that the layer puts out, and its gradient is that side's sum: of
    the small side over its appearances as the block's own pixel, of the big side over all four of
    the block's. Columns are written, the caller adds them.
    """
    BLOCK_HEIGHT: tl.constexpr = HEIGHT // 2 + REACH - 1
    BLOCK_WIDTH: tl.constexpr = WIDTH // 2 + REACH - 1
    ALL: tl.constexpr = REACH * REACH * SMALL
    PARTS: tl.constexpr = 4 * BIG // COLUMNS
    split, member, part = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2)
    k = part // PARTS * DEPTH + tl.arange(0, DEPTH)
    q = part % PARTS * COLUMNS + tl.arange(0, COLUMNS)
    small_ptr += member * small_values
    big_ptr += member * big_values
    total = tl.zeros((DEPTH, COLUMNS), tl.float32)
    sums = tl.zeros((COLUMNS if BIAS_OF_BIG else DEPTH, 16), tl.float32)
    last = tl.minimum((split + 1) * (loops * ROWS), blocks)
    for loop in tl.range(loops, num_stages=STAGES):
        m = (split * loops + loop) * ROWS + tl.arange(0, ROWS)
        image, r, c = (
            m // (BLOCK_HEIGHT * BLOCK_WIDTH),
            m // BLOCK_WIDTH % BLOCK_HEIGHT,
            m % BLOCK_WIDTH,
        )
        seen = m < last
        small = _small_columns(
            small_ptr, image, r, c, k, seen, HEIGHT // 2, WIDTH // 2, SMALL, REACH
        )
        where, inside = _big_columns(image, r, c, q, seen, HEIGHT, WIDTH, BIG, REACH)
        big = tl.load(big_ptr + where, mask=inside, other=0.0)
        total = tl.dot(tl.trans(small), big, total, input_precision=PRECISION)
        if BIAS_OF_BIG:
            sums = column_sums(big, sums, PRECISION)
        else:
            sums = column_sums(small, sums, PRECISION)
    out = member * splits + split
    places = _weight_places(k, q, BIG, SMALL, REACH)
    tl.store(weight_ptr + out * (4 * ALL * BIG) + places, total)
    bias = tl.max(sums, axis=1)
    if BIAS_OF_BIG:
        if part // PARTS == 0:
            tl.store(bias_ptr + out * (4 * BIG) + q, bias)
    else:
        if part % PARTS == 0:
            tl.store(bias_ptr + out * ALL + k, bias)


@triton.jit
def conv_kernel(
    big_ptr, weight_ptr, bias_ptr, mask_ptr, small_ptr, columns, weight_stride, bias_stride,
    small_values, big_values,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr,
    REACH: tl.constexpr,
    BIAS: tl.constexpr, RELU: tl.constexpr, MASK: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, LOOPS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Small pixels from the windows over them, then bias, ReLU or a mask where they are wanted.

    A program follows ROWS columns of small pixels down LOOPS rows. Each step reads one pair of big
    rows, which is the lower half of the window above and the upper half of the window below: the
    upper half waits in registers for its other half. Both are one product, so that the window is
    read once.
    """
    OUT_HEIGHT: tl.constexpr = HEIGHT // 2
    OUT_WIDTH: tl.constexpr = WIDTH // 2
    STRETCH: tl.constexpr = 2 * REACH * BIG
    member = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    image, column = m // OUT_WIDTH, m % OUT_WIDTH
    top = tl.program_id(2) * LOOPS
    s, q = tl.arange(0, SMALL), tl.arange(0, DEPTH)
    big_ptr += member * big_values
    weight_ptr += member * weight_stride
    small_ptr += member * small_values
    mask_ptr += member * small_values
    seen = m < columns
    if BIAS:
        bias = tl.load(bias_ptr + member * bias_stride + s).to(tl.float32)[None, :]
    WHOLE: tl.constexpr = DEPTH == 2 * STRETCH
    UNROLL: tl.constexpr = 1 if DEPTH < 64 else 2 * STRETCH // DEPTH
    # Columns of the weights in turns, those of the lower half of the window and of the upper: the
    # two results are then neighbours in a thread.
    turn = tl.arange(0, REACH * SMALL)
    turns = turn // REACH * (4 * REACH * REACH * BIG) + (REACH - 1 - turn % REACH) * (2 * STRETCH)
    if WHOLE:
        weight = tl.load(weight_ptr + turns[None, :] + q[:, None])
    waiting = tl.zeros((ROWS, SMALL), tl.float32)
    for loop in tl.range(LOOPS + REACH - 1, num_stages=STAGES):
        row = top + loop
        total = tl.zeros((ROWS, REACH * SMALL), tl.float32)
        for part in tl.range(2 * STRETCH // DEPTH, loop_unroll_factor=UNROLL):
            p = part * DEPTH + q
            height = 2 * row - (REACH - 1) + steady(p // STRETCH)
            width = (2 * column - (REACH - 1))[:, None] + steady(p // BIG % (2 * REACH))[None, :]
            inside = (
                seen[:, None]
                & ((height >= 0) & (height < HEIGHT))[None, :]
                & (width >= 0)
                & (width < WIDTH)
            )
            start = (
                (image * HEIGHT + 2 * row - (REACH - 1)) * WIDTH + 2 * column - (REACH - 1)
            ) * BIG
            offset = stretches(p // STRETCH * (WIDTH * BIG) + p % STRETCH)
            window = tl.load(big_ptr + start[:, None] + offset[None, :], mask=inside, other=0.0)
            if not WHOLE:
                weight = tl.load(weight_ptr + turns[None, :] + p[:, None])
            total = tl.dot(window, weight, total, input_precision=PRECISION)
        if REACH == 2:
            lower, upper = tl.split(tl.reshape(total, (ROWS, SMALL, 2)))
            total = waiting + lower
            waiting = upper
        out_row = row - (REACH - 1)
        if BIAS:
            total += bias
        if RELU:
            total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
        where = ((image * OUT_HEIGHT + out_row) * OUT_WIDTH + column)[:, None] * SMALL + s[None, :]
        wanted = (seen & (loop >= REACH - 1) & (out_row < OUT_HEIGHT))[:, None]
        if MASK:
            total = tl.where(tl.load(mask_ptr + where, mask=wanted, other=0.0) > 0.0, total, 0.0)
        tl.store(small_ptr + where, total.to(small_ptr.dtype.element_ty), mask=wanted)
