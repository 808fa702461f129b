# SPDX-License-Identifier: Apache-2.0
"""The field's convolutional networks (Burgess et al. 2018; Locatello et al. 2019, table 1).

A stack of stride-2 convolutions halves the image while its side is even and above 4 (64 -> 4 in
four layers, as published; 28 -> 7 in two, 32 -> 4 in three, 96 -> 3 and 128 -> 4 in five), then a
dense layer of 256 and two linear heads; the decoder mirrors it. ReLU throughout, no normalisation.
Other sides than 64 are not in the papers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unbraid.core.citations import LOCATELLO_2019
from unbraid.core.registry import Citation
from unbraid.networks.images import ImageNetwork, halvings
from unbraid.networks.layers import conv, conv_image, conv_transpose, dense
from unbraid.networks.layout import (
    Layout,
    Weight,
    conv_transpose_weights,
    conv_weights,
    dense_weights,
)
from unbraid.networks.network import Weights, layer
from unbraid.networks.plain_layers import (
    PlainNetwork,
    conv_layer,
    conv_transpose_layer,
    dense_layer,
)

SIDES = (28, 32, 64, 96, 128)
CHANNELS = (32, 32, 64, 64, 64)
"""Of the images after each halving."""


@dataclass(frozen=True)
class ConvStack(ImageNetwork):
    """The shared stack; a subclass says which kernels the encoder uses, and what else differs."""

    sides = SIDES
    kernels: ClassVar[tuple[int, ...]]
    hidden: ClassVar[int] = 256
    """Units of the dense layer before the heads and of that behind the latents."""
    hidden_relu: ClassVar[bool] = True
    """Whether the dense layer before the heads ends in a ReLU."""
    mirrored: ClassVar[tuple[int, ...]] = CHANNELS
    """Channels on the decoder's way, counted from the image."""

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """Encoder, heads and decoder weights in order of use."""
        channels, side, _ = sample_shape
        depth = halvings(side)
        corner = side >> depth
        flat = CHANNELS[depth - 1] * corner * corner
        weights: list[Weight] = []
        inputs = channels
        for number in range(depth):
            weights += conv_weights(
                f"encoder.conv{number + 1}", inputs, CHANNELS[number], self.kernels[number]
            )
            inputs = CHANNELS[number]
        weights += dense_weights("encoder.dense", flat, self.hidden)
        weights += dense_weights("encoder.mean", self.hidden, latents) + dense_weights(
            "encoder.logvar", self.hidden, latents
        )
        weights += dense_weights("decoder.dense1", latents, self.hidden) + dense_weights(
            "decoder.dense2", self.hidden, flat
        )
        for number in range(depth):
            outputs = self.mirrored[depth - 2 - number] if number < depth - 1 else channels
            weights += conv_transpose_weights(f"decoder.conv{number + 1}", inputs, outputs)
            inputs = outputs
        return Layout(tuple(weights))

    def encode(
        self, weights: Weights, x: Tensor, precision: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Convolutions, flatten, dense, two heads; all but the heads in *precision*."""
        full, depth = x.dtype, halvings(x.shape[-1])
        first = layer(weights, "encoder.conv1")
        hidden = conv_image(x, *first, precision or full, masked_later=depth > 1)
        for number in range(1, depth):
            at = layer(weights, f"encoder.conv{number + 1}")
            hidden = conv(hidden, *at, after_relu=True, masked_later=number < depth - 1)
        hidden = dense(hidden.flatten(2), *layer(weights, "encoder.dense"))
        hidden = (hidden.relu() if self.hidden_relu else hidden).to(full)
        return dense(hidden, *layer(weights, "encoder.mean")), dense(
            hidden, *layer(weights, "encoder.logvar")
        )

    def _before_image(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None,
    ) -> Tensor:
        """Two dense layers, then transposed convolutions in *precision* up to the last layer."""
        side = sample_shape[-1]
        depth = halvings(side)
        corner = side >> depth
        hidden = dense(z, *layer(weights, "decoder.dense1")).relu().to(precision or z.dtype)
        hidden = dense(hidden, *layer(weights, "decoder.dense2")).relu()
        hidden = hidden.view(*z.shape[:2], corner, corner, CHANNELS[depth - 1])
        for number in range(depth - 1):
            at = layer(weights, f"decoder.conv{number + 1}")
            hidden = conv_transpose(hidden, *at, after_relu=True, masked_later=True)
        return hidden

    def _last(self, weights: Weights, sample_shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        return layer(weights, f"decoder.conv{halvings(sample_shape[-1])}")

    def plain(self, weights: Weights, sample_shape: tuple[int, ...]) -> PlainNetwork:
        """The stack, layer by layer."""
        depth = halvings(sample_shape[-1])
        convolutions = [f"conv{number}" for number in range(1, depth + 1)]
        encoder = [conv_layer(weights, f"encoder.{name}", "relu") for name in convolutions]
        encoder.append(
            dense_layer(weights, "encoder.dense", "relu" if self.hidden_relu else "none")
        )
        decoder = [dense_layer(weights, f"decoder.dense{number}", "relu") for number in (1, 2)]
        decoder += [
            conv_transpose_layer(weights, f"decoder.{name}", "relu") for name in convolutions[:-1]
        ]
        decoder.append(conv_transpose_layer(weights, f"decoder.conv{depth}"))
        mean, logvar = (dense_layer(weights, f"encoder.{head}") for head in ("mean", "logvar"))
        return PlainNetwork(sample_shape, encoder, mean, logvar, decoder)


@dataclass(frozen=True)
class ConvBurgess(ConvStack):
    """Convolutions of 32, 32, 64, 64 channels, all 4x4: the network the papers print."""

    kernels = (4, 4, 4, 4, 4)
    citation = Citation(
        "Burgess et al.", 2018, "Understanding disentangling in β-VAE", "arXiv:1804.03599"
    )


@dataclass(frozen=True)
class ConvLocatello(ConvStack):
    """The same with 2x2 kernels from the third layer on: what disentanglement_lib runs."""

    kernels = (4, 4, 2, 2, 2)
    citation = LOCATELLO_2019
