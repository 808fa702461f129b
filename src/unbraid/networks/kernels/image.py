# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for the layers that touch the image: an encoder's first, a decoder's last.

Images `(members, batch, channels, height, width)` have one or three channels, so a window is 16 or
48 numbers; these layers are bound by the traffic of their other side, which each kernel reads or
writes once. The last layer and the likelihood are one kernel: raw outputs are compared with the
image while they are in registers, and only the distance and its slope are written.

Images and slopes are stored by blocks `(members, batch, rows + 1, columns + 1, PIXELS)` of 2x2
pixels, shifted by one as in `convolution`: what one small pixel needs are then two stretches, of
two neighbouring blocks each.
"""

from __future__ import annotations

import triton
import triton.language as tl

from unbraid.networks.kernels.convolution import column_sums, steady, stretches

RAW, BERNOULLI, SIGMOID_SQUARED, SQUARED = (
    tl.constexpr(0),
    tl.constexpr(1),
    tl.constexpr(2),
    tl.constexpr(3),
)
"""What the last layer does with its outputs: hands them out, or compares them by one of the
likelihoods.
"""


@triton.jit(do_not_specialize=["image_stride", "batch", "count"])
def block_kernel(
    image_ptr, block_ptr, image_stride, batch, count,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, PIXELS: tl.constexpr,
    NUMBERS: tl.constexpr,
):  # fmt: skip
    """Images by blocks; zeros where a block reaches over the edge."""
    COLUMNS: tl.constexpr = WIDTH // 2 + 1
    image, member = tl.program_id(0) % batch, tl.program_id(0) // batch
    at = tl.program_id(1) * NUMBERS + tl.arange(0, NUMBERS)
    out, r, c = at % PIXELS, at // (PIXELS * COLUMNS), at // PIXELS % COLUMNS
    pixel, channel = out // CHANNELS, out % CHANNELS
    height, width = 2 * r - 1 + pixel // 2, 2 * c - 1 + pixel % 2
    shown = (
        (at < count)
        & (pixel < 4)
        & (height >= 0)
        & (height < HEIGHT)
        & (width >= 0)
        & (width < WIDTH)
    )
    image_ptr += member.to(tl.int64) * image_stride + image * (CHANNELS * HEIGHT * WIDTH)
    value = tl.load(
        image_ptr + channel * (HEIGHT * WIDTH) + height * WIDTH + width, mask=shown, other=0.0
    )
    block_ptr += tl.program_id(0).to(tl.int64) * count
    tl.store(block_ptr + at, value.to(block_ptr.dtype.element_ty), mask=at < count)


@triton.jit
def _windows(
    block_ptr, m, seen, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Windows `(positions, 4 · PIXELS)` over small pixels (i, j).

    They meet the blocks (i, j) to (i + 1, j + 1).

    HEIGHT and WIDTH are the small side's; tap = (rows on · 2 + columns on) · PIXELS + output of the
    block.
    """
    tap = tl.arange(0, 4 * PIXELS)
    image, row, column = m // (HEIGHT * WIDTH), m // WIDTH % HEIGHT, m % WIDTH
    start = ((image * (HEIGHT + 1) + row) * (WIDTH + 1) + column) * PIXELS
    offset = stretches(tap // (2 * PIXELS) * ((WIDTH + 1) * PIXELS) + tap % (2 * PIXELS), PIXELS)
    return tl.load(block_ptr + start[:, None] + offset[None, :], mask=seen[:, None], other=0.0)


@triton.jit
def _taps(CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    """For each tap of `_windows`: its place in a weight's `(4, 4, channels)`, if it is one."""
    tap = tl.arange(0, 4 * PIXELS)
    pixel, channel = tap % PIXELS // CHANNELS, tap % PIXELS % CHANNELS
    kernel_row, kernel_column = (
        pixel // 2 + 2 * (tap // (2 * PIXELS)),
        pixel % 2 + 2 * (tap // PIXELS % 2),
    )
    return (kernel_row * 4 + kernel_column) * CHANNELS + channel, tap % PIXELS < 4 * CHANNELS


@triton.jit
def first_kernel(
    block_ptr, weight_ptr, bias_ptr, out_ptr, positions, block_stride, weight_stride, bias_stride,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SMALL: tl.constexpr,
    PIXELS: tl.constexpr,
    RELU: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, LOOPS: tl.constexpr,
):  # fmt: skip
    """First layer of an encoder: 4x4 convolution of an image by blocks, with bias and ReLU."""
    member = tl.program_id(1).to(tl.int64)
    s = tl.arange(0, SMALL)
    place, used = _taps(CHANNELS, PIXELS)
    at = member * weight_stride + s[None, :] * (16 * CHANNELS) + place[:, None]
    weight = tl.load(weight_ptr + at, mask=used[:, None], other=0.0)
    bias = tl.load(bias_ptr + member * bias_stride + s).to(tl.float32)[None, :]
    block_ptr += member * block_stride
    out_ptr += member * positions * SMALL
    for loop in tl.range(LOOPS):
        m = (tl.program_id(0) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        seen = m < positions
        windows = _windows(block_ptr, m, seen, HEIGHT, WIDTH, PIXELS)
        total = tl.dot(windows.to(weight.dtype), weight, input_precision=PRECISION) + bias
        if RELU:
            total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
        tl.store(
            out_ptr + m[:, None] * SMALL + s[None, :],
            total.to(out_ptr.dtype.element_ty),
            mask=seen[:, None],
        )


@triton.jit(do_not_specialize=["splits", "loops"])
def first_weight_kernel(
    block_ptr, gradient_ptr, weight_ptr, bias_ptr, positions, block_stride, splits, loops,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SMALL: tl.constexpr,
    PIXELS: tl.constexpr,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Weight and bias gradient of the first layer; a split writes a sum of its own."""
    split, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    s = tl.arange(0, SMALL)
    block_ptr += member * block_stride
    gradient_ptr += member * positions * SMALL
    total = tl.zeros((SMALL, 4 * PIXELS), tl.float32)
    sums = tl.zeros((SMALL, 16), tl.float32)
    last = tl.minimum((split + 1) * (loops * ROWS), positions)
    for loop in tl.range(loops, num_stages=STAGES):
        m = (split * loops + loop) * ROWS + tl.arange(0, ROWS)
        seen = m < last
        gradient = tl.load(
            gradient_ptr + m[:, None] * SMALL + s[None, :], mask=seen[:, None], other=0.0
        )
        windows = _windows(block_ptr, m, seen, HEIGHT, WIDTH, PIXELS)
        total = tl.dot(
            tl.trans(gradient), windows.to(gradient.dtype), total, input_precision=PRECISION
        )
        sums = column_sums(gradient, sums, PRECISION)
    out = member * splits + split
    place, used = _taps(CHANNELS, PIXELS)
    where = out * (16 * CHANNELS * SMALL) + s[:, None] * (16 * CHANNELS) + place[None, :]
    tl.store(weight_ptr + where, total, mask=used[None, :])
    tl.store(bias_ptr + out * SMALL + s, tl.max(sums, axis=1))


@triton.jit
def last_kernel(
    small_ptr, weight_ptr, bias_ptr, block_ptr, raw_ptr, slope_ptr, sums_ptr,
    columns, weight_stride, bias_stride, block_stride, batch,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SMALL: tl.constexpr,
    PIXELS: tl.constexpr,
    OUTPUTS: tl.constexpr, LIKELIHOOD: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr,
    LOOPS: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Last layer of a decoder: transposed convolution to an image, and its distance from x.

    HEIGHT and WIDTH are the small side's. A program follows ROWS columns of blocks down LOOPS rows.
    Each step reads one row of small pixels, two for each block: they give the lower half of the
    sum of the blocks in their own row, and the upper half of that of the row below, which waits in
    registers. The two products are one, their columns side by side. An output is a pixel of a block
    and a channel, (pixel · CHANNELS + channel); OUTPUTS and PIXELS are rounded up from 4 · CHANNELS
    for products and for storage. Behind the sums of an output's slopes stands that of the
    distances.
    """
    member = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    image, c = m // (WIDTH + 1), m % (WIDTH + 1)
    top = tl.program_id(2) * LOOPS
    seen = m < columns
    k, out = tl.arange(0, 2 * SMALL), tl.arange(0, OUTPUTS)
    along, s = k // SMALL, k % SMALL
    pixel, channel = out // CHANNELS, out % CHANNELS
    wanted = out < 4 * CHANNELS
    # Columns of the weights in turns, for the blocks of a row and those of the row below: halves
    # of the product are then neighbours in a thread.
    turn = tl.arange(0, 2 * OUTPUTS)
    at_pixel, at_channel = turn // 2 // CHANNELS, turn // 2 % CHANNELS
    taps = (at_pixel // 2 * 4 + at_pixel % 2 + turn % 2 * 8)[None, :] + 2 * (1 - along)[:, None]
    place = s[:, None] * (16 * CHANNELS) + taps * CHANNELS + at_channel[None, :]
    weight = tl.load(
        weight_ptr + member * weight_stride + place, mask=(turn // 2 < 4 * CHANNELS)[None, :],
        other=0.0,
    )  # fmt: skip
    bias = tl.load(bias_ptr + member * bias_stride + channel, mask=wanted, other=0.0).to(
        tl.float32
    )[None, :]
    small_ptr += member * batch * (HEIGHT * WIDTH * SMALL)
    slope_ptr += member * batch * ((HEIGHT + 1) * (WIDTH + 1) * PIXELS)
    raw_ptr += member * batch * (4 * CHANNELS * HEIGHT * WIDTH)
    block_ptr += member * block_stride
    column = (c - 1)[:, None] + steady(along)[None, :]
    beside = seen[:, None] & (column >= 0) & (column < WIDTH)
    width = (2 * c - 1)[:, None] + (pixel % 2)[None, :]
    stored = seen[:, None] & (out < PIXELS)[None, :]
    waiting = tl.zeros((ROWS, OUTPUTS), tl.float32)
    slopes = tl.zeros((ROWS, OUTPUTS), tl.float32)
    distances = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for loop in tl.range(LOOPS + 1, num_stages=STAGES):
        r = top + loop - 1
        start = ((image * HEIGHT + r) * WIDTH + c - 1) * SMALL
        small = tl.load(
            small_ptr + start[:, None] + stretches(k)[None, :],
            mask=beside & (r >= 0) & (r < HEIGHT),
            other=0.0,
        )
        both = tl.dot(small, weight, input_precision=PRECISION)
        lower, upper = tl.split(tl.reshape(both, (ROWS, OUTPUTS, 2)))
        total = waiting + lower + bias
        waiting = upper
        height = 2 * r - 1 + pixel // 2
        due = (loop > 0) & (r <= HEIGHT)
        shown = (
            stored
            & due
            & (wanted & (height >= 0) & (height < 2 * HEIGHT))[None, :]
            & (width >= 0)
            & (width < 2 * WIDTH)
        )
        if LIKELIHOOD == RAW:
            at = (
                (image * (4 * CHANNELS * HEIGHT * WIDTH))[:, None]
                + (channel * (4 * HEIGHT * WIDTH) + height * (2 * WIDTH))[None, :]
                + width
            )
            tl.store(raw_ptr + at, total.to(raw_ptr.dtype.element_ty), mask=shown)
        else:
            at = ((image * (HEIGHT + 1) + r) * (WIDTH + 1) + c)[:, None] * PIXELS + out[None, :]
            true = tl.load(block_ptr + at, mask=stored & due, other=0.0)
            small_exp = tl.exp(-tl.abs(total))
            sigmoid = tl.where(total >= 0.0, 1.0, small_exp) / (1.0 + small_exp)
            if LIKELIHOOD == BERNOULLI:
                distance = (
                    tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
                    - total * true
                    + tl.log(1.0 + small_exp)
                )
                slope = sigmoid - true
            elif LIKELIHOOD == SIGMOID_SQUARED:
                distance = (sigmoid - true) * (sigmoid - true)
                slope = 2.0 * (sigmoid - true) * sigmoid * (1.0 - sigmoid)
            else:
                distance = (total - true) * (total - true)
                slope = 2.0 * (total - true)
            # Blocks reach over the image's edge: what is there must count as nothing on the way
            # back.
            slope = tl.where(shown, slope, 0.0).to(slope_ptr.dtype.element_ty)
            tl.store(slope_ptr + at, slope, mask=stored & due)
            slopes += slope.to(tl.float32)
            distances += tl.where(shown, distance, 0.0)
    if LIKELIHOOD != RAW:
        parts = tl.num_programs(2)
        sums_ptr += member * batch * ((PIXELS + 1) * (WIDTH + 1) * parts)
        row = (image * ((PIXELS + 1) * (WIDTH + 1)) + c) * parts + tl.program_id(2)
        at = row[:, None] + (out * ((WIDTH + 1) * parts))[None, :]
        tl.store(sums_ptr + at, slopes, mask=stored)
        at = row + PIXELS * (WIDTH + 1) * parts
        tl.store(sums_ptr + at, tl.sum(distances, axis=1), mask=seen)


@triton.jit(do_not_specialize=["splits", "loops"])
def last_backward_kernel(
    small_ptr, slope_ptr, scale_ptr, weight_ptr, small_gradient_ptr, weight_gradient_ptr,
    positions, weight_stride, batch, slope_values, splits, loops,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SMALL: tl.constexpr,
    PIXELS: tl.constexpr,
    MASK: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Input and weight gradient of the last layer in one pass over its input.

    The gradient of the raw outputs is the stored slope times a scale for each image.
    """
    split, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    s = tl.arange(0, SMALL)
    place, used = _taps(CHANNELS, PIXELS)
    at = member * weight_stride + s[None, :] * (16 * CHANNELS) + place[:, None]
    weight = tl.load(weight_ptr + at, mask=used[:, None], other=0.0)
    slope_ptr += member * slope_values
    scale_ptr += member * batch
    small_ptr += member * positions * SMALL
    small_gradient_ptr += member * positions * SMALL
    total = tl.zeros((SMALL, 4 * PIXELS), tl.float32)
    last = tl.minimum((split + 1) * (loops * ROWS), positions)
    for loop in tl.range(loops, num_stages=STAGES):
        m = (split * loops + loop) * ROWS + tl.arange(0, ROWS)
        seen = m < last
        where = m[:, None] * SMALL + s[None, :]
        small = tl.load(small_ptr + where, mask=seen[:, None], other=0.0)
        slope = _windows(slope_ptr, m, seen, HEIGHT, WIDTH, PIXELS)
        scale = tl.load(scale_ptr + m // (HEIGHT * WIDTH), mask=seen, other=0.0)
        gradient = (slope.to(tl.float32) * scale[:, None]).to(small.dtype)
        to_small = tl.dot(gradient, weight, input_precision=PRECISION).to(small.dtype)
        if MASK:
            to_small = tl.where(small > 0.0, to_small, 0.0)
        tl.store(small_gradient_ptr + where, to_small, mask=seen[:, None])
        total = tl.dot(tl.trans(small), gradient, total, input_precision=PRECISION)
    results = member * splits + split
    where = results * (16 * CHANNELS * SMALL) + s[:, None] * (16 * CHANNELS) + place[None, :]
    tl.store(weight_gradient_ptr + where, total, mask=used[None, :])
