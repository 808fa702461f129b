# SPDX-License-Identifier: Apache-2.0
"""Pools of models that serve the claims of a study, cut into slices.

A slice is what one process trains and scores at a time: a plan, and what is measured of its models.
It ends as one table, a row for each model (and each stage of its training).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Scale = Literal["small", "gpu", "paper"]
"""Minutes on two cores, as a test of the machinery; an hour or so on a GPU; what the paper did."""


@dataclass(frozen=True)
class Slice:
    """Models that are trained and scored together."""

    name: str
    """Of letters, digits and hyphens: the table's file name."""
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


@dataclass(frozen=True)
class Pool:
    """Models that serve one or several claims."""

    name: str
    about: str
    slices: tuple[Slice, ...]
    needs: tuple[str, ...] = field(default=())
    """Published files without which it cannot be trained, as names of data."""
