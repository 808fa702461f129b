# SPDX-License-Identifier: Apache-2.0
"""How long slices take: as long as those like them that are done on such a device, else a guess."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from unbraid.core.errors import Problems
from unbraid.population import defaults
from unbraid.population.devices import cores, device_name
from unbraid.scoring.metric_names import base
from unbraid.studies.data_at_hand import DataAtHand
from unbraid.studies.definition import definition, model_steps, models, scored, scored_sampled
from unbraid.studies.pool import Pool, SearchSlice, Slice
from unbraid.studies.results import Results
from unbraid.studies.search_definition import STEP_IMAGES
from unbraid.studies.step_seconds import StepSeconds

_GPU_MODEL_STEPS = 10_000.0
"""A second, of a mixed plan on one H200 (docs/speed.md)."""
_UNKNOWN_STEP, _UNKNOWN_SCORES = 0.1, 10.0
"""Seconds of a core for a step and for the scores of a model whose data are not here."""
_CORE_SECONDS = 0.3
"""Of encoding a model and of scores that are not named below, on a CPU core."""
_CORE_SECONDS_OF = {"distances": 2.5, "downstream": 3.6, "explicitness": 1.0}
"""Of metrics and measures that take long (docs/metrics/README.md)."""
_CORE_SECONDS_AN_EPOCH = 0.2
"""Of saving, encoding and scoring a model of a search after an epoch."""
_CORE_SECONDS_A_VALUE, _CORE_SECONDS_A_ROW = 0.02, 3e-6
"""Of DCI's boosted trees, which are grown for every value of every factor."""


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

    def __init__(
        self,
        results: Results,
        device: torch.device,
        data: DataAtHand,
        steps: StepSeconds | None = None,
    ) -> None:
        """*steps* that were timed before are not timed again."""
        self.device, self._data, self._steps = device, data, steps or StepSeconds()
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
        here = not self._data.missing(one)
        step = self._steps.of(one, self._data.base(one)) if here else _UNKNOWN_STEP
        if isinstance(one, SearchSlice):
            step += _CORE_SECONDS_AN_EPOCH * STEP_IMAGES / one.plan["epoch_images"]
        return steps * step / cores()

    def scoring(self, pool: Pool, one: Slice) -> float:
        """Seconds of scoring it."""
        alike = self._alike(pool, one)
        count = models(definition(one)) * (1 + len(one.stages))
        if alike:
            return count * _ratio(alike, lambda took: took.scoring_seconds / took.models)
        return count * self._score_seconds(one) / cores()

    def _score_seconds(self, one: Slice) -> float:
        """Seconds of a core for the scores of a model."""
        if self._data.missing(one):
            return _UNKNOWN_SCORES
        problems, dataset = Problems(), self._data.base(one)
        names = [*scored(one, problems), *scored_sampled(one, problems), *one.measures]
        rows = min(len(dataset), one.plan.get("code_samples", defaults.CODE_SAMPLES))
        value = _CORE_SECONDS_A_VALUE + rows * _CORE_SECONDS_A_ROW
        of = _CORE_SECONDS_OF | {"dci": value * sum(dataset.factor_sizes)}
        return _CORE_SECONDS + sum(of.get(base(name), 0.0) for name in names)

    def _alike(self, pool: Pool, one: Slice) -> list[Took]:
        """The slices that are most like it: of its pool, data and objectives; on a GPU, where no
        step is tried, of fewer.
        """
        defined = definition(one)
        objectives = frozenset(key for key, _ in defined["objective"])
        same_pool = [took for took in self.known if took.pool == pool.name]
        same_data = [took for took in same_pool if took.data == defined["data"]]
        same = [took for took in same_data if took.objectives == objectives]
        if same or self.device.type == "cpu":
            return same
        return same_data or same_pool or self.known


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
