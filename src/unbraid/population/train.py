# SPDX-License-Identifier: Apache-2.0
"""Chunks of the population are trained side by side until the plan is done.

There is one loop for every device (population/chunk_training.py). Workers take chunks off a queue,
which is the run folder itself (population/chunk_queue.py), so that other processes may do the same
beside this one: on a CPU there is one worker a core, else one a GPU. Checkpoints are written in the
background. A worker that is told to stop leaves one behind, so that `resume` continues where it
was, and a process that is killed loses only what came after its last checkpoint: the random numbers
are functions of the step, so the continued run ends with the same bits.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from queue import SimpleQueue
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unbraid.core.errors import UnbraidError
from unbraid.core.failpoints import failpoint
from unbraid.core.files import only_one
from unbraid.core.folders import check_still_there
from unbraid.core.lease import LostLeaseError, remove_of_the_dead
from unbraid.core.lease_holder import SECONDS
from unbraid.population.background_save import BackgroundSave
from unbraid.population.checkpoint import Curves, Trained
from unbraid.population.chunk_queue import ChunkQueue, Taken
from unbraid.population.chunk_training import ChunkTraining, Report, Told
from unbraid.population.devices import (
    chunk_size,
    cores,
    device_type,
    explain_oom,
    keep_freed_memory,
    usual_precision,
    workers,
)
from unbraid.population.draws import rule_on
from unbraid.population.failures import (
    Failure,
    failure_of,
    forget_failure,
    is_of_the_disk,
    told_failures,
    write_failure,
)
from unbraid.population.member import Chunk, Member
from unbraid.population.plan import Plan
from unbraid.population.run_folder import RunFolder
from unbraid.population.state import State
from unbraid.population.training_step import TrainingStep

if TYPE_CHECKING:
    from unbraid.data.dataset import Sampler

_PATIENCE = 2.0
"""Seconds to wait for processes that begin at the same moment."""
_READERS = 8
"""Threads that read what others have trained."""


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
    *,
    places: list[torch.device] | None = None,
    seconds: float = SECONDS,
    reads: bool = True,
    only: frozenset[int] | None = None,
    keep_going: bool = False,
) -> Outcome:
    """Train what is left of *run*, beside any other processes that do; on Ctrl-C, or when another
    thread sets *stop*, checkpoints are written and the outcome says that it is not finished.

    Chunks train side by side on *places*, by default on all that *device* stands for. *chunk_done*
    is called, in a thread that does not train, with each chunk whose results are on
    disk. Whoever shows no sign of life for *seconds* loses its chunk to another. Chunks that were
    trained before are read, if *reads*, and trained again where they are damaged. With *only* the
    first members of some chunks, tables are left to others. An error with one chunk ends the call;
    if it is to *keep_going*, once all others are trained, unless the disk is full. One of many, by
    *only* or *keep_going*, waits for others that hold the folder, which is not for long.
    """
    places = places or workers(device)
    patient = keep_going or only is not None or not run.is_decided
    with only_one(run.path, patience=math.inf if patient else _PATIENCE):
        if not run.is_decided:
            _decide(run, device, places)
        run.check_unchanged()
        run.remove_halves()
    _ = run.dataset  # refused here where it has changed, with nothing touched
    stop = stop or threading.Event()
    training = _Training(run, places, progress, warn, chunk_done, stop, seconds, keep_going)
    with training.at_work():
        training.train(training.queue(only, reads))
        while not stop.is_set() and only is None and not training.write_tables():
            training.train(training.queue(None, True))
    for done in training.in_background:
        done()
    return Outcome(not stop.is_set(), training.diverged())


def decide(run: RunFolder, device: torch.device) -> None:
    """Settle what was left to whoever trains first, with nothing trained yet."""
    with only_one(run.path, patience=math.inf):
        _decide(run, device, workers(device))


def _decide(run: RunFolder, device: torch.device, places: list[torch.device]) -> None:
    """Settle chunks and precision by where the run is trained first."""

    def size_of(plan: Plan, processes: int) -> int:
        return chunk_size(plan, run.dataset, device, places, max(processes, array_tasks()))

    run.decide(usual_precision(device), size_of, device_type(device))


def array_tasks() -> int:
    """How many jobs of a SLURM array this process is one of; 1 where it is of none."""
    found = os.environ.get("SLURM_ARRAY_TASK_COUNT", "")
    return max(1, int(found)) if found.isdecimal() else 1


def _wait(pending: set[Future[None]], stop: threading.Event) -> None:
    """Until all workers have ended; a failure or Ctrl-C stops the others at their next step."""
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
    for future in everything:
        if not future.cancelled():
            future.result()


class _Training:
    """What the workers of one call share."""

    disk: ThreadPoolExecutor
    """A thread that writes checkpoints; before that it puts the data on devices, and imports."""

    def __init__(
        self,
        run: RunFolder,
        places: list[torch.device],
        progress: Report,
        warn: Callable[[str], None],
        chunk_done: Callable[[Chunk], None],
        stop: threading.Event,
        seconds: float,
        keep_going: bool,
    ) -> None:
        self.run, self.stop = run, stop
        self.in_background: list[Callable[[], object]] = []
        """What to call, at the end, for the errors of other threads."""
        self._curves: dict[int, Curves] = {}
        self._diverged_elsewhere: set[int] = set()
        self._places = places
        self._progress, self._warn, self._chunk_done = progress, warn, chunk_done
        self._seconds, self._keep_going = seconds, keep_going
        self._lock = threading.Lock()
        self._worker = threading.local()
        self._samplers: dict[torch.device, Future[Sampler]] = {}
        self._rules: dict[torch.device, Tensor | None] = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Workers are there, and the thread that writes, in this block."""
        if self._places[0].type == "cpu":
            keep_freed_memory()
        free: SimpleQueue[torch.device] = SimpleQueue()
        for place in self._places:
            free.put(place)
        with (
            ThreadPoolExecutor(1, thread_name_prefix="unbraid-save") as self.disk,
            ThreadPoolExecutor(
                len(self._places), "unbraid", initializer=lambda: self.take(free.get())
            ) as self._pool,
        ):
            self.load_data(self._places)
            # Tables are written at the end: what that needs is imported meanwhile.
            self.disk.submit(import_module, "pandas")
            self.disk.submit(import_module, "pyarrow.parquet")
            try:
                yield
            except BaseException:
                self.stop.set()  # or the workers would go on, and be waited for
                raise

    def queue(self, only: frozenset[int] | None, reads: bool) -> ChunkQueue:
        """What is left to do, as the workers here see it."""
        return ChunkQueue(
            self.run, self.stop, only=only, reads=reads, seconds=self._seconds, found=self._found
        )

    def train(self, queue: ChunkQueue) -> None:
        """Train until nothing is left, or a stop."""
        _wait({self._pool.submit(self._work, queue) for _ in self._places}, self.stop)
        self.disk.submit(lambda: None).result()  # all is written that was to be
        self._curves |= queue.curves
        failed = [one for _, one in sorted(queue.failed.items()) if not self._is_whole(one[0])]
        if failed and not self.stop.is_set():
            others = "All others are. " if len(failed) < len(self.run.chunks()) else ""
            remedy = f"{others}To try again: unbraid work {self.run.path}"
            raise UnbraidError("\n".join([*told_failures(failed), remedy]))

    def _is_whole(self, chunk: Chunk) -> bool:
        """Whether *chunk* is trained, which failed here: another machine may have done so."""
        found = self.run.checkpoints(chunk).sole(self.run.width(chunk))
        return found is not None and self.run.is_over(found)

    def _found(self, chunk: Chunk) -> None:
        """Another process has trained *chunk*."""
        self.progress(self.run.plan.steps * len(chunk), True)
        self.in_background.append(self.disk.submit(self._chunk_done, chunk).result)

    def write_tables(self) -> bool:
        """Write them, unless another process has; False where a chunk has to be trained again."""
        run, folder = self.run, self.run.path
        check_still_there(folder)
        with only_one(folder, patience=math.inf):
            run.check_unchanged()
            remove_of_the_dead(run.checkpoint_folder)  # who had only just trained a chunk
            unread = [one for one in run.chunks() if one[0].id not in self._curves]
            if unread and (members := run.finished_members()) is not None:
                ended = members["status"] == "diverged"
                self._diverged_elsewhere = set(members[ended]["member"].tolist())
                return True
            with ThreadPoolExecutor(min(_READERS, cores())) as readers:
                for chunk, found in zip(unread, readers.map(self._read, unread), strict=True):
                    if found is None:
                        return False
                    self._curves[chunk[0].id] = found
            failpoint("training.done")
            run.remove_all_halves()
            run.write_tables(self._curves)
            failpoint("tables.written")
        return True

    def _read(self, chunk: Chunk) -> Curves | None:
        """How the training of a chunk went; None where it has to be trained again."""
        found = self.run.checkpoints(chunk).load(
            torch.device("cpu"), self.warn, self.run.width(chunk)
        )
        return _curves(found) if found is not None and self.run.is_over(found) else None

    def diverged(self) -> tuple[int, ...]:
        """Members that stopped being finite, as far as this process knows."""
        found = set(self._diverged_elsewhere)
        for chunk in self.run.chunks():
            if (curves := self._curves.get(chunk[0].id)) is not None:
                at = curves.diverged_at.tolist()
                found |= {one.id for one, step in zip(chunk, at, strict=True) if step >= 0}
        return tuple(sorted(found))

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

    def _work(self, queue: ChunkQueue) -> None:
        """Train chunk after chunk."""
        device = self._worker.device
        while (chunk := queue.next_trained()) is not None:
            self._read_trained(chunk, queue)
        about = {"device": device_type(device), "step": 0, "rate": 0.0}
        while (taken := queue.next(about)) is not None:
            try:
                self._train(taken, queue)
            except LostLeaseError as error:
                check_still_there(self.run.path)
                self.warn(f"{error} Its members are trained on there.")
                self._give_back(taken, queue)
            except Exception as error:
                if not is_of_the_disk(error):
                    failure = self._failure(taken.chunk, error)
                    if self._keep_going:
                        self.disk.submit(queue.fail, taken, failure)
                        continue
                self._give_back(taken, queue)
                raise
            except BaseException:
                self._give_back(taken, queue)
                raise

    def _give_back(self, taken: Taken, queue: ChunkQueue) -> None:
        """Let go of a chunk after what waits to be written, which only its holder may write."""
        self.disk.submit(queue.back, taken)

    def _failure(self, chunk: Chunk, error: Exception) -> Failure:
        """What went wrong with *chunk*, which is kept where that can be."""
        failure = failure_of(error)
        with suppress(UnbraidError):
            check_still_there(self.run.path)
            write_failure(self.run.checkpoint_folder, chunk, failure)
        return failure

    def _read_trained(self, chunk: Chunk, queue: ChunkQueue) -> None:
        """Take results that are whole as they are; anything else is for who holds the chunk."""
        found = self.run.checkpoints(chunk).sole(self.run.width(chunk))
        if found is None or not self.run.is_over(found):
            return queue.read(chunk, None)
        self.progress(self.run.plan.steps * len(chunk), True)
        self.in_background.append(self.disk.submit(self._chunk_done, chunk).result)
        queue.read(chunk, _curves(found))

    def _train(self, taken: Taken, queue: ChunkQueue) -> None:
        """Train one chunk from its newest good checkpoint to the end, or to a stop."""
        run, device, chunk = self.run, self._worker.device, taken.chunk
        remedy = (
            f"Nothing saved is lost: free some memory and run `unbraid resume {run.path}`, or start"
            " again with a smaller batch size."
        )
        with explain_oom(device, f"{len(chunk)} members that train together", remedy):
            forget_failure(run.checkpoint_folder, chunk)
            checkpoints = run.checkpoints(chunk)
            found = checkpoints.load(device, self.warn, run.width(chunk))
            if found is not None:
                self.progress(found.step * len(chunk), True)
                taken.lease.about["step"] = found.step
                taken.lease.beat()
            if found is not None and run.is_over(found):
                save = BackgroundSave(self.disk)
                self.in_background.append(self.disk.submit(self._chunk_done, chunk).result)
            else:
                assert not isinstance(found, Trained)
                with self._lock:
                    run.forget_tables()
                training = self._chunk_training(taken)
                found, save = training.train(found, checkpoints.made_on), training.save
        if run.is_over(found):
            self.progress((run.plan.steps - found.step) * len(chunk), True)
        ended = self.disk.submit(self._ended, taken, queue, save, _curves(found))
        self.in_background.append(ended.result)

    def _ended(self, taken: Taken, queue: ChunkQueue, save: BackgroundSave, curves: Curves) -> None:
        """Let go of a chunk once what was to be saved is saved."""
        try:
            save.wait()
        except LostLeaseError as error:
            check_still_there(self.run.path)
            self.warn(str(error))
            queue.back(taken)
        except BaseException:
            self.stop.set()
            queue.back(taken)
            raise
        else:
            if self.run.is_over(curves):
                queue.done(taken, curves)
            else:
                queue.back(taken)

    def _chunk_training(self, taken: Taken) -> ChunkTraining:
        """What trains a chunk on the device of the calling thread."""
        run, device = self.run, self._worker.device
        loading, rule = self._samplers[device], self._rules[device]
        step = TrainingStep(
            *(run.plan, taken.chunk, run.dataset, device),
            *(lambda *indices: loading.result()(*indices), rule),
        )
        told = Told(self.progress, self.warn, self._chunk_done)
        return ChunkTraining(run, taken, step, self.disk, self.stop, told)


def _curves(found: State | Trained) -> Curves:
    return Curves(found.step, found.diverged_at.cpu(), found.history.cpu())
