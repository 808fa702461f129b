# SPDX-License-Identifier: Apache-2.0
"""What a reduction found in each latent, and why it stopped, in sentences for page and terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unbraid.core.registry import Citation
from unbraid.core.words import count
from unbraid.search.reduce.reduction import NO_PEAKS, TOO_FEW_IMAGES, Latent, Reduction

CITATION = Citation(
    "Estermann, Marks and Yanik",
    2020,
    "Robust Disentanglement of a Few Factors at a Time",
    "NeurIPS, arXiv:2010.13527",
)


def stopped_sentence(found: Reduction, names: Sequence[str]) -> str:
    """Why nothing is kept, with the latents and numbers concerned; empty where something is."""
    if found.stopped is None:
        return ""
    if found.stopped == NO_PEAKS:
        return (
            f"{found.stopped} Without steps: {', '.join(names[at] for at in found.without_peaks)}."
        )
    if found.stopped == TOO_FEW_IMAGES:
        assert found.chosen is not None
        needed = found.rule.fewest_images
        return f"{found.stopped} There are {found.chosen.size}, and {needed} are needed."
    return f"{found.stopped} More than {found.rule.more_than} are needed in one of them."


def latent_sentence(found: Reduction, at: int) -> str:
    """What one latent's codes show, and what is kept of them."""
    latent = found.latents[at]
    low, high = latent.values[0], latent.values[-1]
    if low == high:
        return f"All its codes are {low:.4g}."
    steps, parts, chance = len(latent.peaks), len(latent.intervals), len(latent.by_chance)
    if not steps:
        said = [f"Its codes rise from {low:.4g} to {high:.4g} without a step."]
    else:
        cut = f"{count(steps, 'step')} {'cuts' if steps == 1 else 'cut'} its codes into"
        # With few steps the two ends are intervals too.
        ends = (
            "" if parts > steps else ", not counting the ends before the first and after the last"
        )
        said = [f"{cut} {count(parts, 'interval')}{ends}."]
    if chance:
        rises = f"{count(chance, 'rise')} {'is' if chance == 1 else 'are'} above the least height"
        said.append(f"{rises}, but no higher than chance makes among so many codes.")
    if latent.chosen is not None:
        size = len(latent.intervals[latent.chosen])
        rank = f"number {latent.chosen + 1} of {parts} by quality"
        said.append(f"Chosen: codes {span(latent, latent.chosen)}, {count(size, 'image')}, {rank}.")
        left = 100 * variance_left(latent, found.images(found.index))
        among = "these" if len(found.latents) == 1 else "the images chosen in all latents"
        said.append(f"Among {among} it keeps {left:.2g}% of its variance.")
    return " ".join(said)


def span(latent: Latent, rank: int) -> str:
    """The codes of one interval: 1 to 1.01."""
    one = latent.intervals[rank]
    return f"{latent.values[one.start]:.3g} to {latent.values[one.stop - 1]:.3g}"


def variance_left(latent: Latent, images: NDArray[np.int64]) -> float:
    """Variance of the codes of *images* as a share of that of all."""
    chosen = np.zeros(len(latent.order), dtype=bool)
    chosen[images] = True
    return float(latent.values[chosen[latent.order]].var() / latent.values.var())
