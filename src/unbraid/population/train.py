# SPDX-License-Identifier: Apache-2.0
"""Many members, one loop: chunks of the population are trained, recorded and checkpointed until the
plan is done.

There is one loop for every device. Workers take chunks off a queue; on a CPU there is one worker a
core, on a GPU one. A worker that is told to stop writes a checkpoint first, so that `resume`
continues where it was, and a process that is killed loses only what came after its last checkpoint:
the random numbers are functions of the step, so the continued run ends with the same bits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import torch

from unbraid.core.store import only_one, remove_unfinished
from unbraid.population.cuda_graph import Stepper
from unbraid.population.devices import cores, explain_oom, keep_freed_memory
from unbraid.population.member import Member
from unbraid.population.run_folder import RunFolder
from unbraid.population.training_step import State, TrainingStep, rule_on

_LEAST_TRAINING_PER_SAVING = 10
"""Checkpoints of large chunks take seconds to write: at most a tenth of the time goes there,
however often they are wanted.
"""
_LOOK_SECONDS = 1.0
"""How often a GPU is asked whether every member has diverged: asking waits for it."""

Report = Callable[[int, bool], None]
"""Told how many model-steps more are done, and whether they were found so (from a checkpoint, or
never needed).
"""


@dataclass(frozen=True)
class Outcome:
    """How a call of `train_run` ended."""

    finished: bool
    diverged: tuple[int, ...]
    """Members that stopped being finite, by id."""


def train_run(
    run: RunFolder,
    device: torch.device,
    progress: Report = lambda model_steps, found_done: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Train what is left of *run*; on Ctrl-C checkpoints are written and the outcome says that it
    is not finished.
    """
    with only_one(run.path):
        remove_unfinished(run.path)
        run.forget_tables()
        with explain_oom(
            device,
            f"the data '{run.dataset.name}'",
            "Free some memory, or train on a CPU.",
        ):
            # Both are the same for all chunks, which train side by side on a CPU.
            sampler, rule = run.dataset.sampler(device), rule_on(run.plan, run.dataset, device)

        def build(chunk: tuple[Member, ...]) -> TrainingStep:
            return TrainingStep(run.plan, chunk, run.dataset, device, sampler, rule)

        stop = threading.Event()
        lock = threading.Lock()

        def told(model_steps: int, found_done: bool) -> None:
            with lock:
                progress(model_steps, found_done)

        def warned(line: str) -> None:
            with lock:
                warn(line)

        if device.type == "cpu":
            keep_freed_memory()
        workers = cores() if device.type == "cpu" else 1
        with ThreadPoolExecutor(workers, thread_name_prefix="unbraid") as pool:
            pending = {
                pool.submit(_train_chunk, run, chunk, device, build, stop, told, warned)
                for chunk in run.chunks()
            }
            states = _wait(pending, stop)
        finished = not stop.is_set()
        if finished:
            run.write_tables()
        return Outcome(finished, tuple(member for diverged in states for member in diverged))


def _wait(pending: set[Future[list[int]]], stop: threading.Event) -> list[list[int]]:
    """Results of all chunks; a failure or Ctrl-C stops the others at their next step."""
    everything = set(pending)
    try:
        while pending:
            done, pending = wait(pending, timeout=0.5, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
    except KeyboardInterrupt:
        stop.set()
    except BaseException:
        stop.set()
        for future in everything:
            future.cancel()
        raise
    return [future.result() for future in everything if not future.cancelled()]


def _train_chunk(
    run: RunFolder,
    chunk: tuple[Member, ...],
    device: torch.device,
    build: Callable[[tuple[Member, ...]], TrainingStep],
    stop: threading.Event,
    progress: Report,
    warn: Callable[[str], None],
) -> list[int]:
    """Train one chunk from its newest good checkpoint to the end; returns the ids of members that
    diverged.
    """
    if stop.is_set():
        return []
    # Both hold for this worker thread only.
    if device.type == "cpu":
        torch.set_num_threads(1)  # the members side by side are the parallelism
    elif device.index is not None:
        torch.cuda.set_device(device)
    checkpoints = run.checkpoints(chunk)
    training = build(chunk)
    remedy = (
        f"Nothing saved is lost: free some memory and run `unbraid resume {run.path}`, or start"
        " again with a smaller batch size."
    )
    with explain_oom(device, f"{len(chunk)} members that train together", remedy):
        state = checkpoints.load(device, warn)
        if state is None:
            state = training.start()
        else:
            progress(state.step * len(chunk), True)
        if not training.finished(state):
            _advance(
                training,
                Stepper(training, state, warn),
                checkpoints.save,
                run.plan.checkpoint_seconds,
                stop,
                progress,
            )
    progress((run.plan.steps - state.step) * len(chunk) if training.finished(state) else 0, True)
    return [
        member.id for member, at in zip(chunk, state.diverged_at.tolist(), strict=True) if at >= 0
    ]


def _advance(
    training: TrainingStep,
    stepper: Stepper,
    save: Callable[[State], None],
    seconds: float,
    stop: threading.Event,
    progress: Report,
) -> None:
    """Step until the plan is done, saving every *seconds*, halfway and at the end."""
    steps, members, state = training.plan.steps, len(training.members), stepper.state
    saved_at, saved_step, saving = time.monotonic(), state.step, 0.0
    looked_at = time.monotonic()
    while state.step < steps and not stop.is_set():
        # The halfway checkpoint means that a damaged last one never costs a whole training.
        halfway = steps // 2 if state.step < steps // 2 else steps
        progress(members * stepper.advance(halfway - state.step), False)
        now = time.monotonic()
        if now - looked_at >= _LOOK_SECONDS or training.device.type == "cpu":
            looked_at = now
            if training.finished(state):
                break
        due = now - saved_at >= max(seconds, _LEAST_TRAINING_PER_SAVING * saving)
        if (due or state.step == steps // 2) and state.step < steps:
            save(state)
            saved_at, saved_step = time.monotonic(), state.step
            saving = saved_at - now
    if state.step != saved_step:
        save(state)
