# SPDX-License-Identifier: Apache-2.0
"""Codes on a common scale: which latents vary, by how much, and all standardised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.metrics._arrays import Labelled

# A latent that moves by less than this share of its size moves by rounding only,
ROUNDING_SHARE = 16 * np.finfo(np.float64).eps
# and so does one that moves by less than the smallest number that has all its digits.
SMALLEST_MOVE = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Scale:
    """On what of the codes' scale a score depends by its definition, and why."""

    why: str
    common: bool = True
    """On a factor that all latents share."""
    between: bool = True
    """On the scale of latents beside each other."""
    offset: bool = False
    free: Mapping[str, Any] = field(default_factory=dict)
    """Options, with their values, each of which makes a score free of it."""


def varying_latents(codes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which latents of *codes* `(..., n, latents)` take more than one value, rounding aside."""
    lowest, highest = codes.min(axis=-2), codes.max(axis=-2)
    return highest - lowest > np.maximum(
        ROUNDING_SHARE * np.maximum(np.abs(lowest), np.abs(highest)), SMALLEST_MOVE
    )


def standard_deviations(codes: NDArray[np.float64], *, lost: int = 0) -> NDArray[np.float64]:
    """Standard deviation of each latent, 0 where constant; divides by n - *lost*."""
    _, deviations = _centred(codes)
    return deviations * np.sqrt(codes.shape[-2] / (codes.shape[-2] - lost))


def standardise(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """*codes* `(..., n, latents)` with mean 0 and variance 1; constant latents are all 0."""
    centred, deviations = _centred(codes)
    return centred / np.where(deviations > 0, deviations, 1.0)[..., None, :]


def standardised(train: Labelled, test: Labelled) -> tuple[Labelled, Labelled]:
    """Both parts with the training part's latents at mean 0 and variance 1; constant ones are 0."""
    mean, deviation = train.codes.mean(axis=0), standard_deviations(train.codes)
    varies = deviation > 0

    def of(part: Labelled) -> Labelled:
        codes = np.where(varies, (part.codes - mean) / np.where(varies, deviation, 1.0), 0.0)
        return replace(part, codes=codes)

    return of(train), of(test)


def _centred(codes: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    varying = varying_latents(codes)
    centred = np.where(varying[..., None, :], codes - codes.mean(axis=-2, keepdims=True), 0.0)
    # In units of the largest deviation no square overflows or vanishes.
    largest = np.where(varying, np.abs(centred).max(axis=-2), 1.0)
    deviations = largest * np.sqrt(np.square(centred / largest[..., None, :]).mean(axis=-2))
    return centred, deviations


def constant_latents(codes: NDArray[np.float64]) -> tuple[int, ...]:
    """Columns of *codes* `(n, latents)` that take a single value."""
    return tuple(int(latent) for latent in np.flatnonzero(~varying_latents(codes)))
