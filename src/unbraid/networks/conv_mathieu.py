# SPDX-License-Identifier: Apache-2.0
"""The dSprites network of Mathieu et al. 2019, a variant of Burgess et al.'s.

All kernels are 4x4; the dense layer before the heads has 128 units and no nonlinearity, so that the
heads are linear in the last convolution; the decoder goes 128, 1024 and 64, 64, 32 channels. A
posterior's standard deviation is exp(head / 2) + 1e-6. Weights start as torch's layers do, since
the authors' code leaves them so. Other sides than 64 are not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unbraid.core.citations import MATHIEU_2019
from unbraid.networks.conv import ConvStack
from unbraid.networks.layout import Layout, starts_of_torch
from unbraid.networks.network import Weights
from unbraid.networks.plain_layers import PlainNetwork
from unbraid.networks.posterior_scale import logvar_of_floored


@dataclass(frozen=True)
class ConvMathieu(ConvStack):
    """Convolutions of 32, 32, 64, 64 channels to a linear layer: Mathieu et al.'s for dSprites."""

    kernels = (4, 4, 4, 4, 4)
    hidden = 128
    hidden_relu = False
    mirrored = (32, 64, 64, 64)
    citation = MATHIEU_2019

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """Encoder, heads and decoder weights in order of use."""
        layout = super().layout(sample_shape, latents)
        return replace(
            layout, weights=tuple(starts_of_torch(layout.weights, transposed="decoder.conv"))
        )

    def encode(
        self, weights: Weights, x: Tensor, precision: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Convolutions, flatten, a linear layer, two heads; the second is floored."""
        mean, head = super().encode(weights, x, precision)
        return mean, logvar_of_floored(head)

    def plain(self, weights: Weights, sample_shape: tuple[int, ...]) -> PlainNetwork:
        """The stack, layer by layer; the second head is floored."""
        return replace(super().plain(weights, sample_shape), logvar_rule="floored")
