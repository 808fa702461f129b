# SPDX-License-Identifier: Apache-2.0
"""β-TCVAE (Chen et al. 2018, eq. 4 with α = γ = 1).

Departs: the minibatch-weighted estimate drops its additive constant, as in disentanglement_lib, so
the recorded total correlation is shifted downwards; gradients do not change.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.latent_terms import minibatch_total_correlation
from unbraid.objectives.objective import Forward, Objective, Term


@dataclass(frozen=True)
class BetaTCVAE(Objective):
    """Reconstruction + KL + (β − 1) total correlation, estimated on the batch."""

    beta: Number = number(6.0, "weight of the total correlation; 1 gives the VAE", at_least=0)

    label = "β-TCVAE"
    term_names = ("reconstruction", "kl", "total_correlation")
    reads_reconstruction = False
    prior_kind = "factorised"
    strength = "beta"
    citation = Citation(
        "Chen et al.",
        2018,
        "Isolating sources of disentanglement in variational autoencoders",
        "NeurIPS",
    )

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, KL and the shifted total correlation."""
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(forward.kl()),
            "total_correlation": Term(
                minibatch_total_correlation(forward.z, forward.mean, forward.logvar),
                self.beta - 1.0,
            ),
        }
