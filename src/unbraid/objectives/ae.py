# SPDX-License-Identifier: Apache-2.0
"""Plain autoencoder: reconstruction alone, no noise, no prior (the control of Zietlow et al. 2021,
table 1). Departs: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.core.registry import Citation
from unbraid.objectives.objective import Forward, Objective, Term


@dataclass(frozen=True)
class AE(Objective):
    """Reconstruction alone: the encoder's mean is decoded, its variance is not used."""

    label = "AE"
    term_names = ("reconstruction",)
    reads_reconstruction = False
    samples_latents = False
    prior_kind = "none"
    citation = Citation(
        "Hinton and Salakhutdinov",
        2006,
        "Reducing the dimensionality of data with neural networks",
        "Science 313",
    )

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction only."""
        return {"reconstruction": Term(forward.reconstruction)}
