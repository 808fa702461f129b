# SPDX-License-Identifier: Apache-2.0
"""The decoder of a plain network in operations of torch alone, so that torch can differentiate it.

Training runs on operators of our own, which know no forward mode. This is for derivatives of one
trained member, not for speed.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.networks.plain_layers import PlainLayer, PlainNetwork


def decode_plain(network: PlainNetwork, z: Tensor) -> Tensor:
    """Raw outputs `(n, channels, height, width)` of z `(n, latents)`."""
    channels, height, width = network.sample_shape
    doublings = sum(layer.kind == "conv_transpose" for layer in network.decoder)
    hidden = z
    for layer in network.decoder:
        if layer.kind == "conv_transpose" and hidden.dim() == 2:  # a dense layer gave an image
            hidden = hidden.view(len(z), height >> doublings, width >> doublings, -1)
        hidden = _activated(layer, _linear(layer, hidden))
    image = hidden.reshape(len(z), height, width, channels).movedim(-1, 1)
    if network.output is None:
        return image
    scale, shift = (
        torch.tensor(numbers, device=z.device, dtype=z.dtype)[:, None, None]
        for numbers in (network.output.scale, network.output.shift)
    )
    return image * scale + shift


def _linear(layer: PlainLayer, x: Tensor) -> Tensor:
    """The layer without its nonlinearity; activations between have their channels last."""
    weight, bias = (part.to(x.device, x.dtype) for part in (layer.weight, layer.bias))
    if layer.kind == "dense":
        return x.flatten(1) @ weight + bias
    kernel = weight.permute(2, 3, 0, 1)
    out = F.conv_transpose2d(x.movedim(-1, 1), kernel, bias, stride=2, padding=1)
    return out.movedim(1, -1)


def _activated(layer: PlainLayer, x: Tensor) -> Tensor:
    if layer.activation == "relu":
        return x.relu()
    if layer.activation == "leaky":
        return F.leaky_relu(x, layer.slope)
    return x.tanh() if layer.activation == "tanh" else x
