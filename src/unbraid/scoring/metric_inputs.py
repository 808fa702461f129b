# SPDX-License-Identifier: Apache-2.0
"""What a metric is given of one member, and the metric applied to it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, invalid
from unbraid.metrics import METRICS
from unbraid.metrics._arrays import Labelled, check_split
from unbraid.metrics._posterior import check_gaussian, kl_per_latent
from unbraid.metrics._resampled import STANDARD_ERROR
from unbraid.scoring.metric_names import base, is_cheap, metric, needs, on_gpu, revision
from unbraid.scoring.own_prior import OwnPrior, of_prior

if TYPE_CHECKING:
    import torch

COLUMNS = ["member", "metric", "representation", "quantity", "value", "seconds", "revision"]
WORTH_PROCESSES = 4
"""Fewer tasks than this are computed here: starting processes would take longer."""
START_SECONDS = 1.0
"""About what starting them takes: cheap tasks are computed here for as long, and are often done."""
_MEMBERS_AT_ONCE = 256
"""Members whose codes are held together for a GPU."""


@dataclasses.dataclass(frozen=True)
class MetricInputs:
    """Codes of one member and what is known of them; the first *train* rows are for fitting."""

    codes: NDArray[Any]
    train: int
    factors: NDArray[np.int64] | None = None
    mean: NDArray[Any] | None = None
    logvar: NDArray[Any] | None = None
    reconstruction: NDArray[Any] | None = None
    population: int | None = None
    """How many rows the whole grid has from which these were drawn, each once at most, if one."""
    prior: OwnPrior | None = None
    """The model's own, where that is another than the standard normal."""

    def part(self, rows: NDArray[np.int64], train: int) -> MetricInputs:
        """Some *rows*, of which the first *train* are for fitting."""

        def of(array: NDArray[Any] | None) -> Any:
            return None if array is None else array[rows]

        return MetricInputs(
            of(self.codes),
            train,
            of(self.factors),
            of(self.mean),
            of(self.logvar),
            of(self.reconstruction),
            self.population,
            self.prior,
        )

    def kl_per_latent(self) -> NDArray[np.float64]:
        """Mean KL divergence of each latent to the standard normal prior, in nats."""
        return kl_per_latent(*check_gaussian(self.mean, self.logvar))  # pyright: ignore[reportArgumentType]


@dataclasses.dataclass(frozen=True)
class Task:
    """One call of a metric: for one member, or for all members that it compares."""

    members: tuple[int, ...]
    metric: str
    representation: str
    error_seed: int | None = None
    """For the standard error instead of the score: the seed of what is drawn for it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Rows of a task as in `COLUMNS`, or a complaint."""

    task: Task
    rows: list[tuple[Any, ...]]
    complaint: str


def evaluate(name: str, inputs: MetricInputs) -> Any:
    """The result of metric *name*, any but one that compares models, on one member."""
    return metric_for(name, inputs)(*arguments(name, inputs))


def metric_for(name: str, inputs: MetricInputs) -> Callable[..., Any]:
    """The metric that *name* means, with what it asks of the model's own prior."""
    return functools.partial(metric(name), **of_prior(name, inputs.prior))


def arguments(name: str, inputs: MetricInputs) -> tuple[Any, ...]:
    """What metric *name* is called with."""
    kind = needs(name)
    if kind == "posterior":
        return inputs.mean, inputs.logvar
    if kind == "elbo":
        return inputs.mean, inputs.logvar, inputs.reconstruction
    if kind == "codes":
        return (inputs.codes,)
    if kind == "split":
        return _split(name, inputs)
    return inputs.codes, _factors(name, inputs)


def _factors(name: str, inputs: MetricInputs) -> NDArray[np.int64]:
    """The factors, of which metric *name* may need two that vary."""
    factors = inputs.factors
    assert factors is not None, f"{name} compares codes with factors"
    varying = sum(len(np.unique(column)) > 1 for column in factors.T)
    if METRICS.load(base(name)).compares_factors and varying < 2:
        rule = "compares factors and needs at least two that vary"
        raise invalid(name, rule, varying, "With a single one every model would be perfect.")
    return factors


