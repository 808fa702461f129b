# SPDX-License-Identifier: Apache-2.0
"""ML-VAE on pairs with a label (Bouchacourt et al. 2018; disentanglement_lib's MLVaeLabels).

GVAE (`gvae.py`) with the harmonic average: precise posteriors count for more. Departs as GVAE does,
and as disentanglement_lib does in the variance of the shared posterior, which is twice that of the
paper's product of densities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from unbraid.core.registry import Citation
from unbraid.objectives.gvae import GVAE
from unbraid.objectives.supervision.pairs import Pairs


@dataclass(frozen=True)
class MLVAE(GVAE):
    """β-VAE on labelled pairs that share all latents but one, averaged by precision."""

    label = "ML-VAE"
    citation = Citation(
        "Bouchacourt, Tomioka and Nowozin",
        2018,
        "Multi-level variational autoencoder: learning disentangled representations from grouped"
        " observations",
        "AAAI, arXiv:1705.08841",
    )

    @property
    def supervision(self) -> Pairs:
        """Those of GVAE, averaged by precision."""
        return replace(super().supervision, average="harmonic")
