# SPDX-License-Identifier: Apache-2.0
"""Any network on samples brought to mean 0 and standard deviation 1 by channel, as Michlo et al.
2023 train theirs.

The constants are those of the data, not of a batch. The network inside sees (x - mean) / std, and
its output is compared with that: a squared error is measured in standard deviations. What `decode`
returns is back in the units of the samples.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unbraid.core.checks import is_finite
from unbraid.core.citations import MICHLO_2023
from unbraid.core.errors import Problem, Problems
from unbraid.networks.layout import Layout
from unbraid.networks.network import Comparison, Network, Weights
from unbraid.networks.plain_layers import ByChannel, PlainNetwork


@dataclass(frozen=True)
class Standardised(Network):
    """A network on standardised samples: one mean and std for all values or for each channel."""

    network: Network
    mean: tuple[float, ...]
    std: tuple[float, ...]

    citation = MICHLO_2023

    def __post_init__(self) -> None:
        """Check the constants; a single number is kept as one channel."""
        problems = Problems()
        for name in ("mean", "std"):
            given = getattr(self, name)
            values: tuple[Any, ...] = (
                tuple(given)
                if isinstance(given, Sequence) and not isinstance(given, str)
                else (given,)
            )
            if not values or not all(map(is_finite, values)):
                problems.add(name, "must be a finite number, or one for each channel", given)
            elif name == "std" and min(values) <= 0:
                problems.add(
                    name, "must be above 0", given, "Leave out channels that never change."
                )
            else:
                object.__setattr__(self, name, tuple(float(value) for value in values))
        problems.raise_if_any()
        if len(self.mean) != len(self.std):
            problems.add("std", f"must have as many values as mean, {len(self.mean)}", self.std)
        problems.raise_if_any()

    def problems(self, sample_shape: tuple[int, ...]) -> list[Problem]:
        """What the network inside says, and whether the constants fit the channels."""
        found = self.network.problems(sample_shape)
        if len(self.mean) > 1 and (len(sample_shape) != 3 or sample_shape[0] != len(self.mean)):
            rule = f"must be one number, or one for each channel of samples of shape {sample_shape}"
            found = [*found, Problem("mean", rule, self.mean)]
        return found

    @property
    def uses_columns(self) -> bool:
        """As the network inside."""
        return self.network.uses_columns

    @property
    def decodes_scale(self) -> bool:
        """As the network inside."""
        return self.network.decodes_scale

    @property
    def lowers_precision(self) -> bool:
        """As the network inside."""
        return self.network.lowers_precision

    def layout(self, sample_shape: tuple[int, ...], latents: int) -> Layout:
        """The weights of the network inside; the constants are none."""
        return self.network.layout(sample_shape, latents)

    def standardise(self, x: Tensor) -> Tensor:
        """Samples as the network inside sees them; made once for encoder and decoder."""
        mean, std = self._constants(x)
        if x.requires_grad or torch.is_inference_mode_enabled() or x.is_inference():
            return (x - mean) / std
        made = getattr(x, "unbraid_standardised", None)
        if made is not None and made[:3] == (x._version, self.mean, self.std):
            return made[3]
        standardised = (x - mean) / std
        x.unbraid_standardised = (x._version, self.mean, self.std, standardised)  # type: ignore[attr-defined]
        return standardised

    def encode(
        self, weights: Weights, x: Tensor, precision: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the standardised samples."""
        return self.network.encode(weights, self.standardise(x), precision)

    def decode(
        self,
        weights: Weights,
        z: Tensor,
        sample_shape: tuple[int, ...],
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """Raw outputs in the units of the samples."""
        raw = self.network.decode(weights, z, sample_shape, precision)
        mean, std = self._constants(raw)
        return raw * std + mean

    def compare(
        self,
        weights: Weights,
        z: Tensor,
        x: Tensor,
        likelihood: Comparison,
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """Negative log-likelihood of the standardised samples, in one kernel where there is one."""
        return self.network.compare(weights, z, self.standardise(x), likelihood, precision)

    def plain(self, weights: Weights, sample_shape: tuple[int, ...]) -> PlainNetwork | None:
        """The layers of the network inside between the two changes of units."""
        inside = self.network.plain(weights, sample_shape)
        if inside is None or inside.input is not None:
            return None
        copies = sample_shape[0] // len(self.mean)
        mean, std = self.mean * copies, self.std * copies
        to_inside = ByChannel(
            tuple(1.0 / s for s in std), tuple(-m / s for m, s in zip(mean, std, strict=True))
        )
        return replace(inside, input=to_inside, output=ByChannel(std, mean))

    def _constants(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and std that broadcast over *like* `(members, batch, *sample_shape)`."""
        shape = (-1, 1, 1) if len(self.mean) > 1 else ()
        return tuple(
            _constant(values, shape, like.device, like.dtype) for values in (self.mean, self.std)
        )  # type: ignore[return-value]


@functools.cache
def _constant(
    values: tuple[float, ...], shape: tuple[int, ...], device: torch.device, dtype: torch.dtype
) -> Tensor:
    """The values on *device*, copied there once: a captured step cannot ask the host."""
    with torch.inference_mode(False):  # a derivative may need it later, whoever asked first
        return torch.tensor(values, dtype=dtype, device=device).reshape(shape)
