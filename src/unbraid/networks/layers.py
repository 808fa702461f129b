# SPDX-License-Identifier: Apache-2.0
"""Dense and convolutional layers with a leading member axis: member k's samples meet only member k's weights.

Every function takes and returns tensors `(members, batch, ...)`, with bias and ReLU inside. This is the seam under which
faster kernels slip: the callers never learn how a product is computed. Two ways exist here. One member goes to the
library's own convolution in channels-last layout, the fastest form on a CPU, where members run side by side on the cores.
Several members become one batched matrix product over columns, the plain form that runs anywhere.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_THIN_CHANNELS = 4
"""Up to so many output channels a transposed convolution is cheaper as a matrix product and a fold (measured: 4x)."""


def dense(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`x @ weight + bias` for each member: `(members, batch, in)`, `(members, in, out)`, `(members, out)`."""
    if x.shape[0] == 1:
        return torch.addmm(_only(bias), _only(x), _only(weight)).unsqueeze(0)
    return torch.baddbmm(bias.unsqueeze(1), x, weight)


def halve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """ReLU of a stride-2 convolution, kernel 4 or 2, that halves height and width.

    Shapes: x `(members, batch, in, height, width)`, weight `(members, out, in, kernel, kernel)`, bias `(members, out)`.
    """
    kernel = weight.shape[-1]
    padding = kernel // 2 - 1
    if x.shape[0] == 1:
        out = F.conv2d(_channels_last(_only(x)), _channels_last(_only(weight)), _only(bias), stride=2, padding=padding)
        return out.relu_().unsqueeze(0)
    members, batch, _, height, width = x.shape
    windows = F.pad(x, (padding,) * 4).unfold(3, kernel, 2).unfold(4, kernel, 2)
    columns = windows.permute(0, 1, 3, 4, 2, 5, 6).reshape(members, batch * (height // 2) * (width // 2), -1)
    out = torch.baddbmm(bias.unsqueeze(1), columns, weight.flatten(2).mT).relu_()
    return out.view(members, batch, height // 2, width // 2, -1).permute(0, 1, 4, 2, 3)


def double(x: Tensor, weight: Tensor, bias: Tensor, *, relu: bool) -> Tensor:
    """4x4 stride-2 transposed convolution that doubles height and width, with ReLU unless it is the last layer.

    Shapes: x `(members, batch, in, height, width)`, weight `(members, in, out, 4, 4)`, bias `(members, out)`.
    """
    if x.shape[0] == 1 and x.device.type == "cpu":
        out: Tensor = _DoubleOne.apply(_only(x), _only(weight), _only(bias), relu)  # type: ignore[assignment]
        return out.unsqueeze(0)
    members, batch, channels, height, width = x.shape
    rows = x.permute(0, 1, 3, 4, 2).reshape(members, batch * height * width, channels)
    patches = torch.bmm(rows, weight.flatten(2)).view(members * batch, height * width, -1).mT
    out = F.fold(patches, (2 * height, 2 * width), kernel_size=4, stride=2, padding=1)
    out = out.view(members, batch, -1, 2 * height, 2 * width) + bias[:, None, :, None, None]
    return out.relu() if relu else out


class _DoubleOne(torch.autograd.Function):
    """One member's transposed convolution with bias and ReLU on a CPU.

    Its own derivative: a convolution for the input and the weight gradient of a convolution for the weight, both of which the
    library does at full speed, where its derivative of a transposed convolution takes twice as long.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
        x, by_channel = _channels_last(x), _channels_last(weight)
        if weight.shape[1] > _THIN_CHANNELS:
            out = F.conv_transpose2d(x, by_channel, bias, stride=2, padding=1)
        else:
            batch, channels, height, width = x.shape
            patches = (x.permute(0, 2, 3, 1).reshape(-1, channels) @ weight.flatten(1)).view(batch, height * width, -1).mT
            # At least float32 for the fold: in bfloat16 it would add one element at a time.
            patches = patches.to(torch.promote_types(x.dtype, torch.float32))
            out = F.fold(patches, (2 * height, 2 * width), kernel_size=4, stride=2, padding=1).to(x.dtype)
            out = out.add_(bias[:, None, None])
        out = out.relu_() if relu else out
        ctx.relu = relu
        ctx.save_for_backward(x, by_channel, *([out] if relu else []))
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, *outs = ctx.saved_tensors
        gradient = _channels_last(gradient)
        if ctx.relu:
            gradient = torch.ops.aten.threshold_backward(gradient, outs[0], 0)
        to_x = F.conv2d(gradient, weight, stride=2, padding=1)
        # Seen from behind, x is the output gradient of a convolution whose input is *gradient*.
        arguments = (None, (2, 2), (1, 1), (1, 1), False, (0, 0), 1, (False, True, False))
        to_weight = torch.ops.aten.convolution_backward(x, gradient, weight, *arguments)[1]
        # A matrix product with ones: faster than a reduction in channels-last layout.
        rows = gradient.permute(0, 2, 3, 1).flatten(0, 2)
        to_bias = (torch.ones(1, len(rows), dtype=rows.dtype) @ rows).view(-1)
        return to_x, to_weight, to_bias, None


def _only(x: Tensor) -> Tensor:
    """The single member of *x*, as a view: indexing would cost a fill and a copy of the whole gradient on the way back."""
    return x.squeeze(0)


def _channels_last(x: Tensor) -> Tensor:
    """*x* `(n, channels, height, width)` with channels fastest in memory; with one channel only the strides are renamed."""
    if x.shape[1] == 1:
        x = x.contiguous()
        return x.as_strided(x.shape, (x.stride(0), 1, x.shape[3], 1))
    return x.contiguous(memory_format=torch.channels_last)
