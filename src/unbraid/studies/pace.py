# SPDX-License-Identifier: Apache-2.0
"""How long slices take: as long as those like them that are done on such a device, else a guess."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from unbraid.population.devices import cores, device_name
from unbraid.studies.definition import definition, model_steps, models
from unbraid.studies.pool import Pool, Slice
from unbraid.studies.results import Results

_GPU_MODEL_STEPS = 10_000.0
"""A second, of a mixed plan on one H200 (docs/speed.md)."""
_CORE_MODEL_STEPS = 10.0
"""A second, of the usual network on a CPU core."""
_CORE_SECONDS_A_MODEL = 10.0
"""Of scoring: 7 for the usual metrics, and codes."""


@dataclass(frozen=True)
class Took:
    """What a slice took that is done."""

    pool: str
    data: str
    objectives: frozenset[str]
    models: int
    model_steps: int
    training_seconds: float
    scoring_seconds: float


class Pace:
    """Seconds of slices to come, by the tables that are there."""

    def __init__(self, results: Results, device: torch.device) -> None:
        self.device = device
        name = device_name(device)
        abouts = [results.about(*one) for one in results.slices() if results.done(*one)]
        self.known = [_took(about) for about in abouts if about.get("device") == name]

    def training(self, pool: Pool, one: Slice, steps_done: int = 0) -> float:
        """Seconds of training it from *steps_done* model-steps on."""
        alike = self._alike(pool, one)
        steps = max(0, model_steps(definition(one)) - steps_done)
        if alike:
            return steps * _ratio(alike, lambda took: took.training_seconds / took.model_steps)
        if self.device.type == "cuda":
            return steps / _GPU_MODEL_STEPS
        return steps / (_CORE_MODEL_STEPS * cores())

    def scoring(self, pool: Pool, one: Slice) -> float:
        """Seconds of scoring it."""
        alike = self._alike(pool, one)
        scored = models(definition(one)) * (1 + len(one.stages))
        if alike:
            return scored * _ratio(alike, lambda took: took.scoring_seconds / took.models)
        return scored * _CORE_SECONDS_A_MODEL / cores()

    def _alike(self, pool: Pool, one: Slice) -> list[Took]:
        """The slices that are most like it: of its pool, data and objectives, or of fewer."""
        defined = definition(one)
        objectives = frozenset(key for key, _ in defined["objective"])
        same_pool = [took for took in self.known if took.pool == pool.name]
        same_data = [took for took in same_pool if took.data == defined["data"]]
        same = [took for took in same_data if took.objectives == objectives]
        return same or same_data or same_pool or self.known


def _ratio(alike: Iterable[Took], of: Callable[[Took], float]) -> float:
    found = [of(took) for took in alike]
    return sum(found) / len(found)


def _took(about: dict[str, Any]) -> Took:
    defined = about["definition"]
    stages = 1 + len(defined["stages"])
    return Took(
        about["pool"],
        defined["data"],
        frozenset(key for key, _ in defined["objective"]),
        about["models"] * stages,
        about["model_steps"],
        about["training_seconds"],
        about["scoring_seconds"],
    )
