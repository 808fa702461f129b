# SPDX-License-Identifier: Apache-2.0
"""A product of Student-t densities: independent latents with heavy tails, which no rotation leaves
as they are.

p(z) = Π_d t_ν(z_d) with ν degrees of freedom (Mathieu et al. 2019, section 6; their scripts take ν
= 9). Draws are exact, by Bailey's polar method (1994): sqrt(ν (u^(−2/ν) − 1)) cos 2πv of two
uniform numbers.

Departs: draws are cut off near 1e17, which one of less than 0.4 degrees of freedom can reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.priors.prior import Prior, per_member
from unbraid.objectives.schedule import Schedule

_LARGEST_EXPONENT = 80.0
"""Of a squared draw: float32 holds e^88."""


@dataclass(frozen=True)
class StudentT(Prior):
    """Independent latents with Student's t distribution: heavy tails, and no invariance to
    rotations.
    """

    df: Number = number(9.0, "degrees of freedom; the fewer, the heavier the tails", above=0)

    label = "Student-t"
    citation = Citation(
        "Mathieu et al.", 2019, "Disentangling disentanglement in variational autoencoders", "ICML"
    )

    @property
    def finite_variance(self) -> bool:
        """Only with more than 2 degrees of freedom, at every step where they are on a schedule."""
        return (
            min(self.df.start, self.df.end) > 2
            if isinstance(self.df, Schedule)
            else bool(self.df > 2)
        )

    def log_density(self, z: Tensor) -> Tensor:
        """Σ_d of log Γ((ν+1)/2) − log Γ(ν/2) − ½ log νπ − (ν+1)/2 log(1 + z²/ν)."""
        df = per_member(self.df, z)
        # Both logarithms grow as ν log ν and nearly cancel: float32 would keep nothing of the
        # difference.
        exact = df.to(torch.float64)
        constant = (
            torch.lgamma(0.5 * (exact + 1.0))
            - torch.lgamma(0.5 * exact)
            - 0.5 * torch.log(math.pi * exact)
        )
        return (constant.to(z.dtype) - 0.5 * (df + 1.0) * torch.log1p(z.square() / df)).sum(dim=-1)

    def sample(self, uniform: Tensor) -> Tensor:
        """By Bailey's polar method from the first two numbers."""
        angle = 2.0 * torch.pi * uniform[..., 1]
        df = per_member(self.df, angle)
        exponent = (-2.0 / df * torch.log(uniform[..., 0])).clamp(max=_LARGEST_EXPONENT)
        return torch.sqrt(df * torch.expm1(exponent)) * torch.cos(angle)
