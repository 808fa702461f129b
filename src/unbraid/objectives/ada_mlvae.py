# SPDX-License-Identifier: Apache-2.0
"""Ada-ML-VAE (Locatello et al. 2020, section 4).

Ada-GVAE (`ada_gvae.py`) with the harmonic average of ML-VAE. Departs, as disentanglement_lib does,
in the variance of the shared posterior, which is twice that of the product of densities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from unbraid.objectives.ada_gvae import AdaGVAE
from unbraid.objectives.supervision.pairs import Pairs


@dataclass(frozen=True)
class AdaMLVAE(AdaGVAE):
    """β-VAE on pairs whose images share the latents that hardly differ, averaged by precision."""

    label = "Ada-ML-VAE"

    @property
    def supervision(self) -> Pairs:
        """Those of Ada-GVAE, averaged by precision."""
        return replace(super().supervision, average="harmonic")
