# SPDX-License-Identifier: Apache-2.0
"""Do the next missing slices of a study: train one after the other, score each beside the next.

Several processes, on several machines too, may share a results folder: a slice that another one
works at is passed over; that of one that is gone is taken over. What is not finished, for want of
time, by Ctrl-C or by a kill, is gone on with from its last checkpoint.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from unbraid.core.errors import HeldError, Problem, StoppedError, UnbraidError
from unbraid.core.files import is_held, make_folder, only_one, remove_folder
from unbraid.core.progress import Progress
from unbraid.studies.data_at_hand import DataAtHand
from unbraid.studies.definition import definition, model_steps
from unbraid.studies.pace import Pace
from unbraid.studies.pool import Pool, Slice
from unbraid.studies.results import Results
from unbraid.studies.search_work import work_of
from unbraid.studies.slice_work import SliceWork, Stopped
from unbraid.studies.step_seconds import StepSeconds

_CAUTION = 1.1
"""Estimates are lengthened by as much: a slice that is cut off costs more than an idle minute."""

Part = tuple[Pool, Slice]


@dataclass
class Ended:
    """What a call of `run_slices` did, and why it left what is left."""

    made: list[str] = field(default_factory=list)
    """Slices that have their tables now, as pool/slice."""
    elsewhere: list[str] = field(default_factory=list)
    """Another process works at them."""
    too_long: list[str] = field(default_factory=list)
    """They would not have ended in time."""
    without_data: dict[str, str] = field(default_factory=dict)
    """Slices, and why their data cannot be loaded or what else they wait for."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Slices, and what their data must be made from first."""
    unfinished: list[str] = field(default_factory=list)
    """Begun, and stopped by the time limit with a checkpoint."""


def name_of(pool: Pool, one: Slice) -> str:
    """A slice as messages call it."""
    return f"{pool.name}/{one.name}"


def work_folder(results: Results, work: str | Path | None) -> Path:
    """Where slices are made: *work*, by default a hidden folder beside the tables."""
    return (results.folder / ".work" if work is None else Path(work)) / results.scale


@contextmanager
def hold(results: Results, pool: Pool, one: Slice, *places: Path) -> Iterator[None]:
    """Keep a slice for this process; `HeldError` where another one works at it. Its table, and what
    is in *places*, are written by who holds it alone.

    Locks are beside the tables, wherever slices are made.
    """
    folder = work_folder(results, None) / pool.name
    try:
        make_folder(folder)
    except OSError as error:
        rule = f"must be a folder that can be written ({error.strerror})"
        remedy = "Choose another: {results=FOLDER}."
        raise UnbraidError(str(Problem("results", rule, str(results.folder), remedy))) from error
    with only_one(folder, f".{one.name}.lock", results.path(pool, one), *places):
        yield


def is_free(results: Results, pool: Pool, one: Slice) -> bool:
    """Whether no process works at a slice."""
    return not is_held(work_folder(results, None) / pool.name, f".{one.name}.lock")


def run_slices(
    results: Results,
    parts: Sequence[Part],
    device: torch.device,
    *,
    work: str | Path | None = None,
    minutes: float | None = None,
    quiet: bool = False,
    keep_models: bool = False,
    go_on: str = "The same command goes on.",
) -> Ended:
    """Make the tables of those *parts* that have none, in *minutes* if a limit is given.

    Stopped by Ctrl-C it raises `StoppedError`, which says how to *go_on*.
    """
    results.check()
    place = work_folder(results, work)
    return _Running(results, device, place, minutes, quiet, keep_models).run(parts, go_on)


def train_one(
    results: Results, pool: str, name: str, work: str | Path | None, device: torch.device
) -> bool:
    """Train one slice, to be scored by `score_one`; False where another process works at it, or it
    has its table. Stopped by Ctrl-C it raises `KeyboardInterrupt`, with a checkpoint.
    """
    part = _part(results, pool, name)
    place = work_folder(results, work) / pool / name
    try:
        with hold(results, *part, place):
            if results.done(*part):
                return False
            making = work_of(part[1])(place, results, *part, device, threading.Event())
            making.open(DataAtHand(results, work_folder(results, work)).load(part[1]))
            if not making.train(lambda steps, found: None, lambda line: None):
                raise KeyboardInterrupt
    except HeldError:
        return False
    return True


def lacking(results: Results, part: Part, work: str | Path | None) -> str:
    """What a slice needs beside its data that is not there; empty where nothing is missing."""
    place = work_folder(results, work) / part[0].name / part[1].name
    making = work_of(part[1])(place, results, *part, torch.device("cpu"), threading.Event())
    return making.lacking()


def score_one(
    results: Results,
    pool: str,
    name: str,
    work: str | Path | None,
    keep_models: bool,
    trained_on: str,
) -> None:
    """Score a slice that is trained, on CPU cores, and write its table."""
    part = _part(results, pool, name)
    place = work_folder(results, work) / pool / name
    with hold(results, *part, place):
        if not results.done(*part):
            device = torch.device("cpu")
            given = results, *part, device, threading.Event(), keep_models
            making = work_of(part[1])(place, *given)
            making.trained_on = trained_on
            making.open(DataAtHand(results, work_folder(results, work)).load(part[1]))
            making.finish()


