# SPDX-License-Identifier: Apache-2.0
"""Dense encoder and decoder (Higgins et al. 2017; disentanglement_lib's fc_encoder and fc_decoder).

Departs: width, depth and the decoder's nonlinearity are options, since 1200 units serve 64x64
images and not points in the plane. Mathieu et al. 2019 use `hidden=100, encoder_layers=1,
decoder_layers=1, activation="relu", scale="softplus", decoder_scale="softplus", start="torch"` for
the pinwheel: second heads give the standard deviation of the posterior, and the scale of each
decoded value, as softplus + 1e-6 (theirs of the decoder has no 1e-6, and can be 0), and weights
start as torch's own layers do. 8x8 digits do well with `hidden=128,
decoder_layers=2, activation="relu"`; on a CPU 28x28 images take an eighth of the time with 256
units (docs/networks.md). Without layers both halves are linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.core.checks import read_whole_number
from unbraid.core.errors import Problems
from unbraid.core.registry import Citation
from unbraid.networks.layers import dense
from unbraid.networks.layout import Layout, Weight, dense_weights, starts_of_torch
from unbraid.networks.network import Comparison, Network, Weights, layer
from unbraid.networks.plain_layers import (
    Activation,
    LogvarRule,
    PlainNetwork,
    channels_last,
    dense_layer,
)
from unbraid.networks.posterior_scale import LEAST, logvar_of_softplus

ACTIVATIONS = ("tanh", "relu")
SCALES = ("logvar", "softplus")
DECODER_SCALES = ("none", "softplus")
STARTS = ("glorot", "torch")


@dataclass(frozen=True)
class Mlp(Network):
    """Two ReLU layers to the heads, three tanh layers back; takes samples of any shape."""

    hidden: int = 1200
    encoder_layers: int = 2
    decoder_layers: int = 3
    activation: str = "tanh"
    """The decoder's nonlinearity; the encoder's is a ReLU."""
    scale: str = "logvar"
    """What the second head gives: the log-variance, or by softplus the standard deviation."""
    decoder_scale: str = "none"
    """Whether the decoder has a second head, for likelihoods with `scale=decoded`."""
    start: str = "glorot"
    """How weights start: Glorot-uniform with biases 0, or as torch's own layers."""

    citation = Citation(
        "Higgins et al.",
        2017,
        "β-VAE: learning basic visual concepts with a constrained variational framework",
        "ICLR",
    )

    def __post_init__(self) -> None:
        """Check the options."""
        problems = Problems()
        for name, least in (("hidden", 1), ("encoder_layers", 0), ("decoder_layers", 0)):
            read_whole_number(problems, name, getattr(self, name), least)
        words = {"activation": ACTIVATIONS, "scale": SCALES}
        words |= {"decoder_scale": DECODER_SCALES, "start": STARTS}
        for name, allowed in words.items():
            if getattr(self, name) not in allowed:
                problems.add(name, f"must be {' or '.join(allowed)}", getattr(self, name))
        problems.raise_if_any()

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """Encoder, heads and decoder weights in order of use."""
        values = math.prod(sample_shape)
        weights: list[Weight] = []
        inputs = values
        for number in range(self.encoder_layers):
            weights += dense_weights(f"encoder.dense{number + 1}", inputs, self.hidden)
            inputs = self.hidden
        weights += dense_weights("encoder.mean", inputs, latents) + dense_weights(
            "encoder.logvar", inputs, latents
        )
        inputs = latents
        for number in range(self.decoder_layers):
            weights += dense_weights(f"decoder.dense{number + 1}", inputs, self.hidden)
            inputs = self.hidden
        weights += dense_weights("decoder.out", inputs, values)
        if self.decodes_scale:
            weights += dense_weights("decoder.scale", inputs, values)
        return Layout(tuple(starts_of_torch(weights) if self.start == "torch" else weights))

    @property
    def decodes_scale(self) -> bool:
        """Whether the decoder has a second head."""
        return self.decoder_scale != "none"

    def encode(
        self, weights: Weights, x: Tensor, precision: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Flatten, dense layers in *precision*, two heads."""
        hidden = x.flatten(2).to(precision or x.dtype)
        for number in range(self.encoder_layers):
            hidden = dense(hidden, *layer(weights, f"encoder.dense{number + 1}")).relu()
        hidden = hidden.to(x.dtype)
        mean, head = (
            dense(hidden, *layer(weights, "encoder.mean")),
            dense(hidden, *layer(weights, "encoder.logvar")),
        )
        return mean, head if self.scale == "logvar" else logvar_of_softplus(head)

    def decode(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """Dense layers in *precision*, then one linear output a value."""
        hidden = self._decoded(weights, z, precision)
        out = dense(hidden, *layer(weights, "decoder.out"))
        return out.view(*z.shape[:2], *sample_shape).to(z.dtype)

    def _decoded(self, weights: Weights, z: Tensor, precision: torch.dtype | None) -> Tensor:
        """What the decoder's heads see."""
        hidden = z.to(precision or z.dtype)
        for number in range(self.decoder_layers):
            hidden = dense(hidden, *layer(weights, f"decoder.dense{number + 1}"))
            hidden = hidden.tanh() if self.activation == "tanh" else hidden.relu()
        return hidden

    def compare(
        self,
        weights: Weights,
        z: Tensor,
        x: Tensor,
        likelihood: Comparison,
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """Negative log-likelihood, by both heads where the decoder has two."""
        if not self.decodes_scale or likelihood.by_scale is None:
            return super().compare(weights, z, x, likelihood, precision)
        hidden = self._decoded(weights, z, precision)
        raw, head = (
            dense(hidden, *layer(weights, f"decoder.{name}")).view_as(x).to(z.dtype)
            for name in ("out", "scale")
        )
        return likelihood.by_scale(raw, F.softplus(head) + LEAST, x)

    def plain(self, weights: Weights, sample_shape: tuple[int, ...]) -> PlainNetwork | None:
        """The layers, with the values of images in the order of pixels."""
        if len(sample_shape) != 3:
            return None
        order = channels_last(sample_shape)
        encoder = [
            dense_layer(weights, f"encoder.dense{number + 1}", "relu")
            for number in range(self.encoder_layers)
        ]
        mean, head = (dense_layer(weights, f"encoder.{name}") for name in ("mean", "logvar"))
        if encoder:
            encoder[0] = encoder[0].taking(order)
        else:
            mean, head = mean.taking(order), head.taking(order)
        decoder = [
            dense_layer(weights, f"decoder.dense{number + 1}", cast(Activation, self.activation))
            for number in range(self.decoder_layers)
        ]
        decoder.append(dense_layer(weights, "decoder.out").giving(order))
        rule = cast(LogvarRule, self.scale)
        return PlainNetwork(sample_shape, encoder, mean, head, decoder, logvar_rule=rule)
