# SPDX-License-Identifier: Apache-2.0
"""The overlap loss (Michlo et al. 2023): L(x, x^) + kappa L(blur x, blur x^), around any distance
between images.

Where two images show a shape at places that do not overlap, a loss by pixels cannot tell near from
far. Blurred copies overlap, and so bring the order of the places back. The paper takes squared
error, a box of radius 31 and kappa = 63^2.

Errors of a mean (squared, absolute) blur the difference once, since a blur is linear. A Bernoulli's
second term is the cross-entropy between the blurred sample and the blurred probability, which is
kept within [1e-6, 1 - 1e-6].

Departs: none. The paper defines it for means over pixels; here both terms are sums, so their ratio
is the same.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unbraid.objectives.blur import blur

Distance = Callable[[Tensor, Tensor], Tensor]
"""Raw decoder outputs and samples `(members, batch, ...)` to sums over a sample's values `(members,
batch)`.
"""
SMALLEST_PROBABILITY = 1e-6


def usual_kappa(radius: int) -> int:
    """The paper's weight of the blurred term: the pixels in the window.

    >>> usual_kappa(31)
    3969
    """
    return (2 * radius + 1) ** 2


def overlap_of_errors(
    mean: Callable[[Tensor], Tensor],
    error: Callable[[Tensor], Tensor],
    window: str,
    radius: int,
    kappa: float,
) -> Distance:
    """*error* of the difference from the *mean* of the raw output, and kappa times that of the
    blurred difference.
    """

    def distance(raw: Tensor, x: Tensor) -> Tensor:
        difference = mean(raw) - x
        return sum_of_values(error(difference)) + kappa * sum_of_values(
            error(blur(difference, window, radius))
        )

    return distance


def overlap_of_probabilities(plain: Distance, window: str, radius: int, kappa: float) -> Distance:
    """The *plain* cross-entropy, and kappa times that between the blurred sample and the blurred
    sigmoid.
    """

    def distance(raw: Tensor, x: Tensor) -> Tensor:
        target = blur(x, window, radius)
        probability = blur(torch.sigmoid(raw), window, radius).clamp(
            SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY
        )
        blurred = -(target * probability.log() + (1.0 - target) * (1.0 - probability).log())
        return plain(raw, x) + kappa * sum_of_values(blurred)

    return distance


def sum_of_values(values: Tensor) -> Tensor:
    """Sums over all but the member and the batch axis: `(members, batch)`."""
    return values.flatten(2).sum(dim=2)
