# SPDX-License-Identifier: Apache-2.0
"""Collapsed individuals: the rule of `scoring/collapse.py`, as a search knows the factors.

Some metrics score dead codes well, and a search by one would find nothing else. So the active
latents of every model are counted on the images that it is scored by, 5,000 at most, and an
individual is collapsed where one of its models is: its score is the mean over them.

By a metric that compares codes with factors, half of those that vary must be active, as in the
tables of a run; by surrogate labels half of them, in the leaf-run that has fewest. A search without
labels must not learn from the data's factors, not even their number, so that one active latent is
enough there: UDR is published to find the two positions of dSprites alone, which `rpu` builds on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unbraid.codes.codes import recorded_sample
from unbraid.scoring.collapse import REMEDY, count_active

MOST_POINTS = 5_000
"""Images by which active latents are counted; more would cost as much as MIG itself."""


def counted(mean: NDArray[np.float32], logvar: NDArray[np.float32], *, noisy: bool) -> int:
    """How many latents of codes `(n, latents)` are active, 0 where they are not finite.

    *noisy* says whether latents are drawn with the posterior's variance.
    """
    if len(mean) > MOST_POINTS:
        few = recorded_sample(len(mean), MOST_POINTS)
        mean, logvar = mean[few], logvar[few]
    with np.errstate(over="ignore"):
        noise = np.exp(logvar.astype(np.float64)).mean(axis=0) if noisy else None
    return count_active(mean, noise) if np.isfinite(mean).all() else 0


def collapsed_winner(active: int, latents: int, least: int | None) -> str:
    """What is said of a winner that is collapsed, as every individual of the search was; *least*
    is how many must be active, where that is still known.
    """
    return (
        "Every individual that had a score was collapsed, the winner too: of its"
        f" {latents} latents {active or 'none'} {'is' if active <= 1 else 'are'} active"
        f"{'' if least is None else f', and {least} must be'}. Its score means nothing. {REMEDY}"
    )