def _part(results: Results, pool: str, name: str) -> Part:
    return next(one for one in results.slices() if (one[0].name, one[1].name) == (pool, name))


class _Running:
    """One call of `run_slices`."""

    def __init__(
        self,
        results: Results,
        device: torch.device,
        work: Path,
        minutes: float | None,
        quiet: bool,
        keep_models: bool,
    ) -> None:
        self.results, self.device, self.work, self.quiet = results, device, work, quiet
        self.keep_models = keep_models
        self.ends = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self.stop, self.time_is_up = threading.Event(), False
        self.ended, self.data = Ended(), DataAtHand(results, work)
        self.steps = StepSeconds()
        self.scoring: list[tuple[SliceWork, Future[None]]] = []
        """Each slice that is being scored, and its end."""

    def run(self, parts: Sequence[Part], go_on: str) -> Ended:
        timer = threading.Timer(self.ends - time.monotonic(), self._end)
        timer.daemon = True
        if self.ends < math.inf:
            timer.start()
        held = ExitStack()
        scorer = ThreadPoolExecutor(1, thread_name_prefix="unbraid-score")
        try:
            for pool, one in self._order(parts):
                self._collect()
                if self.time_is_up or not self._make(pool, one, held, scorer):
                    break
            self._say_what_is_scored()
            self._collect(wait=True)
        except KeyboardInterrupt:
            raise StoppedError(
                f"stopped; everything so far is in {self.work} and {self.results.folder}. {go_on}"
            ) from None
        finally:
            # Whatever ended it, scores that are done are kept, and slices are let go of last.
            timer.cancel()
            self.stop.set()
            scorer.shutdown(wait=True)
            held.close()
        return self.ended

    def _say_what_is_scored(self) -> None:
        names = [name_of(one.pool, one.slice) for one, future in self.scoring if not future.done()]
        if names and not self.quiet:
            print(f"scoring {', '.join(names)}", file=sys.stderr, flush=True)

    def _end(self) -> None:
        self.time_is_up = True
        self.stop.set()

    def _order(self, parts: Sequence[Part]) -> list[Part]:
        """Slices that were begun first: what is begun is soonest done."""
        return sorted(parts, key=lambda part: not self._place(*part).is_dir())

    def _place(self, pool: Pool, one: Slice) -> Path:
        return self.work / pool.name / one.name

    def _make(self, pool: Pool, one: Slice, held: ExitStack, scorer: ThreadPoolExecutor) -> bool:
        """Train a slice and have it scored, unless there is a reason not to; False when time is
        up.
        """
        name, place = name_of(pool, one), self._place(pool, one)
        given = self.results, pool, one, self.device, self.stop, self.keep_models
        making = work_of(one)(place, *given)
        if self.results.done(pool, one):
            if not place.is_dir():
                return True
        elif why := self.data.missing(one) or making.lacking():
            self.ended.without_data[name] = why
            return True
        elif why := self._waits_for(one):
            self.ended.waiting[name] = why
            return True
        elif not self._in_time(making):
            self.ended.too_long.append(name)
            return True
        with ExitStack() as lock:
            try:
                lock.enter_context(hold(self.results, pool, one, place))
            except HeldError:
                self.ended.elsewhere.append(name)
                return True
            if self.results.done(pool, one):  # by another process meanwhile, or killed just then
                remove_folder(place)
                return True
            held.push(lock.pop_all())
        making.open(self.data.load(one))
        total = model_steps(definition(one))
        with Progress(name, "model-steps", total, self.quiet, self.ends) as progress:
            finished = making.train(progress.advance, progress.say)
        if not finished:
            if not self.time_is_up:
                raise KeyboardInterrupt
            self.ended.unfinished.append(name)
            return False
        self.scoring.append((making, scorer.submit(making.finish)))
        return True

    def _waits_for(self, one: Slice) -> str:
        """What the data of a slice wait for, once all that is being scored has been."""
        if self.data.waits_for(one) and self.scoring:
            self._collect(wait=True)
        return self.data.waits_for(one)

    def _in_time(self, making: SliceWork) -> bool:
        """Whether a slice would be trained and scored before the time is up; what is begun goes on,
        since it keeps what it reaches, or else one that takes longer than a call would never end.
        """
        if self.ends == math.inf or making.folder.is_dir():
            return True
        pace = Pace(self.results, self.device, self.data, self.steps)
        training = pace.training(making.pool, making.slice, making.steps_done(making.folder))
        waiting = sum(
            pace.scoring(one.pool, one.slice) for one, future in self.scoring if not future.done()
        )
        needed = max(training, waiting) + pace.scoring(making.pool, making.slice)
        return time.monotonic() + _CAUTION * needed <= self.ends

    def _collect(self, wait: bool = False) -> None:
        """Note the slices whose scoring has ended, and raise what went wrong with one."""
        left: list[tuple[SliceWork, Future[None]]] = []
        for making, future in self.scoring:
            if not wait and not future.done():
                left.append((making, future))
                continue
            name = name_of(making.pool, making.slice)
            try:
                future.result()
                self.ended.made.append(name)
            except Stopped:
                self.ended.unfinished.append(name)
        self.scoring = left
