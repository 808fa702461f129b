# SPDX-License-Identifier: Apache-2.0
"""The KL of a VAE in the polarised regime (Zietlow et al. 2021, eq. 4; Rolinek et al. 2019).

A trained VAE splits its latents: active ones have little noise, passive ones are the prior. Of the
exact divergence `½ Σ (μ² + σ² - log σ² - 1)` then remains `½ Σ over active (μ² - log σ²)`, up to
the constant ½ for each active latent, which the paper drops and which is taken off here.
What is left out is half the variance of active latents, less the KL of passive ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid
from unbraid.metrics.active_units import USUAL_THRESHOLD


@dataclass(frozen=True)
class PolarisedKL:
    """The exact divergence beside that of the polarised regime, nats for an average sample."""

    exact: float
    polarised: float
    """Eq. 4 less ½ for each active latent."""
    of_passive: float
    """What passive latents have of the exact one."""
    active: NDArray[np.bool_]
    """Mean posterior variance below 0.8, as in the paper."""

    @property
    def relative_gap(self) -> float:
        """|polarised - exact| as a share of the exact one; NaN where that is 0."""
        return abs(self.polarised - self.exact) / self.exact if self.exact > 0 else np.nan


def polarised_kl(kl_by_latent: ArrayLike, variances: ArrayLike) -> PolarisedKL:
    """Both divergences, from the exact KL of each latent (nats) and its mean posterior variance.

    >>> found = polarised_kl([2.0, 0.0], [0.1, 1.0])
    >>> found.exact, round(found.polarised, 3), found.active.tolist()
    (2.0, 1.95, [True, False])
    """
    kl = np.asarray(kl_by_latent, dtype=np.float64)
    noise = np.asarray(variances, dtype=np.float64)
    if kl.shape != noise.shape or kl.ndim != 1:
        shapes = Shown(f"{kl.shape} and {noise.shape}")
        raise invalid("kl_by_latent", "must have a number for each of the variances", shapes)
    active = noise < USUAL_THRESHOLD["posterior_variance"]
    polarised = float((kl - 0.5 * noise)[active].sum())
    return PolarisedKL(float(kl.sum()), polarised, float(kl[~active].sum()), active)
