# SPDX-License-Identifier: Apache-2.0
"""What convolutional networks share: the images they take, a last layer that may compare."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unbraid.core.errors import Problem, Shown
from unbraid.networks.layers import conv_transpose_and_compare, conv_transpose_to_image
from unbraid.networks.network import Comparison, Network, Weights


def halvings(side: int) -> int:
    """How many times *side* can be halved while it is even and above 4."""
    count = 0
    while side % 2 == 0 and side > 4:
        side, count = side // 2, count + 1
    return count


@dataclass(frozen=True)
class ImageNetwork(Network):
    """A network whose decoder ends in a 4x4 transposed convolution behind a ReLU."""

    sides: ClassVar[tuple[int, ...]]
    """Sides of the square images it takes."""

    def problems(self, sample_shape: tuple[int, ...]) -> list[Problem]:
        """Images must be square, of a side the network takes, with 1 or 3 channels."""
        allowed = ", ".join(map(str, self.sides))
        rule = (
            f"must be square with a side of {allowed} and 1 or 3 channels for a convolutional"
            " network"
        )
        if len(sample_shape) != 3:
            return [
                Problem(
                    "samples",
                    rule,
                    Shown(f"vectors of shape {sample_shape}"),
                    "Use the network mlp.",
                )
            ]
        channels, height, width = sample_shape
        if height == width and height in self.sides and channels in (1, 3):
            return []
        nearest = min(self.sides, key=lambda side: (abs(side - max(height, width)), side))
        remedy = (
            f"Make them {nearest}x{nearest} (resize={nearest} for your own), or use the network"
            " mlp."
            if channels in (1, 3)
            else "Use the network mlp."
        )
        return [
            Problem(
                "images",
                rule,
                Shown(f"{height}x{width} with {channels} channel{'s' * (channels != 1)}"),
                remedy,
            )
        ]

    @abstractmethod
    def _before_image(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None,
    ) -> Tensor:
        """The decoder up to its last layer; its output has passed a ReLU."""

    @abstractmethod
    def _last(self, weights: Weights, sample_shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Weight and bias of the last layer."""

    def decode(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """Up to the image in *precision*; the last layer is linear."""
        hidden = self._before_image(weights, z, sample_shape, precision)
        return conv_transpose_to_image(
            hidden, *self._last(weights, sample_shape), after_relu=True
        ).to(z.dtype)

    def compare(
        self,
        weights: Weights,
        z: Tensor,
        x: Tensor,
        likelihood: Comparison,
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """The last layer and the comparison in one, where a kernel does both."""
        sample_shape = tuple(x.shape[2:])
        hidden, last = (
            self._before_image(weights, z, sample_shape, precision),
            self._last(weights, sample_shape),
        )
        distance = conv_transpose_and_compare(
            hidden, *last, x, likelihood.distance, after_relu=True
        )
        if distance is not None:
            return distance
        return likelihood.negative_log(
            conv_transpose_to_image(hidden, *last, after_relu=True).to(z.dtype), x
        )
