# SPDX-License-Identifier: Apache-2.0
"""What a GPU does for many members together: which tasks, with the numbers of each alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import joblib
import numpy as np
import pytest
import torch

from unbraid.core import triton_support
from unbraid.metrics import _trees, _trees_on_gpu
from unbraid.scoring import metric_inputs
from unbraid.scoring.metric_inputs import MetricInputs, Outcome, Task, score_task, score_tasks

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")


def inputs(task: Task) -> list[MetricInputs]:
    """Codes of a few whole numbers; those of member 2 are not finite."""
    generator = np.random.default_rng(task.members[0])
    factors = np.random.default_rng(99).integers([2, 3], size=(36, 2))
    codes = np.round(factors @ generator.normal(size=(2, 2)) + generator.normal(size=(36, 2)))
    if task.members[0] == 2:
        codes[5, 1] = np.nan
    return [MetricInputs(codes, 24, factors)]


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes seconds for a round."""
    pytest.importorskip("triton")
    rounds = _trees.ROUNDS if ON_GPU else 1
    monkeypatch.setattr(_trees, "ROUNDS", rounds)
    fit = partial(_trees_on_gpu.fit_on_gpu, rounds=rounds)
    monkeypatch.setattr(_trees_on_gpu, "fit_on_gpu", fit)


def numbers(outcomes: list[Outcome]) -> dict[tuple[object, ...], float]:
    return {row[:4]: row[4] for outcome in outcomes for row in outcome.rows}


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize(
    "name",
    ["dci:seed=3", "downstream:train_sizes=1,3,24", "downstream:train_sizes=24,predictor=logistic"],
)
def test_numbers_and_complaints_are_those_of_each_alone(name: str):
    tasks = [Task((member,), name, "mean") for member in range(4)]
    parts = metric_inputs._parts_by_gpu(tasks, inputs, DEVICE)
    assert [task.members[0] for task in parts] == [0, 1, 3]
    together = [score_task(task, inputs(task), parts.get(task)) for task in tasks]
    alone = [score_task(task, inputs(task)) for task in tasks]
    assert numbers(together) == pytest.approx(numbers(alone), abs=5e-3)
    assert [one.complaint for one in together] == [one.complaint for one in alone]
    assert [bool(one.complaint) for one in alone] == [False, False, True, False]


def test_the_cores_do_what_a_gpu_fails_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metric_inputs, "_for_gpu", lambda tasks, device: [list(tasks)])
    monkeypatch.setattr(_trees_on_gpu, "fit_on_gpu", lambda *given: 1 / 0)
    tasks = [Task((member,), "dci", "mean") for member in (0, 1)]
    found = numbers(list(score_tasks(tasks, inputs, 2, DEVICE)))
    assert found == numbers([score_task(task, inputs(task)) for task in tasks])


def test_a_gpus_part_is_used_and_its_time_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metric_inputs, "_for_gpu", lambda tasks, device: [list(tasks)])
    task = Task((0,), "dci", "mean")
    (alone,) = score_tasks([task], inputs, 1)
    monkeypatch.setattr(
        metric_inputs,
        "_parts_by_gpu",
        lambda *given: {task: metric_inputs.GpuPart({0: _always(0), 1: _always(1)}, 100.0)},
    )
    (found,) = score_tasks([task], inputs, 1, DEVICE)
    assert numbers([found]) != numbers([alone])
    assert all(row[5] > 100.0 for row in found.rows)


def _always(latent: int) -> _trees.Fit:
    """Trees that look at one latent and predict the first value."""
    return _trees.Fit(np.eye(2)[latent], np.zeros(24, dtype=int), np.zeros(12, dtype=int))


def test_what_goes_to_a_gpu(monkeypatch: pytest.MonkeyPatch):
    names = ["dci", "mig", "dci:backend=lightgbm", "dci:seed=1", "downstream"]
    tasks = [Task((member,), name, "mean") for member in range(3) for name in names]
    for_gpu, gpu = metric_inputs._for_gpu, torch.device("cuda")
    monkeypatch.setattr(triton_support, "usable", lambda device: True)
    monkeypatch.setattr(metric_inputs, "_MEMBERS_AT_ONCE", 2)
    groups = for_gpu(tasks, gpu)
    assert [[task.members[0] for task in group] for group in groups] == [[0, 1], [2]] * 3
    assert {task.metric for group in groups for task in group} == {names[0], *names[3:]}
    assert for_gpu(tasks, torch.device("cpu")) == for_gpu(tasks, None) == []
    monkeypatch.setattr(triton_support, "usable", lambda device: False)
    assert for_gpu(tasks, gpu) == []


def test_a_small_request_starts_no_processes_and_a_dear_one_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    shared: list[str] = []

    class Here:
        """Stands for joblib's processes."""

        def __init__(self, n_jobs: int, **options: object) -> None:
            self.several = n_jobs > 1

        def __call__(self, jobs: Iterable[Any]) -> Iterator[Outcome]:
            for call, (task, *given), _ in jobs:
                shared.extend([task.metric] * self.several)
                yield call(task, *given)

    monkeypatch.setattr(joblib, "Parallel", Here)
    monkeypatch.setattr(metric_inputs, "WORTH_PROCESSES", 4)
    monkeypatch.setattr(metric_inputs, "START_SECONDS", 60.0)
    tasks = [
        Task((member,), name, "mean", seed)
        for seed in (None, 0)
        for name in ("mig", "modularity")
        for member in (0, 1, 3)
    ]

    def done(tasks: list[Task]) -> set[Task]:
        shared.clear()
        return {one.task for one in score_tasks(tasks, inputs, 2)}

    assert done(tasks) == set(tasks)
    assert shared == []
    dear = [Task((member,), "explicitness", "mean") for member in (0, 1, 3)]
    assert done([*dear, *tasks]) == {*dear, *tasks}
    assert len(shared) == len(dear) + len(tasks)
    assert done([tasks[0], *dear]) == {tasks[0], *dear}
    assert shared == [], "few are left"
    monkeypatch.setattr(metric_inputs, "START_SECONDS", 0.0)
    assert done(tasks) == set(tasks)
    assert len(shared) == len(tasks), "cheap ones too, where they take long"


@pytest.mark.gpu
def test_scoring_with_a_gpu_gives_the_numbers_of_the_cores():
    names = ("dci", "mig", "downstream")
    tasks = [Task((member,), name, "mean") for member in (0, 1, 3) for name in names]
    found, expected = (
        numbers(list(score_tasks(tasks, inputs, 2, device))) for device in (DEVICE, None)
    )
    assert found == pytest.approx(expected, abs=5e-3)
