# SPDX-License-Identifier: Apache-2.0
"""Information by counting: equal-width bins, tables, entropy and mutual information in nats.

The plug-in estimates of Chen et al. (2018) as computed by disentanglement_lib: 20 equal-width bins
between the smallest and the largest value of a latent, the largest value in the last bin. Departs:
edges are double precision whatever the codes are, and information below 1e-12 nats, which is
rounding, is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.metrics._arrays import check_codes_factors, check_counts

ROUNDING_NATS = 1e-12


@dataclass(frozen=True)
class Information:
    """What counting says of latents and factors, in nats."""

    mutual: NDArray[np.float64]
    """`(latents, factors)`, or of latents with each other."""
    factor_entropy: NDArray[np.float64]
    latent_entropy: NDArray[np.float64]
    code_variance: NDArray[np.float64]
    varying: NDArray[np.bool_]
    """Which factors take more than one value."""

    @property
    def constant_factors(self) -> tuple[int, ...]:
        """Columns of the factors that take a single value."""
        return tuple(int(column) for column in np.flatnonzero(~self.varying))


def count_information(codes: ArrayLike, factors: ArrayLike, *, bins: int = 20) -> Information:
    """The information of codes `(n, latents)`, cut into *bins* equal-width bins, and factors."""
    check_counts(bins=(bins, 2))
    sample = check_codes_factors(codes, factors)
    placed = histogram_bins(sample.codes, bins)
    return Information(
        mutual=mutual_information(placed, bins, sample.levels, sample.sizes),
        factor_entropy=entropy(sample.levels, sample.sizes),
        latent_entropy=entropy(placed, [bins] * placed.shape[1]),
        code_variance=sample.codes.var(axis=0),
        varying=sample.varying,
    )


def histogram_bins(codes: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Equal-width bin 0..bins-1 of every code `(n, latents)`; constant latents fill bin 0."""
    columns = np.ascontiguousarray(codes.T)
    placed = np.zeros(columns.shape, dtype=np.int64)
    for latent, values in enumerate(columns):
        lowest, highest = values.min(), values.max()
        if highest > lowest:
            # Edge for edge those of np.histogram, which are not the multiples of one width.
            placed[latent] = _place(values, np.linspace(lowest, highest, bins + 1))
    return placed.T


def _place(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each value by division, corrected by search where rounding crossed an edge."""
    bins, inner = len(edges) - 1, edges[1:-1]
    placed = ((values - edges[0]) / (edges[-1] - edges[0]) * bins).astype(np.int64)
    np.minimum(placed, bins - 1, out=placed)  # the largest value
    below, above = np.append(-np.inf, inner)[placed], np.append(inner, np.inf)[placed]
    astray = np.flatnonzero((values < below) | (values >= above))
    placed[astray] = np.searchsorted(inner, values[astray], side="right")
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
    """Mutual information in nats `(left columns, right columns)` of two sets of labels."""
    samples, columns = left.shape
    width, starts = sum(right_sizes), np.cumsum([0, *right_sizes[:-1]])
    # The values of all right columns side by side, so that one count of a left column serves them
    # all.
    beside = np.ascontiguousarray(right.T) + starts[:, None]
    counts = np.empty((columns, left_size, width))
    # Written over for each left column: fresh memory costs more than the counting.
    cells = np.empty_like(beside)
    for column, labels in enumerate(np.ascontiguousarray(left.T)):
        np.add(beside, labels * width, out=cells)
        counts[column] = np.bincount(cells.ravel(), minlength=left_size * width).reshape(
            left_size, width
        )
    return _information_of_counts(counts, starts, samples)


def _information_of_counts(
    counts: NDArray[np.float64], starts: NDArray[np.int64], samples: int
) -> NDArray[np.float64]:
    """Information of tables `(tables, left values, right values)`."""
    of_value = counts.sum(axis=1, keepdims=True)
    of_row = counts.sum(axis=2, keepdims=True) / len(starts)  # every column holds all samples
    # Paired this way the logarithms cancel exactly for a constant latent.
    log_ratio = (_log(counts) - _log(of_value)) + (np.log(samples) - _log(of_row))
    nats = np.add.reduceat((counts * log_ratio).sum(axis=1), starts, axis=1) / samples
    return np.where(nats < ROUNDING_NATS, 0.0, nats)


def _log(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(counts, 1.0))  # empty cells weigh nothing
