# SPDX-License-Identifier: Apache-2.0
"""The standard normal prior (Kingma and Welling 2014, section 3). Departs: none."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.objectives.latent_terms import gaussian_kl
from unbraid.objectives.priors.prior import Prior, normal_from_uniform


@dataclass(frozen=True)
class Isotropic(Prior):
    """Independent latents with mean 0 and variance 1."""

    label = "isotropic"
    standard = True
    citation = Citation(
        "Kingma and Welling", 2014, "Auto-encoding variational Bayes", "ICLR, arXiv:1312.6114"
    )

    def log_density(self, z: Tensor) -> Tensor:
        """−½ Σ (z² + log 2π)."""
        return -0.5 * (z.square() + math.log(2.0 * math.pi)).sum(dim=-1)

    def sample(self, uniform: Tensor) -> Tensor:
        """Standard normal numbers."""
        return normal_from_uniform(uniform)

    def kl(self, mean: Tensor, logvar: Tensor, z: Tensor) -> Tensor:
        """In closed form; z is not used."""
        return gaussian_kl(mean, logvar)


STANDARD = Isotropic()
