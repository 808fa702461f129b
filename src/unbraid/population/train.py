# SPDX-License-Identifier: Apache-2.0
"""Many members, one loop: chunks of the population are trained, recorded and checkpointed until the plan is done.

There is one loop for every device. Workers take chunks off a queue; on a CPU there is one worker a core, on a GPU one.
A worker that is told to stop writes a checkpoint first, so that `resume` continues where it was, and a process that is
killed loses only what came after its last checkpoint: the random numbers are functions of the step, so the continued run
ends with the same bits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import torch

from unbraid.population.devices import cores, keep_freed_memory
from unbraid.population.plan import Member
from unbraid.population.program import Program, State
from unbraid.population.run_folder import RunFolder
from unbraid.store import only_one, remove_unfinished

Report = Callable[[int, bool], None]
"""Told how many model-steps more are done, and whether they were found so (from a checkpoint, or never needed)."""


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
    """Train what is left of *run*; on Ctrl-C checkpoints are written and the outcome says that it is not finished."""
    with only_one(run.path):
        remove_unfinished(run.path)
        run.forget_tables()
        sampler = run.dataset.sampler(device)
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
            pending = {pool.submit(_train_chunk, run, chunk, device, sampler, stop, told, warned) for chunk in run.chunks()}
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
    sampler: Callable[[torch.Tensor], torch.Tensor],
    stop: threading.Event,
    progress: Report,
    warn: Callable[[str], None],
) -> list[int]:
    """Train one chunk from its newest good checkpoint to the end; returns the ids of members that diverged."""
    if stop.is_set():
        return []
    if device.type == "cpu":
        torch.set_num_threads(1)  # of this worker thread only: the members side by side are the parallelism
    checkpoints = run.checkpoints(chunk)
    program = Program(run.plan, chunk, run.dataset, device, sampler)
    state = checkpoints.load(device, warn)
    if state is None:
        state = program.start()
    else:
        progress(state.step * len(chunk), True)
    if not program.finished(state):
        _advance(program, state, checkpoints.save, run.plan.checkpoint_seconds, stop, progress)
    progress((run.plan.steps - state.step) * len(chunk) if program.finished(state) else 0, True)
    return [member.id for member, at in zip(chunk, state.diverged_at.tolist(), strict=True) if at >= 0]


def _advance(
    program: Program, state: State, save: Callable[[State], None], seconds: float, stop: threading.Event, progress: Report
) -> None:
    """Step until the plan is done, saving every *seconds*, halfway and at the end."""
    steps, members = program.plan.steps, len(program.members)
    saved_at, saved_step = time.monotonic(), -1
    while not program.finished(state) and not stop.is_set():
        program.step(state)
        progress(members, False)
        due = time.monotonic() - saved_at >= seconds
        # The halfway checkpoint means that a damaged last one never costs a whole training.
        if (due or state.step == steps // 2) and not program.finished(state):
            save(state)
            saved_at, saved_step = time.monotonic(), state.step
    if state.step != saved_step:
        save(state)
