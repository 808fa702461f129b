# SPDX-License-Identifier: Apache-2.0
"""Convolutions of a single member on a CPU by torch's own, channels last: the fastest there."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_THIN_CHANNELS = 4
"""Up to so many output channels a transposed convolution is cheaper as a matrix product and a fold
(measured: 4x).
"""


def conv(x: Tensor, weight: Tensor, bias: Tensor, *, relu: bool = True) -> Tensor:
    """Stride-2 convolution; shapes as in `layers.conv`."""
    padding = weight.shape[2] // 2 - 1
    out = F.conv2d(
        _channels_first(x), _channels_first(weight), bias.squeeze(0), stride=2, padding=padding
    )
    out = out.relu_() if relu else out
    return out.permute(0, 2, 3, 1).unsqueeze(0)


def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor, *, relu: bool) -> Tensor:
    """4x4 stride-2 transposed convolution; shapes as in `layers.conv_transpose`."""
    out: Tensor = _ConvTranspose.apply(_channels_first(x), _channels_first(weight), bias.squeeze(0))  # type: ignore[assignment]
    # In place before any view is taken: on a view it would cost copies of the whole gradient.
    out = out.relu_() if relu else out
    return out.permute(0, 2, 3, 1).unsqueeze(0)


class _ConvTranspose(torch.autograd.Function):
    """A transposed convolution with a derivative of its own.

    That is a convolution for the input and the weight gradient of a convolution for the weight,
    both of which the library does at full speed, where its derivative of a transposed convolution
    takes twice as long.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        if weight.shape[1] > _THIN_CHANNELS:
            return F.conv_transpose2d(x, weight, bias, stride=2, padding=1)
        batch, channels, height, width = x.shape
        patches = (
            (x.permute(0, 2, 3, 1).reshape(-1, channels) @ weight.flatten(1))
            .view(batch, height * width, -1)
            .mT
        )
        # At least float32 for the fold: in bfloat16 it would add one element at a time.
        patches = patches.to(torch.promote_types(x.dtype, torch.float32))
        out = F.fold(patches, (2 * height, 2 * width), kernel_size=4, stride=2, padding=1).to(
            x.dtype
        )
        return out.add_(bias[:, None, None])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        gradient = _channels_last_memory(gradient)
        to_x = F.conv2d(gradient, weight, stride=2, padding=1)
        # Seen from behind, x is the output gradient of a convolution whose input is *gradient*.
        arguments = (None, (2, 2), (1, 1), (1, 1), False, (0, 0), 1, (False, True, False))
        to_weight = torch.ops.aten.convolution_backward(x, gradient, weight, *arguments)[1]
        # A matrix product with ones: faster than a reduction in channels-last layout.
        rows = gradient.permute(0, 2, 3, 1).flatten(0, 2)
        to_bias = (torch.ones(1, len(rows), dtype=rows.dtype) @ rows).view(-1)
        return to_x, to_weight, to_bias


def _channels_first(x: Tensor) -> Tensor:
    """The single member of *x* `(1, n, height, width, channels)`, channels first, not copied.

    By views alone: indexing the member would cost a fill and a copy of the whole gradient on the
    way back.
    """
    return _channels_last_memory(x.squeeze(0).permute(0, 3, 1, 2))


def _channels_last_memory(x: Tensor) -> Tensor:
    """*x* `(n, channels, height, width)` with channels fastest in memory.

    With one channel only the strides are renamed.
    """
    if x.shape[1] == 1:
        x = x.contiguous()
        return x.as_strided(x.shape, (x.stride(0), 1, x.shape[3], 1))
    return x.contiguous(memory_format=torch.channels_last)
