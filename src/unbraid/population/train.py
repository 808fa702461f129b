# SPDX-License-Identifier: Apache-2.0
"""Many members, one loop: chunks of the population are trained, recorded and checkpointed until the
plan is done.

There is one loop for every device. Workers take chunks off a queue: on a CPU there is one worker a
core, else one a GPU. Checkpoints are written in the background. A worker that is told to stop
leaves one behind, so that `resume` continues where it was, and a process that is killed loses only
what came after its last checkpoint: the random numbers are functions of the step, so the continued
run ends with the same bits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib import import_module
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unbraid.core.failpoints import failpoint
from unbraid.core.files import only_one
from unbraid.core.folders import check_still_there
from unbraid.population.background_save import BackgroundSave, Write
from unbraid.population.checkpoint import Curves, Trained, results_of
from unbraid.population.cuda_graph import Stepper, rehearse
from unbraid.population.devices import explain_oom, keep_freed_memory, workers
from unbraid.population.draws import rule_on
from unbraid.population.member import Member
from unbraid.population.run_folder import RunFolder
from unbraid.population.state import State
from unbraid.population.training_step import TrainingStep

if TYPE_CHECKING:
    from unbraid.data.dataset import Sampler

_LEAST_TRAINING_PER_SAVING = 10
"""Between two checkpoints lies so many times what writing one takes, however often they are wanted.
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
    chunk_done: Callable[[tuple[Member, ...]], None] = lambda chunk: None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Train what is left of *run*; on Ctrl-C, or when another thread sets *stop*, checkpoints are
    written and the outcome says that it is not finished.

    *chunk_done* is called, in a thread that does not train, with each chunk whose results are on
    disk.
    """
    with only_one(run.path):
        run.check_unchanged()
        run.remove_halves()
        _ = run.dataset  # refused here where it has changed, with nothing touched
        training = _Training(run, progress, warn, chunk_done, stop or threading.Event())
        places = workers(device)
        if device.type == "cpu":
            keep_freed_memory()
        free: SimpleQueue[torch.device] = SimpleQueue()
        for place in places:
            free.put(place)
        with (
            ThreadPoolExecutor(1, thread_name_prefix="unbraid-save") as training.disk,
            ThreadPoolExecutor(
                len(places), "unbraid", initializer=lambda: training.take(free.get())
            ) as pool,
        ):
            training.load_data(places)
            # Tables are written at the end: what that needs is imported meanwhile.
            training.disk.submit(import_module, "pandas")
            training.disk.submit(import_module, "pyarrow.parquet")
            pending = {pool.submit(training.train, chunk) for chunk in run.chunks()}
            curves = _wait(pending, training.stop)
        for done in training.in_background:
            done()
        finished = not training.stop.is_set()
        if finished:
            failpoint("training.done")
            check_still_there(run.path)
            run.write_tables({chunk[0].id: found for chunk, found in curves})
        diverged = [
            member.id
            for chunk, found in curves
            for member, at in zip(chunk, found.diverged_at.tolist(), strict=True)
            if at >= 0
        ]
        return Outcome(finished, tuple(sorted(diverged)))


Ended = tuple[tuple[Member, ...], Curves]
"""A chunk and how its training went."""


def _wait(pending: set[Future[Ended | None]], stop: threading.Event) -> list[Ended]:
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
    ended = [future.result() for future in everything if not future.cancelled()]
    return [one for one in ended if one is not None]


class _Training:
    """What the workers of one call share."""

    disk: ThreadPoolExecutor
    """A thread that writes checkpoints; before that it puts the data on devices, and imports."""

    def __init__(
        self,
        run: RunFolder,
        progress: Report,
        warn: Callable[[str], None],
        chunk_done: Callable[[tuple[Member, ...]], None],
        stop: threading.Event,
    ) -> None:
        self.run = run
        self.chunk_done = chunk_done
        self.stop = stop
        self.in_background: list[Callable[[], object]] = []
        """What to call, at the end, for the errors of other threads."""
        self._progress, self._warn = progress, warn
        self._lock = threading.Lock()
        self._worker = threading.local()
        self._samplers: dict[torch.device, Future[Sampler]] = {}
        self._rules: dict[torch.device, Tensor | None] = {}

    def progress(self, model_steps: int, found_done: bool) -> None:
        """Tell how many model-steps more are done; workers take turns."""
        with self._lock:
            self._progress(model_steps, found_done)

    def warn(self, line: str) -> None:
        """Say *line*."""
        with self._lock:
            self._warn(line)

    def load_data(self, places: list[torch.device]) -> None:
        """Begin to put the data on each device; all chunks there share it."""
        dataset = self.run.dataset

        def load(place: torch.device) -> Sampler:
            what = f"the data '{dataset.name}'"
            with explain_oom(place, what, "Free some memory, or train on a CPU."):
                return dataset.sampler(place)

        for place in dict.fromkeys(places):
            self._samplers[place] = self.disk.submit(load, place)
            self._rules[place] = rule_on(self.run.plan, dataset, place)

    def take(self, device: torch.device) -> None:
        """Let the calling thread work on *device* from now on."""
        self._worker.device = device
        if device.type == "cpu":
            torch.set_num_threads(1)  # the members side by side are the parallelism
        elif device.index is not None:
            torch.cuda.set_device(device)

    def train(self, chunk: tuple[Member, ...]) -> Ended | None:
        """Train one chunk from its newest good checkpoint to the end; None where it was not begun
        before a stop.
        """
        if self.stop.is_set():
            return None
        run, device = self.run, self._worker.device
        remedy = (
            f"Nothing saved is lost: free some memory and run `unbraid resume {run.path}`, or start"
            " again with a smaller batch size."
        )
        with explain_oom(device, f"{len(chunk)} members that train together", remedy):
            found = run.checkpoints(chunk).load(device, self.warn, run.width(chunk))
            if found is not None:
                self.progress(found.step * len(chunk), True)
            if found is not None and run.is_over(found):
                self.in_background.append(self.disk.submit(self.chunk_done, chunk).result)
            else:
                assert not isinstance(found, Trained)
                found = self._advance(chunk, found)
        if run.is_over(found):
            self.progress((run.plan.steps - found.step) * len(chunk), True)
        return chunk, Curves(found.step, found.diverged_at.cpu(), found.history.cpu())

    def _advance(self, chunk: tuple[Member, ...], state: State | None) -> State:
        """Step until the plan is done or a stop, saving at times, halfway and at the end."""
        run, steps, device = self.run, self.run.plan.steps, self._worker.device
        with self._lock:
            run.forget_tables()
        loading, rule = self._samplers[device], self._rules[device]
        training = TrainingStep(
            run.plan, chunk, run.dataset, device, lambda *indices: loading.result()(*indices), rule
        )
        rehearse(training)
        state = training.start() if state is None else training.extended(state)
        write, save = self._write(run.checkpoints(chunk).save), BackgroundSave(self.disk)
        self.in_background.append(save.wait)
        stepper = Stepper(training, state, self.warn)
        saved_at = looked_at = time.monotonic()
        saved_step, over = state.step, False
        # A checkpoint halfway means that a damaged one never costs a whole training.
        owed = state.step < steps // 2
        while not over and not self.stop.is_set():
            self.progress(len(chunk) * stepper.advance(steps - state.step), False)
            now = time.monotonic()
            over = state.step >= steps
            if now - looked_at >= _LOOK_SECONDS or device.type == "cpu":
                looked_at, over = now, run.is_over(state)
            pause = max(run.plan.checkpoint_seconds, _LEAST_TRAINING_PER_SAVING * save.seconds)
            halfway = owed and state.step >= steps // 2
            if (halfway or now - saved_at >= pause) and not over and not save.busy:
                save(state.tensors(), state.step, write)
                saved_at, saved_step, owed = time.monotonic(), state.step, owed and not halfway
        if over:
            save(*self._last(chunk, state))
        elif state.step != saved_step:
            save(state.tensors(), state.step, write)
        return state

    def _write(self, save: Write) -> Write:
        """*save*, as long as the run is where it was."""

        def write(tensors: Mapping[str, Tensor], step: int) -> None:
            check_still_there(self.run.path)
            save(tensors, step)

        return write

    def _last(self, chunk: tuple[Member, ...], state: State) -> tuple[Any, int, Write]:
        """What of the last *state* is saved, and how."""
        checkpoints, keep = self.run.checkpoints(chunk), self.run.keep_optimiser

        save = self._write(checkpoints.save if keep else checkpoints.save_results)

        def write(tensors: Mapping[str, Tensor], step: int) -> None:
            save(tensors, step)
            failpoint("chunk.done")
            self.chunk_done(chunk)

        tensors = state.tensors()
        return (tensors if keep else results_of(tensors)), state.step, write
