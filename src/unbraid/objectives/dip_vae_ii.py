# SPDX-License-Identifier: Apache-2.0
"""DIP-VAE-II (Kumar et al. 2018, eq. 7): the covariance of the sampled latents is drawn to the
identity. Departs: none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.objectives.dip_vae_i import DIPVAEI
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.objective import Forward


@dataclass(frozen=True)
class DIPVAEII(DIPVAEI):
    """Reconstruction + KL + λ_od Σ C_ij² + λ_d Σ (C_ii − 1)², C the covariance of the sampled
    latents.
    """

    lambda_d_factor: Number = number(
        1.0, "weight of the variances' distance from 1, as a multiple of lambda_od", at_least=0
    )

    label = "DIP-VAE-II"

    def covariance(self, forward: Forward) -> Tensor:
        """Covariance of the means plus the mean posterior variances on the diagonal."""
        return super().covariance(forward) + torch.diag_embed(forward.logvar.exp().mean(dim=1))
