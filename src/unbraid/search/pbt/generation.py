# SPDX-License-Identifier: Apache-2.0
"""One generation: the models of one epoch of population-based training on their device.

They train in chunks of equal batch size, each a training step and its state.

On a GPU the last bits of a sum over the batch depend on how many models a chunk has, so that equal
models come apart in two searches that differ elsewhere. Chunks of one width keep them equal.

An epoch has a number of images, so that members with larger batches do fewer updates. The clock of
a chunk stands, when epoch e begins, at e times the updates of an epoch of its batch size; Adam
counts each member's own updates (`State.age`). Between two epochs every tensor of the state is
gathered along the member axis: members are copied and change their batch size without leaving the
device. The new chunks gather straight from the old ones, so that the device holds two populations
then and no third. One record per epoch goes to the history, which copies inherit.

A captured step outlives its epoch where memory is plentiful: a chunk of the next one whose members
differ in numbers alone goes on with it, those numbers and its state written into the tensors that
the step reads. That happens when the chunk begins to train: before it, the old population is whole.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unbraid.data.dataset import Dataset
from unbraid.population.cuda_graph import Stepper
from unbraid.population.devices import (
    chunk_size,
    cores,
    explain_oom,
    keep_freed_memory,
    one_of,
)
from unbraid.population.kind import equal_share
from unbraid.population.member import Member
from unbraid.population.plan import Plan
from unbraid.population.state import State
from unbraid.population.training_step import TrainingStep

Rows = dict[str, Tensor]
"""The tensors of a state by name, one row per model in the order of the population."""
Heritage = Callable[[Sequence[int]], Rows]
"""Says with which rows the models at given places of a population begin."""
_UPDATES_OF_A_GRAPH = 4
"""What is left over at the end of every epoch is done step by step."""
_FREE_SHARE = 0.5
"""Of a GPU's memory, beside which captured steps are kept for the next epoch."""
WHEN_FULL = (
    "Free some memory and go on with `unbraid resume`, "
    "or begin anew with a smaller population, fewer models or smaller batch sizes."
)


@dataclass(frozen=True)
class GenerationModel:
    """One model of the population in one epoch."""

    member: Member
    batch_size: int


@dataclass
class Chunk:
    """Models that train together."""

    places: tuple[int, ...]
    """Which models of the population they are."""
    program: TrainingStep
    state: State
    end: int
    """What the clock shows when the epoch is over."""
    stepper: Stepper | None = None
    """Advances it; kept with its captured step when the epoch is over, if there is room."""

    @property
    def done(self) -> bool:
        """Whether its epoch is over."""
        return self.state.step >= self.end

    def tensors(self) -> Rows:
        """The state of its models, without copies that fill it up."""
        return {name: rows[: len(self.places)] for name, rows in self.state.tensors().items()}

    def weights(self) -> Tensor:
        """The weights of its models, a row each."""
        return self.state.model.weights[: len(self.places)]


