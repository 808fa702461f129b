# SPDX-License-Identifier: Apache-2.0
"""All weights of a member as one row of numbers, for the optimiser, checkpoints and PBT."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from unbraid.core import random
from unbraid.core.errors import invalid


@dataclass(frozen=True)
class Weight:
    """One tensor of a network; zero fans mark one that starts at a constant, as a bias does."""

    name: str
    shape: tuple[int, ...]
    fan_in: int = 0
    fan_out: int = 0
    start: float = 0.0
    """What all its numbers are at first, where it has no fans."""
    limit: float = 0.0
    """Where the paper starts it uniform within ± this, in place of Glorot's range."""
    deviation: float = 0.0
    """Where the paper starts it normal with this standard deviation."""

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def gap(self) -> int:
        """Zeros after it in a row, up to where the next weight may start."""
        return -self.count % ALIGNMENT


def dense_weights(name: str, inputs: int, outputs: int) -> list[Weight]:
    """Weight and bias of a dense layer."""
    return [
        Weight(f"{name}.weight", (inputs, outputs), inputs, outputs),
        Weight(f"{name}.bias", (outputs,)),
    ]


def conv_weights(name: str, inputs: int, outputs: int, kernel: int) -> list[Weight]:
    """Weight and bias of a stride-2 convolution; channels last, as the activations are."""
    area = kernel * kernel
    shape = (outputs, kernel, kernel, inputs)
    return [
        Weight(f"{name}.weight", shape, area * inputs, area * outputs),
        Weight(f"{name}.bias", (outputs,)),
    ]


def conv_transpose_weights(name: str, inputs: int, outputs: int) -> list[Weight]:
    """Weight and bias of a 4x4 stride-2 transposed convolution."""
    return [
        Weight(f"{name}.weight", (inputs, 4, 4, outputs), 16 * inputs, 16 * outputs),
        Weight(f"{name}.bias", (outputs,)),
    ]


def starts_of_torch(weights: Sequence[Weight], transposed: str = "") -> list[Weight]:
    """The same weights, starting as torch's own layers do: uniform within 1/√fan in, biases too.

    Of a transposed convolution torch takes the other fan: those are the layers whose names begin
    with *transposed*.
    """
    limits = {}
    for weight in weights:
        if weight.fan_in > 0:
            turned = transposed and weight.name.startswith(transposed)
            limits[weight.name.removesuffix(".weight")] = 1.0 / math.sqrt(
                weight.fan_out if turned else weight.fan_in
            )
    return [
        (
            replace(weight, limit=limits[layer])
            if (layer := weight.name.rpartition(".")[0]) in limits
            else weight
        )
        for weight in weights
    ]


INITIALISATIONS = ("xavier_normal",)
"""By which weights may start in place of their network's own rule, Glorot-uniform for the published
ones. `xavier_normal` (Glorot and Bengio 2010; the code of Michlo et al. 2023): normal, of the
variance 2 / (fan in + fan out) that the uniform one has too.
"""


def _xavier_normal(weight: Weight) -> Weight:
    if weight.fan_in > 0:
        deviation = math.sqrt(2.0 / (weight.fan_in + weight.fan_out))
        return replace(weight, limit=0.0, deviation=deviation)
    return replace(weight, limit=0.0)


ALIGNMENT = 16
"""Weights start at multiples of so many numbers, so that a GPU can load them 16 bytes at a time in
any precision.
"""
_FEW = 4096
"""Weights with fewer numbers (biases, heads) lie together at the end of a row, where one launch
reaches them all.
"""


