# SPDX-License-Identifier: Apache-2.0
"""QLAE, the quantised-latent autoencoder (Hsu et al. 2023, section 3): every latent takes one of a
few learned values.

Each latent j has a codebook of its own, V_j, that starts as `values` numbers evenly from −1/2 to
1/2. The encoder's output z_j becomes the nearest of them, v_j, and the decoder gets z + sg(v − z):
gradients pass straight through to the encoder. The loss is

    reconstruction + λ_q Σ_j (sg(z_j) − v_j)² + λ_c Σ_j (z_j − sg(v_j))²

where sg stops the gradient: the first term moves the codebooks alone and the second one the
encoder. A strong weight decay (AdamW's, 0.1) makes the network use codes parsimoniously. A member's
representation is made of quantised codes.

The authors' code has 10 values, λ_q = λ_c = 0.01 and *means* over pixels and latents; next to our
sums that is 0.01 · pixels / latents, the defaults 4 for 64x64 black and white images and 10
latents. For the authors' own numbers on other data give `quantisation = commitment = 0.01` with the
convention "mean". They train with a learning rate of 1e-3, a batch of 128 and two latents for each
factor. Departs: no clipping of gradients to ±1; the decay reaches biases, too; the decoder is the
plan's and not one that is modulated by the latents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.networks.layout import Weight
from unbraid.objectives.hyper import Count, Number, count, number
from unbraid.objectives.objective import Forward, Objective, Setting, Term

CODEBOOK = "objective.codebook"


def codebook_values(deviations: Tensor) -> Tensor:
    """Codebooks `(members, latents, values)` from what is learned: deviations from even spacing
    between −1/2 and 1/2.
    """
    even = torch.linspace(
        -0.5, 0.5, deviations.shape[-1], dtype=deviations.dtype, device=deviations.device
    )
    return even + deviations


def nearest_values(z: Tensor, codebooks: Tensor) -> Tensor:
    """The value of each latent's codebook that is nearest to it: `(members, n, latents)` as *z*;
    gradients reach the codebooks.
    """
    distance = (z.detach().unsqueeze(3) - codebooks.detach().unsqueeze(1)).abs()
    chosen = distance.argmin(dim=3, keepdim=True) == torch.arange(
        codebooks.shape[2], device=z.device
    )
    # A masked sum, where a gather would add up gradients on a GPU in an order that changes from run
    # to run.
    return torch.where(chosen, codebooks.unsqueeze(1), 0.0).sum(dim=3)


@dataclass(frozen=True)
class QLAE(Objective):
    """Reconstruction + λ_q quantisation + λ_c commitment, with latents rounded to learned values
    and strong weight decay.
    """

    values: Count = count(10, "values that a latent can take", at_least=2)
    quantisation: Number = number(
        4.0, "how fast codebooks follow the encoder (λ_q)", at_least=0, per_latent=True
    )
    commitment: Number = number(
        4.0, "how strongly the encoder keeps to the codebooks (λ_c)", at_least=0, per_latent=True
    )
    weight_decay: Number = number(
        0.1,
        "share of the network's weights, times the learning rate, taken away by a step",
        at_least=0,
    )

    label = "QLAE"
    term_names = ("reconstruction", "quantisation", "commitment")
    reads_reconstruction = False
    strength = "weight_decay"
    samples_latents = False
    prior_kind = "none"
    citation = Citation(
        "Hsu et al.", 2023, "Disentanglement via latent quantization", "NeurIPS, arXiv:2305.18378"
    )

    def weights(self, setting: Setting) -> tuple[Weight, ...]:
        """What each codebook deviates from even spacing by: zero at first."""
        return (Weight(CODEBOOK, (setting.latents, self.values)),)

    @property
    def decay(self) -> float | Tensor:
        """The weight decay of AdamW."""
        return self.weight_decay

    def latents(
        self, mean: Tensor, logvar: Tensor, noise: Tensor, weights: Mapping[str, Tensor]
    ) -> Tensor:
        """Nearest values, with the gradient of the encoder's output."""
        nearest = nearest_values(mean, codebook_values(weights[CODEBOOK]))
        return mean + (nearest - mean).detach()

    def representation(
        self, mean: Tensor, logvar: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Quantised codes."""
        return nearest_values(mean, codebook_values(weights[CODEBOOK])), logvar

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, and the two halves of the distance between codes and codebooks."""
        nearest = nearest_values(forward.mean, codebook_values(forward.weights[CODEBOOK]))
        return {
            "reconstruction": Term(forward.reconstruction),
            "quantisation": Term(
                (forward.mean.detach() - nearest).square().sum(dim=2), self.quantisation
            ),
            "commitment": Term(
                (forward.mean - nearest.detach()).square().sum(dim=2), self.commitment
            ),
        }
