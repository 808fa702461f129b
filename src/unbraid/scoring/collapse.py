# SPDX-License-Identifier: Apache-2.0
"""Collapsed models: those that use too few latents for their scores to mean anything.

A latent is active where at least a fifth of the variance of its drawn codes is that of the means,
`Var(mean) / (Var(mean) + E[variance]) >= 0.2`; the rest is noise that knows no image. Where the
codes as a whole match a standard normal prior, the two sum to 1 and this is the rule of Zietlow et
al. (2021) that `active_units` has, a mean posterior variance below 0.8. As a share it also holds
for other priors and scales. Where an objective decodes the mean there is no noise: a latent is then
active unless its codes stand still beside those of the widest latent.

A model is collapsed where fewer latents are active than half of the factors that vary, or than half
of its latents where it has fewer of these; without factors, where none is active. Half is lenient
on purpose: a latent may hold two factors, and weak factors are often lost by models that are worth
looking at, but a model below half has lost most of what there is to find. Metrics do not see this:
they rescale codes, so that the rounding of a dead latent looks like a code, and some give it a good
score since it mixes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from unbraid.core.words import count
from unbraid.metrics import METRICS
from unbraid.metrics._standardise import standard_deviations
from unbraid.scoring.metric_names import base

ACTIVE = "active_latents"
"""What the table of scores calls the number of active latents, which it has of every member."""
SIGNAL_SHARE = 0.2
STILL_SHARE = 1e-3
"""Of the widest latent's deviation; latents of one model are on one scale."""
REMEDY = "Weaken the objective (a lower beta, say), or train for more steps."


def which_active(
    mean: NDArray, noise: NDArray | None, still: float = STILL_SHARE
) -> NDArray[np.bool_]:
    """Which latents of *mean* `(n, latents)` are active, by their mean posterior variances.

    *noise* `(latents,)` is None where there is none; then *still* is the share of the widest
    latent's deviation up to which one stands still.
    """
    spread = standard_deviations(np.asarray(mean, dtype=np.float64))
    if noise is None:
        return spread > still * spread.max()
    signal = np.square(spread)
    return (signal > 0) & (signal >= SIGNAL_SHARE * (signal + noise))


def count_active(mean: NDArray, noise: NDArray | None, still: float = STILL_SHARE) -> int:
    """How many latents of *mean* are active."""
    return int(np.count_nonzero(which_active(mean, noise, still)))


def least_active(latents: int, factors: int) -> int:
    """The fewest active latents of a model that is not collapsed, for *factors* that vary.

    >>> least_active(10, 5), least_active(10, 2), least_active(1, 5), least_active(10, 0)
    (3, 1, 1, 1)
    """
    return max(1, -(-min(latents, factors) // 2))


def collapse_remark(active: Mapping[int, int], latents: int, factors: int, of: int) -> str:
    """What a table says of the collapsed among *of* models, whose *active* latents are given."""
    who = ", ".join(f"{member} ({some})" for member, some in list(active.items())[:8])
    more = f" and {len(active) - 8} more" if len(active) > 8 else ""
    vary = f"{count(factors, 'factor')} that {'varies' if factors == 1 else 'vary'}"
    half = f"fewer than half of the {vary}" if factors else "none is active"
    return (
        f"Collapsed: {len(active)} of {count(of, 'model')}, by member with its active latents of"
        f" {latents}: {who}{more}; {half}. Their scores mean nothing, and the best is not looked"
        f" for among them. {REMEDY}"
    )


def dead_codes_remarks(names: Iterable[str]) -> list[str]:
    """What a table with the metrics *names* says of those that dead codes score well by."""
    told = {name: line for name in dict.fromkeys(names) if (line := dead_codes_remark(name))}
    return [f"{', '.join(told)}: {line}." for line in set(told.values())]


def dead_codes_remark(name: str) -> str:
    """What is said beside a metric that dead codes score well by; nothing for others."""
    if base(name) not in METRICS or not getattr(METRICS.load(base(name)), "likes_dead_codes", 0):
        return ""
    return "dead codes can score well, so look at active latents and other metrics, too"
