# SPDX-License-Identifier: Apache-2.0
"""The batch-norm network of rPU-VAE (Estermann et al. 2020; in their code it is that of Chen et al.
2018, β-TCVAE).

4x4 stride-2 convolutions of 32, 32, 64, 64 channels take 64x64 to 4x4, a 4x4 convolution of 512
takes that to one place, and a 1x1 convolution gives means and log standard deviations; the decoder
mirrors it with transposed convolutions. Batch norm and ReLU stand after every layer but the last of
each half. Weights start as torch's layers do, since the authors' code leaves them so. At one place
a convolution is a dense layer, and is computed as one.

Departs: sides 32 and 128 are taken too, with one halving less or more; the paper has 64 alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.networks.batch_norm import batch_norm, batch_norm_weights
from unbraid.networks.conv import CHANNELS
from unbraid.networks.images import ImageNetwork, halvings
from unbraid.networks.layers import conv, conv_image, conv_transpose, dense
from unbraid.networks.layout import (
    Layout,
    Weight,
    conv_transpose_weights,
    conv_weights,
    dense_weights,
    starts_of_torch,
)
from unbraid.networks.network import Weights, layer
from unbraid.networks.plain_layers import (
    PlainNetwork,
    conv_layer,
    conv_transpose_layer,
    dense_layer,
)

_CORNER = 4
_WIDE = 512


@dataclass(frozen=True)
class ConvBatchNorm(ImageNetwork):
    """Convolutions of 32, 32, 64, 64 and 512 channels with batch norm: the network of rPU-VAE."""

    sides = (32, 64, 128)
    citation = Citation(
        "Estermann et al.", 2020, "Robust disentanglement of a few factors at a time", "NeurIPS"
    )

    @property
    def uses_columns(self) -> bool:
        """Batch norm keeps what it takes beside what it gives, which needs the room of columns."""
        return True

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """Encoder, heads and decoder weights in order of use, batch norm after its convolution."""
        inputs, depth = sample_shape[0], halvings(sample_shape[-1])
        weights: list[Weight] = []
        for number, outputs in enumerate(CHANNELS[:depth], start=1):
            weights += conv_weights(f"encoder.conv{number}", inputs, outputs, 4)
            weights += batch_norm_weights(f"encoder.norm{number}", outputs)
            inputs = outputs
        area = _CORNER * _CORNER
        weights += dense_weights("encoder.wide", area * inputs, _WIDE) + batch_norm_weights(
            "encoder.wide_norm", _WIDE
        )
        weights += dense_weights("encoder.mean", _WIDE, latents) + dense_weights(
            "encoder.log_std", _WIDE, latents
        )
        weights += dense_weights("decoder.wide", latents, _WIDE) + batch_norm_weights(
            "decoder.wide_norm", _WIDE
        )
        # A convolution's bias belongs to a channel, not to a place.
        weights += [Weight("decoder.corner.weight", (_WIDE, area * inputs), _WIDE, area * inputs)]
        weights += [
            Weight("decoder.corner.bias", (inputs,)),
            *batch_norm_weights("decoder.corner_norm", inputs),
        ]
        for number, outputs in enumerate(reversed(CHANNELS[: depth - 1]), start=1):
            weights += conv_transpose_weights(f"decoder.conv{number}", inputs, outputs)
            weights += batch_norm_weights(f"decoder.norm{number}", outputs)
            inputs = outputs
        weights += conv_transpose_weights(f"decoder.conv{depth}", inputs, sample_shape[0])
        return Layout(tuple(starts_of_torch(weights, transposed="decoder.")))

    def encode(
        self, weights: Weights, x: Tensor, precision: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Convolutions to the corner, a wide layer, heads for mean and log standard deviation."""
        full = x.dtype
        hidden = conv_image(x, *layer(weights, "encoder.conv1"), precision or full, relu=False)
        hidden = batch_norm(hidden, weights, "encoder.norm1", slope=0.0)
        for number in range(2, halvings(x.shape[-1]) + 1):
            hidden = conv(hidden, *layer(weights, f"encoder.conv{number}"), relu=False)
            hidden = batch_norm(hidden, weights, f"encoder.norm{number}", slope=0.0)
        hidden = dense(hidden.flatten(2), *layer(weights, "encoder.wide"))
        hidden = batch_norm(hidden, weights, "encoder.wide_norm", slope=0.0).to(full)
        return dense(hidden, *layer(weights, "encoder.mean")), 2.0 * dense(
            hidden, *layer(weights, "encoder.log_std")
        )

    def _before_image(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None,
    ) -> Tensor:
        """Widen, spread over the corner, then transposed convolutions in *precision*."""
        depth = halvings(sample_shape[-1])
        hidden = dense(z, *layer(weights, "decoder.wide"))
        hidden = batch_norm(hidden, weights, "decoder.wide_norm", slope=0.0).to(
            precision or z.dtype
        )
        weight, bias = layer(weights, "decoder.corner")
        hidden = dense(hidden, weight, bias.repeat(1, _CORNER * _CORNER)).unflatten(
            2, (_CORNER, _CORNER, -1)
        )
        hidden = batch_norm(hidden, weights, "decoder.corner_norm", slope=0.0)
        for number in range(1, depth):
            hidden = conv_transpose(hidden, *layer(weights, f"decoder.conv{number}"), relu=False)
            hidden = batch_norm(hidden, weights, f"decoder.norm{number}", slope=0.0)
        return hidden

    def _last(self, weights: Weights, sample_shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        return layer(weights, f"decoder.conv{halvings(sample_shape[-1])}")

    def plain(self, weights: Weights, sample_shape: tuple[int, ...]) -> PlainNetwork:
        """Layers with their batch norm; the second head is twice the log standard deviation."""
        depth = halvings(sample_shape[-1])
        encoder = [
            conv_layer(weights, f"encoder.conv{number}", "relu", norm=f"encoder.norm{number}")
            for number in range(1, depth + 1)
        ]
        encoder.append(dense_layer(weights, "encoder.wide", "relu", norm="encoder.wide_norm"))
        decoder = [
            dense_layer(weights, f"decoder.{name}", "relu", norm=f"decoder.{name}_norm")
            for name in ("wide", "corner")
        ]
        decoder += [
            conv_transpose_layer(
                weights, f"decoder.conv{number}", "relu", norm=f"decoder.norm{number}"
            )
            for number in range(1, depth)
        ]
        decoder.append(conv_transpose_layer(weights, f"decoder.conv{depth}"))
        mean, log_std = (dense_layer(weights, f"encoder.{head}") for head in ("mean", "log_std"))
        return PlainNetwork(sample_shape, encoder, mean, log_std.times(2.0), decoder)
