# SPDX-License-Identifier: Apache-2.0
"""GVAE on pairs that come with a label (Hosoya 2019; disentanglement_lib's GroupVAELabels).

A pair of images differs in a few factors, and the label is the number of the last one that was
changed. The latent of that number keeps its own posterior in each image; all other latents get the
average of the two (`supervision/pairs.py`). The loss is the mean over both images of
reconstruction + β KL, the KL taken after averaging.

Departs: Hosoya learns from larger groups and splits the latents once and for all; pairs, and a
latent for each factor, are as in disentanglement_lib. By default one factor changes, since the
label names only one.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.core.registry import Citation
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.hyper import Choice, Count, Number, choice, count, number
from unbraid.objectives.supervision.pairs import RULES, Pairs


@dataclass(frozen=True)
class GVAE(BetaVAE):
    """β-VAE on labelled pairs that share the average of all latents but the changed one."""

    beta: Number = number(1.0, "weight of the KL divergence", at_least=0, per_latent=True)
    pair_rule: Choice = choice(
        "locatello",
        "how many factors of a pair change: one or k by a coin (locatello), or k (michlo)",
        RULES,
    )
    changed_factors: Count = count(
        1, "k, how many factors of a pair change; 0 draws it", at_least=0
    )

    label = "GVAE"
    prior_kind = "factorised"
    citation = Citation(
        "Hosoya",
        2019,
        "Group-based learning of disentangled representations with generalizability for novel"
        " contents",
        "IJCAI, arXiv:1809.02383",
    )

    @property
    def supervision(self) -> Pairs:
        """Pairs whose changed factor is named."""
        return Pairs(which="named", rule=self.pair_rule, changed_factors=self.changed_factors)
