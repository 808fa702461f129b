# SPDX-License-Identifier: Apache-2.0
"""FactorVAE (Kim and Mnih 2018, eq. 2 and algorithm 1).

Departs, as disentanglement_lib does: the product of marginals is made by shuffling the same batch
that trains the VAE (the paper takes a second batch), and both networks are updated from one forward
pass. Unlike it, one step is one update of each network (its step counter runs twice as fast), and
the discriminator's probabilities are not clipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.networks.layers import dense
from unbraid.networks.layout import Layout, dense_weights
from unbraid.networks.network import layer
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.objective import AuxiliaryNetwork, Forward, Objective, Term

_HIDDEN = 1000
_LAYERS = 6
_LEAK = 0.2


class Discriminator(AuxiliaryNetwork):
    """Six dense layers of 1000 leaky ReLUs and two logits: joint samples, product of marginals."""

    learning_rate = 1e-4
    adam_betas = (0.5, 0.9)

    def layout(self, latents: int) -> Layout:
        """Weights in order of use."""
        weights = []
        for number_, inputs in enumerate([latents] + [_HIDDEN] * (_LAYERS - 1)):
            weights += dense_weights(f"dense{number_ + 1}", inputs, _HIDDEN)
        return Layout((*weights, *dense_weights("logits", _HIDDEN, 2)))

    def __call__(
        self, weights: dict[str, Tensor], z: Tensor, precision: torch.dtype | None = None
    ) -> Tensor:
        """Logits `(members, batch, 2)`; all layers but the last in *precision*."""
        hidden = z.to(precision or z.dtype)
        for number_ in range(_LAYERS):
            hidden = F.leaky_relu(dense(hidden, *layer(weights, f"dense{number_ + 1}")), _LEAK)
        return dense(hidden.to(z.dtype), *layer(weights, "logits"))


def shuffle_latents(z: Tensor, permutation: Tensor) -> Tensor:
    """Each latent of z `(members, rows, latents)` reordered by its own row of *permutation*."""
    return torch.gather(z, 1, permutation.mT)


@dataclass(frozen=True)
class FactorVAE(Objective):
    """Reconstruction + KL + γ total correlation, estimated by a discriminator."""

    gamma: Number = number(10.0, "weight of the total correlation", at_least=0)

    label = "FactorVAE"
    term_names = ("reconstruction", "kl", "total_correlation")
    reads_reconstruction = False
    permutes = True
    prior_kind = "factorised"
    strength = "gamma"
    citation = Citation(
        "Kim and Mnih", 2018, "Disentangling by factorising", "ICML, arXiv:1802.05983"
    )

    def auxiliary_network(self) -> AuxiliaryNetwork:
        """The discriminator between joint and shuffled latents."""
        return Discriminator()

    def auxiliary_input(self, forward: Forward) -> Tensor:
        """The batch's latents, and behind them the shuffled ones: one pass serves both losses."""
        assert forward.permutation is not None
        return torch.cat(
            [forward.z, shuffle_latents(forward.z.detach(), forward.permutation)], dim=1
        )

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, KL and the density-ratio estimate of the total correlation."""
        assert forward.auxiliary is not None
        logits, _ = forward.auxiliary.chunk(2, dim=1)
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(forward.kl()),
            "total_correlation": Term(logits[..., 0] - logits[..., 1], self.gamma),
        }

    def auxiliary_loss(self, forward: Forward) -> Tensor:
        """Cross-entropy of telling joint from shuffled latents, half of each."""
        assert forward.auxiliary is not None
        joint, product = F.log_softmax(forward.auxiliary, dim=-1).chunk(2, dim=1)
        return -0.5 * (joint[..., 0] + product[..., 1])
