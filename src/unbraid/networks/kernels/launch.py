# SPDX-License-Identifier: Apache-2.0
"""The kernels as functions of tensors: outputs made here, one launch each, no derivatives."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from unbraid.core.kernel_launch import launch_kernel
from unbraid.networks.kernels import tuned
from unbraid.networks.kernels.convolution import conv_kernel, conv_transpose_kernel, weight_kernel
from unbraid.networks.kernels.image import (
    RAW,
    block_kernel,
    first_kernel,
    first_weight_kernel,
    last_backward_kernel,
    last_kernel,
)
from unbraid.networks.kernels.join import join_kernel
from unbraid.networks.kernels.norm import (
    join_moments_kernel,
    moments_kernel,
    norm_gradient_kernel,
    norm_sums_kernel,
    normalise_kernel,
)
from unbraid.networks.kernels.tuned import Block

_FEWEST_COLUMNS = 8 if tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 6) else 16
"""Of a product's right factor: what older versions of Triton can do."""


def conv(
    big: Tensor, weight: Tensor, bias: Tensor | None = None, *, relu: bool = False,
    mask: Tensor | None = None,
    block: Block | None = None,
) -> Tensor:  # fmt: skip
    """Stride-2 convolution of big `(members, batch, height, width, big)`.

    The result is `(members, batch, height // 2, width // 2, small)`.

    The result is zero where *mask*, of its shape, is not positive.
    """
    members, batch, height, width, channels = big.shape
    small, reach = weight.shape[1], weight.shape[2] // 2
    block = block or tuned.conv_block(members, height, channels, small, _low(big))
    big, weight = big.contiguous(), _packed(weight)
    out = big.new_empty(members, batch, height // 2, width // 2, small)
    columns, loops = batch * (width // 2), min(block.loops, height // 2)
    launch_kernel(
        conv_kernel, (triton.cdiv(columns, block.rows), members, triton.cdiv(height // 2, loops)),
        big, weight, _or(bias, out), _or(mask, out), out, columns, weight.stride(0),
        _stride(bias),
        out[0].numel(), big[0].numel(),
        HEIGHT=height, WIDTH=width, BIG=channels, SMALL=small, REACH=reach,
        BIAS=bias is not None, RELU=relu, MASK=mask is not None, PRECISION=block.products,
        ROWS=block.rows, DEPTH=min(block.depth, 4 * reach * channels), LOOPS=loops,
        STAGES=block.stages,
        num_warps=block.warps,
    )  # fmt: skip
    return out


def conv_transpose(
    small: Tensor, weight: Tensor, size: tuple[int, int], bias: Tensor | None = None, *,
    relu: bool = False,
    mask: Tensor | None = None, block: Block | None = None,
) -> Tensor:  # fmt: skip
    """The transpose of `conv`, to images of *size* (height, width), twice that of *small*."""
    members, batch, _, _, channels = small.shape
    reach, big = weight.shape[2] // 2, weight.shape[4]
    height, width = size
    block = block or tuned.conv_transpose_block(members, channels, mask is not None, _low(small))
    small, weight = small.contiguous(), _packed(weight)
    # A 2x2 kernel does not reach the last row and column of an odd image.
    make = small.new_zeros if reach == 1 and (height % 2 or width % 2) else small.new_empty
    out = make(members, batch, height, width, big)
    blocks = batch * (height // 2 + reach - 1) * (width // 2 + reach - 1)
    columns = min(block.columns, 4 * big)
    launch_kernel(
        conv_transpose_kernel,
        (triton.cdiv(blocks, block.rows * block.loops), members, 4 * big // columns),
        small, weight, _or(bias, out), _or(mask, out), out, blocks, weight.stride(0),
        _stride(bias),
        small[0].numel(), out[0].numel(),
        HEIGHT=height, WIDTH=width, BIG=big, SMALL=channels, REACH=reach,
        BIAS=bias is not None, RELU=relu, MASK=mask is not None, PRECISION=block.products,
        ROWS=block.rows, DEPTH=min(block.depth, reach * reach * channels), COLUMNS=columns,
        LOOPS=block.loops,
        STAGES=block.stages, num_warps=block.warps,
    )  # fmt: skip
    return out


def weight_gradient(
    big: Tensor, small: Tensor, kernel: int, *, bias_of_big: bool, block: Block | None = None
) -> tuple[Tensor, Tensor]:
    """Gradients `(members, small, kernel, kernel, big)` and of the bias of one side, float32."""
    members, batch, height, width, channels = big.shape
    count, reach = small.shape[-1], kernel // 2
    block = block or tuned.weight_block(_low(big))
    big, small = big.contiguous(), small.contiguous()
    depth, columns = min(block.depth, reach * reach * count), min(block.columns, 4 * channels)
    parts = (reach * reach * count // depth) * (4 * channels // columns)
    blocks = batch * (height // 2 + reach - 1) * (width // 2 + reach - 1)
    splits = tuned.splits(members * parts, blocks, block)
    weight = big.new_empty(members, splits, count, kernel, kernel, channels, dtype=torch.float32)
    sums = big.new_empty(
        members,
        splits,
        *((2, 2, channels) if bias_of_big else (reach, reach, count)),
        dtype=torch.float32,
    )
    launch_kernel(
        weight_kernel, (splits, members, parts),
        big, small, weight, sums, blocks, small[0].numel(), big[0].numel(), splits,
        triton.cdiv(blocks, splits * block.rows),
        HEIGHT=height, WIDTH=width, BIG=channels, SMALL=count, REACH=reach,
        BIAS_OF_BIG=bias_of_big,
        PRECISION=block.products, ROWS=block.rows, DEPTH=depth, COLUMNS=columns,
        STAGES=block.stages, num_warps=block.warps,
    )  # fmt: skip
    if bias_of_big:
        return _join(weight, sums, biases=channels, repeats=4)
    return _join(weight, sums, biases=count, skipped=(reach - 1) * count)


def by_blocks(image: Tensor) -> Tensor:
    """Images `(members, batch, channels, height, width)` by blocks, as the kernels take them.

    Members may share them.
    """
    members, batch, channels, height, width = image.shape
    shared = members > 1 and image.stride(0) == 0
    packed = _packed(image)
    copies, pixels = 1 if shared else members, pixels_of(channels)
    out = image.new_empty(copies, batch, height // 2 + 1, width // 2 + 1, pixels)
    count = out[0, 0].numel()
    launch_kernel(
        block_kernel, (copies * batch, triton.cdiv(count, 1024)),
        packed, out, packed.stride(0), batch, count,
        CHANNELS=channels, HEIGHT=height, WIDTH=width, PIXELS=pixels, NUMBERS=1024, num_warps=4,
    )  # fmt: skip
    return out.expand(members, *out.shape[1:])


def first(
    blocks: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, block: Block | None = None
) -> Tensor:
    """4x4 stride-2 convolution of images by blocks: `(members, batch, rows, columns, small)`."""
    members, batch, rows, columns, pixels = blocks.shape
    height, width, small, channels = rows - 1, columns - 1, weight.shape[1], weight.shape[4]
    block = block or tuned.first_block(channels, _low(weight))
    weight = _packed(weight)
    out = weight.new_empty(members, batch, height, width, small)
    positions = batch * height * width
    launch_kernel(
        first_kernel, (triton.cdiv(positions, block.rows * block.loops), members),
        blocks, weight, bias, out, positions, blocks.stride(0), weight.stride(0),
        bias.stride(0),
        CHANNELS=channels, HEIGHT=height, WIDTH=width, SMALL=small, PIXELS=pixels,
        RELU=relu, PRECISION=block.products, ROWS=block.rows, LOOPS=block.loops,
        num_warps=block.warps,
    )  # fmt: skip
    return out


def first_weight_gradient(
    blocks: Tensor, gradient: Tensor, channels: int, *, block: Block | None = None
) -> tuple[Tensor, Tensor]:
    """Gradients of the first layer's weight and bias, float32.

    The weight's is `(members, small, 4, 4, channels)`.
    """
    members, batch, height, width, small = gradient.shape
    block = block or tuned.first_weight_block(_low(gradient))
    gradient = gradient.contiguous()
    positions = batch * height * width
    splits = tuned.splits(members, positions, block)
    weight = gradient.new_empty(members, splits, small, 4, 4, channels, dtype=torch.float32)
    bias = gradient.new_empty(members, splits, small, dtype=torch.float32)
    launch_kernel(
        first_weight_kernel, (splits, members),
        blocks, gradient, weight, bias, positions, blocks.stride(0), splits,
        triton.cdiv(positions, splits * block.rows),
        CHANNELS=channels, HEIGHT=height, WIDTH=width, SMALL=small, PIXELS=blocks.shape[-1],
        PRECISION=block.products, ROWS=block.rows,
        STAGES=block.stages, num_warps=block.warps,
    )  # fmt: skip
    return _join(weight, bias, biases=small)


def last(small: Tensor, weight: Tensor, bias: Tensor, *, block: Block | None = None) -> Tensor:
    """4x4 transposed convolution to images `(members, batch, channels, 2 height, 2 width)`."""
    return _last(small, weight, bias, None, RAW.value, block)[0]


def last_distance(
    small: Tensor,
    weight: Tensor,
    bias: Tensor,
    true: Tensor,
    likelihood: int,
    *,
    block: Block | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Distances `(members, batch)` of the last layer's output from *true*, their slope, its sums.

    Images and slope are by blocks, the sums `(members, batch, pixels)`; sums are float32.
    """
    _, slope, parts = _last(small, weight, bias, true, likelihood, block)
    sums = parts.sum(dim=3)
    return sums[..., -1], slope, sums[..., :-1]


def _last(
    small: Tensor,
    weight: Tensor,
    bias: Tensor,
    true: Tensor | None,
    likelihood: int,
    block: Block | None,
) -> tuple[Tensor, Tensor, Tensor]:
    members, batch, height, width, count = small.shape
    channels = weight.shape[4]
    block = block or tuned.last_block(members, height, _low(small))
    small, weight = small.contiguous(), _packed(weight)
    loops = min(block.loops, height + 1)
    parts, columns = triton.cdiv(height + 1, loops), batch * (width + 1)
    pixels = pixels_of(channels)
    raw = small.new_empty((members, batch, channels, 2 * height, 2 * width) if true is None else 0)
    slope = small.new_empty(0 if true is None else (members, batch, height + 1, width + 1, pixels))
    sums = small.new_empty(members, batch, pixels + 1, (width + 1) * parts, dtype=torch.float32)
    true = raw if true is None else true
    launch_kernel(
        last_kernel, (triton.cdiv(columns, block.rows), members, parts),
        small, weight, bias, true, raw, slope, sums, columns, weight.stride(0), bias.stride(0),
        true.stride(0), batch,
        CHANNELS=channels, HEIGHT=height, WIDTH=width, SMALL=count, PIXELS=pixels,
        OUTPUTS=max(_FEWEST_COLUMNS // 2, pixels),
        LIKELIHOOD=likelihood, PRECISION=block.products, ROWS=block.rows, LOOPS=loops,
        STAGES=block.stages, num_warps=block.warps,
    )  # fmt: skip
    return raw, slope, sums


def last_backward(
    small: Tensor,
    slope: Tensor,
    scale: Tensor,
    weight: Tensor,
    *,
    mask: bool,
    sums: Tensor | None = None,
    block: Block | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the last layer's input, weight and bias.

    They come from *slope* by blocks times *scale* `(members, batch)`. The *sums* of the slope are
    `(members, batch, pixels)`.
    """
    members, batch, height, width, count = small.shape
    channels = weight.shape[4]
    block = block or tuned.last_backward_block(channels, _low(small))
    small, slope, scale, weight = (
        small.contiguous(),
        slope.contiguous(),
        scale.contiguous(),
        _packed(weight),
    )
    positions = batch * height * width
    splits = tuned.splits(members, positions, block)
    to_small = torch.empty_like(small)
    to_weight = small.new_empty(members, splits, count, 4, 4, channels, dtype=torch.float32)
    launch_kernel(
        last_backward_kernel, (splits, members),
        small, slope, scale, weight, to_small, to_weight, positions, weight.stride(0), batch,
        slope[0].numel(), splits,
        triton.cdiv(positions, splits * block.rows),
        CHANNELS=channels, HEIGHT=height, WIDTH=width, SMALL=count,
        PIXELS=pixels_of(channels), MASK=mask,
        PRECISION=block.products, ROWS=block.rows,
        STAGES=block.stages, num_warps=block.warps,
    )  # fmt: skip
    sums = slope.sum(dim=(2, 3), dtype=torch.float32) if sums is None else sums
    outputs = torch.einsum("mbp,mb->mp", sums, scale)[:, : 4 * channels]
    return to_small, _join(to_weight)[0], outputs.view(members, 4, channels).sum(dim=1)


def batch_norm(
    x: Tensor, scale: Tensor, shift: Tensor, running: tuple[Tensor, Tensor], slope: float,
    momentum: float, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Batch norm of x `(members, rows, channels)`, negative numbers times *slope*.

    Also the means and 1 / standard deviations `(members, channels)`. *running* means and variances
    of that shape move in place.
    """
    members, rows, channels = x.shape
    block, wide = tuned.norm_block(), wide_of(channels)
    tiles = channels // wide
    splits = tuned.splits(members * tiles, rows, block)
    loops = triton.cdiv(rows, splits * block.rows)
    parts = x.new_empty(members, splits, 2, channels, dtype=torch.float32)
    launch_kernel(
        moments_kernel, (splits, members, tiles), x, parts, rows, splits, loops,
        CHANNELS=channels, WIDE=wide, ROWS=block.rows, num_warps=block.warps,
    )  # fmt: skip
    mean, rate = (x.new_empty(members, channels, dtype=torch.float32) for _ in range(2))
    launch_kernel(
        join_moments_kernel, (members, tiles), parts, mean, rate, *running, rows, splits,
        loops * block.rows,
        CHANNELS=channels, WIDE=wide, MOMENTUM=momentum, EPSILON=epsilon, num_warps=1,
    )  # fmt: skip
    out = torch.empty_like(x)
    launch_kernel(
        normalise_kernel, (triton.cdiv(rows, block.rows), members, tiles),
        x, mean, rate, scale, shift, out, rows, scale.stride(0), shift.stride(0),
        CHANNELS=channels, WIDE=wide, ROWS=block.rows, SLOPE=slope, num_warps=block.warps,
    )  # fmt: skip
    return out, mean, rate


def batch_norm_backward(
    gradient: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor, shift: Tensor,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, scale and shift of `batch_norm`; the last two are float32."""
    members, rows, channels = x.shape
    block, wide = tuned.norm_block(), wide_of(channels)
    tiles = channels // wide
    splits = tuned.splits(members * tiles, rows, block)
    parts = x.new_empty(members, splits, 2, channels, dtype=torch.float32)
    strides = scale.stride(0), shift.stride(0)
    launch_kernel(
        norm_sums_kernel, (splits, members, tiles),
        gradient, x, mean, rate, scale, shift, parts, rows, splits,
        triton.cdiv(rows, splits * block.rows), *strides,
        CHANNELS=channels, WIDE=wide, ROWS=block.rows, SLOPE=slope, num_warps=block.warps,
    )  # fmt: skip
    sums, out = _join(parts)[0], torch.empty_like(x)
    launch_kernel(
        norm_gradient_kernel, (triton.cdiv(rows, block.rows), members, tiles),
        gradient, x, mean, rate, scale, shift, sums, out, rows, *strides,
        CHANNELS=channels, WIDE=wide, ROWS=block.rows, SLOPE=slope, num_warps=block.warps,
    )  # fmt: skip
    return out, sums[:, 0], sums[:, 1]


def wide_of(channels: int) -> int:
    """Channels that a program of batch norm takes: a power of two that divides them."""
    return min(channels & -channels, 32)


def pixels_of(channels: int) -> int:
    """Numbers a block of 2x2 pixels takes in storage."""
    return triton.next_power_of_2(4 * channels)


def _low(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bfloat16


def _or(tensor: Tensor | None, stand_in: Tensor) -> Tensor:
    """A pointer must be passed even where the kernel does not read it."""
    return stand_in if tensor is None else tensor.contiguous() if tensor.dim() > 2 else tensor


def _stride(bias: Tensor | None) -> int:
    return 0 if bias is None else bias.stride(0)


def _packed(tensor: Tensor) -> Tensor:
    """*tensor* with every member's part contiguous; members may lie anywhere."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()


def _join(
    weight: Tensor, bias: Tensor | None = None, *, biases: int = 0, repeats: int = 1,
    skipped: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Sums over the splits of *weight* and *bias* `(members, splits, ...)` in one launch.

    A split's part of the bias is *repeats* rows, of each of which *biases* numbers count after
    *skipped* others.
    """
    members, splits = weight.shape[:2]
    bias = weight if bias is None else bias
    row, count = bias[0, 0].numel() // repeats, weight[0, 0].numel()
    if splits * repeats == 1:
        return weight.squeeze(1), bias.view(members, row)[:, skipped : skipped + biases]
    joined = weight if splits == 1 else weight.new_empty(members, 1, *weight.shape[2:])
    to_bias = bias.new_empty(members, biases)
    numbers, at_once = (64, 32) if splits > 4 else (512, 4)
    stretches = triton.cdiv(count, numbers) if splits > 1 else 0
    launch_kernel(
        join_kernel, (stretches + (biases > 0), members),
        weight, bias, joined, to_bias, splits, count, biases, row, skipped, repeats,
        NUMBERS=numbers, AT_ONCE=at_once, num_warps=4,
    )  # fmt: skip
    return joined.squeeze(1), to_bias
