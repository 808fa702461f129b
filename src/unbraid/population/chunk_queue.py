# SPDX-License-Identifier: Apache-2.0
"""The run folder as a queue: each worker takes a chunk that nobody trains, under a lease.

Any number of processes on any number of machines may do so at the same time. What is done and what
is held stands in the folder alone: names of checkpoints say how far a chunk is, leases beside them
who trains it. A chunk whose holder is gone is taken over and goes on from its newest good
checkpoint.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbraid.core import lease as leases
from unbraid.core.files import file_names, make_folder
from unbraid.core.folders import check_still_there
from unbraid.core.lease import Lease
from unbraid.core.lease_holder import SECONDS, SUFFIX, Watch
from unbraid.population.checkpoint import Curves, chunk_name
from unbraid.population.failures import FAILED, Failure, failed_here
from unbraid.population.member import Chunk
from unbraid.population.run_folder import RunFolder

_LOOK_SECONDS = 1.0
"""So old may be what was seen of the folder, where nobody else trains."""
PAUSE_SECONDS = 5.0
"""How often a worker without a chunk looks for one."""
_FIRST_LOOK_SECONDS = 0.05
"""After so long it looks for the first time; each time it waits twice as long."""


@dataclass(frozen=True)
class Taken:
    """A chunk that a worker of this process holds."""

    chunk: Chunk
    lease: Lease


class ChunkQueue:
    """The chunks of a run as the workers of one process see them."""

    def __init__(
        self,
        run: RunFolder,
        stop: threading.Event,
        *,
        only: frozenset[int] | None = None,
        reads: bool = True,
        seconds: float = SECONDS,
        found: Callable[[Chunk], None] = lambda chunk: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*only* the chunks of these first members; a holder that shows no sign of life for
        *seconds* is gone. What was trained before is *read*, and trained again where it is damaged.
        Called with each chunk that another process is *found* to have trained.
        """
        self._run, self._stop, self._seconds, self._found = run, stop, seconds, found
        self._clock, self._watch, self._turn = clock, Watch(clock), threading.Condition()
        chosen = (one for one in run.chunks() if only is None or one[0].id in only)
        self._left = {one[0].id: one for one in chosen}
        self._held: set[int] = set()
        self._plan = run.plan_state()
        self._to_read: set[int] | None = None if reads else set()
        self._unread: list[Chunk] = []
        self._steps: dict[str, int] = {}
        self._leases: set[str] = set()
        self._failures: set[str] = set()
        self._looked_at = self._asked_at = -math.inf
        self._known_failures: set[str] | None = None
        self.failed: dict[int, tuple[Chunk, Failure]] = {}
        """Chunks that could not be trained on this machine since this process began, and why."""
        self.curves: dict[int, Curves] = {}
        """Of chunks that this process has trained, or read and found done, by first member."""

    def next_trained(self) -> Chunk | None:
        """A chunk that was trained before, to be read without holding it; None after the last."""
        with self._turn:
            if self._to_read is None and not self._stop.is_set():
                self._look(list(self._left.values()))
            if self._stop.is_set() or not self._unread:
                return None
            chunk = self._unread.pop()
            self._held.add(chunk[0].id)
            return chunk

    def read(self, chunk: Chunk, curves: Curves | None) -> None:
        """A chunk that was trained before is whole; without *curves* it has to be looked into by
        whoever holds it.
        """
        with self._turn:
            self._held.discard(chunk[0].id)
            if curves is not None:
                self.curves[chunk[0].id] = curves
                self._left.pop(chunk[0].id, None)

    def next(self, about: dict[str, Any]) -> Taken | None:
        """A chunk for a worker that tells *about* itself; None where nothing is left to do, or at a
        stop. While others hold all that is left, it waits for them.
        """
        pause = _FIRST_LOOK_SECONDS
        with self._turn:
            while not self._stop.is_set() and self._left:
                if (taken := self._take(about)) is not None:
                    return taken
                if self._left:
                    self._turn.wait(pause)
                    pause = min(2 * pause, PAUSE_SECONDS, self._seconds / leases.BEATS)
            self._turn.notify_all()
        return None

    def next_now(self, about: dict[str, Any]) -> Taken | None:
        """The same without waiting: None where nothing can be had now."""
        with self._turn:
            return self._take(about)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left that this process would train."""
        return not self._left

    def done(self, taken: Taken, curves: Curves | None = None) -> None:
        """Results of a chunk are on disk."""
        with self._turn:
            if curves is not None:
                self.curves[taken.chunk[0].id] = curves
            self._left.pop(taken.chunk[0].id, None)
            self._end(taken)

    def back(self, taken: Taken) -> None:
        """A chunk is not trained any more here: at a stop, an error, or when its lease was lost."""
        with self._turn:
            self._end(taken)

    def fail(self, taken: Taken, failure: Failure) -> None:
        """A chunk could not be trained, and is not tried again here."""
        with self._turn:
            self._left.pop(taken.chunk[0].id, None)
            self.failed[taken.chunk[0].id] = taken.chunk, failure
            self._end(taken)

    def _end(self, taken: Taken) -> None:
        taken.lease.give_back()
        self._held.discard(taken.chunk[0].id)
        self._turn.notify_all()

    def _take(self, about: dict[str, Any]) -> Taken | None:
        """A chunk that can be had now: the first, or any where others take chunks too."""
        free = [one for id, one in self._left.items() if id not in self._held]
        if not free:
            return None
        self._look(free)
        free = [one for one in free if not (self._is_done(one) or self._has_failed(one))]
        open_ones = [one for one in free if self._place(one).name not in self._leases]
        if len(open_ones) < len(free):
            random.shuffle(open_ones)  # or all would try the same one
        open_ones.sort(key=self._failed_elsewhere)  # these last
        for chunk in open_ones:
            if (taken := self._lease(chunk, about)) is not None:
                return taken
        for chunk in self._held_elsewhere(free):
            if (taken := self._lease(chunk, about)) is not None:
                self._asked_at = -math.inf  # its holder is gone, and may have held more
                return taken
        return None

    def _held_elsewhere(self, free: list[Chunk]) -> list[Chunk]:
        """Chunks whose holder may be gone: looked at as often as a holder shows that it lives."""
        now = self._clock()
        if now - self._asked_at < self._seconds / leases.BEATS:
            return []
        self._asked_at = now
        return [one for one in free if self._place(one).name in self._leases]

    def _look(self, free: list[Chunk]) -> None:
        """See how far chunks are and which are held; what is seen may be some moments old, since
        leases and checkpoints are asked before anything is done.
        """
        now = self._clock()
        if now - self._looked_at < _LOOK_SECONDS and not self._leases:
            return
        check_still_there(self._run.path)
        make_folder(self._run.checkpoint_folder)
        names = file_names(self._run.checkpoint_folder)
        self._looked_at, self._steps = now, steps_by_chunk(names)
        self._leases = {name for name in names if name.endswith(SUFFIX)}
        failures = {name for name in names if name.endswith(FAILED)}
        if self._known_failures is None:  # what had failed before is tried again
            self._known_failures = failures
        self._failures = failures - self._known_failures
        self._known_failures &= failures
        if self._to_read is None:
            self._unread = [one for one in reversed(free) if self._is_trained(one)]
            self._to_read = {one[0].id for one in self._unread}

    def _is_trained(self, chunk: Chunk) -> bool:
        return self._steps.get(chunk_name(chunk), -1) >= self._run.plan.steps

    def _failed_elsewhere(self, chunk: Chunk) -> bool:
        """Whether another process has failed at *chunk* meanwhile."""
        return f"{chunk_name(chunk)}{FAILED}" in self._failures

    def _has_failed(self, chunk: Chunk) -> bool:
        """Whether one of this machine has, as this one would. What fails on another is tried here:
        a machine that is broken fails at everything, and would end the run for all.
        """
        if not self._failed_elsewhere(chunk):
            return False
        if (failure := failed_here(self._run.checkpoint_folder, chunk)) is None:
            return False
        self.failed[chunk[0].id] = self._left.pop(chunk[0].id), failure
        return True

    def _is_done(self, chunk: Chunk) -> bool:
        """Whether another process has trained *chunk*, which then is left to whoever reads it."""
        if not self._is_trained(chunk) or chunk[0].id in (self._to_read or ()):
            return False
        del self._left[chunk[0].id]
        self._found(chunk)
        return True

    def _place(self, chunk: Chunk) -> Path:
        return lease_place(self._run.checkpoint_folder, chunk)

    def _lease(self, chunk: Chunk, about: dict[str, Any]) -> Taken | None:
        """Hold *chunk*, where nobody does any more."""
        folder, name = self._run.checkpoint_folder, f"{chunk_name(chunk)}."
        try:
            lease = leases.take(
                self._place(chunk),
                lambda path: path.parent == folder and path.name.startswith(name),
                self._watch,
                seconds=self._seconds,
                own_halves=True,
                about={**about, "models": len(chunk)},
            )
        except FileNotFoundError:
            check_still_there(self._run.path)
            raise
        if lease is None:
            return None
        self._held.add(chunk[0].id)
        taken = Taken(chunk, lease)
        try:
            if self._run.plan_state() != self._plan:
                self._run.check_unchanged()
                self._plan = self._run.plan_state()
        except BaseException:
            self._end(taken)
            raise
        return taken


def lease_place(folder: Path, chunk: Chunk) -> Path:
    """Where the lease of *chunk* lies in the *folder* of checkpoints."""
    return folder / f".{chunk_name(chunk)}{SUFFIX}"


def steps_by_chunk(names: Iterable[str]) -> dict[str, int]:
    """How far each chunk is by the *names* of its checkpoints.

    >>> steps_by_chunk(["members-00000-00003.step-000000500.safetensors", "readme.txt"])
    {'members-00000-00003': 500}
    """
    found: dict[str, int] = {}
    for name in names:
        chunk, mark, rest = name.partition(".step-")
        step, _, kind = rest.partition(".")
        if mark and kind == "safetensors" and step.isdigit():
            found[chunk] = max(found.get(chunk, -1), int(step))
    return found
