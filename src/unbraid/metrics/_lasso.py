# SPDX-License-Identifier: Apache-2.0
"""Many Lasso regressions at once (Tibshirani 1996) by coordinate descent (Friedman et al. 2010).

A regression minimises `1/2 w'Gw - c'w + alpha |w|_1`, which is scikit-learn's objective with `G =
X'X / n` and `c = X'y / n` of centred columns. Regressions on the same columns share their Gram
matrix: `gram` is `(batch, d, d)`, `cross` `(batch, d, targets)`. Everything below runs over all of
them together, on whatever device the tensors lie.

`lasso_to_gap` stops where scikit-learn does, and so gives its coefficients to rounding. `lasso`
goes on to the minimum. Where columns nearly repeat each other, coordinate descent alone would take
thousands of sweeps to get there, so what has not settled after a few gets Newton steps: with the
signs held the objective is quadratic, and its minimum solves a small linear system. Where a
coefficient would change its sign on the way, the step ends there with the coefficient at 0. Only
from the minimum over the coefficients in use does another sweep let others come in; sooner, it
would bring back what has just left. So no set of signs comes twice, and the minimum is reached
after finitely many steps: at most 70 in 30,000 random regressions on up to 20 columns, copies and
linear combinations of each other among them, and 150 in 10,000 on 50.

Where columns are linear functions of others, coefficients at the minimum need not be unique; the
objective is. Should the steps run out, the last coefficients are returned: no step raises the
objective, so that they are the best ones found.

Inside, all regressions lie along the last axis: `(d, d, regressions)` and `(d, regressions)`. Those
that are done are taken out as the others go on. No regression may feel its neighbours, not even in
the last bit, so everything is done element by element and sums over coefficients are taken one
after the other: a library's sum, product or solver of many may choose its order by how many there
are. The host waits for the device once a sweep or step, to learn which are done.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

MOST_SWEEPS = 1000
"""Where scikit-learn gives up too."""
FIRST_SWEEPS = 10
MOST_STEPS = 500
"""Newton steps of one regression."""
LEAST_CURVATURE = 1e-13
"""Share of the largest curvature below which a direction has none but rounding."""
SMALLEST_VIOLATION = 1e-11
"""What may be left of the optimality conditions, in units of correlation."""


def lasso_to_gap(
    gram: Tensor, cross: Tensor, squares: Tensor, alpha: float, tolerance: float
) -> Tensor:
    """Coefficients `(batch, d, targets)` up to scikit-learn's rule for the duality gap.

    *squares* `(batch, targets)`, or `(targets,)` where they are the same for all, are the mean
    squares of the targets. A regression stops after the first sweep in which no coefficient moved
    by more than *tolerance* of the largest and the gap is small enough.
    """
    batch, _, targets = cross.shape
    grams, crosses = _side_by_side(gram, cross)
    squares = squares.expand(batch, targets).reshape(-1)
    coefficients, unexplained = torch.zeros_like(crosses), crosses.clone()
    found = torch.zeros_like(crosses)
    place = torch.arange(crosses.shape[1], device=crosses.device)
    settled = _gap(crosses, unexplained, coefficients, squares, alpha) <= tolerance * squares
    for _ in range(MOST_SWEEPS):
        left = torch.nonzero(~settled)[:, 0]
        if len(left) < len(place):
            found[:, place] = coefficients
            place, squares, grams, crosses = (
                place[left],
                squares[left],
                grams[..., left],
                crosses[:, left],
            )
            coefficients, unexplained = coefficients[:, left], unexplained[:, left]
        if len(place) == 0:
            break
        moved = _sweep(grams, unexplained, coefficients, alpha)
        still = moved <= tolerance * coefficients.abs().amax(dim=0)
        settled = still & (
            _gap(crosses, unexplained, coefficients, squares, alpha) <= tolerance * squares
        )
    found[:, place] = coefficients
    return _as_given(found, cross)


def lasso(gram: Tensor, cross: Tensor, alpha: float) -> Tensor:
    """Coefficients `(batch, d, targets)` at the minimum; 0 where the diagonal of *gram* is 0."""
    grams, crosses = _side_by_side(gram, cross)
    coefficients, unexplained = torch.zeros_like(crosses), crosses.clone()
    for _ in range(FIRST_SWEEPS):
        _sweep(grams, unexplained, coefficients, alpha)
    found = torch.zeros_like(crosses)
    place = torch.arange(crosses.shape[1], device=crosses.device)
    for _ in range(MOST_STEPS):
        left = torch.nonzero(
            _violation(_slope(grams, crosses, coefficients), coefficients, alpha)
            > SMALLEST_VIOLATION
        )[:, 0]
        if len(left) < len(place):
            found[:, place] = coefficients
            place, grams, crosses, coefficients = (
                place[left],
                grams[..., left],
                crosses[:, left],
                coefficients[:, left],
            )
        if len(place) == 0:
            break
        stepped, whole = _newton_step(grams, crosses, coefficients, alpha)
        swept = stepped.clone()
        _sweep(grams, _slope(grams, crosses, swept), swept, alpha)
        coefficients = torch.where(whole, swept, stepped)
    found[:, place] = coefficients
    return _as_given(found, cross)


def _side_by_side(gram: Tensor, cross: Tensor) -> tuple[Tensor, Tensor]:
    batch, columns, targets = cross.shape
    grams = gram.permute(1, 2, 0).repeat_interleave(targets, dim=2)
    return grams, cross.permute(1, 0, 2).reshape(columns, batch * targets)


def _as_given(found: Tensor, cross: Tensor) -> Tensor:
    batch, columns, targets = cross.shape
    return found.reshape(columns, batch, targets).permute(1, 0, 2)


def _total(rows: Tensor) -> Tensor:
    """Sum over the first axis, from the first row to the last."""
    return reduce(torch.add, rows.unbind())


def _slope(grams: Tensor, crosses: Tensor, coefficients: Tensor) -> Tensor:
    return crosses - _total(grams * coefficients[:, None])  # a Gram matrix is symmetric


def _sweep(grams: Tensor, unexplained: Tensor, coefficients: Tensor, alpha: float) -> Tensor:
    """One sweep of coordinate descent, in place; the largest move of each regression.

    *unexplained* is the slope `c - Gw`, which is kept up to date.
    """
    before, scales = coefficients.clone(), torch.diagonal(grams).mT
    divisors = torch.where(scales > 0, scales, torch.inf)
    columns = (grams, scales, divisors, unexplained, coefficients)
    for gram, scale, divisor, slope, coefficient in zip(
        *(rows.unbind() for rows in columns), strict=True
    ):
        pull = slope + scale * coefficient
        new = (pull - pull.clamp(-alpha, alpha)) / divisor
        unexplained -= gram * (new - coefficient)
        coefficient.copy_(new)
    return (coefficients - before).abs().amax(dim=0)


def _gap(
    crosses: Tensor, unexplained: Tensor, coefficients: Tensor, squares: Tensor, alpha: float
) -> Tensor:
    """Duality gap of each regression: how far its objective can be above the minimum at most."""
    products = torch.stack(
        [coefficients * crosses, coefficients * unexplained, coefficients.abs()], dim=1
    )
    fitted, unfitted, size = _total(products).unbind()
    residual = squares - fitted - unfitted
    steepest = unexplained.abs().amax(dim=0)
    # The residual scaled into the feasible set of the dual problem.
    scale = torch.where(steepest > alpha, alpha / steepest, 1.0)
    return 0.5 * residual * (1.0 + scale**2) + alpha * size - scale * (squares - fitted)


def _violation(slope: Tensor, coefficients: Tensor, alpha: float) -> Tensor:
    """How far each regression is from optimal: the largest slope left at a coefficient."""
    moving = (slope - alpha * coefficients.sign()).abs()
    resting = (slope.abs() - alpha).clamp(min=0.0)
    return torch.where(coefficients != 0, moving, resting).amax(dim=0)


def _newton_step(
    grams: Tensor, crosses: Tensor, coefficients: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """The minimum with the signs held, cut where a coefficient reaches 0; and which are uncut."""
    moving = coefficients != 0
    slope = torch.where(
        moving, _slope(grams, crosses, coefficients) - alpha * coefficients.sign(), 0.0
    )
    step = torch.where(
        moving, _solve(torch.where(moving[:, None] & moving, grams, 0.0), slope), 0.0
    )
    crossing = moving & ((coefficients + step).sign() != coefficients.sign())
    share = torch.where(crossing, -coefficients / torch.where(crossing, step, 1.0), 1.0)
    length = share.amin(dim=0)
    return torch.where(
        crossing & (share == length), 0.0, coefficients + length * step
    ), ~crossing.any(dim=0)


def _solve(matrices: Tensor, right: Tensor) -> Tensor:
    """`x` of `matrices @ x = right` for many regressions, by the factors `L diag(pivots) L'`.

    Columns that are linear functions of others leave directions without curvature. The penalty can
    still fall along them, so they are not left out: a pivot is at least a small share of the
    largest diagonal entry, which adds at most that share to the diagonal of the matrix. Such a step
    is far longer than any coefficient, and ends where one reaches 0.
    """
    largest = torch.diagonal(matrices).mT.amax(dim=0)
    least = (LEAST_CURVATURE * largest).clamp(min=torch.finfo(right.dtype).tiny)
    lower, solution, pivots = matrices.clone(), right.clone(), torch.empty_like(right)
    for column in range(len(right)):
        below = lower[column + 1 :, column].clone()
        pivots[column] = torch.maximum(lower[column, column], least)
        factors = below / pivots[column]
        lower[column + 1 :, column + 1 :] -= factors[:, None] * below
        lower[column + 1 :, column] = factors
        solution[column + 1 :] -= factors * solution[column]
    solution /= pivots
    for column in reversed(range(len(right))):
        solution[:column] -= lower[column, :column] * solution[column]
    return solution
