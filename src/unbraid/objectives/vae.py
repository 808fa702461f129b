# SPDX-License-Identifier: Apache-2.0
"""Variational autoencoder (Kingma and Welling 2014, eq. 10; Rezende et al. 2014). Departs: none."""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.core.registry import Citation
from unbraid.objectives.objective import Forward, Objective, Term


@dataclass(frozen=True)
class VAE(Objective):
    """The negative evidence lower bound: reconstruction + KL."""

    label = "VAE"
    term_names = ("reconstruction", "kl")
    reads_reconstruction = False
    citation = Citation(
        "Kingma and Welling", 2014, "Auto-encoding variational Bayes", "ICLR, arXiv:1312.6114"
    )

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction and KL, equally weighted."""
        return {"reconstruction": Term(forward.reconstruction), "kl": Term(forward.kl())}
