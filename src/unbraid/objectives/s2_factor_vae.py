# SPDX-License-Identifier: Apache-2.0
"""FactorVAE with a few labels (Locatello et al. 2020).

As in disentanglement_lib the discriminator never sees labelled images. Departs: as `factor_vae` and
`semi_supervised` say.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.objectives.factor_vae import FactorVAE
from unbraid.objectives.objective import Forward, Term
from unbraid.objectives.semi_supervised import SemiSupervised


@dataclass(frozen=True)
class S2FactorVAE(SemiSupervised, FactorVAE):
    """Reconstruction + KL + γ total correlation + γ_sup distance from a few labels."""

    label = "S2-FactorVAE"
    term_names = (*FactorVAE.term_names, "supervised")

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Those of FactorVAE, and the distance from the labels."""
        return super().terms(forward) | self.supervised(forward)
