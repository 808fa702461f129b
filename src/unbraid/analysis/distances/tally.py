# SPDX-License-Identifier: Apache-2.0
"""What the traversals of one factor say together: mean matrix, importance, rank correlation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbraid.analysis.distances.image_pairs import Traversals

_TIE = 1e-7
_NOTHING = 1e-12
"""Distances this small are rounding: less than one level of one pixel in an image of 256x256."""


@dataclass(frozen=True)
class Importance:
    """Distances of pairs: of one factor, or random ones."""

    mean: float
    std: float
    """Deviation between pairs, as in the paper's Table A1."""
    standard_error: float
    """Of the mean; 0 where it is exact, NaN for a single traversal among others."""
    pairs: int


@dataclass(frozen=True)
class FactorDistances:
    """Distances along the traversals of one factor at one level."""

    level: str
    factor: str
    values: NDArray[np.int64]
    matrix: NDArray[np.float64]
    """Mean over traversals `(values, values)`, row the first (true) sample; NaN where no traversal
    has both values.
    """
    importance: Importance
    traversals: int
    spearman: float
    """Mean over the traversals where it is defined; NaN where there are none."""
    spearman_std: float
    undefined: int
    """Traversals without a rank correlation."""
    spearman_of_mean: float
    """Rank correlation of the mean matrix with the ground truth."""

    @property
    def binary(self) -> bool:
        """Two values have one distance, which is in no order with others nor out of it."""
        return len(self.values) == 2


def ground_truth(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """L1 distances between samples that differ in one factor: |i - j|."""
    return np.abs(values[:, None] - values[None, :]).astype(np.float64)


class Tally:
    """Sums over the traversals of one factor at one level.

    Taken from the first matrix, so that equal distances stay exact.
    """

    def __init__(self, level: str, chosen: Traversals) -> None:
        size = len(chosen.values)
        self.level, self.chosen = level, chosen
        self.apart = ~np.eye(size, dtype=bool)
        self.truth = ground_truth(chosen.values)[self.apart]
        self.origin: NDArray[np.float64] | None = None
        self.level_of_pairs = 0.0
        self.total, self.count = np.zeros((size, size)), np.zeros((size, size), np.int64)
        self.sums: list[NDArray[np.float64]] = []
        self.counts: list[NDArray[np.int64]] = []
        self.squares = 0.0
        self.correlations: list[NDArray[np.float64]] = []

    def add(self, distances: NDArray[np.float64], present: NDArray[np.bool_]) -> None:
        """Count matrices `(traversals, values, values)` in; *present* says which values exist."""
        known = present[:, :, None] & present[:, None, :]
        origin = self.origin
        if origin is None:
            self.level_of_pairs = float(distances[0][known[0] & self.apart][0])
            self.origin = origin = np.where(known[0], distances[0], self.level_of_pairs)
        self.total += np.where(known, distances - origin, 0.0).sum(axis=0)
        self.count += known.sum(axis=0)
        pairs, valid = distances[:, self.apart], known[:, self.apart]
        moved = np.where(valid, pairs - self.level_of_pairs, 0.0)
        self.sums.append(moved.sum(axis=1))
        self.squares += float((moved**2).sum())
        self.counts.append(valid.sum(axis=1))
        self.correlations.append(rank_correlations(np.where(valid, pairs, np.nan), self.truth))

    def result(self) -> FactorDistances:
        """What the traversals say together."""
        assert self.origin is not None
        matrix = np.full(self.total.shape, np.nan)
        np.divide(self.total, self.count, out=matrix, where=self.count > 0)
        matrix += self.origin
        correlations = np.concatenate(self.correlations)
        defined = correlations[np.isfinite(correlations)]
        return FactorDistances(
            level=self.level,
            factor=self.chosen.factor,
            values=self.chosen.values,
            matrix=matrix,
            importance=self._importance(),
            traversals=len(correlations),
            spearman=float(defined.mean()) if len(defined) else float("nan"),
            spearman_std=float(defined.std()) if len(defined) else float("nan"),
            undefined=len(correlations) - len(defined),
            spearman_of_mean=float(rank_correlations(matrix[self.apart][None], self.truth)[0]),
        )

    def _importance(self) -> Importance:
        sums, counts = np.concatenate(self.sums), np.concatenate(self.counts)
        pairs, traversals = int(counts.sum()), len(counts)
        shift = float(sums.sum()) / pairs
        variance = max(0.0, self.squares / pairs - shift**2)
        # Traversals may have different numbers of pairs: the mean is a ratio of two sums, and so is
        # its error.
        residuals = sums - shift * counts
        if self.chosen.complete:
            error = 0.0
        elif traversals == 1:
            error = float("nan")
        else:
            error = float(
                np.sqrt((residuals**2).sum() / (traversals * (traversals - 1)))
                / (pairs / traversals)
            )
            error = error if error > _NOTHING * abs(self.level_of_pairs + shift) else 0.0
        # Both orders of a pair were counted.
        return Importance(self.level_of_pairs + shift, float(np.sqrt(variance)), error, pairs // 2)


def importance_of(distances: NDArray[np.float64], complete: bool) -> Importance:
    """Mean, deviation and error of independent pairs."""
    error = (
        0.0
        if complete
        else (
            float(distances.std(ddof=1) / np.sqrt(len(distances)))
            if len(distances) > 1
            else float("nan")
        )
    )
    return Importance(float(distances.mean()), float(distances.std()), error, len(distances))


def _in_steps(distances: NDArray[np.float64], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    """*distances* in whole steps of a tie, 1e-7 of the largest in each row."""
    largest = np.where(valid, np.abs(distances), 0.0).max(axis=1, keepdims=True)
    zeros = np.zeros(distances.shape)
    return np.rint(np.divide(distances, largest * _TIE, out=zeros, where=largest > _NOTHING))


def rank_correlations(
    distances: NDArray[np.float64], truth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Spearman's correlation of each row of *distances* `(rows, pairs)` with *truth*, `(pairs,)` or
    of the same shape.

    Pairs that are NaN in *distances* are left out; a row is NaN where either side is constant.
    """
    from scipy.stats import rankdata

    valid = np.isfinite(distances)
    ranks = [
        np.nan_to_num(rankdata(np.where(valid, side, np.nan), axis=1, nan_policy="omit"))
        for side in (
            _in_steps(distances, valid),
            _in_steps(np.broadcast_to(truth, distances.shape), valid),
        )
    ]
    count = valid.sum(axis=1, keepdims=True)
    ours, theirs = (
        np.where(valid, rank - rank.sum(axis=1, keepdims=True) / np.maximum(count, 1), 0.0)
        for rank in ranks
    )
    scale = np.sqrt((ours**2).sum(axis=1) * (theirs**2).sum(axis=1))
    return np.divide(
        (ours * theirs).sum(axis=1), scale, out=np.full(len(scale), np.nan), where=scale > 0
    )
