# SPDX-License-Identifier: Apache-2.0
"""Which latents the two images of a pair share, and the Gaussian posterior that they share.

Sharing is decided for each pair and latent. With labels, every latent is shared but the one that
bears the number of the factor that changed. Without (Locatello et al. 2020, section 4): of the
divergences δ_d between the two posteriors of latent d, those with

    δ_d − min δ ≥ threshold · (max δ − min δ)

belong to latents that changed and keep their own posterior; threshold 1/2 parts the range in two
equal bins, as disentanglement_lib's histogram does. No gradient flows through this decision. The
latent that differs most always keeps its own, and so do all of them where all δ are equal (a pair
of equal images, or a single latent), which that histogram leaves undefined.

The shared posterior is one of three averages:

- arithmetic (GVAE; Hosoya 2019): means of the means and of the variances;
- harmonic (ML-VAE; Bouchacourt et al. 2018), as disentanglement_lib computes it: the variance is 2
  v₁ v₂ / (v₁ + v₂), twice that of the paper's product of the two densities, so that two equal
  posteriors stay what they are; the mean is the product's;
- second: the mean of the variances with the second image's mean, which disent 0.3.0 to 0.5.0 took
  for the arithmetic one by mistake (its issue 32), and so probably Michlo et al. (2023).

All tensors are `(members, pairs, latents)`. Variances are averaged by their logarithms, which
neither overflow nor vanish.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unbraid.objectives.priors.prior import per_member

Average = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Means and log-variances of first and second images to those that they share."""


def kl(mean: Tensor, logvar: Tensor, other_mean: Tensor, other_logvar: Tensor) -> Tensor:
    """KL(N(mean, exp logvar) || N(other_mean, exp other_logvar)) of each latent in nats."""
    ratio = logvar - other_logvar
    return 0.5 * (
        ratio.exp() + (mean - other_mean).square() * torch.exp(-other_logvar) - 1.0 - ratio
    )


def symmetric_kl(mean: Tensor, logvar: Tensor, other_mean: Tensor, other_logvar: Tensor) -> Tensor:
    """The mean of the KL divergences both ways, of each latent in nats."""
    return 0.5 * (
        kl(mean, logvar, other_mean, other_logvar) + kl(other_mean, other_logvar, mean, logvar)
    )


DIVERGENCES = {"kl": kl, "symmetric_kl": symmetric_kl}


def latents_that_differ(divergence: Tensor, threshold: float | Tensor) -> Tensor:
    """Where a divergence is at least *threshold* of the way from the pair's least to its largest.

    *threshold* is a number in 0..1, or one for each member. At 0 every latent counts as different,
    at 1 only the largest.
    """
    least, most = divergence.aminmax(dim=-1, keepdim=True)
    # Distances from the least on both sides: rounding then never pushes the largest below its own
    # threshold.
    return divergence - least >= per_member(threshold, divergence) * (most - least)


def latent_of_factor(changed: Tensor, latents: int) -> Tensor:
    """Where a latent bears the number of the *changed* factor: `(members, pairs, latents)`."""
    return changed.unsqueeze(-1) == torch.arange(latents, device=changed.device)


def arithmetic_average(
    mean: Tensor, logvar: Tensor, other_mean: Tensor, other_logvar: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean of the means, and log of the mean of the variances."""
    return 0.5 * (mean + other_mean), torch.logaddexp(logvar, other_logvar) - math.log(2.0)


def harmonic_average(
    mean: Tensor, logvar: Tensor, other_mean: Tensor, other_logvar: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean of the means weighted by precision, and log of the harmonic mean of the variances."""
    weight = torch.sigmoid(other_logvar - logvar)  # of the first: v₂ / (v₁ + v₂)
    return weight * mean + (1.0 - weight) * other_mean, math.log(2.0) - torch.logaddexp(
        -logvar, -other_logvar
    )


def second_average(
    mean: Tensor, logvar: Tensor, other_mean: Tensor, other_logvar: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean of the second image, and log of the mean of the variances."""
    return other_mean, arithmetic_average(mean, logvar, other_mean, other_logvar)[1]


AVERAGES: dict[str, Average] = {
    "arithmetic": arithmetic_average,
    "harmonic": harmonic_average,
    "second": second_average,
}


def share(mean: Tensor, logvar: Tensor, own: Tensor, average: Average) -> tuple[Tensor, Tensor]:
    """Posteriors `(members, 2 pairs, latents)` with the average wherever not *own*.

    Second images lie behind the first. *own* `(members, pairs, latents)` says which latents of a
    pair keep their posteriors.
    """
    own = own.repeat(1, 2, 1)
    shared = average(*first_and_second(mean, logvar))
    kept = [
        torch.where(own, part, both.repeat(1, 2, 1))
        for part, both in zip((mean, logvar), shared, strict=True)
    ]
    return kept[0], kept[1]


def first_and_second(mean: Tensor, logvar: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and log-variance of the first images, then of the second: the rows cut in halves."""
    (mean, other_mean), (logvar, other_logvar) = mean.chunk(2, dim=1), logvar.chunk(2, dim=1)
    return mean, logvar, other_mean, other_logvar
