# SPDX-License-Identifier: Apache-2.0
"""DIP-VAE-I (Kumar et al. 2018, eq. 6): the covariance of the posterior means is drawn to the
identity. Departs: none.

λ_d is given as a multiple of λ_od, as in disentanglement_lib's study (10 for type I).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.latent_terms import batch_covariance, dip_penalty
from unbraid.objectives.objective import Forward, Objective, Term


@dataclass(frozen=True)
class DIPVAEI(Objective):
    """Reconstruction + KL + λ_od Σ C_ij² + λ_d Σ (C_ii − 1)², C the covariance of the means."""

    lambda_od: Number = number(5.0, "weight of the off-diagonal covariances", at_least=0)
    lambda_d_factor: Number = number(
        10.0, "weight of the variances' distance from 1, as a multiple of lambda_od", at_least=0
    )

    label = "DIP-VAE-I"
    term_names = ("reconstruction", "kl", "moment_penalty")
    reads_reconstruction = False
    prior_kind = "standard"
    strength = "lambda_od"
    citation = Citation(
        "Kumar et al.",
        2018,
        "Variational inference of disentangled latent concepts from unlabeled observations",
        "ICLR",
    )

    def covariance(self, forward: Forward) -> Tensor:
        """The matrix that is drawn to the identity."""
        return batch_covariance(forward.mean)

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, KL and the penalty on the covariance."""
        penalty = dip_penalty(
            self.covariance(forward), self.lambda_od, self.lambda_od * self.lambda_d_factor
        )
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(forward.kl()),
            "moment_penalty": Term(penalty),
        }
