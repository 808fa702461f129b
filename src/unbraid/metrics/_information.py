# SPDX-License-Identifier: Apache-2.0
"""Discrete information by counting: equal-width bins, contingency tables, entropy and mutual information in nats.

The plug-in estimates of Chen et al. (2018) as computed by disentanglement_lib: 20 equal-width bins between the smallest
and the largest value of a latent, the largest value in the last bin. Departs: edges are double precision whatever the
codes are, and information below 1e-12 nats, which is rounding, is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDING_NATS = 1e-12


def histogram_bins(codes: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Bin 0..bins-1 of every code `(n, latents)`, equal-width bins for each latent; a constant latent fills bin 0."""
    lowest, highest = codes.min(axis=0), codes.max(axis=0)
    inner_edges = np.linspace(lowest, highest, bins + 1, axis=1)[:, 1:-1]
    placed = np.zeros(codes.shape, dtype=np.int64)
    for latent in np.flatnonzero(highest > lowest):
        placed[:, latent] = np.searchsorted(inner_edges[latent], codes[:, latent], side="right")
    return placed


def entropy(labels: NDArray[np.int64], sizes: Sequence[int]) -> NDArray[np.float64]:
    """Entropy in nats of every column of *labels* `(n, columns)`, whose values lie in 0..size-1."""
    nats = np.empty(labels.shape[1])
    for column, size in enumerate(sizes):
        share = np.bincount(labels[:, column], minlength=size) / len(labels)
        nats[column] = -np.sum(share * np.log(share, where=share > 0, out=np.zeros_like(share)))
    return nats + 0.0  # a constant column gives -0.0


def mutual_information(
    left: NDArray[np.int64], left_size: int, right: NDArray[np.int64], right_sizes: Sequence[int]
) -> NDArray[np.float64]:
    """Mutual information in nats `(left columns, right columns)` of labels in 0..left_size-1 and 0..right_size-1."""
    samples, columns = left.shape
    # One count over (left column, left value, right value) serves all left columns at once.
    offset = left + left_size * np.arange(columns)
    nats = np.empty((columns, len(right_sizes)))
    for column, size in enumerate(right_sizes):
        joint = (offset * size + right[:, column, None]).ravel()
        counts = np.bincount(joint, minlength=columns * left_size * size).reshape(columns, left_size, size)
        nats[:, column] = _information_of_counts(counts.astype(np.float64), samples)
    return nats


def _information_of_counts(counts: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    rows = counts.sum(axis=2, keepdims=True)
    columns = counts.sum(axis=1, keepdims=True)
    # Paired this way the logarithms cancel exactly for a constant latent.
    log_ratio = (_log(counts) - _log(columns)) + (np.log(samples) - _log(rows))
    nats = np.sum(counts * log_ratio, axis=(1, 2)) / samples
    return np.where(nats < ROUNDING_NATS, 0.0, nats)


def _log(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(counts, 1.0))  # empty cells weigh nothing
