# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for batch norm with a member axis, and the ReLU or leaky ReLU behind it.

Channels lie last: x is `(members, rows, channels)`, where rows are all pixels of a batch. Moments
are Welford's, so that no large squares cancel. Each split of the rows writes moments of its own,
which one program a member and stretch of channels joins in order; nothing is added atomically.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows", "splits", "loops"])
def moments_kernel(
    x_ptr, parts_ptr, rows, splits, loops,
    CHANNELS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Mean and sum of squared deviations of a split's rows: `(members, splits, 2, CHANNELS)`."""
    split, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    channel = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    x_ptr += member * rows * CHANNELS
    last = tl.minimum((split + 1) * (loops * ROWS), rows)
    mean = tl.zeros((ROWS, WIDE), tl.float32)
    spread = tl.zeros((ROWS, WIDE), tl.float32)
    count = tl.zeros((ROWS, 1), tl.float32)
    for loop in tl.range(loops):
        row = (split * loops + loop) * ROWS + tl.arange(0, ROWS)
        seen = (row < last)[:, None]
        x = tl.load(x_ptr + row[:, None] * CHANNELS + channel[None, :], mask=seen, other=0.0)
        x = x.to(tl.float32)
        apart = tl.where(seen, x - mean, 0.0)
        count += seen.to(tl.float32)
        mean += apart / (loop + 1)
        spread += apart * tl.where(seen, x - mean, 0.0)
    number = tl.maximum(tl.sum(count), 1.0)
    middle = tl.sum(count * mean, axis=0) / number
    apart = mean - middle[None, :]
    spread = tl.sum(spread + count * apart * apart, axis=0)
    out = (member * splits + split) * (2 * CHANNELS) + channel
    tl.store(parts_ptr + out, middle)
    tl.store(parts_ptr + out + CHANNELS, spread)


@triton.jit(do_not_specialize=["rows", "splits", "each"])
def join_moments_kernel(
    parts_ptr, mean_ptr, rate_ptr, running_mean_ptr, running_var_ptr, rows, splits, each,
    CHANNELS: tl.constexpr, WIDE: tl.constexpr, MOMENTUM: tl.constexpr, EPSILON: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / standard deviation of all rows, of which a split has *each*; running means."""
    member = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    parts_ptr += member * splits * (2 * CHANNELS) + channel
    mean = tl.zeros((WIDE,), tl.float32)
    spread = tl.zeros((WIDE,), tl.float32)
    for split in tl.range(splits):
        before = tl.minimum(split * each, rows).to(tl.float32)
        more = tl.minimum((split + 1) * each, rows).to(tl.float32) - before
        apart = tl.load(parts_ptr + split * (2 * CHANNELS)) - mean
        share = more / tl.maximum(before + more, 1.0)
        mean += apart * share
        spread += tl.load(parts_ptr + split * (2 * CHANNELS) + CHANNELS)
        spread += apart * apart * (before * share)
    at = member * CHANNELS + channel
    tl.store(mean_ptr + at, mean)
    tl.store(rate_ptr + at, 1.0 / tl.sqrt(spread / rows + EPSILON))
    old = tl.load(running_mean_ptr + at)
    tl.store(running_mean_ptr + at, old + MOMENTUM * (mean - old))
    old = tl.load(running_var_ptr + at)
    tl.store(running_var_ptr + at, old + MOMENTUM * (spread / tl.maximum(rows - 1, 1) - old))


@triton.jit
def _of_channel(
    mean_ptr, rate_ptr, scale_ptr, shift_ptr, member, channel, scale_stride, shift_stride,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    at = member * CHANNELS + channel
    return (
        tl.load(mean_ptr + at)[None, :],
        tl.load(rate_ptr + at)[None, :],
        tl.load(scale_ptr + member * scale_stride + channel).to(tl.float32)[None, :],
        tl.load(shift_ptr + member * shift_stride + channel).to(tl.float32)[None, :],
    )


@triton.jit(do_not_specialize=["rows"])
def normalise_kernel(
    x_ptr, mean_ptr, rate_ptr, scale_ptr, shift_ptr, out_ptr, rows, scale_stride, shift_stride,
    CHANNELS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """Normalised, scaled and shifted; negative numbers times SLOPE."""
    member = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    seen = (row < rows)[:, None]
    mean, rate, scale, shift = _of_channel(
        mean_ptr, rate_ptr, scale_ptr, shift_ptr, member, channel, scale_stride, shift_stride,
        CHANNELS,
    )  # fmt: skip
    at = member * rows * CHANNELS + row[:, None] * CHANNELS + channel[None, :]
    x = tl.load(x_ptr + at, mask=seen, other=0.0).to(tl.float32)
    value = (x - mean) * rate * scale + shift
    if SLOPE != 1.0:
        # Not positive, rather than negative: NaN stays.
        value = tl.where(value > 0.0, value, value * SLOPE)
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=seen)


@triton.jit
def _before_slope(gradient, x, mean, rate, scale, shift, SLOPE: tl.constexpr):
    """Normalised x, and the gradient before the ReLU behind it."""
    normal = (x.to(tl.float32) - mean) * rate
    gradient = gradient.to(tl.float32)
    if SLOPE != 1.0:
        gradient = tl.where(normal * scale + shift > 0.0, gradient, gradient * SLOPE)
    return normal, gradient


@triton.jit(do_not_specialize=["rows", "splits", "loops"])
def norm_sums_kernel(
    gradient_ptr, x_ptr, mean_ptr, rate_ptr, scale_ptr, shift_ptr, parts_ptr,
    rows, splits, loops, scale_stride, shift_stride,
    CHANNELS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """Gradients of scale and shift, sums over a split's rows: `(members, splits, 2, CHANNELS)`."""
    split, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    channel = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    mean, rate, scale, shift = _of_channel(
        mean_ptr, rate_ptr, scale_ptr, shift_ptr, member, channel, scale_stride, shift_stride,
        CHANNELS,
    )  # fmt: skip
    last = tl.minimum((split + 1) * (loops * ROWS), rows)
    to_scale = tl.zeros((ROWS, WIDE), tl.float32)
    to_shift = tl.zeros((ROWS, WIDE), tl.float32)
    for loop in tl.range(loops):
        row = (split * loops + loop) * ROWS + tl.arange(0, ROWS)
        seen = (row < last)[:, None]
        at = member * rows * CHANNELS + row[:, None] * CHANNELS + channel[None, :]
        normal, gradient = _before_slope(
            tl.load(gradient_ptr + at, mask=seen, other=0.0),
            tl.load(x_ptr + at, mask=seen, other=0.0),
            mean, rate, scale, shift, SLOPE,
        )  # fmt: skip
        to_scale += normal * gradient
        to_shift += gradient
    out = (member * splits + split) * (2 * CHANNELS) + channel
    tl.store(parts_ptr + out, tl.sum(to_scale, axis=0))
    tl.store(parts_ptr + out + CHANNELS, tl.sum(to_shift, axis=0))


@triton.jit(do_not_specialize=["rows"])
def norm_gradient_kernel(
    gradient_ptr, x_ptr, mean_ptr, rate_ptr, scale_ptr, shift_ptr, sums_ptr, out_ptr,
    rows, scale_stride, shift_stride,
    CHANNELS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """The gradient of x from that of the output and the *sums* `(members, 2, CHANNELS)`."""
    member = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    seen = (row < rows)[:, None]
    mean, rate, scale, shift = _of_channel(
        mean_ptr, rate_ptr, scale_ptr, shift_ptr, member, channel, scale_stride, shift_stride,
        CHANNELS,
    )  # fmt: skip
    at = member * rows * CHANNELS + row[:, None] * CHANNELS + channel[None, :]
    normal, gradient = _before_slope(
        tl.load(gradient_ptr + at, mask=seen, other=0.0),
        tl.load(x_ptr + at, mask=seen, other=0.0),
        mean, rate, scale, shift, SLOPE,
    )  # fmt: skip
    sums_ptr += member * (2 * CHANNELS) + channel
    to_scale, to_shift = tl.load(sums_ptr)[None, :], tl.load(sums_ptr + CHANNELS)[None, :]
    out = scale * rate * (gradient - (to_shift + normal * to_scale) / rows)
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=seen)
