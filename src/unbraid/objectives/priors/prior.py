# SPDX-License-Identifier: Apache-2.0
"""The contract of a prior: its density, draws from it, and the KL divergence of Gaussian posteriors
from it.

A prior is a frozen dataclass of hyperparameters, stacked over members as an objective is: in
training its numbers are tensors `(members,)` and its vectors `(members, length)`. Latents come as
`(members, n, latents)`. `unbraid.testing.prior_contract` checks all that training relies on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from unbraid.core.errors import Problem
from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset
from unbraid.networks.layout import Weight
from unbraid.objectives.hyper import Configured
from unbraid.objectives.latent_terms import gaussian_log_density
from unbraid.objectives.priors import PRIORS

UNIFORMS = 3
"""Uniform numbers that `sample` gets for each latent of a point: enough for two normal numbers'
worth and a choice.
"""


@dataclass(frozen=True)
class Prior(Configured):
    """A distribution of the latents."""

    registry = PRIORS
    citation: ClassVar[Citation]
    label: ClassVar[str]
    factorised: ClassVar[bool] = True
    """Whether latents are independent under it."""
    standard: ClassVar[bool] = False
    """Whether it is the standard normal distribution."""
    own_weights: ClassVar[Mapping[str, Tensor]] = {}
    """What holds its learned numbers, by name `(members, *shape)`; set by `bound`."""

    @property
    def finite_variance(self) -> bool:
        """Whether the latents have a variance under it, without which its KL divergence from
        Gaussians is infinite.
        """
        return True

    def weights(self, latents: int) -> tuple[Weight, ...]:
        """Numbers of it that are learned with the network, by names that start with `prior.`."""
        return ()

    def bound(self, weights: Mapping[str, Tensor]) -> Self:
        """The same prior with its learned numbers taken from *weights*."""
        copy = object.__new__(type(self))
        for name, value in (*vars(self).items(), ("own_weights", weights)):
            object.__setattr__(copy, name, value)
        return copy

    def resolved(self, dataset: Dataset, latents: int) -> Self:
        """The same prior with numbers in the place of words that only the data can turn into
        numbers.
        """
        return self

    def problems(self, latents: int) -> list[Problem]:
        """Why it cannot be the prior of so many latents; empty when it can."""
        return []

    @abstractmethod
    def log_density(self, z: Tensor) -> Tensor:
        """Log p(z) in nats, `(members, n)`, of z `(members, n, latents)`."""

    @abstractmethod
    def sample(self, uniform: Tensor) -> Tensor:
        """Points `(members, n, latents)` from uniform numbers in (0, 1), `(members, n, latents,
        UNIFORMS)`.
        """

    def kl(self, mean: Tensor, logvar: Tensor, z: Tensor) -> Tensor:
        """KL(N(mean, exp logvar) || p) in nats, `(members, n)`: by one draw z unless a subclass
        knows it in closed form.
        """
        return self.kl_by_draws(mean, logvar, z)

    def kl_by_draws(self, mean: Tensor, logvar: Tensor, z: Tensor) -> Tensor:
        """The Monte Carlo estimate log q(z|x) − log p(z) at each z."""
        return gaussian_log_density(z, mean, logvar).sum(dim=-1) - self.log_density(z)


def per_member(value: Any, like: Tensor) -> Tensor:
    """A number, or a tensor `(members,)` of them, ready to meet *like* `(members, n, latents)`."""
    tensor = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    return tensor.reshape(-1, *([1] * (like.dim() - 1))) if tensor.dim() else tensor


def vector_per_member(value: Any, like: Tensor) -> Tensor:
    """A vector `(latents,)`, or a tensor `(members, latents)` of them, ready to meet *like*
    `(members, n, latents)`.
    """
    tensor = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    return tensor.unsqueeze(-2) if tensor.dim() > 1 else tensor


def normal_from_uniform(uniform: Tensor) -> Tensor:
    """Standard normal numbers from two uniform ones each, `(..., 2 or more) -> (...)`, by Box and
    Muller (1958).
    """
    radius = torch.sqrt(-2.0 * torch.log(uniform[..., 0]))
    return radius * torch.cos(2.0 * torch.pi * uniform[..., 1])
