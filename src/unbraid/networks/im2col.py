# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a member axis by im2col: one batched matrix product, on every device."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def conv(x: Tensor, weight: Tensor, bias: Tensor, *, relu: bool = True) -> Tensor:
    """Stride-2 convolution; shapes as in `layers.conv`."""
    members, batch, height, width, _ = x.shape
    kernel = weight.shape[2]
    padding = kernel // 2 - 1
    windows = (
        F.pad(x, (0, 0, padding, padding, padding, padding))
        .unfold(2, kernel, 2)
        .unfold(3, kernel, 2)
    )
    columns = windows.permute(0, 1, 2, 3, 5, 6, 4).reshape(
        members, batch * (height // 2) * (width // 2), -1
    )
    out = torch.baddbmm(bias.unsqueeze(1), columns, weight.flatten(2).mT)
    out = out.relu_() if relu else out
    return out.view(members, batch, height // 2, width // 2, -1)


def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor, *, relu: bool) -> Tensor:
    """4x4 stride-2 transposed convolution; shapes as in `layers.conv_transpose`."""
    members, batch, height, width, channels = x.shape
    rows = x.reshape(members, batch * height * width, channels)
    patches = (
        torch.bmm(rows, weight.movedim(-1, 2).flatten(2))
        .view(members * batch, height * width, -1)
        .mT
    )
    out = F.fold(patches, (2 * height, 2 * width), kernel_size=4, stride=2, padding=1)
    out = (
        out.view(members, batch, -1, 2 * height, 2 * width).movedim(2, -1)
        + bias[:, None, None, None, :]
    )
    return out.relu_() if relu else out
