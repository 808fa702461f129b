# SPDX-License-Identifier: Apache-2.0
"""A normal prior with a variance of its own for each latent, N(0, diag(v)) (Mathieu et al. 2019,
section 6).

The variances are given, or they are those of the data: `pca` takes the squared singular values s²
of the uncentred samples, a row each, and scales them to v_i = latents · s_i² / Σ s², largest first.
All are multiplied by `scale`. Where they are `learned`, v = scale · total · softmax(log v⁰ + w)
with the variances v⁰ at first, their sum total and weights w that start at 0: the sum stays what it
was, as in the authors' code, where it is scale · latents.

Departs: the authors keep the first latents of twenty singular values in whichever order the library
of the day returned them; ours are the largest ones, in descending order. They learn the softmax's
argument itself, ours is the deviation from its start, which is the same to Adam.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from unbraid.core.errors import Problem, Shown, invalid
from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset
from unbraid.data.statistics import principal_variances
from unbraid.networks.layout import Weight
from unbraid.objectives.hyper import Choice, Number, Vector, choice, number, vector
from unbraid.objectives.priors.prior import (
    Prior,
    normal_from_uniform,
    per_member,
    vector_per_member,
)

LEARNED = "prior.logvar"
"""Name of the learned deviations from the first log-variances."""
_PCA = "pca"
_NEGLIGIBLE = 1e-10
"""Squared singular values below this share of the largest are rounding errors of data that does not
fill its space.
"""


@dataclass(frozen=True)
class Anisotropic(Prior):
    """Independent normal latents with a variance each: given, from the principal components of the
    data, or learned.
    """

    variances: Vector = vector(
        "variance of each latent with slashes between (4/2/1), or pca for those of the data",
        default=_PCA,
        above=0,
        words=(_PCA,),
    )
    scale: Number = number(1.0, "multiplies all variances", above=0)
    learned: Choice = choice(
        "no", "whether the variances are learned, their sum kept", ("no", "yes")
    )

    label = "anisotropic"
    citation = Citation(
        "Mathieu et al.", 2019, "Disentangling disentanglement in variational autoencoders", "ICML"
    )

    def resolved(self, dataset: Dataset, latents: int) -> Self:
        """The variances of *dataset* in the place of `pca`, and where none are given."""
        if self.variances not in (_PCA, ()):
            return self
        squares = principal_variances(dataset, latents)
        usable = int((squares > _NEGLIGIBLE * squares.max(initial=0.0)).sum())
        if usable < latents:
            found = Shown(
                f"{latents} latents and {usable} principal components of '{dataset.name}'"
            )
            remedy = (
                f"Use at most {usable} latents, or give the variances."
                if usable
                else "Give the variances."
            )
            raise invalid(
                f"{self.key}: variances",
                "by pca needs a principal component for each latent",
                found,
                remedy,
            )
        return replace(self, variances=tuple((latents * squares / squares.sum()).tolist()))

    def problems(self, latents: int) -> list[Problem]:
        """There must be one variance for each latent."""
        given = self.variances
        if given in (_PCA, ()):
            rule = "must be numbers before training; the plan takes pca from its data"
            return [Problem(f"{self.key}: variances", rule, given, f"Give {latents} numbers.")]
        if len(given) == latents:
            return []
        return [
            Problem(
                f"{self.key}: variances",
                f"must be {latents} numbers, one for each latent",
                given,
                "Or use pca.",
            )
        ]

    def weights(self, latents: int) -> tuple[Weight, ...]:
        """The deviations from the first log-variances, where they are learned."""
        return (Weight(LEARNED, (latents,)),) if self.learned == "yes" else ()

    def log_variance(self, like: Tensor) -> Tensor:
        """Logarithms of the variances, ready to meet *like* `(members, n, latents)`."""
        first = vector_per_member(self.variances, like)
        logs = first.log()
        if self.learned == "yes":
            shares = torch.log_softmax(
                logs + vector_per_member(self.own_weights[LEARNED], like), dim=-1
            )
            logs = first.sum(dim=-1, keepdim=True).log() + shares
        return per_member(self.scale, like).log() + logs

    def log_density(self, z: Tensor) -> Tensor:
        """−½ Σ (z² / v + log v + log 2π)."""
        log_variance = self.log_variance(z)
        return -0.5 * (
            z.square() * torch.exp(-log_variance) + log_variance + math.log(2.0 * math.pi)
        ).sum(dim=-1)

    def sample(self, uniform: Tensor) -> Tensor:
        """Standard normal numbers times the standard deviations."""
        normal = normal_from_uniform(uniform)
        return torch.exp(0.5 * self.log_variance(normal)) * normal

    def kl(self, mean: Tensor, logvar: Tensor, z: Tensor) -> Tensor:
        """½ Σ ((μ² + σ²) / v − 1 − log σ² + log v) in closed form; z is not used."""
        log_variance = self.log_variance(mean)
        per_latent = (
            (mean.square() + logvar.exp()) * torch.exp(-log_variance) - 1.0 - logvar + log_variance
        )
        return 0.5 * per_latent.sum(dim=-1)
