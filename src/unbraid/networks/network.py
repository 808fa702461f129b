# SPDX-License-Identifier: Apache-2.0
"""What every network offers; weights come in by name with a member axis, so it holds no state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor

from unbraid.core.errors import Problem
from unbraid.core.registry import Citation
from unbraid.networks.layout import Layout

if TYPE_CHECKING:
    from unbraid.networks.plain_layers import PlainNetwork

Weights = Mapping[str, Tensor]


class Comparison(Protocol):
    """What a network needs to know of a likelihood: its function, and its kernel's name."""

    @property
    def by_scale(self) -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
        """Raw outputs, scales and samples to distances, where the decoder gives scales."""
        ...

    @property
    def distance(self) -> str:
        """Name of the distance, for networks that compute it together with their last layer."""
        ...

    @property
    def negative_log(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Raw outputs and samples `(members, batch, ...)` to distances `(members, batch)`."""
        ...


class TrainedWeights(dict[str, Tensor]):
    """Weights in training, with what a pass leaves beside gradients (running means).

    A layer that behaves otherwise in training asks whether its weights are of this kind. What it
    writes to `notes`, by the name of a weight, takes that weight's place when the step is done;
    such weights get no gradient.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__(weights)
        self.notes: dict[str, Tensor] = {}


def layer(weights: Weights, name: str) -> tuple[Tensor, Tensor]:
    """Weight and bias of the layer called *name*."""
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


_PASSES = {"encode", "decode", "_before_image", "_last"}
"""Methods that compute what plain layers must compute as well."""


@dataclass(frozen=True)
class Network(ABC):
    """An encoder to Gaussian posteriors and a decoder back; fields are its options."""

    citation: ClassVar[Citation]

    def __init_subclass__(cls, **options: Any) -> None:
        """A class that computes something of its own has only the plain layers it tells itself."""
        super().__init_subclass__(**options)
        if "plain" not in vars(cls) and _PASSES & vars(cls).keys():
            cls.plain = Network.plain

    def problems(self, sample_shape: tuple[int, ...]) -> list[Problem]:
        """Why samples of this shape cannot be taken, each with its remedy; empty when they can."""
        return []

    @abstractmethod
    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """The weights for samples of this shape and so many latents."""

    @abstractmethod
    def encode(
        self, weights: Weights, x: Tensor, precision: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and log-variance `(members, batch, latents)` of samples.

        Samples are `(members, batch, *sample_shape)`.

        *precision* is that of the heavy layers; the small ones, and so the latents, keep that of
        the weights.
        """

    @abstractmethod
    def decode(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """Raw outputs (logits for a Bernoulli likelihood) of z `(members, batch, latents)`.

        They are `(members, batch, *sample_shape)`.
        """

    def compare(
        self,
        weights: Weights,
        z: Tensor,
        x: Tensor,
        likelihood: Comparison,
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """Negative log-likelihood `(members, batch)` of x given z.

        x is `(members, batch, *sample_shape)`.
        """
        return likelihood.negative_log(self.decode(weights, z, tuple(x.shape[2:]), precision), x)

    def plain(self, weights: Weights, sample_shape: tuple[int, ...]) -> PlainNetwork | None:
        """The same network as plain layers with one member's weights, each `(1, *shape)`.

        None where nobody has said what its layers are, or samples are no images.
        """
        return None

    @property
    def uses_columns(self) -> bool:
        """Whether a GPU holds the columns of im2col in memory, for want of a kernel."""
        return False

    @property
    def decodes_scale(self) -> bool:
        """Whether the decoder gives a scale beside the mean of each value."""
        return False

    @property
    def lowers_precision(self) -> bool:
        """Whether `encode` and `decode` follow *precision*; else they keep the weights' own."""
        return True

    def options(self) -> dict[str, object]:
        """The options as stored in a plan."""
        return {item.name: getattr(self, item.name) for item in fields(self)}
