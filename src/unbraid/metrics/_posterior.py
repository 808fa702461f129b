# SPDX-License-Identifier: Apache-2.0
"""Gaussian posteriors `N(mean, exp(logvar))` as metrics want them: checked, and their KL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid
from unbraid.metrics._arrays import check_posterior

Array = TypeVar("Array", bound=Any)
# Beyond it variances, or their inverses, leave the range of double precision.
LARGEST_LOGVAR = 500.0


def check_gaussian(
    mean: ArrayLike, logvar: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and log-variances `(n, latents)`; infinite or vanishing variances are refused."""
    means, logvars = check_posterior(mean, logvar)
    fine = np.abs(logvars) <= LARGEST_LOGVAR
    if not fine.all():
        row, latent = np.argwhere(~fine)[0]
        shown = Shown(f"{logvars[row, latent]} at row {row}, latent {latent}")
        rule = f"must be at most {LARGEST_LOGVAR:g} in size"
        raise invalid(
            "logvar", rule, shown, "Pass log-variances, and leave out models that diverged."
        )
    return means, logvars


def kl_per_latent(mean: NDArray[np.float64], logvar: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean KL divergence to N(0, 1) of each latent, nats: `1/2 (mean^2 + variance - logvar - 1)`.

    >>> kl_per_latent(np.array([[0.0, 2.0]]), np.zeros((1, 2)))
    array([0., 2.])
    """
    return gaussian_kl(mean, logvar, np.expm1).mean(axis=0)


def gaussian_kl(mean: Array, logvar: Array, expm1: Callable[[Array], Array]) -> Array:
    """KL divergence of `N(mean, exp(logvar))` to N(0, 1) of each entry, nats, of NumPy or torch.

    *expm1*, the library's own, keeps what is left of exp(v) - v - 1 when v is small.
    """
    return 0.5 * (mean**2 + (expm1(logvar) - logvar))
