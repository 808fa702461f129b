# SPDX-License-Identifier: Apache-2.0
"""What a perturbation does, without training: s beside the factors as ε grows.

Zietlow et al. 2021, figure 4: near and overall.

Here s is a factor of its own that shows in images through `ε f(s)` alone and is drawn independently
of them, as in the paper's figure. A step of s is worth as many rows as one of the finest factor
(`pattern.steps_of`). Near, s passes a factor when a deviation of s changes images more than one of
the factor (eq. 7, as `expansiveness` counts it); overall, when it explains more variance (eq. 9).
Departs: none known; the paper prints the figure, not the numbers.

On all dSprites with an s of 32 steps, x is passed near by at ε = 0.126 and overall at 0.169,
clipped and with 4 rows a step. Unclipped it is 0.063 and 0.085; with 1 row, 0.180 and 0.173
clipped, 0.090 and 0.087 unclipped. By default s has as many steps as the finest factor, for
dSprites 40, and slides further for a deviation: clipped, 0.100 and 0.168.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unbraid.analysis.perturbation.expansiveness import (
    Expansiveness,
    expansiveness,
    neighbours,
    step_length,
)
from unbraid.data.dataset import Dataset
from unbraid.data.perturbed.dataset import Perturbed
from unbraid.data.perturbed.pattern import (
    ROWS_PER_STEP,
    Pattern,
    even_s,
    half_rows,
    make_pattern,
    steps_of,
    usual_shift_scale,
)

if TYPE_CHECKING:
    import pandas as pd

_MOST_STEPS = 256
_FRAMES_AT_ONCE = 256


@dataclass(frozen=True)
class SAsFactor:
    """A pattern, half rows one step apart, all half rows with their shares, some images."""

    pattern: Pattern
    pairs: NDArray[np.int64]
    levels: NDArray[np.int64]
    shares: NDArray[np.float64]
    originals: NDArray[np.float32]
    """`(n, channels, height, width)` in [0, 1]."""
    clip: bool
    step: float
    """The step between the half rows of a pair, in deviations of s."""

    @cached_property
    def _flipped(self) -> NDArray[np.float32]:
        """Which signs a step turns round: 0 or 1, `(pairs, pixels)`."""
        lower, upper = (self.pattern.frames(side) for side in self.pairs.T)
        return (lower != upper).reshape(len(self.pairs), -1).astype(np.float32)

    @cached_property
    def _sign_variance(self) -> NDArray[np.float64]:
        """Variance p (1 - p) of each pixel, p being how often its sign is plus."""
        plus: NDArray[np.float64] = np.zeros(self.pattern.height * len(self.pattern.paces))
        for start in range(0, len(self.levels), _FRAMES_AT_ONCE):
            part = slice(start, start + _FRAMES_AT_ONCE)
            frames = self.pattern.frames(self.levels[part]) > 0
            plus += self.shares[part] @ frames.reshape(len(frames), -1)
        return plus * (1.0 - plus)

    def _swing(self, epsilon: float) -> NDArray[np.float32]:
        """By how much a pixel differs between plus and minus: 2 ε, or what clipping leaves of it:
        `(n, channels, pixels)`.
        """
        up, down = self.originals + np.float32(epsilon), self.originals - np.float32(epsilon)
        if self.clip:
            up, down = np.minimum(up, 1.0), np.maximum(down, 0.0)
        return (up - down).reshape(*self.originals.shape[:2], -1)

    def changes(self, epsilon: float) -> NDArray[np.float64]:
        """L2 change of every original by each step of s: `(pairs, n)`."""
        squares = np.square(self._swing(epsilon)).sum(axis=1)
        return np.sqrt(self._flipped @ squares.T, dtype=np.float64)

    def expansiveness(self, epsilon: float) -> float:
        """Mean L2 change of images per deviation of s."""
        return float(self.changes(epsilon).mean()) / self.step

    def explained_variance(self, epsilon: float) -> float:
        """Eq. 9 of s, summed over pixels and channels."""
        mean_swing = self._swing(epsilon).mean(axis=0, dtype=np.float64)
        return float((np.square(mean_swing) * self._sign_variance).sum())


def uniform_s(
    dataset: Dataset,
    *,
    steps: int | None = None,
    rows_per_step: float = ROWS_PER_STEP,
    clip: bool = True,
    seed: int = 0,
    images: int = 64,
) -> SAsFactor:
    """An s with *steps* equally frequent values, added to the images of *dataset*."""
    height, width, _ = dataset.image_shape
    steps = steps or steps_of(dataset.factor_sizes, height, width)
    scale = usual_shift_scale(steps, rows_per_step)
    halves = half_rows(scale * even_s(steps)).astype(np.int64)
    pattern = make_pattern(seed, height, width, int(halves.min()), int(halves.max()))
    pairs = np.stack([halves[:-1], halves[1:]], axis=1)
    shares, originals = np.full(steps, 1.0 / steps), _originals(dataset, images)
    return SAsFactor(pattern, pairs, halves, shares, originals, clip, step_length(steps))


def s_of(data: Perturbed, images: int = 64) -> SAsFactor:
    """The s that *data* was perturbed by; a step is the one its pattern was scaled for."""
    assert data.pattern is not None
    levels, counts = np.unique(np.asarray(data.half_rows), return_counts=True)
    levels = levels.astype(np.int64)
    made = data.record["provenance"]
    step = max(1, round(2 * made["rows_per_step"]))
    starts = levels[levels + step <= levels[-1]]
    starts = (
        starts[np.linspace(0, len(starts) - 1, min(len(starts), _MOST_STEPS)).astype(np.int64)]
        if len(starts)
        else starts
    )
    pairs = np.stack([starts, starts + step], axis=1)
    shares, originals = counts / counts.sum(), _originals(data.base, images)
    deviations = made["rows_per_step"] / made["shift_scale"]
    return SAsFactor(data.pattern, pairs, levels, shares, originals, data.clip, deviations)


def _originals(dataset: Dataset, images: int) -> NDArray[np.float32]:
    import torch

    return dataset.sampler("cpu")(torch.from_numpy(_spread(len(dataset), images))).numpy()


def _spread(size: int, wanted: int) -> NDArray[np.int64]:
    """*wanted* different indices, the same at every call."""
    return np.sort(np.random.default_rng(0).choice(size, min(size, wanted), replace=False))


@dataclass(frozen=True)
class Crossings:
    """The ε from which s counts more than each factor; NaN where it never does."""

    factors: Expansiveness
    local: NDArray[np.float64]
    """By expansiveness, the change per deviation."""
    overall: NDArray[np.float64]

    def table(self) -> pd.DataFrame:
        """One row a factor."""
        import pandas as pd

        return pd.DataFrame(
            {"local": self.local, "overall": self.overall},
            index=pd.Index(self.factors.factors, name="s passes factor at epsilon"),
        )


def crossings(dataset: Dataset, s: SAsFactor, factors: Expansiveness | None = None) -> Crossings:
    """Where *s* passes each factor of *dataset*, near and overall.

    *factors* may be given where they were examined before.
    """
    factors = factors or expansiveness(dataset)
    local = [_crossing(s.expansiveness, value) for value in factors.expansiveness]
    overall = [_crossing(s.explained_variance, value) for value in factors.explained_variance]
    return Crossings(factors, np.array(local), np.array(overall))


def _crossing(s_at: Callable[[float], float], factor: float) -> float:
    """The ε in (0, 1] at which the growing *s_at* passes *factor*, or NaN; to 6 digits."""
    if not s_at(1.0) >= factor:
        return math.nan
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if s_at(middle) >= factor else (middle, high)
    return high


@dataclass(frozen=True)
class PerturbationReport:
    """The factors of the original beside s, and the largest change of any value."""

    factors: Expansiveness
    rows_per_step: NDArray[np.float64]
    """By how many rows a step of each factor moves the pattern, on average; NaN for plain noise."""
    s_changes: NDArray[np.float64] | None
    s_explained_variance: float
    s_step: float
    """A step of s in its deviations."""
    s_rows: float
    max_norm: float
    """Largest |x~ - x| found, and among how many images."""
    max_norm_images: int

    def table(self) -> pd.DataFrame:
        """One row a factor and, with a pattern, one for s."""
        table = self.factors.table().drop(columns="values")
        table.insert(0, "rows_per_step", self.rows_per_step)
        if self.s_changes is None:
            return table.drop(columns="rows_per_step")
        mean = self.s_changes.mean() if self.s_changes.size else math.nan
        least = self.s_changes.min() if self.s_changes.size else math.nan
        table.loc["s"] = [self.s_rows, mean, least, mean / self.s_step, self.s_explained_variance]
        return table


def perturbation_report(data: Perturbed, *, images: int = 2048) -> PerturbationReport:
    """Examine perturbed *data* without training on it."""
    factors = expansiveness(data.base, images=images)
    made = data.record["provenance"]
    norm, among = max_norm(data, images)
    rows = np.full(len(data.factor_names), np.nan)
    if data.half_rows is None:
        return PerturbationReport(factors, rows, None, math.nan, math.nan, math.nan, norm, among)
    values = data.factors(np.arange(len(data)))
    for factor in range(len(rows)):
        lower, upper = neighbours(values, data.factor_sizes, factor)
        if len(lower):
            rows[factor] = (
                np.abs(data.half_rows[upper].astype(np.int64) - data.half_rows[lower]).mean() / 2
            )
    s = s_of(data)
    changes, variance = s.changes(data.epsilon), s.explained_variance(data.epsilon)
    return PerturbationReport(
        factors, rows, changes, variance, s.step, made["rows_per_step"], norm, among
    )


def max_norm(data: Perturbed, images: int = 2048) -> tuple[float, int]:
    """The largest change of a value in so many images, without rounding, and how many."""
    import torch

    indices = torch.from_numpy(_spread(len(data), images))
    original, changed = data.base.sampler("cpu"), data.sampler("cpu")
    largest = [
        float((changed(part).double() - original(part).double()).abs().max())
        for part in indices.split(256)
    ]
    return max(largest), len(indices)
