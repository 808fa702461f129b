# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a search slice follow from, and what it costs at most, without its data."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict
from typing import Any

from unbraid.core.checks import plain
from unbraid.core.errors import Problems, unknown
from unbraid.population.plan import make_plan
from unbraid.scoring.metric_names import metric_names, needing_factors, needs, revision
from unbraid.search.pbt.make_search import (
    USUAL_WITH_LABELS,
    USUAL_WITHOUT_LABELS,
    SharedOptions,
    make_search,
)
from unbraid.search.pbt.scorer import UDR_MODELS
from unbraid.search.reduce.reduction import ReductionRule
from unbraid.search.rpu.plan import make_recursion
from unbraid.studies.pool import SearchSlice

STEP_IMAGES = 64
"""Of a training step, by which searches of many batch sizes are counted."""
_WITHOUT_EFFECT = ("command", "checkpoint_seconds", "log_every")


def search_definition(one: SearchSlice) -> dict[str, Any]:
    """Kind, options and defaults of the search, metrics with their revisions, as JSON values."""
    problems, known = Problems(), _defaults(one)
    for name in one.plan.keys() - known.keys():
        problems.say(unknown(f"setting of slice {one.name}", name, known))
    metrics = metric_names([*one.metrics], problems, labelled=True)
    problems.raise_if_any()
    # As of other slices, the precision counts where it is asked for; else it is the device's.
    given = known | {"precision": "auto"} | dict(one.plan)
    options = {name: _as_json(value) for name, value in given.items()}
    found = {
        "kind": one.kind,
        "labels_of": one.labels_of,
        "options": {name: options[name] for name in options if name not in _WITHOUT_EFFECT},
        "data": options["data"],
        "objective": [[options["objective"], {}]],
        "stages": [],
        "metrics": {name: revision(name) for name in metrics},
        "by_latent": one.latents,
    }
    return json.loads(json.dumps(found))


def _as_json(value: Any) -> Any:
    return asdict(value) if isinstance(value, ReductionRule) else plain(value)


def _defaults(one: SearchSlice) -> dict[str, Any]:
    """Every option that such a search has, with its default."""
    usual = inspect.signature(make_plan).parameters
    found = {name: usual[name].default for name in SharedOptions.__annotations__ if name in usual}
    for made in (make_search, *([make_recursion] if one.kind != "pbt" else [])):
        found |= {
            name: parameter.default
            for name, parameter in inspect.signature(made).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        }
    return found


def most_images(defined: dict[str, Any]) -> int:
    """Images that all models together see in a search that takes all its epochs."""
    given, kind = defined["options"], defined["kind"]
    usual = USUAL_WITH_LABELS if needing_factors([given["score"]]) else USUAL_WITHOUT_LABELS
    first = given["first_factor"] or usual["first_factor"]
    rounds = given["population"] * _models(given) * (first + given["epochs"] - 1)
    if kind == "pbt":
        return rounds * given["epoch_images"]
    final = given["final_epochs"] or given["epochs"]
    final = (given["final_population"] or given["population"]) * (
        given["final_first_factor"] + final - 1
    )
    if kind == "final":
        return final * given["epoch_images"]
    leaves = given["leaf_runs"] * (given["levels"] - 1)
    finals = given["leaf_runs"] + 1 if given["every_final"] else 1
    seen = given["epoch_images"] + leaves * given["leaf_images"]
    return rounds * seen + finals * final * given["epoch_images"]


def scored_models(defined: dict[str, Any]) -> int:
    """Models of winners that are scored at most."""
    given = defined["options"]
    if defined["kind"] == "final":
        return 1
    leaves = given["leaf_runs"] * (given["levels"] - 1) if defined["kind"] == "rpu" else 0
    return _models(given) * (1 + leaves) + (defined["kind"] == "rpu")


def _models(given: dict[str, Any]) -> int:
    return given["models"] or (UDR_MODELS if needs(given["score"]) == "population" else 1)
