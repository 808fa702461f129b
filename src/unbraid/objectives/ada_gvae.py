# SPDX-License-Identifier: Apache-2.0
"""Ada-GVAE (Locatello et al. 2020, section 4).

GVAE without labels: which latents changed is guessed for each pair from how far apart its two
posteriors are (`supervision/pair_averaging.py`). How many factors change is drawn for each pair.

`divergence` kl is the paper's and disentanglement_lib's, from the first image to the second;
symmetric_kl is what Michlo et al. (2023) use. `threshold` is 1/2 in both. β = 1 is the evidence
lower bound; the study of Locatello et al. sweeps 1 to 16. Departs: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.objectives.gvae import GVAE
from unbraid.objectives.hyper import Choice, Count, Number, choice, count, number
from unbraid.objectives.supervision.pair_averaging import DIVERGENCES
from unbraid.objectives.supervision.pairs import Pairs


@dataclass(frozen=True)
class AdaGVAE(GVAE):
    """β-VAE on pairs whose images share the latents that hardly differ, averaged arithmetically."""

    changed_factors: Count = count(
        0, "k, how many factors of a pair change; 0 draws it", at_least=0
    )
    divergence: Choice = choice(
        "kl", "how the two posteriors of a latent are compared", tuple(DIVERGENCES)
    )
    threshold: Number = number(
        0.5,
        "share of the divergences' range below which a latent is averaged",
        at_least=0,
        at_most=1,
    )

    label = "Ada-GVAE"
    citation = Pairs.citation

    @property
    def supervision(self) -> Pairs:
        """Pairs whose changed latents are guessed."""
        return Pairs(
            rule=self.pair_rule,
            changed_factors=self.changed_factors,
            divergence=self.divergence,
            threshold=self.threshold,
        )
