# SPDX-License-Identifier: Apache-2.0
"""β-TCVAE with a few labels (Locatello et al. 2020). Departs: as `beta_tcvae` and `semi_supervised`
say.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.objectives.beta_tcvae import BetaTCVAE
from unbraid.objectives.objective import Forward, Term
from unbraid.objectives.semi_supervised import SemiSupervised


@dataclass(frozen=True)
class S2BetaTCVAE(SemiSupervised, BetaTCVAE):
    """Reconstruction + KL + (β − 1) total correlation + γ_sup distance from a few labels."""

    label = "S2-β-TCVAE"
    term_names = (*BetaTCVAE.term_names, "supervised")

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Those of β-TCVAE, and the distance from the labels."""
        return super().terms(forward) | self.supervised(forward)
