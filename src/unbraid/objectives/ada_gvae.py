# SPDX-License-Identifier: Apache-2.0
"""Ada-GVAE (Locatello et al. 2020, section 4).

GVAE without labels: which latents changed is guessed for each pair from how far apart its two
posteriors are (`pair_averaging.latents_that_differ`). How many factors change is drawn for each
pair.

`divergence` kl is the paper's and disentanglement_lib's, from the first image to the second;
symmetric_kl is what Michlo et al. (2023) use. `threshold` is 1/2 in both. β = 1 is the evidence
lower bound; the study of Locatello et al. sweeps 1 to 16. Departs: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.objectives import pair_averaging
from unbraid.objectives.gvae import GVAE
from unbraid.objectives.objective import choice, count, number


@dataclass(frozen=True)
class AdaGVAE(GVAE):
    """β-VAE on pairs whose images share the latents that hardly differ, averaged arithmetically."""

    changed_factors: int = count(0, "k, how many factors of a pair change; 0 draws it", at_least=0)
    divergence: str = choice(
        "kl", "how the two posteriors of a latent are compared", tuple(pair_averaging.DIVERGENCES)
    )
    threshold: float = number(
        0.5,
        "share of the divergences' range below which a latent is averaged",
        at_least=0,
        at_most=1,
    )

    label = "Ada-GVAE"
    labelled = False
    citation = Citation(
        "Locatello et al.",
        2020,
        "Weakly-supervised disentanglement without compromises",
        "ICML, arXiv:2002.02886",
    )

    def own(self, mean: Tensor, logvar: Tensor, changed: Tensor | None) -> Tensor:
        """Which latents keep their own posteriors, a decision without gradient: bool `(members,
        pairs, latents)`.
        """
        halves = pair_averaging.first_and_second(mean.detach(), logvar.detach())
        return pair_averaging.latents_that_differ(
            pair_averaging.DIVERGENCES[self.divergence](*halves), self.threshold
        )
