# SPDX-License-Identifier: Apache-2.0
"""From a matrix `(latents, factors)` to a value per factor and one for all, as MIG and SAP do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def top_gap(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest minus second largest entry of each column; a single latent is compared with 0."""
    if len(matrix) == 1:
        return matrix[0].copy()
    second, first = np.partition(matrix, len(matrix) - 2, axis=0)[-2:]
    return first - second


def over_varying(
    values: NDArray[np.float64], varying: NDArray[np.bool_]
) -> tuple[float, NDArray[np.float64]]:
    """Mean of *values* over the varying factors, and the values, NaN for a constant factor."""
    return float(values[varying].mean()), np.where(varying, values, np.nan)