def _split(name: str, inputs: MetricInputs) -> tuple[NDArray[Any], ...]:
    """Codes and factors for fitting, and those for testing."""
    codes, factors, train = inputs.codes, _factors(name, inputs), inputs.train
    return codes[:train], factors[:train], codes[train:], factors[train:]


def evaluate_together(name: str, inputs: Sequence[MetricInputs]) -> NDArray[np.float64]:
    """The score of each model by metric *name*, which compares models."""
    if len(inputs) < 2:
        rule = "compares models that differ only by their seed and needs at least two"
        raise invalid(name, rule, len(inputs), "Train with more seeds.")
    kl = np.stack([each.kl_per_latent() for each in inputs])
    return metric(name)(np.stack([each.codes for each in inputs]), kl).per_model


@dataclasses.dataclass(frozen=True)
class GpuPart:
    """What a GPU has computed of a task already."""

    part: Any
    seconds: float


def score_task(task: Task, inputs: Sequence[MetricInputs], done: GpuPart | None = None) -> Outcome:
    """Rows of one task, of which a GPU may have *done* a part, or why there are none."""
    began = time.perf_counter() - (done.seconds if done else 0.0)
    who = f"member{'s' * (len(task.members) > 1)} {', '.join(map(str, task.members))}"
    try:
        quantities = _quantities(task, inputs, done)
    except InputError as error:
        return Outcome(task, [], f"{who}: {_what(task)} has no value: {error}")
    except Exception as error:  # one score that fails must not cost the others theirs
        why = f"it failed unexpectedly, please report it ({type(error).__name__}: {error})"
        return Outcome(task, [], f"{who}: {_what(task)} has no value: {why}")
    seconds = (time.perf_counter() - began) / len(task.members)
    rows = [
        (member, task.metric, task.representation, quantity, value, seconds, revision(task.metric))
        for member, own in zip(task.members, quantities, strict=True)
        for quantity, value in own.items()
    ]
    return Outcome(task, rows, "")


def _what(task: Task) -> str:
    return task.metric if task.error_seed is None else f"the standard error of {task.metric}"


def _quantities(
    task: Task, inputs: Sequence[MetricInputs], done: GpuPart | None
) -> list[dict[str, float]]:
    """The numbers of each member."""
    if task.error_seed is not None:
        # Which scores parts of such inputs, and so imports this file.
        from unbraid.scoring.standard_errors import standard_error

        found = standard_error(task.metric, inputs[0], seed=task.error_seed, member=task.members[0])
        return [{STANDARD_ERROR: found}]
    if needs(task.metric) == "population":
        return [{"score": float(one)} for one in evaluate_together(task.metric, inputs)]
    helped = on_gpu(task.metric)
    if done is None or helped is None:
        return [_scalars(evaluate(task.metric, inputs[0]))]
    if helped.rest is None:
        return [_scalars(done.part)]
    return [_scalars(helped.rest(check_split(*_split(task.metric, inputs[0])), done.part))]


def _scalars(result: Any) -> dict[str, float]:
    """Every single number of a result, its score among them."""
    names = dict.fromkeys([*(field.name for field in dataclasses.fields(result)), "score"])
    numbers = {name: getattr(result, name) for name in names}
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, (int, float, np.number))
    }


def complete(tasks: Sequence[Task]) -> set[Task]:
    """Those of *tasks* with which a score is done: its standard error where that is among them."""
    awaited = {
        dataclasses.replace(one, error_seed=None) for one in tasks if one.error_seed is not None
    }
    return {*tasks} - awaited


