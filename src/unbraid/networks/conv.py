# SPDX-License-Identifier: Apache-2.0
"""Convolutional encoders and decoders of the field (Burgess et al. 2018; Locatello et al. 2019, table 1).

A stack of stride-2 convolutions halves the picture while its side is even and above 4 (64 -> 4 in four layers, as
published; 28 -> 7 in two, 32 -> 4 in three, 96 -> 3 and 128 -> 4 in five), then a dense layer of 256 and two linear heads;
the decoder mirrors it. ReLU throughout, no normalisation. Other sides than 64 are not in the papers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unbraid.errors import Shown, problem
from unbraid.networks.layers import dense, double, double_and_compare, double_to_picture, halve, halve_picture
from unbraid.networks.layout import Layout, Weight, dense_weights, double_weights, halve_weights
from unbraid.networks.network import Comparison, Network, Weights, layer
from unbraid.registry import Citation

SIDES = (28, 32, 64, 96, 128)
_CHANNELS = (32, 32, 64, 64, 64)
_HIDDEN = 256


def _depth(side: int) -> int:
    """How many times *side* can be halved while it is even and above 4."""
    depth = 0
    while side % 2 == 0 and side > 4:
        side, depth = side // 2, depth + 1
    return depth


@dataclass(frozen=True)
class _Conv(Network):
    """The shared stack; a subclass says which kernels the encoder uses."""

    kernels: ClassVar[tuple[int, ...]]

    def problems(self, sample_shape: tuple[int, ...]) -> list[str]:
        """Pictures must be square, of a side the stack can halve, with 1 or 3 channels."""
        allowed = ", ".join(map(str, SIDES))
        rule = f"must be square with a side of {allowed} and 1 or 3 channels for a convolutional network"
        if len(sample_shape) != 3:
            return [problem("samples", rule, Shown(f"vectors of shape {sample_shape}"), "Use the network mlp.")]
        channels, height, width = sample_shape
        if height == width and height in SIDES and channels in (1, 3):
            return []
        nearest = min(SIDES, key=lambda side: (abs(side - max(height, width)), side))
        remedy = f"Load them with resize={nearest}, or use the network mlp." if channels in (1, 3) else "Use the network mlp."
        return [problem("images", rule, Shown(f"{height}x{width} with {channels} channel{'s' * (channels != 1)}"), remedy)]

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """Encoder, heads and decoder weights in order of use."""
        channels, side, _ = sample_shape
        depth = _depth(side)
        corner = side >> depth
        flat = _CHANNELS[depth - 1] * corner * corner
        weights: list[Weight] = []
        inputs = channels
        for number in range(depth):
            weights += halve_weights(f"encoder.conv{number + 1}", inputs, _CHANNELS[number], self.kernels[number])
            inputs = _CHANNELS[number]
        weights += dense_weights("encoder.dense", flat, _HIDDEN)
        weights += dense_weights("encoder.mean", _HIDDEN, latents) + dense_weights("encoder.logvar", _HIDDEN, latents)
        weights += dense_weights("decoder.dense1", latents, _HIDDEN) + dense_weights("decoder.dense2", _HIDDEN, flat)
        for number in range(depth):
            outputs = _CHANNELS[depth - 2 - number] if number < depth - 1 else channels
            weights += double_weights(f"decoder.conv{number + 1}", inputs, outputs)
            inputs = outputs
        return Layout(tuple(weights))

    def encode(self, weights: Weights, x: Tensor, precision: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Halve, flatten, dense, two heads; all but the heads in *precision*."""
        full, depth = x.dtype, _depth(x.shape[-1])
        first = layer(weights, "encoder.conv1")
        hidden = halve_picture(x, *first, precision or full, masked_later=depth > 1)
        for number in range(1, depth):
            at = layer(weights, f"encoder.conv{number + 1}")
            hidden = halve(hidden, *at, after_relu=True, masked_later=number < depth - 1)
        hidden = dense(hidden.flatten(2), *layer(weights, "encoder.dense")).relu().to(full)
        return dense(hidden, *layer(weights, "encoder.mean")), dense(hidden, *layer(weights, "encoder.logvar"))

    def decode(self, weights: Weights, z: Tensor, sample_shape: tuple[int, ...], precision: torch.dtype | None = None) -> Tensor:
        """Two dense layers, then double up to the picture in *precision*; the last layer is linear."""
        hidden = self._before_picture(weights, z, sample_shape, precision)
        last = layer(weights, f"decoder.conv{_depth(sample_shape[-1])}")
        return double_to_picture(hidden, *last, after_relu=True).to(z.dtype)

    def compare(
        self, weights: Weights, z: Tensor, x: Tensor, likelihood: Comparison, precision: torch.dtype | None = None
    ) -> Tensor:
        """The last layer and the comparison in one, where a kernel does both."""
        hidden = self._before_picture(weights, z, tuple(x.shape[2:]), precision)
        last = layer(weights, f"decoder.conv{_depth(x.shape[-1])}")
        distance = double_and_compare(hidden, *last, x, likelihood.distance, after_relu=True)
        if distance is not None:
            return distance
        return likelihood.negative_log(double_to_picture(hidden, *last, after_relu=True).to(z.dtype), x)

    def _before_picture(self, weights: Weights, z: Tensor, sample_shape: tuple[int, ...], precision: torch.dtype | None) -> Tensor:
        """The decoder up to its last layer; its output has passed a ReLU."""
        side = sample_shape[-1]
        depth = _depth(side)
        corner = side >> depth
        hidden = dense(z, *layer(weights, "decoder.dense1")).relu().to(precision or z.dtype)
        hidden = dense(hidden, *layer(weights, "decoder.dense2")).relu()
        hidden = hidden.view(*z.shape[:2], corner, corner, _CHANNELS[depth - 1])
        for number in range(depth - 1):
            at = layer(weights, f"decoder.conv{number + 1}")
            hidden = double(hidden, *at, after_relu=True, masked_later=True)
        return hidden


@dataclass(frozen=True)
class ConvBurgess(_Conv):
    """Convolutions of 32, 32, 64, 64 channels, all 4x4: the network the papers print (0.8 M weights at 64x64)."""

    kernels = (4, 4, 4, 4, 4)
    citation = Citation("Burgess et al.", 2018, "Understanding disentangling in β-VAE", "arXiv:1804.03599")


@dataclass(frozen=True)
class ConvLocatello(_Conv):
    """The same with 2x2 kernels from the third layer on: what disentanglement_lib runs, though its paper prints 4x4."""

    kernels = (4, 4, 2, 2, 2)
    citation = Citation(
        "Locatello et al.",
        2019,
        "Challenging common assumptions in the unsupervised learning of disentangled representations",
        "ICML",
    )
