# SPDX-License-Identifier: Apache-2.0
"""Numbers about a whole dataset that plans need: channel means, deviations, variances.

Taken over at most 20,000 samples, evenly spread over the indices, so that every call gives the same
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.data.dataset import Dataset

MOST_SAMPLES = 20_000
_AT_ONCE = 1_000
_MANY_VALUES = 4_096
_VARIANCES: WeakKeyDictionary[Dataset, dict[int, NDArray[np.float64]]] = WeakKeyDictionary()


def spread_of_samples(dataset: Dataset, most: int = MOST_SAMPLES) -> Iterator[NDArray[np.float64]]:
    """Samples `(n, *sample_shape)` part by part, at most *most* of them in all."""
    indices = np.unique(
        np.linspace(0, len(dataset) - 1, min(most, len(dataset))).round().astype(np.int64)
    )
    draw = dataset.sampler("cpu")
    for part in np.array_split(indices, -(-len(indices) // _AT_ONCE)):
        yield draw(torch.from_numpy(part)).numpy().astype(np.float64)


def all_alike(dataset: Dataset) -> bool:
    """Whether every sample is the same, of at most 2,000 that are looked at."""
    samples = (sample for part in spread_of_samples(dataset, 2_000) for sample in part)
    first = next(samples)
    return all(np.array_equal(first, other) for other in samples)


def channel_constants(dataset: Dataset) -> dict[str, list[float]]:
    """Mean and standard deviation of each channel of images, or of all values of points.

    A channel that never changes has the deviation 1, since nothing can be divided by 0.
    """
    total = square = count = 0.0
    for part in spread_of_samples(dataset):
        values = (
            np.moveaxis(part, 1, 0).reshape(part.shape[1], -1)
            if part.ndim == 4
            else part.reshape(1, -1)
        )
        total, square, count = (
            total + values.sum(axis=1),
            square + (values**2).sum(axis=1),
            count + values.shape[1],
        )
    mean = np.asarray(total / count)
    std = np.sqrt(np.maximum(square / count - mean**2, 0.0))
    return {"mean": mean.tolist(), "std": np.where(std > 1e-8, std, 1.0).tolist()}


def principal_variances(dataset: Dataset, count: int) -> NDArray[np.float64]:
    """The *count* largest squared singular values of the uncentred samples, largest first.

    Samples of many values are fewer, at most 4,096: the products between samples have the same
    eigenvalues in a smaller matrix. They take seconds, and are computed once of each dataset.
    """
    known = _VARIANCES.setdefault(dataset, {})
    if count not in known:
        known[count] = _principal_variances(dataset, count)
    return known[count].copy()


def _principal_variances(dataset: Dataset, count: int) -> NDArray[np.float64]:
    from scipy.linalg import eigh

    values = math.prod(dataset.sample_shape)
    if values > _MANY_VALUES:
        rows = np.concatenate(
            [part.reshape(len(part), -1) for part in spread_of_samples(dataset, _MANY_VALUES)]
        )
        products = rows @ rows.T
    else:
        products = np.zeros((values, values))
        for part in spread_of_samples(dataset):
            rows = part.reshape(len(part), -1)
            products += rows.T @ rows
    size = len(products)
    found = eigh(products, eigvals_only=True, subset_by_index=(max(0, size - count), size - 1))[
        ::-1
    ]
    return np.maximum(found, 0.0)