def score_tasks(
    tasks: Sequence[Task],
    load: Callable[[Task], list[MetricInputs]],
    cores: int,
    device: torch.device | None = None,
) -> Iterator[Outcome]:
    """What `score_task` says of each task, as they are done: in processes where that pays.

    What a GPU can compute of a metric for many members together is computed there, beside the
    processes, where *device* is one; members then share their factors. Where it fails, for want of
    memory perhaps, the processes do that too. A metric that this program registered is known to no
    other process and is computed here, and so are cheap ones first, as long as that takes less than
    to start processes.
    """
    from joblib import Parallel, delayed

    parts: dict[Task, GpuPart] = {}

    def in_turn(some: Iterable[Task]) -> Iterator[Outcome]:
        return (score_task(task, load(task), parts.get(task)) for task in some)

    def by_processes(some: Collection[Task]) -> Iterator[Outcome]:
        workers = min(cores, len(some)) if len(some) >= WORTH_PROCESSES else 1
        jobs = (delayed(score_task)(task, load(task), parts.get(task)) for task in some)
        return Parallel(n_jobs=workers, return_as="generator_unordered")(jobs)  # pyright: ignore[reportReturnType]

    groups = _for_gpu(tasks, device)
    helped = [task for group in groups for task in group]
    here = [task for task in tasks if METRICS.registered_here(base(task.metric))]
    elsewhere = {*helped, *here}
    left = deque(task for task in tasks if task not in elsewhere)
    if not groups:  # a GPU should not wait
        yield from in_turn(_cheap_first(left))
    outcomes = by_processes(left)
    whole: set[Task] = set()
    for group in groups:
        made = _parts_by_gpu(group, load, device)  # pyright: ignore[reportArgumentType]
        if getattr(on_gpu(group[0].metric), "rest", None) is not None:
            parts |= made
            continue
        whole |= made.keys()
        for task, part in made.items():
            yield score_task(task, [], part)
    yield from in_turn(task for task in here if task not in whole)
    yield from outcomes
    yield from by_processes([task for task in helped if task not in {*here, *whole}])


def _cheap_first(tasks: deque[Task]) -> Iterator[Task]:
    """Take *tasks* from the left that are cheap, for so long as processes take to start."""
    until = time.perf_counter() + START_SECONDS
    while tasks and is_cheap(tasks[0].metric) and time.perf_counter() < until:
        yield tasks.popleft()


def _for_gpu(tasks: Sequence[Task], device: torch.device | None) -> list[list[Task]]:
    """Groups of tasks that differ by their member only and that *device* can compute together."""
    if device is None or device.type != "cuda":
        return []
    from unbraid.core import triton_support  # torch, which processes that score can do without

    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        if task.error_seed is None and on_gpu(task.metric) is not None:
            groups.setdefault((task.metric, task.representation), []).append(task)
    if not groups or not triton_support.usable(device):
        return []
    return [
        group[first : first + _MEMBERS_AT_ONCE]
        for group in groups.values()
        for first in range(0, len(group), _MEMBERS_AT_ONCE)
    ]


def _parts_by_gpu(
    tasks: Sequence[Task], load: Callable[[Task], list[MetricInputs]], device: torch.device
) -> dict[Task, GpuPart]:
    """What *device* computes of a metric for members that share their factors.

    A member whose codes are refused, or all where the device fails, have no part: the metric itself
    will compute them, or say what is wrong.
    """
    began, name = time.perf_counter(), tasks[0].metric
    splits: dict[Task, tuple[Labelled, Labelled]] = {}
    for task in tasks:
        with contextlib.suppress(InputError):
            splits[task] = check_split(*_split(name, load(task)[0]))
    together = on_gpu(name)
    assert together is not None
    try:
        parts = list(together.part(list(splits.values()), device)) if splits else []
    except Exception:  # whatever it is, the cores can do without
        return {}
    seconds = (time.perf_counter() - began) / max(1, len(splits))
    return {task: GpuPart(part, seconds) for task, part in zip(splits, parts, strict=True)}
