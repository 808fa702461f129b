# SPDX-License-Identifier: Apache-2.0
"""The DCGAN-style network of Mathieu et al. 2019 for Fashion-MNIST at 32x32, from their code.

4x4 stride-2 convolutions of 32, 64, 128 channels with leaky ReLUs of slope 0.2 take the image to
4x4, where two 4x4 convolutions are the heads; the decoder mirrors it with ReLUs. Batch norm stands
after every convolution but the first, the heads and the last, and these convolutions and the first
and last have no bias. A posterior's standard deviation is softplus(head) + 1e-6. Weights start
normal with standard deviation 0.02 (Radford et al. 2016). At one place a convolution is a dense
layer, and is computed as one.

Departs: images of three channels are taken too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.core.citations import MATHIEU_2019
from unbraid.networks.batch_norm import batch_norm, batch_norm_weights
from unbraid.networks.images import ImageNetwork
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
from unbraid.networks.posterior_scale import logvar_of_softplus

_CORNER = 4
_FIRST, _MIDDLE, _LAST = 32, 64, 128
_SLOPE = 0.2
_DEVIATION = 0.02


def _leaky(x: Tensor) -> Tensor:
    return F.leaky_relu(x, _SLOPE)


def _without_bias(weights: Weights, name: str, outputs: int) -> tuple[Tensor, Tensor]:
    """The weight of the layer called *name*, with zeros for the bias that it has not."""
    weight = weights[f"{name}.weight"]
    return weight, weight.new_zeros(weight.shape[0], outputs)


@dataclass(frozen=True)
class ConvDcgan(ImageNetwork):
    """Convolutions of 32, 64, 128 channels, DCGAN style: Mathieu et al.'s for Fashion-MNIST."""

    sides = (32,)
    citation = MATHIEU_2019

    @property
    def uses_columns(self) -> bool:
        """Batch norm keeps what it takes beside what it gives, which needs the room of columns."""
        return True

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """Encoder, heads and decoder weights in order of use, batch norm after its convolution."""
        channels = sample_shape[0]
        flat = _CORNER * _CORNER * _LAST
        weights = [
            conv_weights("encoder.conv1", channels, _FIRST, 4)[0],
            conv_weights("encoder.conv2", _FIRST, _MIDDLE, 4)[0],
            *batch_norm_weights("encoder.norm2", _MIDDLE),
            conv_weights("encoder.conv3", _MIDDLE, _LAST, 4)[0],
            *batch_norm_weights("encoder.norm3", _LAST),
            *dense_weights("encoder.mean", flat, latents),
            *dense_weights("encoder.std", flat, latents),
            dense_weights("decoder.corner", latents, flat)[0],
            *batch_norm_weights("decoder.corner_norm", _LAST),
            conv_transpose_weights("decoder.conv1", _LAST, _MIDDLE)[0],
            *batch_norm_weights("decoder.norm1", _MIDDLE),
            conv_transpose_weights("decoder.conv2", _MIDDLE, _FIRST)[0],
            *batch_norm_weights("decoder.norm2", _FIRST),
            conv_transpose_weights("decoder.conv3", _FIRST, channels)[0],
        ]
        return Layout(tuple(_normal_at_first(weight) for weight in weights))

    def encode(
        self, weights: Weights, x: Tensor, precision: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Convolutions to the corner in *precision*, two heads over it."""
        hidden = _leaky(
            conv_image(
                x,
                *_without_bias(weights, "encoder.conv1", _FIRST),
                precision or x.dtype,
                relu=False,
            )
        )
        hidden = conv(hidden, *_without_bias(weights, "encoder.conv2", _MIDDLE), relu=False)
        hidden = batch_norm(hidden, weights, "encoder.norm2", slope=_SLOPE)
        hidden = conv(hidden, *_without_bias(weights, "encoder.conv3", _LAST), relu=False)
        hidden = batch_norm(hidden, weights, "encoder.norm3", slope=_SLOPE).flatten(2).to(x.dtype)
        return dense(hidden, *layer(weights, "encoder.mean")), logvar_of_softplus(
            dense(hidden, *layer(weights, "encoder.std"))
        )

    def _before_image(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None,
    ) -> Tensor:
        """Spread over the corner, then transposed convolutions in *precision*."""
        hidden = dense(z, *_without_bias(weights, "decoder.corner", _CORNER * _CORNER * _LAST)).to(
            precision or z.dtype
        )
        hidden = hidden.unflatten(2, (_CORNER, _CORNER, -1))
        hidden = batch_norm(hidden, weights, "decoder.corner_norm", slope=0.0)
        for number, outputs in ((1, _MIDDLE), (2, _FIRST)):
            hidden = conv_transpose(
                hidden, *_without_bias(weights, f"decoder.conv{number}", outputs), relu=False
            )
            hidden = batch_norm(hidden, weights, f"decoder.norm{number}", slope=0.0)
        return hidden

    def _last(self, weights: Weights, sample_shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        return _without_bias(weights, "decoder.conv3", sample_shape[0])

    def plain(self, weights: Weights, sample_shape: tuple[int, ...]) -> PlainNetwork:
        """Layers with their batch norm."""
        norms = {"conv1": "", "conv2": "encoder.norm2", "conv3": "encoder.norm3"}
        encoder = [
            conv_layer(weights, f"encoder.{name}", "leaky", norm=norm, slope=_SLOPE)
            for name, norm in norms.items()
        ]
        decoder = [dense_layer(weights, "decoder.corner", "relu", norm="decoder.corner_norm")]
        decoder += [
            conv_transpose_layer(weights, f"decoder.{name}", "relu", norm=f"decoder.{norm}")
            for name, norm in (("conv1", "norm1"), ("conv2", "norm2"))
        ]
        decoder.append(conv_transpose_layer(weights, "decoder.conv3"))
        mean, std = (dense_layer(weights, f"encoder.{head}") for head in ("mean", "std"))
        return PlainNetwork(sample_shape, encoder, mean, std, decoder, logvar_rule="softplus")


def _normal_at_first(weight: Weight) -> Weight:
    return replace(weight, deviation=_DEVIATION) if weight.fan_in > 0 else weight