def updates_of_epoch(images: int, batch_size: int) -> int:
    """Updates in which members of that batch size see so many images, rounded up."""
    return -(-images // batch_size)


class Generation:
    """The population in one epoch."""

    def __init__(
        self,
        plan: Plan,
        models: Sequence[GenerationModel],
        dataset: Dataset,
        device: torch.device,
        sampler: Callable[..., Tensor],
        *,
        epoch: int,
        epochs: int,
        epoch_images: int,
        rows: Rows | Heritage | None = None,
        clocks: Sequence[int] | None = None,
        cumulative: Tensor | None = None,
        before: Generation | None = None,
        together: int = 0,
    ) -> None:
        """Begin *epoch* of at most *epochs* with fresh weights or those of *rows*.

        With *clocks* it begins in the middle of the epoch. Captured steps of the generation
        *before* are gone on with, which is over then. Every chunk has the width *together*, or as
        many models as fit.
        """
        self.models, self.device, self.epoch = tuple(models), device, epoch
        heritage = rows if rows is None or callable(rows) else _heritage(rows)
        alike: dict[tuple[object, ...], list[int]] = {}
        for place, model in enumerate(models):
            clock = (
                epoch * updates_of_epoch(epoch_images, model.batch_size)
                if clocks is None
                else clocks[place]
            )
            alike.setdefault((model.batch_size, clock, model.member.structure()), []).append(place)
        self.chunks: list[Chunk] = []
        for (batch_size, clock, *_), places in alike.items():
            assert isinstance(batch_size, int)
            assert isinstance(clock, int)
            updates = updates_of_epoch(epoch_images, batch_size)
            members = tuple(models[place].member for place in places)
            own = replace(
                plan,
                batch_size=batch_size,
                steps=epochs * updates,
                log_every=updates,
                members=members,
            )
            with explain_oom(device, f"a population of {len(models)} models", WHEN_FULL):
                size = together or equal_share(
                    len(places), chunk_size(own, dataset, one_of(device))
                )
                for first in range(0, len(places), size):
                    part = tuple(places[first : first + size])
                    # Chunks of one width are filled up with copies that nobody looks at.
                    copies = max(0, together - len(part))
                    filled = members[first : first + size]
                    filled += filled[-1:] * copies
                    program = TrainingStep(own, filled, dataset, device, sampler, cumulative)
                    state = (
                        program.start()
                        if heritage is None
                        else _state(heritage(part + part[-1:] * copies), clock, device)
                    )
                    self.chunks.append(Chunk(part, program, state, (epoch + 1) * updates))
        self._captured = [
            stepper
            for stepper in (before.captured() if before is not None else [])
            if any(stepper.training.can_become(chunk.program) for chunk in self.chunks)
        ]
        """Captured steps that a chunk may go on with."""

    def train(
        self,
        stop: threading.Event,
        seconds: float = math.inf,
        progress: Callable[[int], None] = lambda images: None,
        chunk_done: Callable[[Chunk], None] = lambda chunk: None,
    ) -> bool:
        """Train until the epoch is over (True), *stop* is set or *seconds* have passed (False).

        *progress* takes how many images more were seen, over all models; *chunk_done* a chunk whose
        epoch is over, while others may still train. Called again, it goes on where it was.
        """
        deadline, lock = time.monotonic() + seconds, threading.Lock()

        def advance(chunk: Chunk) -> None:
            if self.device.type == "cpu":
                torch.set_num_threads(1)
            elif self.device.index is not None:
                torch.cuda.set_device(self.device)
            if chunk.done or stop.is_set() or time.monotonic() >= deadline:
                return
            with explain_oom(
                self.device, f"a chunk of {_counted(len(chunk.places), 'model')}", WHEN_FULL
            ):
                chunk.stepper = chunk.stepper or self._stepper(chunk)
                while not chunk.done and not stop.is_set() and time.monotonic() < deadline:
                    steps = chunk.stepper.advance(chunk.end - chunk.state.step)
                    with lock:
                        progress(steps * len(chunk.places) * chunk.program.plan.batch_size)
                if chunk.done:
                    chunk.stepper.training.forget_draws()
                    if not chunk.stepper.captured or not self._has_room():
                        chunk.stepper = None
                    if not stop.is_set():
                        chunk_done(chunk)

        if self.device.type == "cpu":
            keep_freed_memory()
        pool = ThreadPoolExecutor(cores() if self.device.type == "cpu" else 1)
        try:
            for future in [pool.submit(advance, chunk) for chunk in self.chunks]:
                future.result()
        except BaseException:
            stop.set()
            raise
        finally:
            _join(pool)
        return self.done

    def _stepper(self, chunk: Chunk) -> Stepper:
        """What advances a chunk: a captured step of the epoch before, where one fits."""
        for stepper in self._captured:
            if stepper.training.can_become(chunk.program):
                self._captured.remove(stepper)
                stepper.go_on(chunk.program, chunk.state)
                chunk.state = stepper.state
                return stepper
        return Stepper(chunk.program, chunk.state, updates=_UPDATES_OF_A_GRAPH)

    def captured(self) -> list[Stepper]:
        """The captured steps of its chunks."""
        return [chunk.stepper for chunk in self.chunks if chunk.stepper is not None]

    def _has_room(self) -> bool:
        free, total = torch.cuda.mem_get_info(self.device)
        return free >= _FREE_SHARE * total

    @property
    def done(self) -> bool:
        """Whether the epoch is over for all."""
        return all(chunk.done for chunk in self.chunks)

    def diverged(self) -> list[bool]:
        """Which models stopped being finite."""
        found = [False] * len(self.models)
        for chunk in self.chunks:
            for place, at in zip(
                chunk.places, chunk.tensors()["diverged_at"].tolist(), strict=True
            ):
                found[place] = at >= 0
        return found

    def rows(self, places: Sequence[int]) -> Rows:
        """The state of models *places*, in that order, gathered along the member axis."""
        home = {
            place: (number, at)
            for number, chunk in enumerate(self.chunks)
            for at, place in enumerate(chunk.places)
        }
        by_chunk: dict[int, tuple[list[int], list[int]]] = {}
        for to, place in enumerate(places):
            number, at = home[place]
            taken, put = by_chunk.setdefault(number, ([], []))
            taken.append(at)
            put.append(to)
        with explain_oom(self.device, f"a copy of {_counted(len(places), 'model')}", WHEN_FULL):
            sources = [
                (self._aged(self.chunks[number]), self._indices(taken), self._indices(put))
                for number, (taken, put) in by_chunk.items()
            ]
            return {
                name: _gathered(
                    [(part[name], taken, put) for part, taken, put in sources], len(places)
                )
                for name in sources[0][0]
            }

    def _indices(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.device)

    def _aged(self, chunk: Chunk) -> Rows:
        """The tensors of a chunk, with `age` counting all updates, not those beyond the clock."""
        return chunk.state.tensors() | {"age": chunk.state.age + chunk.state.clock}

    def tensors(self) -> Rows:
        """Everything, for a checkpoint: the tensors of chunk 0 as `0.name`, and so on."""
        return {
            f"{number}.{name}": tensor
            for number, chunk in enumerate(self.chunks)
            for name, tensor in chunk.tensors().items()
        }

    def steps(self) -> list[int]:
        """Where the clock of each chunk stands."""
        return [chunk.state.step for chunk in self.chunks]

    def places(self) -> list[list[int]]:
        """The models of each chunk."""
        return [list(chunk.places) for chunk in self.chunks]


def _join(pool: ThreadPoolExecutor) -> None:
    """Wait until no worker is inside a step, also after Ctrl-C: a state saved sooner is torn."""
    while True:
        try:
            return pool.shutdown(wait=True)
        except KeyboardInterrupt:
            continue


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _gathered(parts: Sequence[tuple[Tensor, Tensor, Tensor]], count: int) -> Tensor:
    """*count* rows in one tensor: of each part those at the first indices, put at the second."""
    first = parts[0][0]
    if len(parts) == 1:
        rows, taken, _ = parts[0]
        return rows.index_select(0, taken)
    found = first.new_empty(count, *first.shape[1:])
    for rows, taken, put in parts:
        found.index_copy_(0, put, rows.index_select(0, taken))
    return found


def _heritage(rows: Rows) -> Heritage:
    """Rows that are there already, in the order of the population."""

    def take(places: Sequence[int]) -> Rows:
        at = torch.tensor(places, dtype=torch.int64)
        return {name: tensor.index_select(0, at.to(tensor.device)) for name, tensor in rows.items()}

    return take


def _state(rows: Rows, clock: int, device: torch.device) -> State:
    """The state of a chunk that begins at *clock* with *rows*, which are its own."""
    picked = {name: tensor.to(device) for name, tensor in rows.items()}
    return State.from_tensors(picked | {"age": picked["age"] - clock}, clock, device)


def stored_rows(
    tensors: Rows, places: Sequence[Sequence[int]], steps: Sequence[int]
) -> tuple[Rows, list[int]]:
    """Rows in the order of the population from a checkpoint, and the clock of each model."""
    names = [name.partition(".")[2] for name in tensors if name.startswith("0.")]
    order = [place for chunk in places for place in chunk]
    position = torch.tensor([order.index(place) for place in range(len(order))], dtype=torch.int64)
    clocks = [step for chunk, step in zip(places, steps, strict=True) for _ in chunk]
    rows = {
        name: torch.cat([tensors[f"{number}.{name}"] for number in range(len(places))])[position]
        for name in names
    }
    rows["age"] = rows["age"] + torch.tensor(clocks, dtype=torch.int64)[position]
    return rows, [clocks[at] for at in position.tolist()]
