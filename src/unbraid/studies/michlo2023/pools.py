# SPDX-License-Identifier: Apache-2.0
"""What is trained for the study: β-VAE and Ada-GVAE on XYSquares at eight spacings, over eight β on
several data, and with the overlap loss; and what makes the published setting collapse.

Every model is trained as the authors' scripts have it: batch 256 (Ada-GVAE: 256 pairs), Adam at
1e-3, Burgess's network from Xavier-normal weights, images standardised by channel, squared error,
symmetric KL and threshold 1/2, pairs by the rule of their code. Their β weighs a mean over latents
against a mean over pixels; `in_sums` says what it is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unbraid.objectives.conventions import beta_of_sums
from unbraid.studies.pool import Pool, Scale, Slice

SPACINGS, BETAS, BLUR, LEVELS, COLLAPSE = "spacings", "betas", "blur", "levels", "collapse"
"""Pools: figure 9, figure 6, figure 11, figure 4, and our own question."""
PUBLISHED = ("cars3d", "smallnorb", "shapes3d")
"""Data whose files must be added first; each is a pool of its own, with the settings of `betas`."""
DRAWN = ("dsprites", "shapes3d_drawn", "xysquares")
SWEEPS = (BETAS, *PUBLISHED)
"""Pools of figure 6."""

EIGHT_BETAS = (3.16e-4, 1e-3, 3.16e-3, 0.01, 0.0316, 0.1, 0.316, 1.0)
"""Of figure 6, as means over pixels and latents."""
SPACING_BETAS = (0.001, 0.00316)
BLUR_BETAS = (0.0001, 0.0316)
LEVELS_BETA = 0.01
"""Of figure 4, which names none: the authors' scripts call 0.01 to 0.0316 good."""
SIZES = (9, 25)
"""Numbers of latents in figure 6."""
BLUR_LOSSES = {"mse": "gaussian", "blur": "gaussian+box31"}
OBJECTIVES = {"ada": "ada_gvae:divergence=symmetric_kl,beta=", "beta": "beta_vae:beta="}
VALUES = {"dsprites": 64 * 64, "smallnorb": 64 * 64, "sprites": 32 * 32}
"""Numbers in an image; of all other data 64 x 64 x 3."""

COLLAPSED_BETA = 0.0316
"""At which two of five seeds of figure 11's Ada-GVAE with blur kept nothing in their latents here
(28,800 steps, Glorot-uniform weights; benchmarks/disentangling.py).
"""
COLLAPSE_STEPS = 14_400
COLLAPSE_SEEDS = 20
ARMS: Mapping[str, Mapping[str, Any]] = {
    "published": {},
    "rate": {"learning_rate": 3e-4},
    "start": {"initialisation": "xavier_normal"},
    "weight": {"beta": COLLAPSED_BETA * 9 / 25},
    "latents": {"latents": 9, "beta": COLLAPSED_BETA * 9 / 25},
    "average": {"average": "second"},
}
"""The pool `collapse`: the setting in which seeds were lost, and it with one change each.

`weight` divides the weight of the KL as 25 latents in place of 9 do in a mean over latents;
`latents` has 9 latents, each with the weight that the 25 have. `average` is disent's at the time.
The rule was written before any of them was trained. A model is collapsed if fewer than three of its
latents are active, half of the factors. Of the five changes the one counts under which the share of
collapsed seeds falls most, if the 99% interval of its fall (Newcombe's, so that five of them hold
with 95%) lies above 0: it is then what makes the setting collapse. If none does, nothing here tells
the collapse from the setting's own spread. No other claim looks at these models.
"""
SETTINGS = ("spacing", "latents", "likelihood")
METRICS = ("mig", "dci", "active_units")
MICHLO: dict[str, Any] = {
    "batch_size": 256,
    "learning_rate": 1e-3,
    "standardise": True,
    "initialisation": "xavier_normal",
    "likelihood": "gaussian",
    "network": "conv_burgess",
}
SMALL: dict[str, Any] = {
    "batch_size": 32,
    "network": "mlp",
    "network_options": {"hidden": 48},
    "code_samples": 600,
}
"""In place of some of it, for two cores."""


def in_sums(beta: float, data: str, latents: int) -> float:
    """The authors' *beta* as the weight of a sum over latents against a sum over pixels.

    >>> round(in_sums(0.003, "xysquares", 9), 12)
    4.096
    """
    return beta_of_sums(beta, VALUES.get(data, 64 * 64 * 3), latents)


def pools(scale: Scale, first_seed: int) -> tuple[Pool, ...]:
    """The pools at *scale*, with seeds from *first_seed* on."""
    return {"small": _small, "gpu": _gpu, "paper": _paper}[scale](first_seed)


def _gpu(first: int) -> tuple[Pool, ...]:
    five = range(first, first + 5)
    return (
        _spacings(five, 20_000),
        _blur(five, 57_600),
        _betas(DRAWN, range(first, first + 1), 30_000),
        *_published(range(first, first + 1), 30_000),
        _levels(five, 30_000),
        _collapse(range(first, first + COLLAPSE_SEEDS), COLLAPSE_STEPS),
    )


def _paper(first: int) -> tuple[Pool, ...]:
    five, one = range(first, first + 5), range(first, first + 1)
    drawn = [data for data in DRAWN if data != "shapes3d_drawn"]
    return (
        _spacings(five, 57_600),
        _blur(five, 57_600),
        _betas(drawn, one, 115_200),
        *_published(one, 115_200),
        _levels(five, 115_200),
    )


