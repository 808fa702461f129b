# SPDX-License-Identifier: Apache-2.0
"""An encoder that learns from a few labels alone, and a decoder that shows what it encodes (the
baseline of Locatello et al. 2020).

The decoder sees latents that send no gradient back, so the encoder never learns from unlabelled
images; there is no KL, and the supervised term has no weight, since the two terms share no network
weights and Adam does not see the scale of a loss. Departs: the decoder gets the posterior means.
disentanglement_lib draws latents with the variances of an encoder head that nothing trains, which
adds noise of about the size that its first weights happen to give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from unbraid.objectives.objective import Forward, Term
from unbraid.objectives.semi_supervised import FewLabels


@dataclass(frozen=True)
class Supervised(FewLabels):
    """Distance from a few labels; the decoder learns beside the encoder and does not change it."""

    label = "supervised"
    term_names = ("reconstruction", "supervised")
    samples_latents = False
    prior_kind = "none"

    def latents(
        self, mean: Tensor, logvar: Tensor, noise: Tensor, weights: Mapping[str, Tensor]
    ) -> Tensor:
        """The posterior means, cut off from the encoder."""
        return mean.detach()

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, which teaches the decoder, and the distance from the labels, which
        teaches the encoder.
        """
        return {
            "reconstruction": Term(forward.reconstruction),
            "supervised": Term(self.supervised_loss(forward)),
        }
