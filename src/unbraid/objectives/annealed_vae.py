# SPDX-License-Identifier: Apache-2.0
"""AnnealedVAE (Burgess et al. 2018, eq. 8): the KL is drawn to a capacity that grows linearly. Departs: none.

The distance is taken after the mean over the batch, |E KL − C|, as in disentanglement_lib.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unbraid.objectives.objective import Forward, Objective, Term, number
from unbraid.registry import Citation


def capacity_nats(step: torch.Tensor, max_capacity: float | torch.Tensor, steps: float | torch.Tensor) -> torch.Tensor:
    """C(t) = min(max_capacity, max_capacity · t / steps)."""
    return max_capacity * torch.clamp(step / steps, max=1.0)


@dataclass(frozen=True)
class AnnealedVAE(Objective):
    """Reconstruction + γ |KL − C(t)|, with C growing linearly to a maximum."""

    max_capacity: float = number(25.0, "capacity in nats reached at the end of the ramp (C_max)", at_least=0)
    gamma: float = number(1000.0, "weight of the distance between KL and capacity", at_least=0)
    ramp_steps: float = number(100_000, "steps until the capacity is reached", at_least=1)

    label = "AnnealedVAE"
    term_names = ("reconstruction", "kl", "capacity_gap")
    strength = "max_capacity"
    citation = Citation("Burgess et al.", 2018, "Understanding disentangling in β-VAE", "arXiv:1804.03599")

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, the KL (for the record) and its distance from the capacity."""
        kl = forward.kl()
        gap = (kl.mean(dim=1) - capacity_nats(forward.step, self.max_capacity, self.ramp_steps)).abs()
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(kl, 0.0),
            "capacity_gap": Term(gap, self.gamma),
        }
