# SPDX-License-Identifier: Apache-2.0
"""Wasserstein autoencoder with the MMD (Tolstikhin et al. 2018, algorithm 2): codes without noise,
jointly drawn to the prior.

    reconstruction + λ MMD²(q(z), p),      k(z, z') = Σ_s C / (C + ‖z − z'‖²),   C = 2 D σ² s

with D latents, the prior's variance σ² and s in 0.1, 0.2, 0.5, 1, 2, 5, 10, by the paper's unbiased
estimate, which is negative now and then. 2 D σ² is the mean squared distance of two points of the
prior.

λ is 10 in the authors' settings; their code multiplies the squared error by 0.05, so that next to a
plain sum of squares the same is λ = 200. Departs: the encoder is deterministic and gets no noise on
its inputs, and its moments are not fitted to the prior's before training (`e_pretrain`).
"""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.core.registry import Citation
from unbraid.objectives.divergences import inverse_multiquadratic, mmd
from unbraid.objectives.hyper import Number, number
from unbraid.objectives.objective import Forward, Objective, Term
from unbraid.objectives.priors.prior import per_member

SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Multiples s of the kernel's constant 2 D σ², as in the authors' code."""


@dataclass(frozen=True)
class WAE(Objective):
    """Reconstruction + λ MMD between codes without noise and the prior."""

    penalty: Number = number(10.0, "weight of the MMD between codes and prior (λ)", at_least=0)
    prior_deviation: Number = number(
        1.0,
        "standard deviation σ of a latent under the prior, which sets the kernel's width",
        above=0,
    )

    label = "WAE-MMD"
    term_names = ("reconstruction", "mmd")
    reads_reconstruction = False
    strength = "penalty"
    samples_latents = False
    needs_prior_points = True
    citation = Citation(
        "Tolstikhin et al.", 2018, "Wasserstein auto-encoders", "ICLR, arXiv:1711.01558"
    )

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, and MMD weighted by λ."""
        assert forward.prior_points is not None
        kernel = inverse_multiquadratic([2.0 * forward.z.shape[2] * scale for scale in SCALES])
        # Members differ in σ but share the kernel: dividing points by σ is the same as multiplying
        # C by σ².
        deviation = per_member(self.prior_deviation, forward.z)
        return {
            "reconstruction": Term(forward.reconstruction),
            "mmd": Term(
                mmd(forward.z / deviation, forward.prior_points / deviation, kernel), self.penalty
            ),
        }
