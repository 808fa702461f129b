# SPDX-License-Identifier: Apache-2.0
"""How long a training step of a slice takes on a CPU core: a few are done and timed.

What a step takes follows from the network, the size of samples and batch and the objective, and is
a hundred times as long for some slices as for others. A step of each kind of member is done on
blank samples, since what they show costs nothing; the time is the thread's own, so that others who
use the processor do not count.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from unbraid.core.errors import Problems
from unbraid.data.dataset import Dataset
from unbraid.objectives.priors.anisotropic import Anisotropic
from unbraid.population import defaults
from unbraid.population.devices import keep_freed_memory, members_by_kind, usual_precision
from unbraid.population.member import Member
from unbraid.population.plan import Plan
from unbraid.population.resolve import choose_priors
from unbraid.population.training_step import TrainingStep
from unbraid.studies.pool import SearchSlice, Slice
from unbraid.studies.search_definition import STEP_IMAGES
from unbraid.studies.search_work import largest_plan

_CPU = torch.device("cpu")
_UNTIMED, _TIMED, _LONG = 2, 4, 0.05
"""Steps: the first ones allocate what the others use again; of steps that take so many seconds
together no more are done.
"""
_MOST_SECONDS = 1.5
"""Of all trials together, since a list of slices is no long work: what is left then is taken to be
as what was tried.
"""


class StepSeconds:
    """Times of steps, each kind tried once."""

    def __init__(self) -> None:
        self._tried: dict[str, float] = {}
        self._spent = 0.0
        self._not_read: WeakKeyDictionary[Dataset, Dataset] = WeakKeyDictionary()

    def of(self, one: Slice, dataset: Dataset) -> float:
        """Seconds of a core for a step of a model of slice *one*, whose data are like *dataset*."""
        search = isinstance(one, SearchSlice)
        if not search:
            one = replace(one, plan=_without_data(one.plan))
        plan, data = largest_plan(one, self._not_read.setdefault(dataset, _not_read(dataset)))
        if search:  # whose steps are counted in such
            plan = replace(plan, batch_size=STEP_IMAGES)
        if "precision" not in one.plan:
            plan = replace(plan, precision=usual_precision(_CPU))
        kinds = members_by_kind(plan)
        seconds = sum(count * self._step(plan, member, data) for member, count in kinds)
        return seconds / len(plan.members)

    def _step(self, plan: Plan, member: Member, dataset: Dataset) -> float:
        about = (plan.network, plan.network_options, plan.latents, plan.likelihood, plan.batch_size)
        key = repr((about, plan.precision, dataset.sample_shape, member.structure()))
        if key not in self._tried:
            if self._spent > _MOST_SECONDS:
                return sum(self._tried.values()) / len(self._tried)
            began = time.thread_time()
            self._tried[key] = _timed(plan, member, dataset)
            self._spent += time.thread_time() - began
        return self._tried[key]


def _timed(plan: Plan, member: Member, dataset: Dataset) -> float:
    def blank(indices: Tensor, *_: Tensor) -> Tensor:
        return torch.zeros(*indices.shape, *dataset.sample_shape)

    with _one_thread():
        training = TrainingStep(plan, [member], dataset, _CPU, blank)
        state = training.start()
        training.prepare(state)
        for _ in range(_UNTIMED):
            training.step(state)
        began, taken, done = time.thread_time(), 0.0, 0
        while done < _TIMED and taken < _LONG:
            training.step(state)
            taken, done = time.thread_time() - began, done + 1
        return taken / done


def _without_data(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a *plan* with nothing that would have to be computed of all samples: neither
    their mean nor their principal variances.
    """
    found = {**plan, "standardise": False} if "standardise" in plan else {**plan}
    if "prior" in plan:
        priors = choose_priors(plan["prior"], plan.get("prior_options") or {}, Problems())
        ones = (1.0,) * plan.get("latents", defaults.LATENTS)
        found["prior_options"] = None
        found["prior"] = [
            replace(one, variances=ones) if isinstance(one, Anisotropic) else one for one in priors
        ]
    return found


def _not_read(dataset: Dataset) -> Dataset:
    """*dataset* without its fingerprint, for which all of it might have to be drawn."""
    other = copy.copy(dataset)
    vars(other)["fingerprint"] = lambda: ""
    return other


@contextmanager
def _one_thread() -> Iterator[None]:
    """As models train on a CPU, side by side."""
    keep_freed_memory()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
