# SPDX-License-Identifier: Apache-2.0
"""A trained network as plain layers, for programs that know nothing of ours: a page, an exporter.

The layers stand in order of use, with the weights of one member. Images and hidden activations are
height x width x channels, also where a dense layer reads or gives them. Batch norm, in evaluation
mode, is part of the layer before it. What follows from the last encoder layer are two heads:

    x -> input -> encoder -> mean, and a head that `logvar_rule` turns into the log-variance
    z -> decoder -> output -> raw output

Convolutions have stride 2; 4x4 kernels are padded by one, and 2x2 ones not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from unbraid.networks.batch_norm import EPSILON
from unbraid.networks.network import Weights

Kind = Literal["dense", "conv", "conv_transpose"]
Activation = Literal["none", "relu", "leaky", "tanh"]
LogvarRule = Literal["logvar", "softplus", "floored"]
"""What the second head gives; the latter two as in `posterior_scale`."""


@dataclass(frozen=True, eq=False)
class PlainLayer:
    """One layer and the nonlinearity behind it."""

    kind: Kind
    weight: Tensor
    """`(in, out)` of a dense layer, else `(kernel, kernel, in, out)`."""
    bias: Tensor
    """`(out,)`; where a dense layer gives an image, one number for each value."""
    activation: Activation = "none"
    slope: float = 0.0
    """Of negative numbers behind a leaky ReLU."""

    def times(self, factor: float) -> PlainLayer:
        """The layer with *factor* times the output, before its nonlinearity."""
        return replace(self, weight=self.weight * factor, bias=self.bias * factor)

    def taking(self, order: Tensor) -> PlainLayer:
        """A dense layer whose inputs come in another order: the old number of each new one."""
        return replace(self, weight=self.weight[order])

    def giving(self, order: Tensor) -> PlainLayer:
        """The same for outputs."""
        return replace(self, weight=self.weight[:, order], bias=self.bias[order])


@dataclass(frozen=True)
class ByChannel:
    """x * scale + shift, with one number of each for every channel of an image."""

    scale: tuple[float, ...]
    shift: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class PlainNetwork:
    """Encoder and decoder of one member for images of one shape."""

    sample_shape: tuple[int, ...]
    """Channels, height and width."""
    encoder: Sequence[PlainLayer]
    mean: PlainLayer
    logvar: PlainLayer
    decoder: Sequence[PlainLayer]
    logvar_rule: LogvarRule = "logvar"
    input: ByChannel | None = None
    """What happens to images before the encoder."""
    output: ByChannel | None = None
    """What happens to the decoder's output."""


def dense_layer(
    weights: Weights, name: str, activation: Activation = "none", *, norm: str = ""
) -> PlainLayer:
    """The dense layer called *name* and the batch norm called *norm*, if any, as one."""
    made = PlainLayer("dense", *_weight_and_bias(weights, name), activation)
    return _normed(made, weights, norm)


def conv_layer(
    weights: Weights,
    name: str,
    activation: Activation = "none",
    *,
    norm: str = "",
    slope: float = 0.0,
) -> PlainLayer:
    """The convolution called *name* and the batch norm called *norm*, if any, as one."""
    weight, bias = _weight_and_bias(weights, name, order=(1, 2, 3, 0))
    return _normed(PlainLayer("conv", weight, bias, activation, slope), weights, norm)


def conv_transpose_layer(
    weights: Weights, name: str, activation: Activation = "none", *, norm: str = ""
) -> PlainLayer:
    """The transposed convolution called *name* and the batch norm called *norm*, if any, as one."""
    weight, bias = _weight_and_bias(weights, name, order=(1, 2, 0, 3))
    return _normed(PlainLayer("conv_transpose", weight, bias, activation), weights, norm)


def channels_last(sample_shape: tuple[int, ...]) -> Tensor:
    """The number that each value of an image has with its channels first, channels last."""
    channels, height, width = sample_shape
    numbers = torch.arange(channels * height * width)
    return numbers.view(channels, height, width).permute(1, 2, 0).flatten()


def _normed(layer: PlainLayer, weights: Weights, norm: str) -> PlainLayer:
    """A layer and the batch norm behind it as one."""
    if not norm:
        return layer
    parts = ("scale", "shift", "running_mean", "running_var")
    scale, shift, mean, variance = (_of_member(weights[f"{norm}.{part}"]) for part in parts)
    factor = scale * torch.rsqrt(variance + EPSILON)
    shift = shift - mean * factor
    places = len(layer.bias) // len(factor)
    weight, bias = layer.weight * factor.repeat(places), layer.bias * factor.repeat(places)
    return replace(layer, weight=weight, bias=bias + shift.repeat(places))


def _weight_and_bias(
    weights: Weights, name: str, order: tuple[int, ...] = (0, 1)
) -> tuple[Tensor, Tensor]:
    """A layer's weight in an *order* of axes that ends with its outputs, and its bias.

    Where it has no bias, that is zeros; one for each channel stands at all of its places.
    """
    weight = _of_member(weights[f"{name}.weight"]).permute(order)
    given = weights.get(f"{name}.bias")
    bias = torch.zeros(1) if given is None else _of_member(given)
    return weight, bias.repeat(weight.shape[-1] // len(bias))


def _of_member(weight: Tensor) -> Tensor:
    """A weight `(1, *shape)` without the member axis."""
    return weight.detach()[0].float().cpu()
