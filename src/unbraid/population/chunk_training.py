# SPDX-License-Identifier: Apache-2.0
"""The loop: one chunk is trained, recorded and saved until it is done or told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from unbraid.core.failpoints import failpoint
from unbraid.core.folders import check_still_there
from unbraid.population.background_save import BackgroundSave, Write
from unbraid.population.checkpoint import results_of
from unbraid.population.chunk_queue import Taken
from unbraid.population.cuda_graph import Stepper, rehearse
from unbraid.population.devices import device_type
from unbraid.population.member import Chunk, members_told
from unbraid.population.run_folder import RunFolder
from unbraid.population.state import State
from unbraid.population.training_step import TrainingStep

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
class Told:
    """Who is told how training goes."""

    progress: Report
    warn: Callable[[str], None]
    chunk_done: Callable[[Chunk], None]
    """In a thread that does not train, once the results of a chunk are on disk."""


class ChunkTraining:
    """Trains the members of one *training* step from a state to the end of the plan, or to a stop,
    saving at times, halfway and at the end.
    """

    def __init__(
        self,
        run: RunFolder,
        taken: Taken,
        training: TrainingStep,
        disk: ThreadPoolExecutor,
        stop: threading.Event,
        told: Told,
    ) -> None:
        """*disk* writes; the chunk is held by the lease with which it was *taken*."""
        self.save = BackgroundSave(disk)
        self._run, self._training, self._stop, self._told = run, training, stop, told
        self._chunk, self._lease = taken.chunk, taken.lease
        self._checkpoints = run.checkpoints(taken.chunk)

    def train(self, state: State | None, made_on: str | None) -> State:
        """Go on from *state*, saved on a device *made_on*, or begin; returns the last."""
        here = device_type(self._training.device)
        if state is not None and made_on not in (None, here):
            self._told.warn(
                f"{members_told(self._chunk)}, trained to step {state.step:,} on {made_on}, from"
                f" here on {here}: the same models within the tolerances of docs/limits.md, not to"
                " the last bit."
            )
        self._checkpoints.made_on = here
        rehearse(self._training)
        state = self._training.start() if state is None else self._training.extended(state)
        self._advance(state)
        return state

    def _advance(self, state: State) -> None:
        steps, plan = self._run.plan.steps, self._run.plan
        write = self._write(self._checkpoints.save)
        stepper = Stepper(self._training, state, self._told.warn)
        first, began = state.step, time.monotonic()
        saved_at = looked_at = began
        saved_step, over = state.step, False
        # A checkpoint halfway means that a damaged one never costs a whole training.
        owed = state.step < steps // 2
        while not over and not self._stop.is_set():
            self._told.progress(len(self._chunk) * stepper.advance(steps - state.step), False)
            now = time.monotonic()
            self._show_life(state, (state.step - first) / max(1e-3, now - began))
            over = state.step >= steps
            if now - looked_at >= _LOOK_SECONDS or self._training.device.type == "cpu":
                looked_at, over = now, self._run.is_over(state)
            pause = max(plan.checkpoint_seconds, _LEAST_TRAINING_PER_SAVING * self.save.seconds)
            halfway = owed and state.step >= steps // 2
            if (halfway or now - saved_at >= pause) and not over and not self.save.busy:
                self.save(state.tensors(), state.step, write)
                saved_at, saved_step, owed = time.monotonic(), state.step, owed and not halfway
        if over:
            self.save(*self._last(state))
        elif state.step != saved_step:
            self.save(state.tensors(), state.step, write)

    def _show_life(self, state: State, updates_a_second: float) -> None:
        """Say in the lease how far the chunk is; an error where another has taken it over."""
        rate = round(len(self._chunk) * updates_a_second, 1)
        self._lease.about.update(step=state.step, rate=rate)
        if self._lease.is_lost:
            self._told.progress(-len(self._chunk) * state.step, False)
            self._lease.check()

    def _write(self, save: Write) -> Write:
        """*save*, as long as the run is where it was."""

        def write(tensors: Mapping[str, Tensor], step: int) -> None:
            check_still_there(self._run.path)
            save(tensors, step)

        return write

    def _last(self, state: State) -> tuple[Any, int, Write]:
        """What of the last *state* is saved, and how."""
        keep, checkpoints = self._run.keep_optimiser, self._checkpoints
        save = self._write(checkpoints.save if keep else checkpoints.save_results)

        def write(tensors: Mapping[str, Tensor], step: int) -> None:
            save(tensors, step)
            failpoint("chunk.done")
            self._told.chunk_done(self._chunk)

        tensors = state.tensors()
        return (tensors if keep else results_of(tensors)), state.step, write
