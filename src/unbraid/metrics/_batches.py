# SPDX-License-Identifier: Apache-2.0
"""Batches that were drawn elsewhere, and the factor that each shares, checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems, Shown
from unbraid.metrics._arrays import check_finite, read_numbers, to_numpy

MOST_FACTORS = 10_000
"""Factors are numbered from 0; a larger number is a value given for a factor by mistake."""


def read_batches(
    batches: Mapping[str, ArrayLike],
    factor: Mapping[str, ArrayLike],
    least: int,
    problems: Problems,
) -> tuple[list[NDArray[np.float64]], NDArray[np.int64]]:
    """The *batches* by name, `(batches, batch, latents)`, and the *factor* of each `(batches,)`."""
    read = [_read_codes(values, name, least, problems) for name, values in batches.items()]
    shapes = {array.shape for array in read}
    if len(shapes) > 1:
        shown = Shown(" and ".join(str(array.shape) for array in read))
        problems.add(" and ".join(batches), "must have the same shape", shown)
    (factor_name, values), *_ = factor.items()
    chosen = _read_factor(values, factor_name, problems)
    first = next(iter(batches))
    if chosen.ndim == 1 and read[0].ndim == 3 and len(chosen) != len(read[0]):
        shown = Shown(f"{len(read[0])} and {len(chosen)}")
        problems.add(
            f"{first} and {factor_name}",
            "must have the same length",
            shown,
            "Pass one factor for each batch.",
        )
    return read, chosen


def check_latents(arrays: Mapping[str, NDArray[np.float64]], problems: Problems) -> None:
    """Record a problem where sound *arrays* differ in their number of latents."""
    latents = {name: array.shape[-1] for name, array in arrays.items() if array.ndim > 1}
    if len(set(latents.values())) > 1:
        shown = Shown(", ".join(str(count) for count in latents.values()))
        problems.add(" and ".join(latents), "must have the same latents", shown)


def _read_codes(
    values: ArrayLike, name: str, least: int, problems: Problems
) -> NDArray[np.float64]:
    codes = read_numbers(values, name, problems)
    if codes is None:
        return np.empty(np.shape(values))
    if codes.ndim != 3 or min(codes.shape) == 0:
        problems.add(
            name,
            "must have the shape (batches, batch, latents), none of them 0",
            Shown(f"shape {codes.shape}"),
        )
    elif codes.shape[1] < least:
        problems.add(
            name, f"must have at least {least} rows in a batch", Shown(f"shape {codes.shape}")
        )
    else:
        check_finite(codes, name, ("batch", "row", "latent"), problems)
    return codes


def _read_factor(values: ArrayLike, name: str, problems: Problems) -> NDArray[np.int64]:
    factor = to_numpy(values)
    if factor.dtype.kind not in "iub":
        problems.add(
            name,
            "must be whole numbers",
            Shown(f"dtype {factor.dtype}"),
            "Pass the number of the factor, from 0.",
        )
        return np.zeros(factor.shape, dtype=np.int64)
    if factor.ndim != 1:
        problems.add(name, "must have the shape (batches,)", Shown(f"shape {factor.shape}"))
    elif factor.size and not (factor.min() >= 0 and factor.max() < MOST_FACTORS):
        outside = factor[(factor < 0) | (factor >= MOST_FACTORS)][0]
        remedy = "Pass the number of the shared factor, not its value."
        problems.add(name, f"must lie in 0..{MOST_FACTORS - 1}", int(outside), remedy)
    return factor.astype(np.int64, copy=False)
