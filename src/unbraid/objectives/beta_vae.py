# SPDX-License-Identifier: Apache-2.0
"""β-VAE (Higgins et al. 2017, eq. 4). Departs: none."""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.objective import Forward, Objective, Term


@dataclass(frozen=True)
class BetaVAE(Objective):
    """Reconstruction + β KL."""

    beta: Number = number(4.0, "weight of the KL divergence", at_least=0, per_latent=True)

    label = "β-VAE"
    term_names = ("reconstruction", "kl")
    reads_reconstruction = False
    strength = "beta"
    citation = Citation(
        "Higgins et al.",
        2017,
        "β-VAE: learning basic visual concepts with a constrained variational framework",
        "ICLR",
    )

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, and KL weighted by β."""
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(forward.kl(), self.beta),
        }