def _small(first: int) -> tuple[Pool, ...]:
    """Minutes on two cores: dense networks, few steps, few settings."""
    two, three = range(first, first + 2), range(first, first + 3)
    return (
        _spacings(two, 400, SMALL, (1, 4, 8), SPACING_BETAS[:1]),
        _blur(two, 250, SMALL, BLUR_BETAS[1:]),
        _betas(("sprites", "xysquares"), two[:1], 300, SMALL, EIGHT_BETAS[::3], SIZES[:1]),
        _levels(two, 400, SMALL, ("sprites",)),
        _collapse(three, 60, SMALL),
    )


def _spacings(
    seeds: range,
    steps: int,
    plan: Mapping[str, Any] = MICHLO,
    spacings: Sequence[int] = tuple(range(1, 9)),
    betas: Sequence[float] = SPACING_BETAS,
) -> Pool:
    """Figure 9, a spacing a slice."""
    slices = [
        Slice(
            _name(f"spacing-{spacing}", seeds),
            _plan(plan, "xysquares", OBJECTIVES.values(), betas, 9, seeds, steps)
            | {"data_options": {"spacing": spacing}},
            METRICS,
            measures=("distances",),
            settings=SETTINGS,
        )
        for spacing in spacings
    ]
    return Pool(SPACINGS, "β-VAE and Ada-GVAE at each spacing of XYSquares", tuple(slices))


def _blur(
    seeds: range,
    steps: int,
    plan: Mapping[str, Any] = MICHLO,
    betas: Sequence[float] = BLUR_BETAS,
) -> Pool:
    """Figure 11. Ada-GVAE sees two images where β-VAE sees one: a slice holds one of its β."""
    parts = [("beta", betas), *(("ada", (beta,)) for beta in betas)]
    slices = [
        Slice(
            _name(f"{loss}-{objective}-{place}", seeds),
            _plan(plan, "xysquares", [OBJECTIVES[objective]], some, 25, seeds, steps)
            | {"likelihood": likelihood},
            METRICS,
            measures=("distances",),
            settings=SETTINGS,
        )
        for loss, likelihood in BLUR_LOSSES.items()
        for place, (objective, some) in enumerate(parts)
    ]
    return Pool(BLUR, "squared error and overlap loss on XYSquares, 25 latents", tuple(slices))


def _betas(
    data: Sequence[str],
    seeds: range,
    steps: int,
    plan: Mapping[str, Any] = MICHLO,
    betas: Sequence[float] = EIGHT_BETAS,
    sizes: Sequence[int] = SIZES,
    name: str = BETAS,
    needs: tuple[str, ...] = (),
) -> Pool:
    """Figure 6, one data set and number of latents a slice."""
    slices = [
        Slice(
            _name(f"{one}-{latents}-latents", seeds),
            _plan(plan, one, OBJECTIVES.values(), betas, latents, seeds, steps),
            METRICS,
            measures=("distances",),
            settings=SETTINGS,
        )
        for one in data
        for latents in sizes
    ]
    return Pool(name, "β-VAE and Ada-GVAE over eight β", tuple(slices), needs)


def _published(seeds: range, steps: int) -> list[Pool]:
    return [_betas((one,), seeds, steps, name=one, needs=(one,)) for one in PUBLISHED]


def _levels(
    seeds: range,
    steps: int,
    plan: Mapping[str, Any] = MICHLO,
    data: Sequence[str] = ("dsprites", "shapes3d_drawn"),
) -> Pool:
    """Figure 4."""
    slices = [
        Slice(
            _name(f"{one}-levels", seeds),
            _plan(plan, one, [OBJECTIVES["beta"]], (LEVELS_BETA,), 9, seeds, steps),
            METRICS,
            measures=("distances",),
            settings=SETTINGS,
        )
        for one in data
    ]
    return Pool(LEVELS, "β-VAEs whose distances are compared level by level", tuple(slices))


def _collapse(seeds: range, steps: int, plan: Mapping[str, Any] = MICHLO) -> Pool:
    """Ada-GVAE with the overlap loss, and it with one change each: an arm a slice."""
    slices = []
    for arm, change in ARMS.items():
        own = dict(change)
        beta, latents = own.pop("beta", COLLAPSED_BETA), own.pop("latents", 25)
        made = _plan(plan, "xysquares", [OBJECTIVES["ada"]], (beta,), latents, seeds, steps)
        made["likelihood"] = BLUR_LOSSES["blur"]
        if "initialisation" not in own:
            del made["initialisation"]
        if average := own.pop("average", ""):
            made["objective"] = [f"beta_vae:beta={in_sums(beta, 'xysquares', latents):.10g}"]
            made["supervision"] = f"pairs:divergence=symmetric_kl,average={average}"
        stages, metrics = (steps // 4, steps // 2), ("mig", "active_units")
        slices.append(
            Slice(_name(arm, seeds), made | own, metrics, stages=stages, settings=SETTINGS)
        )
    return Pool(COLLAPSE, "what makes figure 11's setting lose seeds", tuple(slices))


def _plan(
    usual: Mapping[str, Any],
    data: str,
    objectives: Any,
    betas: Sequence[float],
    latents: int,
    seeds: range,
    steps: int,
) -> dict[str, Any]:
    """Settings of a plan, *usual* ones in place of the authors'."""
    weights = ",".join(f"{in_sums(beta, data, latents):.10g}" for beta in betas)
    return {
        **MICHLO,
        **usual,
        "data": data,
        "objective": [f"{objective}{weights}" for objective in objectives],
        "latents": latents,
        "seeds": [*seeds],
        "steps": steps,
    }


def _name(what: str, seeds: range) -> str:
    """A slice's name, of letters, digits and hyphens."""
    return f"{what}-seeds-{seeds[0]}-{seeds[-1]}".replace("_", "-")
