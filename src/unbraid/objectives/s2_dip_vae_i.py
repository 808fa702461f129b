# SPDX-License-Identifier: Apache-2.0
"""DIP-VAE-I with a few labels (Locatello et al. 2020). Departs: as `dip_vae_i` and
`semi_supervised` say.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.objectives.dip_vae_i import DIPVAEI
from unbraid.objectives.objective import Forward, Term
from unbraid.objectives.semi_supervised import SemiSupervised


@dataclass(frozen=True)
class S2DIPVAEI(SemiSupervised, DIPVAEI):
    """DIP-VAE-I + γ_sup distance from a few labels."""

    label = "S2-DIP-VAE-I"
    term_names = (*DIPVAEI.term_names, "supervised")

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Those of DIP-VAE-I, and the distance from the labels."""
        return super().terms(forward) | self.supervised(forward)
