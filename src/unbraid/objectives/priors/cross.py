# SPDX-License-Identifier: Apache-2.0
"""A cross: one latent at a time is long, the others are near 0 (Mathieu et al. 2019, figure of the
three overlaps, which draws such a prior in the plane).

p(z) = (1/D) Σ_d N(z_d; 0, length²) Π_{e≠d} N(z_e; 0, width²): with probability 1/D a point lies on
the arm along latent d. Unlike spike and slab (`sparse`) it never has two long latents at once, so
its latents depend on each other.

Departs: the paper draws the cross and gives no density; this one is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.core.errors import Problem
from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.priors.prior import Prior, normal_from_uniform, per_member


@dataclass(frozen=True)
class Cross(Prior):
    """Normal arms along the axes: one latent is long, all others are narrow."""

    length: Number = number(1.0, "standard deviation along an arm", above=0)
    width: Number = number(0.1, "standard deviation across it", above=0)

    label = "cross"
    factorised = False
    citation = Citation(
        "Mathieu et al.", 2019, "Disentangling disentanglement in variational autoencoders", "ICML"
    )

    def problems(self, latents: int) -> list[Problem]:
        """A single arm is no cross."""
        if latents >= 2:
            return []
        rule = "needs at least 2 latents, one for each arm"
        remedy = "Train with more latents, or use the prior isotropic."
        return [Problem(self.key, rule, latents, remedy)]

    def log_density(self, z: Tensor) -> Tensor:
        """Log of the mean over arms of normal densities."""
        length, width = per_member(self.length, z), per_member(self.width, z)
        along = -0.5 * (z / length).square() - torch.log(length)
        across = -0.5 * (z / width).square() - torch.log(width)
        arms = across.sum(dim=-1, keepdim=True) + along - across
        latents = z.shape[-1]
        return arms.logsumexp(dim=-1) - math.log(latents) - 0.5 * latents * math.log(2 * math.pi)

    def sample(self, uniform: Tensor) -> Tensor:
        """An arm by the first latent's third number, and normal numbers along and across it."""
        normal = normal_from_uniform(uniform)
        latents = normal.shape[-1]
        arm = (uniform[..., 0, 2] * latents).to(torch.int64).clamp(0, latents - 1)
        length, width = per_member(self.length, normal), per_member(self.width, normal)
        return torch.where(F.one_hot(arm, latents).bool(), length, width) * normal
