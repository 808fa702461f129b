# SPDX-License-Identifier: Apache-2.0
"""Pools of models that serve the claims of a study, cut into slices.

A slice is what one process trains and scores at a time: a plan, and what is measured of its models.
It ends as one table, a row for each model (and each stage of its training). It may be a search
instead: `SearchSlice`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from unbraid.core.errors import Problems, unknown
from unbraid.population import defaults

ABOUT_THE_MODEL = (
    *("pool", "slice", "data", "objective", "strength", "strength_name", "seed", "steps"),
    *("learning_rate", "status"),
)
BY_LATENT = ("kl_by_latent", "variance_by_latent", "information", "factors", "information_level")
TAKEN = {*ABOUT_THE_MODEL, *BY_LATENT}
"""Columns that every table may have."""

if TYPE_CHECKING:
    from unbraid.studies.made_data import Leaves, MadeData

Scale = Literal["small", "gpu", "paper"]
"""Minutes on two cores, as a test of the machinery; an hour or so on a GPU; what the paper did."""

SearchKind = Literal["pbt", "rpu", "final"]
"""Population-based training; a recursion, whose labels are kept; a final population by them."""
COSTS = ("data", "seed", "population", "epochs", "epoch_images")


@dataclass(frozen=True)
class Slice:
    """Models that are trained and scored together."""

    name: str
    """Of letters, digits, hyphens and underscores: the table's file name."""
    plan: Mapping[str, Any]
    """What `make_plan` is given: data, objective, seeds, steps, ..."""
    metrics: tuple[str, ...]
    """What every model is scored by, as `unbraid score` takes them."""
    sampled: tuple[str, ...] = ()
    """The metrics that are measured of sampled codes too."""
    stages: tuple[int, ...] = ()
    """Steps before the last at which the models are scored as well."""
    latents: bool = False
    """Whether KL and variance of every latent are kept."""
    measures: tuple[str, ...] = ()
    """What else is kept of the models (`studies/measures.py`)."""
    settings: tuple[str, ...] = ()
    """Settings that become columns of their own, for studies that vary more than strengths and
    seeds: hyperparameters, the prior and its options as `prior_gamma`, options of the data and the
    network, fields of the plan.
    """
    called: str = ""
    """What tables call its data, where that is not the name in the plan."""
    made: MadeData | None = None
    """How its data are made from the plan's, where they are others."""
    leaves: Leaves | None = None
    """What it leaves for slices after it."""

    @property
    def data(self) -> str:
        """What tables call its data."""
        return self.called or self.plan["data"]


@dataclass(frozen=True)
class SearchSlice(Slice):
    """A search instead of models of given settings.

    Its `plan` is what `make_search` is given, of other kinds `make_recursion`, and states at least
    what `COSTS` names. Its table has a row for each individual of each epoch, and one for each
    model of each winner, which alone are scored (`studies/search_table.py`).
    """

    kind: SearchKind = "pbt"
    labels_of: str = ""
    """Of a final population: the recursion whose labels select it, as pool/slice."""


@dataclass(frozen=True)
class Pool:
    """Models that serve one or several claims."""

    name: str
    about: str
    slices: tuple[Slice, ...]
    needs: tuple[str, ...] = field(default=())
    """Published files without which it cannot be trained, as names of data."""


def check_pools(pools: Iterable[Pool]) -> None:
    """Refuse pools and slices whose names are no file names or not their own, whose stages do not
    rise to the last step, or that come before what they need; all mistakes at once.
    """
    problems, seen, left, pools = Problems(), set(), [], tuple(pools)
    recursions = {
        f"{pool.name}/{one.name}"
        for pool in pools
        for one in pool.slices
        if isinstance(one, SearchSlice) and one.kind == "rpu"
    }
    for pool in pools:
        _check_name("pool", pool.name, "pool" + pool.name, seen, problems)
        for one in pool.slices:
            name = f"slice of pool {pool.name}"
            _check_name(name, one.name, f"{pool.name}/{one.name}", seen, problems)
            steps = one.plan.get("steps", defaults.STEPS)
            if taken := sorted({*one.settings} & TAKEN):
                rule = "must have names that no other column has"
                problems.add(f"settings of slice {one.name}", rule, ", ".join(taken))
            if any(low >= high for low, high in pairwise((0, *one.stages, steps))):
                rule = f"must rise from above 0 to below the slice's steps, {steps}"
                problems.add(f"stages of slice {one.name}", rule, one.stages)
            if one.made and one.made.after and one.made.after not in left:
                rule = f"slice before {pool.name}/{one.name} that leaves something"
                problems.say(unknown(rule, one.made.after, left))
            if one.leaves:
                left.append(f"{pool.name}/{one.name}")
            if isinstance(one, SearchSlice):
                _check_search(one, recursions, problems)
    problems.raise_if_any()


def _check_search(one: SearchSlice, recursions: set[str], problems: Problems) -> None:
    """Refuse a search whose cost is not stated, or whose labels nobody makes."""
    if lacking := [name for name in COSTS if name not in one.plan]:
        rule = f"must state {', '.join(lacking)}"
        problems.add(f"search of slice {one.name}", rule, ", ".join(one.plan))
    if one.stages or one.sampled:
        rule = "has neither stages nor scores of sampled codes"
        problems.add(f"search of slice {one.name}", rule, (*one.stages, *one.sampled))
    named = one.labels_of in recursions if one.kind == "final" else not one.labels_of
    if not named:
        rule = "must name a recursion of the study for a final population, and else nothing"
        problems.add(f"labels_of of slice {one.name}", rule, one.labels_of)


def _check_name(kind: str, name: str, whole: str, seen: set[str], problems: Problems) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name, re.ASCII):
        rule = "must be of letters, digits, hyphens and underscores"
        problems.add(f"name of a {kind}", rule, name)
    if whole in seen:
        problems.add(f"name of a {kind}", "must be its own", name)
    seen.add(whole)
