# SPDX-License-Identifier: Apache-2.0
"""Checks of matrices by name: finite numbers, rotations, covariances."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid

_ROUNDING = 1e-8
"""How far the product of a rotation with its transpose may lie from the identity."""


def finite_matrix(name: str, value: ArrayLike, remedy: str = "") -> NDArray[np.float64]:
    """*value* as a matrix of real finite numbers with at least one row and column."""
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise invalid(name, "must be a matrix of numbers", value, remedy) from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise invalid(
            name,
            "must be a matrix with rows and columns",
            Shown(f"an array of shape {matrix.shape}"),
            remedy,
        )
    wrong = int((~np.isfinite(matrix)).sum())
    if wrong:
        entries = f"{wrong} of {matrix.size} entries NaN or infinite"
        raise invalid(name, "must hold finite numbers", Shown(entries), remedy)
    return matrix


def rotation_matrix(name: str, value: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    """*value* as an orthogonal matrix, reflections included, of *size* rows where that is known."""
    matrix = finite_matrix(name, value)
    if matrix.shape[0] != matrix.shape[1]:
        raise invalid(name, "must be square", Shown(f"shape {matrix.shape}"))
    if size is not None and len(matrix) != size:
        rule = f"must have a row for each of the {size} latents"
        raise invalid(name, rule, Shown(f"shape {matrix.shape}"))
    gap = float(np.abs(matrix.T @ matrix - np.eye(len(matrix))).max())
    if gap > _ROUNDING:
        shown = Shown(f"a product that is off by {gap:.2g}")
        raise invalid(
            name, "must be orthogonal (its transpose times itself is the identity)", shown
        )
    return matrix


def covariance_matrix(name: str, value: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    """*value* as a symmetric matrix of positive eigenvalues, of *size* rows where that is known."""
    matrix = finite_matrix(name, value)
    if matrix.shape[0] != matrix.shape[1] or not np.allclose(
        matrix, matrix.T, rtol=1e-10, atol=1e-12
    ):
        raise invalid(
            name, "must be a symmetric matrix", Shown(f"shape {matrix.shape}, or unequal halves")
        )
    if size is not None and len(matrix) != size:
        raise invalid(name, f"must have {size} rows", Shown(f"{len(matrix)}"))
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least <= 0:
        raise invalid(
            name,
            "must have positive eigenvalues",
            Shown(f"one of {least:.3g}"),
            "Variances lie above 0.",
        )
    return matrix
