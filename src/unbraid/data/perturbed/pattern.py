# SPDX-License-Identifier: Apache-2.0
"""The sliding sign pattern of perturbed data (Zietlow et al. 2021).

`f(s)[i, j] = p[round(s / c_j) + i, j]`: random signs p, read from a row that moves with s, in each
column at its own pace c_j from {1, 2, 3, 4}; an image becomes `x + ε f(s(x))`. As s moves on, every
column is soon replaced by fresh signs, so f changes fast everywhere (eq. 7), though all of it stays
within ε.

The paper leaves three things open:

- *How far s moves the rows.* A latent has about unit variance, and rounded it would hardly move.
  Here s is standardised over the data and multiplied by `shift_scale`, see `usual_shift_scale`.
- *Values outside [0, 1].* Clipped, unless asked otherwise.
- *Rounding.* Halves are rounded up. Then `floor(2 s)` says everything about s that the pattern can
  show, since all the places where round(s / c) jumps, c(k + 1/2) for c of 1 to 4, are multiples of
  1/2. These half rows are stored as 16-bit numbers.

Departs: the amplitude is ε less 2^-24, the most that adding it to a float32 in [0, 1] can be
rounded by. So the promise `|x~ - x| <= ε` holds for the very numbers a network is given, not only
for the formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid

PACES = (1, 2, 3, 4)
"""Rows of s after which a column has moved by one: the paper's c_j."""
ROWS_PER_STEP = float(max(PACES))
"""Rows that one step of a factor is worth by default: with as many, every column of the image has
moved.
"""
MOST_SHIFT_SCALE = 1024.0
_ROUNDING = Fraction(1, 2**24)
"""Half the distance of neighbouring float32 numbers in [1, 2), where sums may lie before they are
clipped.
"""


@dataclass(frozen=True)
class Pattern:
    """Signs `(rows, width)`, the pace of each column, and the row where an image of s = 0 is."""

    signs: NDArray[np.int8]
    paces: NDArray[np.int8]
    origin: int
    height: int

    def first_rows(self, half_rows: ArrayLike) -> NDArray[np.int64]:
        """The row of `signs` at the top of each column `(..., width)`.

        round(s / c_j), counted from the first row stored.
        """
        paces = self.paces.astype(np.int64)
        return (np.asarray(half_rows, dtype=np.int64)[..., None] + paces) // (
            2 * paces
        ) + self.origin

    def frames(self, half_rows: ArrayLike) -> NDArray[np.int8]:
        """f(s) for each of *half_rows*: signs `(..., height, width)`."""
        windows = np.lib.stride_tricks.sliding_window_view(self.signs, self.height, axis=0)
        return np.swapaxes(windows[self.first_rows(half_rows), np.arange(len(self.paces))], -1, -2)


def make_pattern(seed: int, height: int, width: int, lowest: int, highest: int) -> Pattern:
    """A pattern from *seed*, tall enough for all half rows from *lowest* to *highest*."""
    chance = np.random.default_rng(seed)
    paces = chance.choice(np.array(PACES, dtype=np.int8), size=width)
    first = min((lowest + pace) // (2 * pace) for pace in PACES)
    last = max((highest + pace) // (2 * pace) for pace in PACES)
    signs = 2 * chance.integers(0, 2, (last - first + height, width), dtype=np.int8) - 1
    return Pattern(signs.astype(np.int8), paces, -first, height)


def half_rows(scaled: ArrayLike) -> NDArray[np.int16]:
    """`floor(2 s)` of *scaled* s, refused where 16 bits cannot hold it."""
    halves = np.floor(2.0 * np.asarray(scaled, dtype=np.float64))
    bounds = np.iinfo(np.int16)
    if not ((halves >= bounds.min) & (halves <= bounds.max)).all():
        value = Shown(f"rows from {halves.min() / 2:g} to {halves.max() / 2:g}")
        raise invalid(
            "s",
            "times shift_scale must stay within 16,383 rows",
            value,
            "Give a smaller shift_scale.",
        )
    return halves.astype(np.int16)


def standardised(s: ArrayLike) -> tuple[NDArray[np.float64], float, float]:
    """*s* with mean 0 and variance 1, and the mean and deviation it had."""
    values = np.asarray(s, dtype=np.float64)
    mean, deviation = float(values.mean()), float(values.std())
    if not math.isfinite(deviation) or deviation <= 1e-12 * max(1.0, abs(mean)):
        remedy = "Choose another {member=}."
        raise invalid(
            "s", "must vary over the data", Shown(f"mean {mean:g}, deviation {deviation:g}"), remedy
        )
    return (values - mean) / deviation, mean, deviation


def steps_of(factor_sizes: Sequence[int], height: int, width: int) -> int:
    """How many steps s is thought to take from end to end: as many as the finest factor has values.

    No more than an image has pixels on its longer side, since a label with thousands of values is
    no fine step but a name. Where no factors are known, half of that side: dSprites has 32
    positions on 64 pixels.
    """
    side = max(height, width)
    return max(2, min(max(factor_sizes), side) if factor_sizes else side // 2)


def usual_shift_scale(steps: int, rows_per_step: float = ROWS_PER_STEP) -> float:
    """Rows per unit of standardised s: one of *steps* steps is worth *rows_per_step* rows.

    s is uniform.

    A uniform s of unit variance extends over 2 sqrt(3), hence `rows_per_step * steps / (2
    sqrt(3))`. With 1 row for each of 32 steps this is 9.24, where the paper's crossing at ε = 0.1
    is met without clipping; with 4 rows every column moves at a step, and the change is as large as
    a pattern of signs can make it.

    >>> round(usual_shift_scale(32, 1.0), 2)
    9.24
    """
    return rows_per_step * steps / (2.0 * math.sqrt(3.0))


def even_s(steps: int) -> NDArray[np.float64]:
    """So many evenly spaced values of mean 0 and variance 1.

    >>> even_s(2)
    array([-1.,  1.])
    """
    places = np.arange(steps, dtype=np.float64) - (steps - 1) / 2
    return places * math.sqrt(12.0 / (steps**2 - 1))


def amplitude(epsilon: float) -> float:
    """The largest float32 a of at most epsilon - 2^-24, and at least 0.

    Then `|float32(x ± a) - x| <= epsilon` for all float32 x in [0, 1].

    >>> amplitude(0.5)
    0.4999999403953552
    """
    most = Fraction(float(epsilon)) - _ROUNDING
    if most <= 0:
        return 0.0
    found = np.float32(float(most))
    return float(found if Fraction(float(found)) <= most else np.nextafter(found, np.float32(0.0)))
