# SPDX-License-Identifier: Apache-2.0
"""Many Lasso regressions at once (Tibshirani 1996), by cyclic coordinate descent (Friedman et al. 2010) on their products.

A regression minimises `1/2 w'Gw - c'w + alpha |w|_1`, which is scikit-learn's objective with `G = X'X / n` and `c = X'y / n`
of centred columns. Regressions on the same columns share their Gram matrix: `gram` is `(batch, d, d)`, `cross` `(batch, d,
targets)`. Everything below runs over all of them together, as array arithmetic that a device could do as well.

`lasso_to_gap` stops where scikit-learn does, and so gives its coefficients to rounding. `lasso` goes on to the minimum. Where
columns nearly repeat each other, coordinate descent alone would take thousands of sweeps to get there, so what has not
settled after a few gets Newton steps: with the signs held the objective is quadratic, and its minimum solves a small linear
system. Where a coefficient would change its sign on the way, the step ends there with the coefficient at 0. Only from the
minimum over the coefficients in use does another sweep let others come in; sooner, it would bring back what has just left. So
no set of signs comes twice, and the minimum is reached after finitely many steps: at most 70 in thousands of random problems
of up to 20 columns, copies and linear combinations of each other among them, and 110 of up to 50.

Where columns are linear functions of others, coefficients at the minimum need not be unique; the objective is. Should the
steps run out, the last coefficients are returned: no step raises the objective, so that they are the best ones found.

Inside, all regressions lie along the last axis: `(d, d, regressions)` and `(d, regressions)`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_SWEEPS = 1000
"""Where scikit-learn gives up too."""
FIRST_SWEEPS = 10
MOST_STEPS = 500
"""Newton steps of one regression."""
LEAST_CURVATURE = 1e-13
"""Share of the largest curvature below which a direction has none but rounding."""
SMALLEST_VIOLATION = 1e-11
"""What may be left of the optimality conditions, in units of correlation."""

Floats = NDArray[np.float64]


def lasso_to_gap(gram: Floats, cross: Floats, squares: Floats, alpha: float, tolerance: float) -> Floats:
    """Coefficients `(batch, d, targets)` with a duality gap of at most *tolerance* times *squares*, by scikit-learn's rule.

    *squares* `(targets,)` are the mean squares of the targets. A regression stops after the first sweep in which no coefficient
    moved by more than *tolerance* of the largest and the gap is small enough.
    """
    grams, crosses = _side_by_side(gram, cross)
    squares = np.tile(squares, len(gram))
    coefficients, unexplained = np.zeros_like(crosses), crosses.copy()
    found = np.zeros_like(crosses)
    place = np.arange(crosses.shape[1])
    settled = _gap(crosses, unexplained, coefficients, squares, alpha) <= tolerance * squares
    for _ in range(MOST_SWEEPS):
        if settled.any():
            found[:, place[settled]] = coefficients[:, settled]
            left = ~settled
            place, squares, grams, crosses = place[left], squares[left], grams[..., left], crosses[:, left]
            coefficients, unexplained = coefficients[:, left], unexplained[:, left]
        if len(place) == 0:
            break
        moved = _sweep(grams, unexplained, coefficients, alpha)
        still = moved <= tolerance * np.abs(coefficients).max(axis=0)
        settled = still & (_gap(crosses, unexplained, coefficients, squares, alpha) <= tolerance * squares)
    found[:, place] = coefficients
    return _as_given(found, cross)


def lasso(gram: Floats, cross: Floats, alpha: float) -> Floats:
    """Coefficients `(batch, d, targets)` at the minimum; a column whose entry on the diagonal of *gram* is 0 gets 0."""
    grams, crosses = _side_by_side(gram, cross)
    found, unexplained = np.zeros_like(crosses), crosses.copy()
    for _ in range(FIRST_SWEEPS):
        _sweep(grams, unexplained, found, alpha)
    for _ in range(MOST_STEPS):
        open_ones = np.flatnonzero(_violation(_slope(grams, crosses, found), found, alpha) > SMALLEST_VIOLATION)
        if len(open_ones) == 0:
            break
        own_grams, own_crosses = grams[..., open_ones], crosses[:, open_ones]
        own, whole = _newton_step(own_grams, own_crosses, found[:, open_ones], alpha)
        own_grams, swept = own_grams[..., whole], own[:, whole]
        _sweep(own_grams, _slope(own_grams, own_crosses[:, whole], swept), swept, alpha)
        own[:, whole] = swept
        found[:, open_ones] = own
    return _as_given(found, cross)


def _side_by_side(gram: Floats, cross: Floats) -> tuple[Floats, Floats]:
    batch, columns, targets = cross.shape
    return np.repeat(gram.transpose(1, 2, 0), targets, axis=2), cross.transpose(1, 0, 2).reshape(columns, batch * targets)


def _as_given(found: Floats, cross: Floats) -> Floats:
    batch, columns, targets = cross.shape
    return found.reshape(columns, batch, targets).transpose(1, 0, 2)


def _slope(grams: Floats, crosses: Floats, coefficients: Floats) -> Floats:
    return crosses - np.einsum("jkr,kr->jr", grams, coefficients)


def _sweep(grams: Floats, unexplained: Floats, coefficients: Floats, alpha: float) -> Floats:
    """Let every coefficient in turn take its best value given the others, in place; the largest move of each regression.

    *unexplained* is the slope `c - Gw`, which is kept up to date.
    """
    largest = np.zeros(coefficients.shape[1])
    for column, old in enumerate(coefficients):
        scale = grams[column, column]
        pull = unexplained[column] + scale * old
        new = np.sign(pull) * np.maximum(np.abs(pull) - alpha, 0.0) / np.where(scale > 0, scale, np.inf)
        move = new - old
        unexplained -= grams[column] * move
        coefficients[column] = new
        np.maximum(largest, np.abs(move), out=largest)
    return largest


def _gap(crosses: Floats, unexplained: Floats, coefficients: Floats, squares: Floats, alpha: float) -> Floats:
    """Duality gap of each regression: how far its objective can be above the minimum at most."""
    fitted = (coefficients * crosses).sum(axis=0)
    residual = squares - fitted - (coefficients * unexplained).sum(axis=0)
    steepest = np.abs(unexplained).max(axis=0)
    # The residual scaled into the feasible set of the dual problem.
    scale = np.where(steepest > alpha, alpha / np.where(steepest > alpha, steepest, 1.0), 1.0)
    penalty = alpha * np.abs(coefficients).sum(axis=0)
    return 0.5 * residual * (1.0 + scale**2) + penalty - scale * (squares - fitted)


def _violation(slope: Floats, coefficients: Floats, alpha: float) -> Floats:
    """How far each regression is from optimal: the slope of the objective that is left at any of its coefficients."""
    moving = np.abs(slope - alpha * np.sign(coefficients))
    resting = np.maximum(np.abs(slope) - alpha, 0.0)
    return np.where(coefficients != 0, moving, resting).max(axis=0)


def _newton_step(grams: Floats, crosses: Floats, coefficients: Floats, alpha: float) -> tuple[Floats, NDArray[np.bool_]]:
    """The minimum with the signs held, or the first point on the way there where a coefficient reaches 0; and which are whole."""
    moving = coefficients != 0
    slope = np.where(moving, _slope(grams, crosses, coefficients) - alpha * np.sign(coefficients), 0.0)
    among = np.where(moving[:, None] & moving[None], grams, 0.0).transpose(2, 0, 1)
    curvature, directions = np.linalg.eigh(among)
    # Columns that are linear functions of others leave directions without curvature. The penalty can still fall along them, so
    # they are not left out: the floor makes such a step far longer than any coefficient, and it ends where one reaches 0.
    curvature = np.maximum(curvature, np.maximum(LEAST_CURVATURE * curvature[:, -1:], np.finfo(np.float64).tiny))
    along = np.einsum("rki,kr->ri", directions, slope) / curvature
    step = np.where(moving, np.einsum("rji,ri->jr", directions, along), 0.0)
    crossing = moving & (np.sign(coefficients + step) != np.sign(coefficients))
    share = np.where(crossing, -coefficients / np.where(crossing, step, 1.0), 1.0)
    length = share.min(axis=0)
    return np.where(crossing & (share == length), 0.0, coefficients + length * step), ~crossing.any(axis=0)
