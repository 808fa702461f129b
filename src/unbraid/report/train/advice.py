# SPDX-License-Identifier: Apache-2.0
"""What to try next, from what the run shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

_STILL_FALLING = 0.02
"""Relative fall of the loss between the last two tenths of the training that is worth going on for.
"""


@dataclass(frozen=True)
class AdviceInputs:
    """What the advice is drawn from."""

    path: str
    labelled: bool
    missing_metrics: tuple[str, ...]
    seeds: int
    diverged: int
    best_loss: ArrayLike
    """Recorded losses of the best member, in order."""
    swept_strength: str = ""
    """How the swept strength is written, where one objective's strength was swept."""
    strengths: Sequence[float] = ()
    best_strength: float | None = None
    active_latents: int | None = None
    latents: int = 0
    lost_factors: tuple[str, ...] = ()
    """Factors that no active latent of the best member carries."""
    collapsed: int = 0
    """How many of the *models* use too few latents for their scores to mean anything."""
    models: int = 0
    unscored: int = 0
    """How many have none of the scores that others have, since they came later."""


def still_falling(losses: ArrayLike) -> bool:
    """Whether the last tenth of the recorded losses lies clearly below the tenth before."""
    values = np.asarray(losses, dtype=np.float64)
    tenth = len(values) // 10
    if tenth < 2:
        return False
    before, last = values[-2 * tenth : -tenth].mean(), values[-tenth:].mean()
    return bool(before - last > _STILL_FALLING * abs(before))


def advice(found: AdviceInputs) -> list[str]:
    """Short suggestions, the most useful first."""
    lines = []
    if found.diverged:
        lines.append("Some models diverged: try a smaller learning rate.")
    if found.collapsed:
        some = "Every model" if found.collapsed == found.models else "Some models"
        lines.append(
            f"{some} collapsed: weaken the objective (a lower beta, say), or train for more steps."
        )
    if still_falling(found.best_loss):
        lines.append("The best model's loss is still falling: train for more steps.")
    if found.active_latents == 0 and not found.collapsed:
        lines.append(
            "No latent of the best model is active: weaken the objective, or train for more steps."
        )
    elif found.lost_factors and found.collapsed < max(1, found.models):
        names, are = ", ".join(found.lost_factors), "is" if len(found.lost_factors) == 1 else "are"
        lines.append(
            f"{names} {are} not clearly in any active latent: train for more steps, or weaken the"
            " objective."
        )
    elif found.active_latents is not None and found.active_latents == found.latents:
        lines.append(
            "Every latent of the best model is active: try more latents, or a stronger objective."
        )
    if found.swept_strength and len(found.strengths) > 1 and found.best_strength is not None:
        if found.best_strength == max(found.strengths) and not found.lost_factors:
            lines.append(
                f"The best model has the largest {found.swept_strength} of the sweep: try larger"
                " ones."
            )
        elif found.best_strength == min(found.strengths):
            lines.append(
                f"The best model has the smallest {found.swept_strength} of the sweep: try smaller"
                " ones."
            )
    if found.seeds < 3:
        few = "One seed" if found.seeds == 1 else "Two seeds"
        lines.append(f"{few} cannot tell luck from method: train at least three.")
    if found.missing_metrics:
        lines.append(
            f"Not scored yet: {', '.join(found.missing_metrics)}. Run: unbraid score {found.path}"
        )
    if found.unscored:
        lines.append(
            f"{found.unscored} of {found.models} models have no score yet. Run: unbraid score"
            f" {found.path}"
        )
    if not found.labelled:
        lines.append(
            "If you know factors of the images, give them when loading the data (factors=...) to"
            " score the models."
        )
    return lines
