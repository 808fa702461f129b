# SPDX-License-Identifier: Apache-2.0
"""All weights of a member as one row of numbers: what the optimiser, checkpoints and population-based training act on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unbraid import random


@dataclass(frozen=True)
class Weight:
    """One tensor of a network. Zero fans mark a bias, which starts at zero."""

    name: str
    shape: tuple[int, ...]
    fan_in: int = 0
    fan_out: int = 0


def dense_weights(name: str, inputs: int, outputs: int) -> list[Weight]:
    """Weight and bias of a dense layer."""
    return [Weight(f"{name}.weight", (inputs, outputs), inputs, outputs), Weight(f"{name}.bias", (outputs,))]


def halve_weights(name: str, inputs: int, outputs: int, kernel: int) -> list[Weight]:
    """Weight and bias of a stride-2 convolution."""
    area = kernel * kernel
    shape = (outputs, inputs, kernel, kernel)
    return [Weight(f"{name}.weight", shape, area * inputs, area * outputs), Weight(f"{name}.bias", (outputs,))]


def double_weights(name: str, inputs: int, outputs: int) -> list[Weight]:
    """Weight and bias of a 4x4 stride-2 transposed convolution."""
    return [Weight(f"{name}.weight", (inputs, outputs, 4, 4), 16 * inputs, 16 * outputs), Weight(f"{name}.bias", (outputs,))]


@dataclass(frozen=True)
class Layout:
    """Where each weight lies in a member's row."""

    weights: tuple[Weight, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Start of each weight in the row, and the row's length at the end."""
        ends = [0]
        for weight in self.weights:
            ends.append(ends[-1] + math.prod(weight.shape))
        return tuple(ends)

    @property
    def size(self) -> int:
        """How many numbers a member has."""
        return self.offsets[-1]

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Named views `(members, *shape)` into *rows* `(members, size)`."""
        return {
            weight.name: rows[:, start:end].view(rows.shape[0], *weight.shape)
            for weight, start, end in zip(self.weights, self.offsets, self.offsets[1:], strict=False)
        }

    def rows(self, tensors: Sequence[Tensor] | Mapping[str, Tensor]) -> Tensor:
        """The inverse of `views`: one row a member from tensors in this order, or by name."""
        ordered = [tensors[weight.name] for weight in self.weights] if isinstance(tensors, Mapping) else tensors
        return torch.cat([tensor.reshape(tensor.shape[0], -1) for tensor in ordered], dim=1)

    def initial(self, seed: Tensor, stream: random.Stream) -> Tensor:
        """Glorot-uniform weights and zero biases `(members, size)` (disentanglement_lib's, through tf.layers)."""
        drawn = []
        for number, weight in enumerate(self.weights):
            if weight.fan_in == 0:
                drawn.append(torch.zeros(len(seed), math.prod(weight.shape), device=seed.device))
                continue
            limit = math.sqrt(6.0 / (weight.fan_in + weight.fan_out))
            unit = random.uniform(seed, number, stream, (math.prod(weight.shape),))
            drawn.append((2.0 * unit - 1.0) * limit)
        return torch.cat(drawn, dim=1)
