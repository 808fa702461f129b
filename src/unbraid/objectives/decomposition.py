# SPDX-License-Identifier: Apache-2.0
"""Decomposition (Mathieu et al. 2019, section 5): −E_q[log p(x|z)] + β KL(q(z|x) || p(z)) + α
D(q(z), p(z)).

β sets how much the posteriors of different samples overlap, α how closely all of them together
follow the prior, whose structure is the decomposition that is wanted: clusters, sparsity, axes of
unequal length. D is one of

- `kl_inclusive`: KL(p || q), estimated from prior points and the batch's posteriors;
- `mmd`: the maximum mean discrepancy of each latent by itself, summed over latents, between prior
  points and the batch's latents;
- `mmd_joint`: that of all latents together.

All three in `divergences.py`. β = 0 and α = 0 together leave an autoencoder with noise.

Departs: the authors' loss is a sum over the batch; ours is the mean, where α and β weigh the same.
Their Adam has AMSGrad, which is a choice here (`unbraid train --amsgrad`). Their code has no
`mmd_joint`, and their `mmd` does not move learned variances of the prior, which ours does.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unbraid.core.registry import Citation
from unbraid.objectives.divergences import inclusive_kl, mmd, mmd_by_latent
from unbraid.objectives.hyper import Choice, Number, choice, number
from unbraid.objectives.objective import Forward, Objective, Term
from unbraid.objectives.priors.prior import Prior


@dataclass(frozen=True)
class Decomposition(Objective):
    """Reconstruction + β KL + α D(q(z), p(z)): overlap and prior structure on a knob each."""

    beta: Number = number(
        1.0, "weight of the KL divergence, which sets the overlap", at_least=0, per_latent=True
    )
    alpha: Number = number(
        1.0, "weight of the divergence between all latents and the prior", at_least=0
    )
    divergence: Choice = choice(
        "kl_inclusive", "how that divergence is measured", ("kl_inclusive", "mmd", "mmd_joint")
    )

    label = "decomposition"
    term_names = ("reconstruction", "kl", "divergence")
    reads_reconstruction = False
    needs_prior_points = True
    strength = "alpha"
    citation = Citation(
        "Mathieu et al.", 2019, "Disentangling disentanglement in variational autoencoders", "ICML"
    )

    def refuses(self, prior: Prior) -> str:
        """Marginals do not show what a prior of dependent latents is for; an inclusive KL from one
        without variance is infinite.
        """
        if self.divergence == "mmd" and not prior.factorised:
            rule = (
                "must have independent latents where divergence=mmd, which compares one latent at a"
                " time"
            )
            return f"{rule} (kl_inclusive and mmd_joint compare them together)"
        if self.divergence == "kl_inclusive" and not prior.finite_variance:
            rule = (
                "must have a finite variance where divergence=kl_inclusive, which is infinite"
                " otherwise"
            )
            return f"{rule} (student_t has one with df above 2; mmd needs none)"
        return super().refuses(prior)

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, KL weighted by β, divergence weighted by α."""
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(forward.kl(), self.beta),
            "divergence": Term(self._divergence(forward), self.alpha),
        }

    def _divergence(self, forward: Forward) -> Tensor:
        """D(q(z), p(z)): `(members, batch)` at each prior point, or `(members,)`."""
        assert forward.prior_points is not None
        if self.divergence == "kl_inclusive":
            return inclusive_kl(forward.prior_points, forward.prior, forward.mean, forward.logvar)
        measure = mmd if self.divergence == "mmd_joint" else mmd_by_latent
        return measure(forward.z, forward.prior_points)
