# SPDX-License-Identifier: Apache-2.0
"""AnnealedVAE (Burgess et al. 2018, eq. 8): the KL is drawn to a capacity that grows. Departs: none
with the linear ramp.

The distance is taken after the mean over the batch, |E KL − C|, as in disentanglement_lib.

A trap: the larger γ, the more its term alone decides Adam's steps, and capacity is filled without
being used. Sprites of 16 x 16 pixels, dense network, 15,000 steps, two seeds: at C = 16 nats the
reconstruction error is 9.8, 12.2 and 16.2 nats with γ = 10, 100 and 1000 (in bfloat16 9.3, 12.2 and
15.8); β = 1 reaches 13.2 with a KL of 4.5. On dSprites the study locatello2019 sees as much with
γ = 1000.

The cyclic ramp is ours: the capacity follows the cycles by which Fu et al. (2019) raise β, so that
latents are emptied and filled again. A cycle lasts `ramp_steps`, the capacity grows in its first
half and then stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Choice, Number, choice, number
from unbraid.objectives.objective import Forward, Objective, Term

RAMPS = ("linear", "cyclic")
_RISING = 0.5
"""The share of a cycle in which the capacity grows: R in Fu et al. 2019."""


def capacity_nats(
    step: torch.Tensor,
    max_capacity: float | torch.Tensor,
    steps: float | torch.Tensor,
    ramp: str = "linear",
) -> torch.Tensor:
    """C(t) = max_capacity · min(t / steps, 1); with the cyclic *ramp* max_capacity · min((t mod
    steps) / (steps / 2), 1).
    """
    if ramp == "cyclic":
        return max_capacity * torch.clamp(torch.remainder(step, steps) / (_RISING * steps), max=1.0)
    return max_capacity * torch.clamp(step / steps, max=1.0)


@dataclass(frozen=True)
class AnnealedVAE(Objective):
    """Reconstruction + γ |KL − C(t)|, with C growing to a maximum, once or in cycles."""

    max_capacity: Number = number(
        25.0, "capacity in nats reached at the end of the ramp (C_max)", at_least=0
    )
    gamma: Number = number(1000.0, "weight of the distance between KL and capacity", at_least=0)
    ramp_steps: Number = number(
        100_000, "steps until the capacity is reached, or of a whole cycle", at_least=1
    )
    ramp: Choice = choice("linear", "whether the capacity grows once or in cycles", RAMPS)

    label = "AnnealedVAE"
    term_names = ("reconstruction", "kl", "capacity_gap")
    reads_reconstruction = False
    strength = "max_capacity"
    citation = Citation(
        "Burgess et al.", 2018, "Understanding disentangling in β-VAE", "arXiv:1804.03599"
    )

    def remarks(self, steps: int) -> list[str]:
        """Told where the training is shorter than the ramp."""
        needed = self.ramp_steps * (0.5 if self.ramp == "cyclic" else 1.0)
        if (
            not all(isinstance(one, float) for one in (self.ramp_steps, self.max_capacity))
            or steps >= needed
        ):
            return super().remarks(steps)
        reached = self.max_capacity * steps / needed
        told = (
            f"{self.key}: the capacity reaches {reached:g} of {self.max_capacity:g} nats in"
            f" {steps:,} steps"
        )
        return [*super().remarks(steps), f"{told}; ramp_steps is {self.ramp_steps:g}"]

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, the KL (for the record) and its distance from the capacity."""
        kl = forward.kl()
        gap = (
            kl.mean(dim=1)
            - capacity_nats(forward.step, self.max_capacity, self.ramp_steps, self.ramp)
        ).abs()
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(kl, 0.0),
            "capacity_gap": Term(gap, self.gamma),
        }
