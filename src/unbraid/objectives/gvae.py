# SPDX-License-Identifier: Apache-2.0
"""GVAE on pairs that come with a label (Hosoya 2019; disentanglement_lib's GroupVAELabels).

A pair of images differs in a few factors, and the label is the number of the last one that was
changed. The latent of that number keeps its own posterior in each image; all other latents get the
average of the two (`pair_averaging.py`). The loss is the mean over both images of reconstruction +
β KL, the KL taken after averaging.

Departs: Hosoya learns from larger groups and splits the latents once and for all; pairs, and a
latent for each factor, are as in disentanglement_lib. One factor changes unless told otherwise,
since the label names only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.objectives import pair_averaging
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.objective import choice, count, number
from unbraid.objectives.pairs import RULES, PairRule


@dataclass(frozen=True)
class GVAE(BetaVAE):
    """β-VAE on labelled pairs whose images share all latents but the changed one, averaged
    arithmetically.
    """

    beta: float = number(1.0, "weight of the KL divergence", at_least=0, per_latent=True)
    pair_rule: str = choice(
        "locatello",
        "how many factors of a pair change: one or k by a coin (locatello), or k (michlo)",
        RULES,
    )
    changed_factors: int = count(1, "k, how many factors of a pair change; 0 draws it", at_least=0)

    label = "GVAE"
    prior_kind = "factorised"
    citation = Citation(
        "Hosoya",
        2019,
        "Group-based learning of disentangled representations with generalizability for novel"
        " contents",
        "IJCAI, arXiv:1809.02383",
    )
    labelled: ClassVar[bool] = True
    """Whether the method is told which factor changed."""

    @property
    def pairs(self) -> PairRule:
        """How the second image is drawn."""
        return PairRule(self.pair_rule, self.changed_factors, named=self.labelled)

    def posterior(
        self, mean: Tensor, logvar: Tensor, changed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The encoder's posteriors where a latent changed, and the average of the pair's two
        elsewhere.
        """
        return pair_averaging.share(mean, logvar, self.own(mean, logvar, changed), self.average)

    def own(self, mean: Tensor, logvar: Tensor, changed: Tensor | None) -> Tensor:
        """Which latents keep their own posteriors: bool `(members, pairs, latents)`."""
        assert changed is not None
        return pair_averaging.latent_of_factor(changed, mean.shape[-1])

    def average(
        self, mean: Tensor, logvar: Tensor, other_mean: Tensor, other_logvar: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The posterior that the two images share."""
        return pair_averaging.arithmetic_average(mean, logvar, other_mean, other_logvar)
