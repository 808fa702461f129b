# SPDX-License-Identifier: Apache-2.0
"""Latent traversals: codes that go from low to high in one latent, and images of the data that do.

What is decoded from a traversal shows what a latent does; images of the data beside it show whether
that is so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SMALLEST_SPREAD = 1e-12
_OWN_WEIGHT = 25.0
"""Of the traversed latent against the others: what is shown is that it rises."""


def traverse(
    code: NDArray[np.float32],
    latent: int,
    observed: NDArray[np.float32],
    frames: int,
    quantiles: tuple[float, float],
) -> NDArray[np.float32]:
    """*code* with one latent moved evenly between two quantiles of what was *observed* of it.

    >>> traverse(np.zeros(2, np.float32), 1, np.arange(11, dtype=np.float32), 3, (0.0, 1.0))[:, 1]
    array([ 0.,  5., 10.], dtype=float32)
    """
    codes = np.repeat(code[None], frames, axis=0)
    codes[:, latent] = _steps(observed, frames, quantiles)
    return codes


def typical_image(mean: NDArray[np.float32], active: Sequence[int] | NDArray[np.bool_]) -> int:
    """The image whose *active* codes are nearest to the middle, each measured by its spread."""
    if mean[:, active].shape[1] == 0:
        return 0
    return int(_distances(mean, active).sum(axis=1).argmin())


def images_along(
    mean: NDArray[np.float32],
    active: Sequence[int],
    latent: int,
    frames: int,
    quantiles: tuple[float, float],
) -> NDArray[np.int64]:
    """Images at rising codes of *latent* whose other *active* codes are near the middle."""
    away, place = _distances(mean, active), list(active).index(latent)
    others = away.sum(axis=1) - away[:, place]
    targets = _steps(mean[:, latent], frames, quantiles)
    spread = _spread(mean[:, active].astype(np.float64))[place]
    off = _OWN_WEIGHT * ((mean[:, latent][None] - targets[:, None]) / spread) ** 2
    nearest = (off + others[None]).argmin(axis=1)
    return nearest[np.argsort(mean[nearest, latent], kind="stable")]


def _steps(
    observed: NDArray[np.float32], frames: int, quantiles: tuple[float, float]
) -> NDArray[np.float64]:
    low, high = np.quantile(observed.astype(np.float64), quantiles)
    return np.linspace(float(low), float(high), frames)


def _spread(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(codes.std(axis=0), _SMALLEST_SPREAD)


def _distances(
    mean: NDArray[np.float32], active: Sequence[int] | NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Squared distance of each active code from its median, in spreads `(images, active)`."""
    codes = mean[:, active].astype(np.float64)
    return ((codes - np.median(codes, axis=0)) / _spread(codes)) ** 2
