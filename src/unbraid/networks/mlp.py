# SPDX-License-Identifier: Apache-2.0
"""Dense encoder and decoder (Higgins et al. 2017; disentanglement_lib's fc_encoder and fc_decoder).

Departs: the width is an option, since 1200 units serve 64x64 pictures and not points in the plane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.errors import InputError, problem
from unbraid.networks.layers import dense
from unbraid.networks.layout import Layout, dense_weights
from unbraid.networks.network import Network, Weights, layer
from unbraid.registry import Citation

_ENCODER_LAYERS = 2
_DECODER_LAYERS = 3


@dataclass(frozen=True)
class Mlp(Network):
    """Two ReLU layers to the heads, three tanh layers back; takes samples of any shape."""

    hidden: int = 1200

    citation = Citation(
        "Higgins et al.", 2017, "β-VAE: learning basic visual concepts with a constrained variational framework", "ICLR"
    )

    def __post_init__(self) -> None:
        """Check the width."""
        if isinstance(self.hidden, bool) or not isinstance(self.hidden, int) or self.hidden < 1:
            raise InputError(problem("hidden", "must be a whole number of at least 1", self.hidden))

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """Encoder, heads and decoder weights in order of use."""
        values = math.prod(sample_shape)
        weights = []
        for number, inputs in enumerate([values] + [self.hidden] * (_ENCODER_LAYERS - 1)):
            weights += dense_weights(f"encoder.dense{number + 1}", inputs, self.hidden)
        weights += dense_weights("encoder.mean", self.hidden, latents) + dense_weights("encoder.logvar", self.hidden, latents)
        for number, inputs in enumerate([latents] + [self.hidden] * (_DECODER_LAYERS - 1)):
            weights += dense_weights(f"decoder.dense{number + 1}", inputs, self.hidden)
        weights += dense_weights("decoder.out", self.hidden, values)
        return Layout(tuple(weights))

    def encode(self, weights: Weights, x: Tensor, precision: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Flatten, dense layers in *precision*, two heads."""
        heavy = precision or x.dtype
        hidden = x.flatten(2).to(heavy)
        for number in range(_ENCODER_LAYERS):
            hidden = dense(hidden, *layer(weights, f"encoder.dense{number + 1}")).relu()
        hidden = hidden.to(x.dtype)
        return dense(hidden, *layer(weights, "encoder.mean")), dense(hidden, *layer(weights, "encoder.logvar"))

    def decode(self, weights: Weights, z: Tensor, sample_shape: tuple[int, ...], precision: torch.dtype | None = None) -> Tensor:
        """Dense layers in *precision*, then one linear output a value."""
        heavy = precision or z.dtype
        hidden = z.to(heavy)
        for number in range(_DECODER_LAYERS):
            hidden = dense(hidden, *layer(weights, f"decoder.dense{number + 1}")).tanh()
        out = dense(hidden, *layer(weights, "decoder.out"))
        return out.view(*z.shape[:2], *sample_shape).to(z.dtype)
