# SPDX-License-Identifier: Apache-2.0
"""What a VAE will and will not see of some data, and which loss to try, in one sentence.

A factor is seen where its images are far enough apart, and its order where distances follow it.
Where they do not, overlap losses (Michlo et al. 2023) are tried on the same data: a blur helps
where shapes have moved clear of themselves, not where values are kinds or lie on a circle. A factor
of two values has one distance, of which no order is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from unbraid.analysis.distances.perceived_distances import Distances, perceived_distances
from unbraid.analysis.distances.perceived_loss import PerceivedLoss, parse_loss
from unbraid.analysis.distances.tally import FactorDistances
from unbraid.data.dataset import Dataset

SEEN = 0.1
"""Share of random pairs' distance from which a factor is seen well: all of dSprites are above it
(orientation has 0.22), and of 3D Shapes the hues (0.17 to 0.46), but not shape, scale and
orientation (0.05 to 0.08). Whether such numbers foresee what models find is claim MIC-P of the
study `michlo2023`.
"""
ORDERED = 0.8
"""Rank correlation with the truth from which there is an order to see. XYSquares has 0.92 and more
at spacings 1 to 3, where Ada-GVAE's MIG in the paper is 0.47 and more, and 0.76 at spacings 4 to 7,
where only neighbours overlap and it is 0.22 and less (figure 9).
"""
GAIN = 0.2
"""By which a rank correlation must rise for a loss to be worth trying."""
PAIRS = 2_000
"""Of each factor, to try a loss."""


@dataclass(frozen=True)
class _Seen:
    """The factors of some data as a loss sees them."""

    well: list[str]
    hardly: list[str]
    """Their order can be seen, or none is asked, but their images are almost alike."""
    unordered: list[str]
    binary: list[str]
    """Of two values; well or hardly seen too."""


def advise(found: Distances, dataset: Dataset, device: torch.device | str = "cpu") -> str:
    """The sentence for what was *found* of *dataset*; other losses are tried where one may help."""
    tried = [
        perceived_distances(dataset, loss, pairs=min(PAIRS, found.pairs), device=device)
        for loss in losses_to_try(found, dataset)
    ]
    return advice(found, tried)


def losses_to_try(found: Distances, dataset: Dataset) -> list[PerceivedLoss]:
    """The loss with a wide blur and with a narrower one; none where the loss blurs already, samples
    are no images, or every order can be seen.
    """
    loss = parse_loss(found.loss)
    if loss.window or len(dataset.sample_shape) != 3 or not _seen(found).unordered:
        return []
    side = min(dataset.sample_shape[-2:])
    radii = [radius for radius in (side // 2 - 1, side // 8 - 1) if radius > 0]
    return [replace(loss, window="box", radius=radius) for radius in radii]


def advice(found: Distances, tried: Sequence[Distances] = ()) -> str:
    """The sentence for what was *found*, and for the same data under other losses."""
    if not found.inputs.random.mean > 0:
        return f"Under {found.loss} all images are alike: there is nothing for a VAE to see."
    seen = _seen(found)
    said = [f"will see {listed(seen.well)}"] if seen.well else []
    if seen.hardly:
        said.append(
            f"will hardly see {listed(seen.hardly)}, which a smaller β keeps longer, since"
            " images that differ there alone are almost alike"
        )
    if seen.unordered:
        said.append(f"will tell the values of {listed(seen.unordered)} apart in little or no order")
    text = f"A VAE with the loss {found.loss} {'; it '.join(said)}"
    if not seen.unordered:
        return f"{text}{'' if seen.hardly else _in_order(seen)}."
    return f"{text}: {_remedy(found, seen.unordered, tried)}."


def _seen(found: Distances) -> _Seen:
    ranked = sorted(found.inputs.factors, key=lambda one: -one.importance.mean)
    ordered = [one for one in ranked if one.binary or _order(one) >= ORDERED]
    least = SEEN * found.inputs.random.mean
    return _Seen(
        [one.factor for one in ordered if one.importance.mean >= least],
        [one.factor for one in ordered if one.importance.mean < least],
        [one.factor for one in ranked if not one.binary and _order(one) < ORDERED],
        [one.factor for one in ranked if one.binary],
    )


def _in_order(seen: _Seen) -> str:
    """What is said of the order where all factors are *seen* well."""
    if len(seen.binary) == len(seen.well):
        return ""
    return f", each in its order{' (if of more than two values)' if seen.binary else ''}"


def _order(one: FactorDistances) -> float:
    """Its rank correlation, 0 where all distances are equal."""
    return one.spearman if math.isfinite(one.spearman) else 0.0


def _remedy(found: Distances, unordered: Sequence[str], tried: Sequence[Distances]) -> str:
    """Which of the losses *tried* brings an order to most of the factors, if any does."""
    before = {one.factor: _order(one) for one in found.inputs.factors}
    best: tuple[int, float, str, list[str]] = (0, 0.0, "", [])
    for other in tried:
        after = {one.factor: _order(one) for one in other.inputs.factors}
        helped = [
            name for name in unordered if after.get(name, 0.0) >= max(ORDERED, before[name] + GAIN)
        ]
        if helped:
            mean = float(np.mean([after[name] for name in helped]))
            best = max(best, (len(helped), mean, other.loss, helped))
    _, mean, loss, helped = best
    if loss:
        rest = [name for name in unordered if name not in helped]
        kept = f", though not {listed(rest)}" if rest else ""
        return (
            f"try {loss}, which orders {listed(helped)} (rank correlation {mean:.2f}){kept},"
            " unless these are kinds, angles or hues"
        )
    return (
        "no blur brings one, and kinds, angles and hues have none"
        if tried
        else "kinds, angles and hues have none"
    )


def listed(names: Sequence[str]) -> str:
    """Names as people list them.

    >>> listed(["x", "y", "scale"])
    'x, y and scale'
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
