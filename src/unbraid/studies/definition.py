# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a slice follow from, as JSON values: two slices with the same are the same.

It is read off the plan's arguments without the data, so that tables can be read where a published
file is missing. Versions, devices and the data's fingerprint are part of a table's provenance
instead. The precision counts where the slice asks for one; else it is that of the device.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from unbraid.core.checks import plain
from unbraid.core.errors import Problems, unknown
from unbraid.metrics import METRICS
from unbraid.population.plan import make_plan
from unbraid.population.resolve import (
    choose_network,
    choose_objectives,
    choose_priors,
    choose_supervisions,
    network_name,
)
from unbraid.population.seeds_and_rates import read_rates, read_seeds
from unbraid.scoring.metric_names import base, metric_names, revision
from unbraid.studies.measures import check_measures, measure_revision
from unbraid.studies.pool import SearchSlice, Slice
from unbraid.studies.search_definition import (
    STEP_IMAGES,
    most_images,
    scored_models,
    search_definition,
)

_WITHOUT_EFFECT = ("command", "checkpoint_seconds", "log_every")
_LATER = ("amsgrad", "initialisation")
"""Settings that came after the first tables were made: told where they are not as usual."""
_MERGED = ("hyper", "network_options", "prior_options")
"""Told with the objectives, network and priors that they go to."""


def definition(one: Slice) -> dict[str, Any]:
    """Plan, metrics with their revisions and what else is measured; all mistakes at once."""
    if isinstance(one, SearchSlice):
        return search_definition(one)
    problems = Problems()
    parameters = inspect.signature(make_plan).parameters
    for name in one.plan.keys() - parameters.keys():
        problems.say(unknown(f"setting of slice {one.name}", name, parameters))
    plan: dict[str, Any] = {
        name: one.plan.get(name, parameter.default)
        for name, parameter in parameters.items()
        if name not in _WITHOUT_EFFECT
    }
    objectives = choose_objectives(plan["objective"], plan["hyper"] or {}, problems)
    priors = choose_priors(plan["prior"], plan["prior_options"] or {}, problems)
    network = choose_network(plan["network"], plan["network_options"], problems)
    plan |= {
        "objective": [[each.key, each.hyper()] for each in objectives],
        "prior": [[each.key, each.hyper()] for each in priors],
        "supervision": [
            None if each is None else [each.key, each.hyper()]
            for each in choose_supervisions(plan["supervision"], problems)
        ],
        "network": [network_name(network), network.options()] if network else [],
        "seeds": read_seeds(plain(plan["seeds"]), problems),
        "learning_rate": read_rates(plain(plan["learning_rate"]), problems),
        "precision": one.plan.get("precision", "auto"),
    }
    usual = [name for name in _LATER if plan[name] == parameters[name].default]
    for name in (*_MERGED, *usual):
        del plan[name]
    measured: dict[str, Any] = {
        "metrics": {
            name: revision(name) for name in scored(one, problems) if base(name) in METRICS
        },
        "sampled": scored_sampled(one, problems),
        "stages": list(one.stages),
        "by_latent": one.latents,
    }
    check_measures(one.measures, problems)
    problems.raise_if_any()
    return json.loads(json.dumps(plan | measured | _further(one)))


def _further(one: Slice) -> dict[str, Any]:
    """What few slices have, so that the definition of all others is what it was before."""
    found: dict[str, Any] = {}
    if one.measures:
        found["measures"] = {name: measure_revision(name) for name in one.measures}
    if one.settings:
        found["settings"] = list(one.settings)
    if one.called:
        found["called"] = one.called
    if one.made:
        found["made"] = {"after": one.made.after} | one.made.definition()
    return found


def scored(one: Slice, problems: Problems) -> list[str]:
    """The metrics of a slice on mean codes, groups spelled out."""
    return metric_names([*one.metrics, *one.sampled], problems, labelled=True)


def scored_sampled(one: Slice, problems: Problems) -> list[str]:
    """Those that are measured of sampled codes too."""
    return metric_names(one.sampled, problems, labelled=True) if one.sampled else []


def models(defined: dict[str, Any]) -> int:
    """How many models a slice scores that is so *defined*."""
    if "kind" in defined:
        return scored_models(defined)
    count = 1
    for name in ("objective", "prior", "supervision", "learning_rate", "seeds"):
        count *= len(defined[name])
    return count


def model_steps(defined: dict[str, Any]) -> int:
    """Training steps of all its models together; of a search at most, in steps of 64 images."""
    if "kind" in defined:
        return most_images(defined) // STEP_IMAGES
    return models(defined) * defined["steps"]
