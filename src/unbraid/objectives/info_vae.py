# SPDX-License-Identifier: Apache-2.0
"""InfoVAE (Zhao et al. 2019, eq. 6 with the MMD as divergence): how much a latent may tell is set
apart from its law.

    reconstruction + (1 − α) KL(q(z|x) || p) + (α + λ − 1) MMD²(q(z), p)

α = 0 and λ = 1 is the VAE, α = 1 the MMD-VAE, and α = 1 − λ the β-VAE with β = λ. With α above 1
the first divergence would be rewarded without bound, with α + λ below 1 the second one would be
driven up; both are refused.

The kernel is the one in the authors' code, exp(−‖z − z'‖² / D²) for D latents; `bandwidth`
multiplies D². λ = 50 and α = 0 are the defaults of that code, whose reconstruction is a sum over
pixels as ours is. Departs: the MMD is the unbiased estimate, where the authors' means count each
point with itself, too; with a batch of n their value is larger by up to 2 / n, a constant, and the
part of the gradient that keeps latents apart smaller by the factor 1 − 1 / n. Read in the code and
not in the paper: the kernel's width and the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.core.errors import Problem, Shown
from unbraid.core.registry import Citation
from unbraid.objectives.divergences import mmd
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.objective import Forward, Objective, Setting, Term
from unbraid.objectives.priors.prior import Prior, per_member
from unbraid.objectives.schedule import bounds


def gaussian_kernel(squared: Tensor) -> Tensor:
    """Similarity exp(−d²) of two points by their squared distance."""
    return torch.exp(-squared)


@dataclass(frozen=True)
class InfoVAE(Objective):
    """Reconstruction + (1 − α) KL + (α + λ − 1) MMD between all latents and the prior."""

    alpha: Number = number(
        0.0,
        "how much the information that latents carry is favoured; 1 takes the KL away",
        at_most=1,
    )
    lambda_prior: Number = number(
        50.0, "how strongly the law of all latents is drawn to the prior (λ)", at_least=0
    )
    bandwidth: Number = number(
        1.0, "squared width of the kernel, in units of latents squared", above=0
    )

    label = "InfoVAE"
    term_names = ("reconstruction", "kl", "mmd")
    reads_reconstruction = False
    strength = "lambda_prior"
    needs_prior_points = True
    citation = Citation(
        "Zhao et al.",
        2019,
        "InfoVAE: balancing learning and inference in variational autoencoders",
        "AAAI, arXiv:1706.02262",
    )

    def problems(self, setting: Setting, prior: Prior) -> list[Problem]:
        """Also whether the MMD is pushed down and not up."""
        found = super().problems(setting, prior)
        if bounds(self.alpha)[0] + bounds(self.lambda_prior)[0] < 1:
            told = Shown(f"alpha {self.alpha} and lambda_prior {self.lambda_prior}")
            remedy = "Below 1 latents would be rewarded for leaving the prior."
            found.append(
                Problem(f"{self.key}: alpha + lambda_prior", "must be at least 1", told, remedy)
            )
        return found

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, KL weighted by 1 − α, MMD weighted by α + λ − 1."""
        assert forward.prior_points is not None
        latents = forward.z.shape[2]
        width = latents * per_member(self.bandwidth, forward.z).sqrt()
        gap = mmd(forward.z / width, forward.prior_points / width, gaussian_kernel)
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(forward.kl(), 1.0 - self.alpha),
            "mmd": Term(gap, self.alpha + self.lambda_prior - 1.0),
        }
