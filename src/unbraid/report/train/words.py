# SPDX-License-Identifier: Apache-2.0
"""Sentences in plain words, made from the numbers and said only where the numbers say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

CARRIED = 0.1
"""A latent carries a factor from this share of the factor's information on."""
SHARED = 0.5
"""Two latents share a factor where the second holds at least this part of what the first holds."""
INACTIVE_NATS = 0.01
_CLEARLY = 2.0
"""One spread is called larger than another when its variance is at least this many times the
other's.
"""
_MOST_NAMES = 8
_CHANCE = 0.05
"""Settings are told apart only where chance alone would do it more rarely than this."""


@dataclass(frozen=True)
class Spread:
    """Variance of a score that comes from the settings and that comes from the seeds."""

    settings: float
    seeds: float
    chance: float
    """Probability of means at least as far apart if settings made no difference (F test)."""


def spread_of(groups: Sequence[ArrayLike]) -> Spread | None:
    """One-way analysis of variance (method of moments) of scores grouped by setting; None where it
    would say little.

    It takes two settings with at least three scores each. The variance between settings is what is
    left of their means' differences after the part that seeds alone would cause.
    """
    from scipy.stats import f

    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    arrays = [values[np.isfinite(values)] for values in arrays]
    if len(arrays) < 2 or any(len(values) < 3 for values in arrays):
        return None
    sizes = np.array([len(values) for values in arrays])
    means = np.array([values.mean() for values in arrays])
    total = sizes.sum()
    within = sum(float(((values - values.mean()) ** 2).sum()) for values in arrays) / (
        total - len(arrays)
    )
    between = float((sizes * (means - (sizes * means).sum() / total) ** 2).sum()) / (
        len(arrays) - 1
    )
    usual_size = (total - (sizes**2).sum() / total) / (len(arrays) - 1)
    if within == 0.0:
        chance = 1.0 if between == 0.0 else 0.0
    else:
        chance = float(f.sf(between / within, len(arrays) - 1, total - len(arrays)))
    return Spread(max(0.0, (between - within) / float(usual_size)), within, chance)


def spread_sentence(spread: Spread | None) -> str:
    """Whether settings or seeds matter more; nothing where it cannot be told."""
    if spread is None or spread.settings == spread.seeds == 0:
        return ""
    if spread.chance > _CHANCE:
        return "Seeds differ too much to tell the settings apart."
    if spread.settings >= _CLEARLY * spread.seeds:
        return "Settings matter more than seeds here."
    if spread.seeds >= _CLEARLY * spread.settings:
        return "Seeds matter more than settings here."
    return "Settings and seeds matter about equally here."


def models(count: int) -> str:
    """A count with its noun: `1 model`, `9 models`."""
    return f"{count:,} model" + ("" if count == 1 else "s")


def trained_sentence(trained: int, total: int, data: str, steps: int) -> str:
    """How many models were trained on what, and how long."""
    many = models(total) if trained == total else f"{trained:,} of {models(total)}"
    return f"{many} trained on {data} for {steps:,} {'step' if steps == 1 else 'steps'}."


def best_sentence(metric: str, score: float, member: str, total: int) -> str:
    """The best member's score and name."""
    return (
        f"It reaches {metric} {score:.2f} ({member})."
        if total == 1
        else f"The best reaches {metric} {score:.2f} ({member})."
    )


def lowest_loss_sentence(loss: float, member: str, total: int) -> str:
    """The member with the lowest loss, where no score can be had."""
    if not np.isfinite(loss):
        return ""
    return (
        f"Its loss is {loss:.4g} nats ({member})."
        if total == 1
        else f"The lowest loss is {loss:.4g} nats ({member})."
    )


def diverged_sentence(diverged: Sequence[tuple[str, int]], total: int) -> str:
    """Who diverged, by name and step; empty where nobody did."""
    if not diverged:
        return ""
    names = "; ".join(f"{name} at step {step:,}" for name, step in diverged[:_MOST_NAMES])
    if len(diverged) > _MOST_NAMES:
        names += f"; and {len(diverged) - _MOST_NAMES:,} more"
    was = "was" if len(diverged) == 1 else "were"
    return f"{len(diverged):,} of {models(total)} diverged and {was} frozen: {names}."


def factor_sentence(factor: str, shares: NDArray[np.float64], active: NDArray[np.bool_]) -> str:
    """Where a factor is found: *shares* `(latents,)` are each latent's information about it over
    its entropy.

    Information is counted on means however little they move, so that a latent that is not *active*
    can seem to know much.
    """
    if not np.isfinite(shares).all():
        return f"{factor} takes one value in this sample; nothing can be said about it."
    if not active.any():
        return f"{factor} is in no latent: none is active."
    order = np.argsort(-shares, kind="stable")
    if not active[order[0]]:
        first = next(latent for latent in order if active[latent])
        return (
            f"{factor} is not clearly in any active latent: the best, latent {first}, holds"
            f" {shares[first]:.2f} of its information."
        )
    first, best = order[0], shares[order[0]]
    if len(order) == 1:
        return f"{factor}: the only latent holds {best:.2f} of its information."
    second, next_best = order[1], shares[order[1]]
    if best < CARRIED:
        return (
            f"{factor} is in no latent: the best, latent {first}, holds {best:.2f} of its"
            " information."
        )
    if next_best >= SHARED * best:
        return (
            f"{factor} is spread: latent {first} holds {best:.2f} of its information and latent"
            f" {second} holds {next_best:.2f}."
        )
    return (
        f"{factor} is in latent {first} ({best:.2f} of its information; next best latent {second}:"
        f" {next_best:.2f})."
    )


def carried(factors: Sequence[str], shares: NDArray[np.float64]) -> list[tuple[str, float]]:
    """Factors a latent carries with their shares, largest first: *shares* `(factors,)` of that
    latent.
    """
    order = np.argsort(-np.nan_to_num(shares), kind="stable")
    return [
        (str(factors[at]), float(shares[at]))
        for at in order
        if np.isfinite(shares[at]) and shares[at] >= CARRIED
    ]


def inactive_sentence(latents: Sequence[int], kind: str) -> str:
    """One line for latents that say nothing; *kind* is `kl` or `spread`, as they were ordered."""
    if not latents:
        return ""
    numbers = ", ".join(map(str, latents))
    what = f"under {INACTIVE_NATS:g} nats" if kind == "kl" else "nearly the same for every image"
    if len(latents) == 1:
        return f"Not shown: latent {numbers} ({what}; moving it changes next to nothing)."
    return f"Not shown: latents {numbers} (each {what}; moving them changes next to nothing)."


def missing_factors_note() -> str:
    """What unlabelled data leaves out."""
    return (
        "No factors are known for this data, so scores that compare codes with factors are left"
        " out."
    )
