# SPDX-License-Identifier: Apache-2.0
"""What is trained for the study: four models on original, modified and noisy data.

A slice holds one version of one data set with all seeds of its settings; FactorVAE, which takes
several times as long as the others, has slices of its own. The first slice of each original leaves
s, the least noisy latent of its worst β-VAE, from which the modified version is made everywhere.

`settings.py` has the strengths, and the rules of the pilot that decides what the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unbraid.studies.made_data import MadeData
from unbraid.studies.pool import Pool, Scale, Slice
from unbraid.studies.zietlow2021.modified import LeastNoisy, Modified, Noisy
from unbraid.studies.zietlow2021.settings import (
    BEYOND,
    BEYOND_STRENGTHS,
    DSPRITES,
    EPSILONS,
    MODIFIED,
    NOISE,
    ORIGINAL,
    PILOT_EPSILONS,
    PILOT_METHODS,
    PILOT_RATES,
    PILOT_SEED,
    PILOT_STAGES,
    PILOT_STRENGTHS,
    SETTINGS,
    SHAPES,
    SMALL,
    STRENGTH,
    VERSIONS,
    Originals,
    Training,
    data_name,
)

TABLE1, TABLE2, SCALED, FACTOR = "table1", "table2", "scaled", "extra-factor"
BEYOND_POOL = "beyond"
PILOT_RATE, PILOT_STRENGTHS_POOL, PILOT_EPSILON = PILOTS = (
    *("pilot-rate", "pilot-strengths", "pilot-epsilon"),
)
"""One after the other: each is trained with what the one before it has chosen (`pilot.py`)."""
PUBLISHED = "shapes3d"
GRIDS = (TABLE1, TABLE2, SCALED, PUBLISHED)
"""Pools with models on original, modified and noisy data."""
METRICS = ("mig", "active_units")
FACTOR_VAE = "factor_vae"
SCALED_METHODS = PILOT_METHODS
"""Methods that have a strength."""
FEW = 5
"""Seeds of methods that the paper does not have."""


def pools(scale: Scale, first_seed: int) -> tuple[Pool, ...]:
    """The pools at *scale*, with seeds from *first_seed* on."""
    training = SETTINGS[scale]
    seeds = range(first_seed, first_seed + training.seeds)
    few = seeds[:FEW]
    drawn = {"small": (SMALL,), "gpu": (DSPRITES, SHAPES), "paper": (DSPRITES,)}[scale]
    first = drawn[0]
    made = [
        _table1(drawn, training, seeds),
        _table2(drawn, training, seeds),
        _scaled(drawn, training, seeds),
        _extra_factor(first, training, seeds, EPSILONS[scale]),
        _beyond(first, training, few),
    ]
    if scale != "small":
        made.append(_published(SHAPES, training, seeds))
    if scale == "gpu":
        made += _pilots(training, first_seed + PILOT_SEED)
    return tuple(made)


def _table1(data: Sequence[Originals], training: Training, seeds: range) -> Pool:
    """Stated strengths on original and modified data."""
    slices = [
        one
        for own in data
        for version in (ORIGINAL, MODIFIED)
        for one in _stated(own, version, training, seeds)
    ]
    return Pool(TABLE1, "stated strengths on original and modified data", tuple(slices))


def _table2(data: Sequence[Originals], training: Training, seeds: range) -> Pool:
    """The same strengths on data with noise."""
    slices = [one for own in data for one in _stated(own, NOISE, training, seeds)]
    return Pool(TABLE2, "stated strengths on data with noise", tuple(slices))


def _scaled(data: Sequence[Originals], training: Training, seeds: range) -> Pool:
    """Other strengths on all versions, so that each has a best one."""
    slices = [
        one
        for own in data
        for version in VERSIONS
        for one in _scales(own, version, training, seeds)
    ]
    times = ", ".join(f"{scale:g}" for scale in training.scales)
    return Pool(SCALED, f"{times} times the stated strengths, all versions", tuple(slices))


def _published(own: Originals, training: Training, seeds: range) -> Pool:
    """All of it on the published 3D Shapes, once its file is there."""
    own = own.on(PUBLISHED)
    stated = [one for version in VERSIONS for one in _stated(own, version, training, seeds)]
    scaled = [one for version in VERSIONS for one in _scales(own, version, training, seeds)]
    about = "all strengths on the published 3D Shapes"
    return Pool(PUBLISHED, about, (*stated, *scaled), needs=(PUBLISHED,))


def _stated(own: Originals, version: str, training: Training, seeds: range) -> list[Slice]:
    """Two slices: autoencoder (but with noise, as the paper), β-VAE and β-TCVAE; FactorVAE."""
    spelled = [_spelled(own, name, (1.0,)) for name in ("beta_vae", "beta_tcvae")]
    first = [*([] if version == NOISE else ["ae"]), *spelled]
    source = version == ORIGINAL
    return [
        _slice(
            own,
            version,
            "vaes",
            _plan(own, first, seeds, training),
            training,
            axes=source,
            leaves=LeastNoisy(spelled[0]) if source else None,
        ),
        _slice(
            own,
            version,
            "factor-vae",
            _plan(own, [_spelled(own, FACTOR_VAE, (1.0,))], seeds, training),
            training,
        ),
    ]


def _scales(own: Originals, version: str, training: Training, seeds: range) -> list[Slice]:
    """Two slices with the other strengths."""
    vaes = [_spelled(own, name, training.scales) for name in ("beta_vae", "beta_tcvae")]
    factor = [_spelled(own, FACTOR_VAE, training.scales)]
    return [
        _slice(own, version, what, _plan(own, objectives, seeds, training), training)
        for what, objectives in (("scaled-vaes", vaes), ("scaled-factor-vae", factor))
    ]


def _extra_factor(
    own: Originals, training: Training, seeds: range, epsilons: Sequence[float]
) -> Pool:
    """β-VAEs on the original times an independent s, a slice for each ε."""
    slices = [_with_s(own, epsilon, training, seeds) for epsilon in epsilons]
    return Pool(FACTOR, f"β-VAEs on {own.data} with an independent factor s", tuple(slices))


def _with_s(own: Originals, epsilon: float, training: Training, seeds: range) -> Slice:
    options = {"of": own.data, "of_options": dict(own.options), "epsilon": epsilon}
    plan = _plan(own, [_spelled(own, "beta_vae", (1.0,))], seeds, training)
    plan |= {"data": "with_s", "data_options": options, "latents": own.latents + 1}
    called = data_name(own.data, f"s_{epsilon:g}")
    name = _name(called.replace(".", "-"), "beta-vae", seeds)
    return Slice(name, plan, METRICS, latents=True, called=called)


def _beyond(own: Originals, training: Training, seeds: range) -> Pool:
    """Methods that the paper does not have, three strengths each, on all versions."""
    slices = []
    for version in VERSIONS:
        for what, (objectives, further) in BEYOND.items():
            spelled = [
                f"{name}:{STRENGTH[name]}"
                f"={_values(BEYOND_STRENGTHS[what, name][: training.choices])}"
                for name in objectives
            ]
            plan = _plan(own, spelled, seeds, training) | dict(further)
            slices.append(_slice(own, version, what, plan, training, metrics=(*METRICS, "dci")))
    return Pool(BEYOND_POOL, "methods that the paper does not have", tuple(slices))


def _pilots(training: Training, seed: int) -> tuple[Pool, ...]:
    """What decides rate, steps, the strengths on shapes and their ε; no claim looks at it."""
    seeds = range(seed, seed + 3)
    rates = _plan(
        DSPRITES, [_spelled(DSPRITES, name, (1.0,)) for name in PILOT_METHODS], seeds, training
    )
    rates |= {"steps": PILOT_STAGES[-1], "learning_rate": [*PILOT_RATES]}
    name = _name(DSPRITES.data, "rates", seeds)
    first = Slice(name, rates, METRICS, stages=PILOT_STAGES[:-1], latents=True)
    spelled = [f"{name}:beta={_values(PILOT_STRENGTHS)}" for name in ("beta_vae", "beta_tcvae")]
    plan, name = _plan(SHAPES, spelled, seeds, training), _name(SHAPES.data, "strengths", seeds)
    second = Slice(name, plan, METRICS, latents=True)
    third = [_with_s(SHAPES, epsilon, training, seeds) for epsilon in PILOT_EPSILONS]
    return (
        Pool(PILOT_RATE, "to choose rate and updates", (first,)),
        Pool(PILOT_STRENGTHS_POOL, "to choose strengths on shapes, at that rate", (second,)),
        Pool(PILOT_EPSILON, "to choose what is done to shapes, at that strength", tuple(third)),
    )


def _slice(
    own: Originals,
    version: str,
    what: str,
    plan: dict[str, Any],
    training: Training,
    *,
    metrics: tuple[str, ...] = METRICS,
    axes: bool = False,
    leaves: LeastNoisy | None = None,
) -> Slice:
    """A slice of one version; the modified one is made from what the first of the pools left."""
    called, seeds = data_name(own.data, version), range(plan["seeds"][0], plan["seeds"][-1] + 1)
    made: Mapping[str, MadeData | None] = {
        ORIGINAL: None,
        MODIFIED: Modified(_source(own, training, seeds[0]), own.epsilon),
        NOISE: Noisy(own.epsilon),
    }
    return Slice(
        _name(called, what, seeds),
        plan,
        metrics,
        latents=True,
        measures=("axes",) if axes else (),
        called="" if version == ORIGINAL else called,
        made=made[version],
        leaves=leaves,
    )


def _source(own: Originals, training: Training, first_seed: int) -> str:
    """The slice that leaves s of this data, as pool/slice."""
    pool = PUBLISHED if own.data == PUBLISHED else TABLE1
    seeds = range(first_seed, first_seed + training.seeds)
    return f"{pool}/{_name(own.data, 'vaes', seeds)}"


def _plan(
    own: Originals, objectives: Sequence[str], seeds: range, training: Training
) -> dict[str, Any]:
    """Settings of a plan."""
    factor = len(objectives) == 1 and objectives[0].startswith(FACTOR_VAE)
    return {
        "data": own.data,
        "data_options": dict(own.options),
        "objective": [*objectives],
        "seeds": [*seeds],
        "steps": training.factor_steps if factor else training.steps,
        "learning_rate": training.learning_rate,
        "latents": own.latents,
        **training.further,
    }


def _spelled(own: Originals, objective: str, scales: Sequence[float]) -> str:
    """An objective with so many times its stated strength on this data."""
    values = [scale * own.stated[objective] for scale in scales]
    return f"{objective}:{STRENGTH[objective]}={_values(values)}"


def _values(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)


def _name(data: str, what: str, seeds: range) -> str:
    """A slice's name, of letters, digits and hyphens."""
    return f"{data}-{what}-seeds-{seeds[0]}-{seeds[-1]}".replace("_", "-")
