# SPDX-License-Identifier: Apache-2.0
"""Runs and studies on a Ray cluster: a chunk or a slice is a task with one GPU, scores are tasks
with CPU cores. Every node must see the folders under the same paths.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import Shown, UnbraidError, invalid
from unbraid.core.progress import Progress
from unbraid.core.ray_tasks import Task, cluster, gpus_of, run_tasks

if TYPE_CHECKING:
    import torch

    from unbraid.population.run_folder import RunFolder
    from unbraid.studies.results import Results
    from unbraid.studies.run_slices import Part

ON = ("here", "ray")


def check_on(on: str, address: str | None) -> bool:
    """Whether a command is to run on Ray."""
    if on not in ON:
        raise invalid("on", f"must be one of {', '.join(ON)}", on)
    if address is not None and on != "ray":
        raise invalid("address", "goes with a cluster", address, "Give {on=ray} too.")
    return on == "ray"


def ray_kind(device: str) -> str:
    """Which kind of device tasks have: cuda, unless it is to be cpu; Ray picks which."""
    if device not in ("auto", "cpu", "cuda"):
        raise invalid("device", "must be auto, cpu or cuda, since Ray picks which", device)
    return "cuda" if device == "auto" else device


def train_on_ray(run: RunFolder, kind: str, address: str | None, quiet: bool) -> None:
    """Train what is left of *run*, and encode it, on devices of *kind*: cpu or cuda."""
    from unbraid.data.dataset import IN_MEMORY
    from unbraid.population.failures import members_told
    from unbraid.population.run_folder import RunFolder
    from unbraid.population.run_status import run_status
    from unbraid.population.train import train_run

    if run.plan.data_options.get("source") == IN_MEMORY:
        remedy = "Save the array as .npy where every node finds it, and give that file."
        raise invalid("data", "must be found by every node", Shown("an array in memory"), remedy)
    path, total = str(run.path.absolute()), run.plan.steps * len(run.plan.members)
    with cluster(address) as ray, Progress("training", "model-steps", total, quiet) as progress:
        gpus = gpus_of(ray)
        if kind == "cuda" and not gpus:
            rule, remedy = "needs a Ray cluster with GPUs", "Use {device=cpu}."
            raise invalid("device", rule, kind, remedy)
        if not run.is_decided:  # by a node that has such a device
            task = Task("plan", decide_chunks, (path, kind, gpus), gpus=kind == "cuda")
            run_tasks(ray, [task], lambda: None)
            run = RunFolder.open(run.path, run.dataset)
        before = run_status(run).done
        progress.advance(before, True)
        known = before

        def look() -> None:
            nonlocal known
            now = run_status(run).done
            progress.advance(now - known)
            known = now

        tasks = [
            Task(
                members_told(chunk),
                train_chunk,
                (path, chunk[0].id, kind),
                gpus=kind == "cuda",
            )
            for chunk in run.chunks()
        ]
        run_tasks(ray, tasks, look)
        look()
    import torch

    # Everything is there: this reads it, and writes the tables.
    if not train_run(run, torch.device("cpu"), reads=False, warn=progress.say).finished:
        raise UnbraidError(f"{run.path} is not finished. Go on with: unbraid resume {run.path}")


def score_on_ray(run: RunFolder, metrics: Sequence[str], address: str | None) -> None:
    """Score *run* on a node of the cluster, by CPU cores."""
    task = Task("scores", score_run, (str(run.path.absolute()), list(metrics)))
    with cluster(address) as ray:
        run_tasks(ray, [task], lambda: None)


def study_on_ray(
    results: Results,
    parts: Sequence[Part],
    kind: str,
    address: str | None,
    work: str | Path | None,
    keep_models: bool,
    quiet: bool,
) -> list[str]:
    """Make the tables of those *parts* that have none; the names of those that have one now."""
    from unbraid.studies.run_slices import name_of

    results.check()
    left = [part for part in parts if not results.done(*part)]
    study, folder = results.study.name, str(results.folder.absolute())
    place = None if work is None else str(Path(work).absolute())

    def task(pool: Any, one: Any) -> Task:
        given = study, results.scale, results.first_seed, folder, pool.name, one.name, place
        name = name_of(pool, one)

        def scores(trained_on: str | None) -> Task | None:
            if trained_on is None:
                return None
            return Task(f"scores of {name}", score_slice, (*given, keep_models, trained_on))

        gpus = kind == "cuda"
        return Task(name, train_slice, (*given, kind), gpus=gpus, then=scores)

    def look() -> None:
        nonlocal known
        now = sum(results.done(*part) for part in left)
        progress.advance(now - known)
        known = now

    known = 0
    with cluster(address) as ray, Progress("slices", "slices", len(left), quiet) as progress:
        run_tasks(ray, [task(*part) for part in left], look)
        look()
    return [name_of(*part) for part in left if results.done(*part)]


# What follows runs on a node of the cluster.


def _device(kind: str) -> torch.device:
    """The one device of a task."""
    import torch

    from unbraid.population.devices import choose_device

    if kind == "cuda" and (seen := torch.cuda.device_count()) != 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        rule = "must be the one GPU that Ray gave to the task"
        found = Shown(f"{seen} GPUs, with CUDA_VISIBLE_DEVICES {visible}")
        raise invalid("device", rule, found, "Start Ray's nodes without CUDA_VISIBLE_DEVICES.")
    return choose_device(kind)


def decide_chunks(folder: str, kind: str, gpus: int) -> None:
    """Settle which members train together, for as many GPUs as the cluster has."""
    from unbraid.population.run_folder import RunFolder
    from unbraid.population.train import decide

    run = RunFolder.open(folder)
    run.processes = max(run.processes, gpus, 1)
    decide(run, _device(kind))


def train_chunk(folder: str, first: int, kind: str) -> None:
    """Train and encode one chunk, by its first member, unless that is done."""
    from unbraid.codes.codes import CodeStore
    from unbraid.population.run_folder import RunFolder
    from unbraid.population.train import train_run

    device, run = _device(kind), RunFolder.open(folder)
    outcome = train_run(run, device, only=frozenset({first}), places=[device])
    if not outcome.finished:
        raise KeyboardInterrupt
    chunk = next(one for one in run.chunks() if one[0].id == first)
    CodeStore(run).encode(device, chunk=chunk)


def score_run(folder: str, metrics: list[str]) -> None:
    """Score a trained run."""
    from unbraid.commands.run import open_run

    open_run(folder, device="cpu").score(metrics, quiet=True)


def train_slice(
    study: str,
    scale: str,
    first_seed: int,
    results: str,
    pool: str,
    name: str,
    work: str | None,
    kind: str,
) -> str | None:
    """Train a slice; what it was trained on, None where another process works at it or has done."""
    from unbraid.studies.run_slices import train_one
    from unbraid.studies.slice_work import device_name

    device = _device(kind)
    if not train_one(_results(study, scale, first_seed, results), pool, name, work, device):
        return None
    return device_name(device)


def score_slice(
    study: str,
    scale: str,
    first_seed: int,
    results: str,
    pool: str,
    name: str,
    work: str | None,
    keep_models: bool,
    trained_on: str,
) -> None:
    """Score a trained slice and write its table."""
    from unbraid.studies.run_slices import score_one

    tables = _results(study, scale, first_seed, results)
    score_one(tables, pool, name, work, keep_models, trained_on)


def _results(study: str, scale: str, first_seed: int, folder: str) -> Results:
    from unbraid.studies import STUDIES
    from unbraid.studies.results import Results

    return Results(STUDIES.load(study), scale, folder, first_seed)
