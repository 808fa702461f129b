# SPDX-License-Identifier: Apache-2.0
"""Mean, spread and range of the values of a dataset's images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbraid.data.dataset import Dataset

MOST_MEASURED = 10_000
"""Images that statistics are computed from; all of a smaller set."""
_BATCH = 512


@dataclass(frozen=True)
class Statistics:
    """Means and spreads over pixels, one number per channel."""

    images: int
    whole_set: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]
    least: float
    most: float
    mean_image: NDArray[np.uint8]


def statistics(dataset: Dataset, most: int = MOST_MEASURED) -> Statistics:
    """Statistics of the values that networks see, over at most *most* images chosen at random."""
    size = len(dataset)
    count = min(size, most)
    indices = np.sort(np.random.default_rng(0).choice(size, count, replace=False))
    values_of = _values_of(dataset)
    total = np.zeros(dataset.image_shape)
    squares = np.zeros(dataset.image_shape[-1])
    least, most_seen = np.inf, -np.inf
    for start in range(0, count, _BATCH):
        values = values_of(indices[start : start + _BATCH])
        least, most_seen = min(least, float(values.min())), max(most_seen, float(values.max()))
        total += values.sum(axis=0)
        squares += np.square(values).sum(axis=(0, 1, 2))
    mean_image = total / count
    mean = mean_image.mean(axis=(0, 1))
    pixels = count * dataset.image_shape[0] * dataset.image_shape[1]
    std = np.sqrt(np.maximum(squares / pixels - mean**2, 0.0))
    shown = np.rint(255.0 * np.clip(mean_image, 0.0, 1.0)).astype(np.uint8)
    return Statistics(count, count == size, tuple(mean), tuple(std), least, most_seen, shown)


def _values_of(dataset: Dataset) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """Indices to values `(n, height, width, channels)`; points are drawn as images first."""
    import torch

    if len(dataset.sample_shape) != 3:
        return lambda indices: dataset.images(indices) / 255.0
    draw = dataset.sampler("cpu")
    return lambda indices: np.moveaxis(draw(torch.from_numpy(indices)).double().numpy(), 1, -1)
