# SPDX-License-Identifier: Apache-2.0
"""Ranks for Spearman's correlation: equal values share the mean of their places."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def average_ranks(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank 1..n of each value of *codes* `(..., n, latents)` within its latent.

    >>> average_ranks(np.array([[3.0], [1.0], [3.0], [2.0]]))[:, 0]
    array([3.5, 1. , 3.5, 2. ])
    """
    latents_first = np.ascontiguousarray(codes.swapaxes(-1, -2))
    ranks, samples = np.empty_like(latents_first), codes.shape[-2]
    for values, places in zip(
        latents_first.reshape(-1, samples), ranks.reshape(-1, samples), strict=True
    ):
        order = np.argsort(values)
        ordered = values[order]
        starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, [samples]])
        places[order] = np.repeat((starts[:-1] + starts[1:] + 1) / 2, np.diff(starts))
    return ranks.swapaxes(-1, -2)
