# SPDX-License-Identifier: Apache-2.0
"""Claims about XYSquares and the overlap loss that follow from their definitions."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.data.drawn.xysquares import XYSquares
from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import exactly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unbraid.analysis.distances.tally import FactorDistances

APART = 2 * 8 * 8 / (64 * 64 * 3)
"""Mean squared distance of two images one of whose squares has moved clear of itself: C_8."""
SPACINGS = tuple(range(1, 9))
PAIRS = 200
"""Of each factor: all its traversals are alike."""


def constant_distances(table: pd.DataFrame) -> Finding | None:
    """MIC-E7: how many images XYSquares has, and how far apart they are along a factor."""
    return distances_at(8)


def distances_at(spacing: int) -> Finding:
    """The same at any *spacing*."""
    size = XYSquares(spacing=spacing).grid.size
    off = np.concatenate([_off(one.matrix) for one in _inputs(spacing)])
    return Finding(
        (
            exactly("images less 8^6, in size", abs(float(size - 8**6)), 1, 0.0),
            exactly("largest departure from 128/12288", float(np.abs(off - APART).max()), len(off)),
            exactly("distinct distances along traversals", float(len({*off.round(9)})), len(off)),
            exactly("mean distance along traversals", float(off.mean()), len(off), 0.0104167),
        )
    )


def order_by_spacing(table: pd.DataFrame) -> Finding | None:
    """MIC-F8: how well the order of the positions can be seen at each spacing."""
    return order_at(SPACINGS)


def order_at(spacings: tuple[int, ...]) -> Finding:
    """The same at any *spacings*, in their order."""
    correlations, seen = [], []
    for spacing in spacings:
        factors = _inputs(spacing)
        known = [one.spearman for one in factors if math.isfinite(one.spearman)]
        correlations.append(float(np.mean(known)) if known else 0.0)
        seen.append(1 - sum(one.undefined for one in factors) / sum(o.traversals for o in factors))
    rises = [after - before for before, after in pairwise(correlations)]
    return Finding(
        (
            exactly("largest rise from a spacing to the next", max(rises), len(rises)),
            exactly("rank correlation at spacing 1", correlations[0], len(spacings)),
            exactly("share of traversals with an order at spacing 8", seen[-1], len(spacings)),
            *(
                exactly(f"rank correlation at spacing {spacing}", value, 6)
                for spacing, value in zip(spacings[1:], correlations[1:], strict=True)
            ),
        ),
        _all_spacings(spacings, correlations),
        "Where all distances are equal there is no correlation; the figure has 0 there.",
    )


def _all_spacings(spacings: tuple[int, ...], correlations: list[float]) -> Exhibit:
    along, apart = zip(*(nearer_than_apart(spacing) for spacing in spacings), strict=True)
    parts = {
        "rank correlation with the true distance": correlations,
        "share of traversal pairs nearer than C_8": along,
        "share of random pairs nearer than C_8": apart,
    }
    lines = [
        pd.DataFrame({"x": spacings, "y": values, "group": name}) for name, values in parts.items()
    ]
    return Exhibit(
        "lines",
        pd.concat(lines, ignore_index=True),
        "spacing, pixels",
        "rank correlation, share of pairs",
        "XYSquares at all spacings: order and overlap go as squares move apart.",
    )


def overlapping_pairs(table: pd.DataFrame) -> Finding | None:
    """MIC-S54: how many pairs are nearer than images whose squares do not overlap."""
    return overlap_at(SPACINGS)


def overlap_at(spacings: tuple[int, ...]) -> Finding:
    """The same at any *spacings*, in their order."""
    along, apart = zip(*(nearer_than_apart(spacing) for spacing in spacings), strict=True)
    rises = [after - before for shares in (along, apart) for before, after in pairwise(shares)]
    return Finding(
        (
            exactly("largest rise from a spacing to the next", max(rises), len(rises)),
            exactly("share at spacing 1 less that at 8", along[0] - along[-1], len(spacings)),
            *(
                exactly(f"share at spacing {spacing}", share, 28)
                for spacing, share in zip(spacings, along, strict=True)
            ),
        ),
        Exhibit(
            "lines",
            pd.DataFrame({"x": spacings, "y": apart, "group": "random pairs"}),
            "spacing, pixels",
            "share of random pairs nearer than C_8",
            "The wider the spacing, the fewer random pairs overlap; at 8 only equal ones do.",
            logarithmic=("y",),
        ),
    )


def nearer_than_apart(spacing: int) -> tuple[float, float]:
    """Shares of pairs nearer than `APART`: of one factor's positions, and of random images.

    Both by area: two squares that are g grid steps apart in x and h in y share
    max(0, 8 - spacing g) * max(0, 8 - spacing h) pixels.
    """
    gaps = np.arange(1, 8)
    places = 8 - gaps  # so many pairs of positions are that far apart
    along = float(places[spacing * gaps < 8].sum() / places.sum())
    chance: dict[int, float] = {0: 1 / 8} | {gap: 2 * (8 - gap) / 64 for gap in range(1, 8)}
    one: dict[int, float] = {}  # pixels of one square that changed, with their chance
    for across, p in chance.items():
        for down, q in chance.items():
            shared = max(0, 8 - spacing * across) * max(0, 8 - spacing * down)
            one[64 - shared] = one.get(64 - shared, 0.0) + p * q
    apart = sum(
        p * q * r
        for first, p in one.items()
        for second, q in one.items()
        for third, r in one.items()
        if first + second + third < 64
    )
    return along, float(apart)


def overlap_loss(table: pd.DataFrame) -> Finding | None:
    """MIC-E11: our overlap loss against the paper's formula, blurred by FFT."""
    return overlap_loss_at(31, 63.0**2)


def overlap_loss_at(radius: int, alpha: float) -> Finding:
    """How far our loss with the window of the paper lies from a loss of *radius* and *alpha*."""
    import torch
    from scipy.signal import fftconvolve

    from unbraid.objectives.likelihoods import likelihood

    chance = np.random.default_rng(0)
    truth, made = chance.random((2, 4, 3, 64, 64))
    window = np.full((1, 1, 2 * radius + 1, 2 * radius + 1), (2 * radius + 1.0) ** -2)
    blurred = fftconvolve(truth - made, window, mode="same", axes=(2, 3))
    theirs = ((truth - made) ** 2).mean(axis=(1, 2, 3)) + alpha * (blurred**2).mean(axis=(1, 2, 3))
    ours = likelihood("gaussian+box31", bounded=False).negative_log(
        torch.from_numpy(made)[None], torch.from_numpy(truth)[None]
    )
    gap = np.abs(ours[0].numpy() / truth[0].size - theirs) / theirs
    return Finding(
        (exactly("largest relative departure from the formula", float(gap.max()), len(gap)),)
    )


@cache
def _inputs(spacing: int) -> tuple[FactorDistances, ...]:
    from unbraid.analysis.distances.perceived_distances import perceived_distances

    return perceived_distances(XYSquares(spacing=spacing), pairs=PAIRS).inputs.factors


def _off(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return matrix[~np.eye(len(matrix), dtype=bool)]
