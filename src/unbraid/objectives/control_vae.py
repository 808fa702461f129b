# SPDX-License-Identifier: Apache-2.0
"""ControlVAE (Shao et al. 2020, eq. 7 and algorithm 1): a controller of β holds the KL.

With the error e(t) = C − KL(t) of the batch, the step's own,

    β(t) = K_p / (1 + exp e(t)) + I(t) + β_min, clipped to [β_min, β_max],
    I(t) = I(t−1) − K_i e(t).

No gradient goes through β. The gains are those of the authors' code for disentangling (0.01 and
0.001, β_min = 1); there C starts at 0.5 nats and grows by 0.15 every 5,000 updates to 16 or 18,
here for example `capacity = linear(0.5, 18, 583000)`.

Anti-windup: the authors stop the integral for a step whenever the β of the step before, not yet
clipped, lay outside its range. An error of more than about K_p / K_i = 10 nats below C then takes
the integral further down in one update than the first term, which is below K_p, can ever lift it,
and β stays at β_min for good. Departs: the integral goes on while the error drives β back into the
range (`anti_windup = recovering`); `published` is the authors' rule. Not found in their code: an
upper limit for disentangling; 100 is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unbraid.core.errors import Problem, Shown
from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Choice, Number, choice, number
from unbraid.objectives.objective import Forward, Objective, Setting, Term
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.schedule import bounds

ANTI_WINDUP = ("recovering", "published")


@dataclass(frozen=True)
class ControlVAE(Objective):
    """Reconstruction + β(t) KL, with β set by a controller that holds the KL at a given value."""

    capacity: Number = number(18.0, "KL in nats that the controller holds (C)", at_least=0)
    proportional_gain: Number = number(0.01, "gain of the present error (K_p)", at_least=0)
    integral_gain: Number = number(0.001, "gain of the sum of past errors (K_i)", at_least=0)
    beta_min: Number = number(1.0, "least weight of the KL", at_least=0)
    beta_max: Number = number(100.0, "largest weight of the KL", at_least=0)
    anti_windup: Choice = choice(
        "recovering", "when the sum of errors stands still while β is at a limit", ANTI_WINDUP
    )

    label = "ControlVAE"
    term_names = ("reconstruction", "kl", "beta")
    reads_reconstruction = False
    strength = "capacity"
    memory: ClassVar[dict[str, float]] = {"integral": 0.0, "above_least": 0.0}
    citation = Citation(
        "Shao et al.",
        2020,
        "ControlVAE: controllable variational autoencoder",
        "ICML, arXiv:2004.05988",
    )

    def problems(self, setting: Setting, prior: Prior) -> list[Problem]:
        """Also whether the range of β is one."""
        found = super().problems(setting, prior)
        if bounds(self.beta_min)[1] > bounds(self.beta_max)[0]:
            told = Shown(f"beta_min {self.beta_min} and beta_max {self.beta_max}")
            found.append(Problem(f"{self.key}: beta_max", "must be at least beta_min", told))
        return found

    def terms(self, forward: Forward) -> dict[str, Term]:
        """Reconstruction, KL weighted by the controller's β, and β itself (for the record)."""
        kl = forward.kl()
        beta = self._control(kl.detach().mean(dim=1), forward)
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(kl, beta),
            "beta": Term(beta, 0.0),
        }

    def _control(self, kl: Tensor, forward: Forward) -> Tensor:
        """β `(members,)` for a batch whose mean KL is *kl*; leaves the controller's state for the
        next step.
        """
        error = self.capacity - kl
        room = torch.as_tensor(self.beta_max - self.beta_min, dtype=kl.dtype, device=kl.device)
        # What is remembered is β − β_min before clipping: 0 at first, whatever the least β is.
        before = forward.memory["above_least"].to(kl.dtype)
        below, above = before < 0, before > room
        if self.anti_windup == "recovering":
            # A KL above C (a negative error) raises β, one below C lowers it.
            below, above = below & (error > 0), above & (error < 0)
        change = torch.where(below | above, 0.0, -self.integral_gain * error)
        integral = forward.memory["integral"].to(kl.dtype) + change
        above_least = self.proportional_gain * torch.sigmoid(-error) + integral
        forward.remembered["integral"], forward.remembered["above_least"] = integral, above_least
        return self.beta_min + torch.minimum(above_least.clamp(min=0.0), room)
