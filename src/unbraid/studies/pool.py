# SPDX-License-Identifier: Apache-2.0
"""Pools of models that serve the claims of a study, cut into slices.

A slice is what one process trains and scores at a time: a plan, and what is measured of its models.
It ends as one table, a row for each model (and each stage of its training).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from unbraid.core.errors import Problems
from unbraid.population import defaults

Scale = Literal["small", "gpu", "paper"]
"""Minutes on two cores, as a test of the machinery; an hour or so on a GPU; what the paper did."""


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
    """Whether KL and information of every latent are kept."""
    measures: tuple[str, ...] = ()
    """What else is kept of the models (`studies/measures.py`)."""


@dataclass(frozen=True)
class Pool:
    """Models that serve one or several claims."""

    name: str
    about: str
    slices: tuple[Slice, ...]
    needs: tuple[str, ...] = field(default=())
    """Published files without which it cannot be trained, as names of data."""


def check_pools(pools: Iterable[Pool]) -> None:
    """Refuse pools and slices whose names are no file names or not their own, or whose stages do
    not rise to the last step; all mistakes at once.
    """
    problems, seen = Problems(), set()
    for pool in pools:
        _check_name("pool", pool.name, "pool" + pool.name, seen, problems)
        for one in pool.slices:
            name = f"slice of pool {pool.name}"
            _check_name(name, one.name, f"{pool.name}/{one.name}", seen, problems)
            steps = one.plan.get("steps", defaults.STEPS)
            if any(low >= high for low, high in pairwise((0, *one.stages, steps))):
                rule = f"must rise from above 0 to below the slice's steps, {steps}"
                problems.add(f"stages of slice {one.name}", rule, one.stages)
    problems.raise_if_any()


def _check_name(kind: str, name: str, whole: str, seen: set[str], problems: Problems) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name, re.ASCII):
        rule = "must be of letters, digits, hyphens and underscores"
        problems.add(f"name of a {kind}", rule, name)
    if whole in seen:
        problems.add(f"name of a {kind}", "must be its own", name)
    seen.add(whole)
