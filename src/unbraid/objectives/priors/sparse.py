# SPDX-License-Identifier: Apache-2.0
"""Spike and slab: latents that are mostly near 0 (Mathieu et al. 2019, section 6).

p(z) = Π_d [(1 − γ) N(z_d; 0, 1) + γ N(z_d; 0, spike²)]: a latent is off with probability γ. γ = 0
is the standard normal prior. Departs: none; the defaults are those of their Fashion-MNIST
experiment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.priors.prior import Prior, normal_from_uniform, per_member


@dataclass(frozen=True)
class Sparse(Prior):
    """Independent latents, each from a narrow spike at 0 with probability γ and standard normal
    otherwise.
    """

    gamma: Number = number(0.8, "probability that a latent is in the spike", at_least=0, at_most=1)
    spike: Number = number(0.05, "standard deviation of the spike", above=0)

    label = "sparse"
    citation = Citation(
        "Mathieu et al.", 2019, "Disentangling disentanglement in variational autoencoders", "ICML"
    )

    def log_density(self, z: Tensor) -> Tensor:
        """Σ_d log of the two weighted normal densities' sum; a weight of 0 drops its density."""
        gamma, spike = per_member(self.gamma, z), per_member(self.spike, z)
        square = z.square()
        slab = torch.log1p(-gamma) - 0.5 * square
        narrow = torch.log(gamma) - torch.log(spike) - 0.5 * square / spike.square()
        return (torch.logaddexp(slab, narrow) - 0.5 * math.log(2.0 * math.pi)).sum(dim=-1)

    def sample(self, uniform: Tensor) -> Tensor:
        """Normal numbers, those whose third number is at most γ scaled to the spike."""
        normal = normal_from_uniform(uniform)
        gamma, spike = per_member(self.gamma, normal), per_member(self.spike, normal)
        return torch.where(uniform[..., 2] <= gamma, spike, 1.0) * normal
