# SPDX-License-Identifier: Apache-2.0
"""β-VAE with a few labels (Locatello et al. 2020). Departs: as `beta_vae` and `semi_supervised`
say.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.objective import Forward, Term
from unbraid.objectives.semi_supervised import SemiSupervised


@dataclass(frozen=True)
class S2BetaVAE(SemiSupervised, BetaVAE):
    """Reconstruction + β KL + γ_sup distance from a few labels."""

    label = "S2-β-VAE"
    term_names = (*BetaVAE.term_names, "supervised")

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Those of β-VAE, and the distance from the labels."""
        return super().terms(forward) | self.supervised(forward)
