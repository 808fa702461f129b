# SPDX-License-Identifier: Apache-2.0
"""Information of continuous latents about discrete factors by nearest neighbours (Ross 2014).

`I = psi(n) + psi(k) - mean psi(n_v) - mean psi(m)`: `n_v` samples share a sample's factor value,
`m` samples of any value, itself included, lie nearer than the k-th neighbour of the same value;
negative estimates are 0. On a line the neighbours stand side by side once the codes are sorted, so
no tree is needed. As scikit-learn's `mutual_info_classif` does, `k` falls to `n_v - 1` for rare
values, samples whose value is unique are left out, and noise of 1e-10 of a standard deviation parts
equal codes: without it the estimate collapses for codes that take few values. The noise is drawn
from the seed and is the same for every latent, so the order of latents does not matter and a call
there with one latent and `random_state=seed` gives the same number.

Departs from scikit-learn: distances are compared as they are; there, their squares are rounded
first, and for values of fewer than 2k samples found by an expansion whose error hides the noise
that parts equal codes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unbraid.metrics._information import ROUNDING_NATS
from unbraid.metrics._standardise import standardise

NOISE = 1e-10
FAR = 1e300
"""Farther than any standardised code: parts the samples of one value from those of the next."""


def neighbour_information(
    codes: NDArray[np.float64], levels: NDArray[np.int64], *, neighbours: int, seed: int
) -> NDArray[np.float64]:
    """Information in nats `(latents, factors)`; 0 for constant latents and unique values."""
    noise = NOISE * np.random.RandomState(seed % 2**32).standard_normal(len(codes))
    psi = _digamma(len(codes))
    nats = np.zeros((codes.shape[1], levels.shape[1]))
    for latent, standard in enumerate(standardise(codes).T):
        if not standard.any():
            continue
        blurred = standard + np.maximum(1.0, np.abs(standard).mean()) * noise
        order = np.argsort(blurred)
        for factor in range(levels.shape[1]):
            nats[latent, factor] = _ross(blurred[order], levels[order, factor], neighbours, psi)
    return nats


def _ross(
    ordered: NDArray[np.float64],
    labels: NDArray[np.int64],
    neighbours: int,
    psi: NDArray[np.float64],
) -> float:
    """The estimate for codes in ascending order; *psi* is the digamma function of 0..n."""
    sharing = np.bincount(labels)[labels]
    kept = sharing > 1
    if not kept.any():
        return 0.0
    ordered, labels, sharing = ordered[kept], labels[kept], sharing[kept]
    neighbours = min(neighbours, sharing.max() - 1)
    radius = _radius_among_equals(ordered, labels, neighbours)
    k = np.minimum(neighbours, sharing - 1)
    within = _count_nearer(ordered, radius)
    nats = psi[len(ordered)] + psi[k].mean() - psi[sharing].mean() - psi[within].mean()
    return float(nats) if nats >= ROUNDING_NATS else 0.0


def _digamma(largest: int) -> NDArray[np.float64]:
    """The digamma function at 0..largest (at 0, where nobody asks, 0)."""
    return np.concatenate([[0.0, 0.0], np.cumsum(1.0 / np.arange(1, largest))]) - np.euler_gamma


def _radius_among_equals(
    ordered: NDArray[np.float64], labels: NDArray[np.int64], neighbours: int
) -> NDArray[np.float64]:
    """Distance to the k-th neighbour of the same label, or to the farthest of fewer."""
    grouped = np.argsort(labels, kind="stable")
    values, group = ordered[grouped], labels[grouped]
    place = np.arange(len(values)) + neighbours * (group + 1)
    spaced = np.full(place[-1] + neighbours + 1, FAR)
    spaced[place] = values
    # The k nearest and the sample itself are k + 1 in a row; of the rows that hold it the shortest
    # reach counts.
    reach = np.full(len(values), FAR)
    for before in range(neighbours + 1):
        left, right = spaced[place - before], spaced[place + neighbours - before]
        np.minimum(reach, np.maximum(np.abs(values - left), np.abs(right - values)), out=reach)
    counts = np.bincount(group)
    start = np.cumsum(counts) - counts
    few = counts[group] <= neighbours
    first, last = values[start[group]], values[start[group] + counts[group] - 1]
    radius = np.empty_like(values)
    radius[grouped] = np.where(few, np.maximum(values - first, last - values), reach)
    return radius


def _count_nearer(ordered: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many of the *ordered* codes, itself included, are nearer to each than its *radius*."""
    radius = np.maximum(radius, np.nextafter(0.0, 1.0))  # a sample is always near itself
    return (
        _first_beyond(ordered, radius)
        + _first_beyond(-ordered[::-1], radius[::-1])[::-1]
        - len(ordered)
    )


def _first_beyond(ordered: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray[np.int64]:
    """Index of the first code at least a radius above each, exact in spite of rounding."""
    fenced = np.append(ordered, FAR)
    first = np.searchsorted(ordered, ordered + radius)
    while (short := np.flatnonzero(fenced[first] - ordered < radius)).size:
        first[short] = np.searchsorted(ordered, fenced[first[short]], side="right")
    while (past := np.flatnonzero(fenced[first - 1] - ordered >= radius)).size:
        first[past] = np.searchsorted(ordered, fenced[first[past] - 1])
    return first
