# SPDX-License-Identifier: Apache-2.0
"""Importance-weighted autoencoder (Burda, Grosse and Salakhutdinov 2016, section 3): a tighter
bound from K latents an image.

−log (1/K) Σ_k w_k with w_k = p(x|z_k) p(z_k) / q(z_k|x). K = 1 is the VAE with its KL divergence
estimated at the draw; the bound falls to −log p(x) as K grows. What is minimised is the term
`bound`. `reconstruction` and `kl` are means over the K latents, recorded with weight 0 to be seen
beside it; their sum is the K = 1 bound.

Departs: none. The gradient is the paper's, through the draws, weighted by w_k / Σ w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Count, count
from unbraid.objectives.objective import Forward, Objective, Term


@dataclass(frozen=True)
class IWAE(Objective):
    """Minus the importance-weighted bound on log p(x) from several latents an image."""

    importance_samples: Count = count(5, "latents drawn for each image", at_least=1, at_most=10_000)

    label = "IWAE"
    term_names = ("bound", "reconstruction", "kl")
    citation = Citation(
        "Burda, Grosse, and Salakhutdinov",
        2016,
        "Importance weighted autoencoders",
        "ICLR, arXiv:1509.00519",
    )

    @property
    def samples(self) -> int:
        """As many latents an image as are asked for."""
        return self.importance_samples

    def terms(self, forward: Forward) -> dict[str, Term]:
        """The bound, and beside it reconstruction and KL averaged over the latents of an image."""
        samples = forward.samples
        mean, logvar = (
            part.repeat_interleave(samples, dim=1) for part in (forward.mean, forward.logvar)
        )
        log_ratio = forward.prior.kl_by_draws(mean, logvar, forward.z)

        def by_image(value: Tensor) -> Tensor:
            return value.unflatten(1, (-1, samples))

        bound = math.log(samples) - by_image(-forward.reconstruction - log_ratio).logsumexp(dim=2)
        return {
            "bound": Term(bound),
            "reconstruction": Term(by_image(forward.reconstruction.detach()).mean(dim=2), 0.0),
            "kl": Term(by_image(log_ratio.detach()).mean(dim=2), 0.0),
        }