@dataclass(frozen=True)
class Layout:
    """Where each weight lies in a member's row; gaps between weights hold zeros."""

    weights: tuple[Weight, ...]
    added: tuple[Weight, ...] = ()
    """Weights beside the network's own, behind them in a row: the network's own layout reads such
    rows too.
    """

    def with_more(self, added: Sequence[Weight]) -> Layout:
        """The same layout with more weights behind its own."""
        return replace(self, weights=(*self.weights, *added), added=(*self.added, *added))

    def starting(self, initialisation: str) -> Layout:
        """The same layout, all of whose weights with fans start by *initialisation*.

        Their biases start at 0. Empty leaves every weight as its network has it.
        """
        if not initialisation:
            return self
        if initialisation not in INITIALISATIONS:
            rule = f"must be {' or '.join(INITIALISATIONS)}, or left out for the network's own"
            raise invalid("initialisation", rule, initialisation)
        weights, added = (
            tuple(_xavier_normal(weight) for weight in part) for part in (self.weights, self.added)
        )
        return replace(self, weights=weights, added=added)

    @cached_property
    def stored(self) -> tuple[Weight, ...]:
        """The weights in the order in which they lie in a row."""
        return tuple(sorted(self.weights, key=self._is_small))

    def _is_small(self, weight: Weight) -> bool:
        """Whether *weight* lies with the small ones at the end; what was added always does."""
        return weight.count < _FEW or weight in self.added

    @cached_property
    def starts(self) -> dict[str, int]:
        """Where each weight begins, by name, in the order in which they lie."""
        starts, end = {}, 0
        for weight in self.stored:
            starts[weight.name] = end
            end += weight.count + weight.gap
        return starts

    @cached_property
    def size(self) -> int:
        """The length of a member's row."""
        return sum(weight.count + weight.gap for weight in self.weights)

    @property
    def count(self) -> int:
        """How many weights a member has."""
        return sum(weight.count for weight in self.weights)

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Named views `(members, *shape)` into *rows* `(members, size)`."""
        return {
            weight.name: (
                rows.narrow(1, self.starts[weight.name], weight.count).view(
                    rows.shape[0], *weight.shape
                )
            )
            for weight in self.weights
        }

    def rows(self, tensors: Sequence[Tensor] | Mapping[str, Tensor]) -> Tensor:
        """The inverse of `views`: one row per member from tensors in order, or by name."""
        return self._join(self.stored, self._by_name(tensors))

    def parts(self, tensors: Sequence[Tensor] | Mapping[str, Tensor]) -> list[tuple[int, Tensor]]:
        """The same in parts with where they start in a row.

        Large weights stay as they are; the small ones are joined.
        """
        named = self._by_name(tensors)
        large = [
            (self.starts[weight.name], named[weight.name])
            for weight in self.stored
            if not self._is_small(weight)
        ]
        small = [weight for weight in self.stored if self._is_small(weight)]
        return large + ([(self.starts[small[0].name], self._join(small, named))] if small else [])

    def _by_name(self, tensors: Sequence[Tensor] | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        if isinstance(tensors, Mapping):
            return tensors
        return {weight.name: tensor for weight, tensor in zip(self.weights, tensors, strict=True)}

    def _join(self, weights: Sequence[Weight], named: Mapping[str, Tensor]) -> Tensor:
        pieces = []
        for weight in weights:
            tensor = named[weight.name]
            pieces.append(tensor.flatten(1))
            if weight.gap:
                pieces.append(tensor.new_zeros(tensor.shape[0], weight.gap))
        return torch.cat(pieces, dim=1)

    def initial(self, seed: Tensor, stream: random.Stream) -> Tensor:
        """Fresh rows `(members, size)`: Glorot-uniform weights, constant biases.

        As disentanglement_lib's, through tf.layers.

        A weight that says otherwise starts as it says.
        """
        rows = torch.zeros(len(seed), self.size, device=seed.device)
        for number, (weight, values) in enumerate(
            zip(self.weights, self.views(rows).values(), strict=True)
        ):
            if weight.deviation:
                values.copy_(random.normal(seed, number, stream, weight.shape) * weight.deviation)
            elif weight.limit or weight.fan_in > 0:
                limit = weight.limit or math.sqrt(6.0 / (weight.fan_in + weight.fan_out))
                values.copy_(
                    (2.0 * random.uniform(seed, number, stream, weight.shape) - 1.0) * limit
                )
            elif weight.start:
                values.fill_(weight.start)
        return rows
