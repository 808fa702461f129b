# SPDX-License-Identifier: Apache-2.0
"""Other papers' loss conventions in ours: reconstruction summed over a sample's values, divergence
summed over latents.

Michlo et al. (2023) and disent minimise *means*: L = mean over values of the reconstruction + beta
mean over latents of the KL. Multiplied by the number of values that is our loss with

    beta_of_sums = beta_of_means * values / latents,

e.g. 0.003 with 3x64x64 = 12,288 values and 9 latents is 4.096. Assumed: every reconstruction term
is a mean over the same values (the overlap loss is), and the KL a mean over all latents. The two
losses differ by the factor `values`, which moves the minimum nowhere and Adam only through its
epsilon; plain gradient descent would need its learning rate divided by it.

The same authors standardise images, by the deviation `d` of each channel, before comparing them.
Squared errors are then larger by 1 / d^2, which for one d is the likelihood `gaussian:scale=` d /
sqrt(2), up to constants; a plan has `standardise`.
"""

from __future__ import annotations

import math

from unbraid.core.errors import invalid


def beta_of_sums(beta_of_means: float, values: int, latents: int) -> float:
    """The beta of our sums that does what *beta_of_means* does between means over so many *values*
    and *latents*.

    >>> beta_of_sums(0.003, values=3 * 64 * 64, latents=9)
    4.096
    """
    _check_number("beta_of_means", beta_of_means)
    _check_counts(values, latents)
    return beta_of_means * values / latents


def beta_of_means(beta_of_sums: float, values: int, latents: int) -> float:
    """The inverse of `beta_of_sums`.

    >>> round(beta_of_means(4.096, values=3 * 64 * 64, latents=9), 12)
    0.003
    """
    _check_number("beta_of_sums", beta_of_sums)
    _check_counts(values, latents)
    return beta_of_sums * latents / values


def _check_number(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise invalid(name, "must be a finite number, at least 0", value)


def _check_counts(values: int, latents: int) -> None:
    for name, count in (("values", values), ("latents", latents)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise invalid(name, "must be a whole number, at least 1", count)
