# SPDX-License-Identifier: Apache-2.0
"""The decoder of a plain network with its Jacobian, by forward mode.

Training runs on operators of our own, which know no forward mode, and torch's own takes seconds to
load. Layers are linear maps with simple nonlinearities behind them: a slope goes through a map as a
value does, without the bias, and is multiplied by the nonlinearity's slope. This is for derivatives
of one trained member, not for speed.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.networks.plain_layers import PlainLayer, PlainNetwork


def decode_plain(network: PlainNetwork, z: Tensor) -> tuple[Tensor, Tensor]:
    """Raw outputs `(n, channels, height, width)` of z `(n, latents)`, and their slopes by every
    latent `(n, latents, channels, height, width)`.
    """
    count, latents = z.shape
    value, slope = z, torch.eye(latents, dtype=z.dtype, device=z.device).repeat(count, 1)
    for layer in network.decoder:
        value, slope = (
            _as_layer_takes(network, layer, value),
            _as_layer_takes(network, layer, slope),
        )
        value = _linear(layer, value)
        slope = _linear(replace(layer, bias=torch.zeros_like(layer.bias)), slope)
        value, steep = _activated(layer, value)
        slope = slope * steep.repeat_interleave(latents, dim=0)
    channels, height, width = network.sample_shape
    value = value.reshape(count, height, width, channels).movedim(-1, 1)
    slope = slope.reshape(count, latents, height, width, channels).movedim(-1, 2)
    if network.output is None:
        return value, slope
    scale, shift = (
        torch.tensor(numbers, device=z.device, dtype=z.dtype)[:, None, None]
        for numbers in (network.output.scale, network.output.shift)
    )
    return value * scale + shift, slope * scale


def _as_layer_takes(network: PlainNetwork, layer: PlainLayer, x: Tensor) -> Tensor:
    """*x*, as an image where a dense layer gave the values of one."""
    if layer.kind != "conv_transpose" or x.dim() == 4:
        return x
    _, height, width = network.sample_shape
    doublings = sum(one.kind == "conv_transpose" for one in network.decoder)
    return x.view(len(x), height >> doublings, width >> doublings, -1)


def _linear(layer: PlainLayer, x: Tensor) -> Tensor:
    """The layer without its nonlinearity; activations between have their channels last."""
    weight, bias = (part.to(x.device, x.dtype) for part in (layer.weight, layer.bias))
    if layer.kind == "dense":
        return x.flatten(1) @ weight + bias
    kernel = weight.permute(2, 3, 0, 1)
    out = F.conv_transpose2d(x.movedim(-1, 1), kernel, bias, stride=2, padding=1)
    return out.movedim(1, -1)


def _activated(layer: PlainLayer, x: Tensor) -> tuple[Tensor, Tensor]:
    """*x* behind the layer's nonlinearity, and the slope of that."""
    ones = torch.ones_like(x)
    if layer.activation == "relu":
        return x.relu(), (x > 0).to(x)
    if layer.activation == "leaky":
        return F.leaky_relu(x, layer.slope), torch.where(x > 0, ones, layer.slope * ones)
    if layer.activation == "tanh":
        return x.tanh(), 1.0 - x.tanh().square()
    return x, ones
