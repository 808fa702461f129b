# SPDX-License-Identifier: Apache-2.0
"""Lasso in batches: closed form, scikit-learn with its own tolerance and with a tight one, hard columns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from unbraid.metrics._lasso import lasso, lasso_to_gap
from unbraid.metrics._standardise import standardise

KINDS = ("plain", "mixed", "nearly repeated", "repeated", "constant")


def regressions(kind: str, batch: int = 3, targets: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns `(batch, n, 6)` of one kind and targets `(batch, n, targets)` that depend on them."""
    generator = np.random.default_rng(KINDS.index(kind))
    columns = generator.normal(size=(batch, 200, 6))
    match kind:
        case "mixed":
            mixing = generator.normal(size=(batch, 3, 6))
            columns = columns[..., :3] @ mixing + 0.1 * columns
        case "nearly repeated":
            columns[..., 1] = columns[..., 0] + 0.01 * columns[..., 1]
            columns[..., 5] = columns[..., 2] - columns[..., 3] + 0.001 * columns[..., 5]
        case "repeated":
            columns[..., 4:] = columns[..., :2]
        case "constant":
            columns[..., 2] = 0.1
    noise = generator.normal(size=(batch, 200, targets))
    return standardise(columns), standardise(columns @ generator.normal(size=(6, targets)) + 0.3 * noise)


def products(columns: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    samples = columns.shape[1]
    return columns.swapaxes(1, 2) @ columns / samples, columns.swapaxes(1, 2) @ targets / samples


def scikit_learn(columns: np.ndarray, targets: np.ndarray, alpha: float, **options: float) -> np.ndarray:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [Lasso(alpha=alpha, **options).fit(x, y).coef_.T for x, y in zip(columns, targets, strict=True)]
    return np.stack(fits)


def test_uncorrelated_columns_shrink_by_alpha() -> None:
    cross = np.array([[[0.9, -0.05], [-0.5, 0.1], [0.02, -0.11]]])
    expected = np.array([[[0.8, 0.0], [-0.4, 0.0], [0.0, -0.01]]])
    gram = np.eye(3)[None]
    assert lasso(gram, cross, 0.1) == pytest.approx(expected, abs=1e-15)
    assert lasso_to_gap(gram, cross, np.ones(2), 0.1, 1e-4) == pytest.approx(expected, abs=1e-15)


def test_two_correlated_columns_by_hand() -> None:
    # Both stay above 0, so G w = c - alpha.
    gram, cross = np.array([[[1.0, 0.5], [0.5, 1.0]]]), np.array([[[0.8], [0.7]]])
    assert lasso(gram, cross, 0.1)[0, :, 0] == pytest.approx([8 / 15, 1 / 3], abs=1e-10)


@pytest.mark.parametrize("alpha", [0.1, 0.01])
@pytest.mark.parametrize("kind", KINDS)
def test_minimum_is_that_of_scikit_learn_with_a_tight_tolerance(kind: str, alpha: float) -> None:
    columns, targets = regressions(kind)
    expected = scikit_learn(columns, targets, alpha, tol=1e-12, max_iter=1_000_000)
    assert lasso(*products(columns, targets), alpha) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.1, 0.01])
@pytest.mark.parametrize("kind", KINDS)
def test_gap_stops_where_scikit_learn_stops(kind: str, alpha: float) -> None:
    columns, targets = regressions(kind)
    found = lasso_to_gap(*products(columns, targets), np.ones(4), alpha, 1e-4)
    assert found == pytest.approx(scikit_learn(columns, targets, alpha), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_optimality_conditions_hold_at_the_minimum(kind: str) -> None:
    gram, cross = products(*regressions(kind))
    found = lasso(gram, cross, 0.05)
    slope = cross - gram @ found
    assert np.abs(slope).max() <= 0.05 + 1e-10
    assert slope[found != 0] == pytest.approx(0.05 * np.sign(found[found != 0]), abs=1e-10)


def test_a_constant_target_and_a_constant_column_get_nothing() -> None:
    gram, cross = products(*regressions("constant"))
    cross[..., 1] = 0.0
    squares = np.array([1.0, 0.0, 1.0, 1.0])
    for found in (lasso(gram, cross, 0.1), lasso_to_gap(gram, cross, squares, 0.1, 1e-4)):
        assert not found[:, 2].any()
        assert not found[..., 1].any()
        assert found.any()
