# SPDX-License-Identifier: Apache-2.0
"""A plan of thousands of models over many workers, simulated: real leases, a real run folder, real
writes and renames; only training is a clock that jumps. Workers die and come again, some are slow,
and every operation on the disk takes as long as on a busy network file system.

    python benchmarks/many_workers.py                  # 12,600 models, 64 workers
    python benchmarks/many_workers.py --models 200 --workers 8 --steps 20000

Printed for one, two and four chunks a worker: the time until all is trained, against that of
workers that never die, never wait and are never slow to begin (ideal); what a death costs; how many
operations on files there are a second.
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core import files, lease
from unbraid.population.checkpoint import chunk_name
from unbraid.population.chunk_queue import PAUSE_SECONDS, ChunkQueue, Taken
from unbraid.population.devices import equal_work
from unbraid.population.kind import equal_share
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder

STEP_SECONDS = {1: 1 / 1809, 8: 8 / 8054, 32: 32 / 15697, 128: 128 / 20886, 256: 256 / 22112}
"""Of a training step of so many models on one H200 (docs/speed.md)."""
FITS = 256
CHECKPOINT_SECONDS, START_SECONDS = 30.0, 20.0
_FILES = ("open", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.mkdir", "os.rmdir")


@dataclass
class World:
    """What is simulated, and what is counted."""

    models: int = 12_600
    steps: int = 300_000
    workers: int = 64
    disk_seconds: float = 0.005
    """That an operation on a file takes."""
    hours_to_death: float = 3.0
    """On average, of each worker."""
    back_seconds: float = 120.0
    """Until a worker that died is there again."""
    slow: tuple[float, ...] = (0.6, 0.6, 0.6, 0.6)
    """Speeds of those that are slower than 1."""
    now: float = 0.0
    operations: int = 0
    deaths: int = 0
    lost: list[float] = field(default_factory=list)
    """Seconds of training that each death made vain."""
    idle: list[float] = field(default_factory=list)
    """Seconds until somebody took over what the dead one had."""


def step_seconds(models: int) -> float:
    """Of one step of a chunk of so many models, between the sizes that were measured."""
    return float(np.interp(models, list(STEP_SECONDS), list(STEP_SECONDS.values())))


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Operations on files are counted; nothing beats but by the simulated clock."""

    def count(event: str, given: tuple[Any, ...]) -> None:
        if counting and event in _FILES:
            world.operations += 1

    counting, keep, sync = True, lease._heart.keep, os.fsync
    sys.addaudithook(count)
    lease._heart.keep = lambda one: None
    files.os.fsync = lambda handle: None  # counted as part of the operation before it
    try:
        yield
    finally:
        counting = False
        lease._heart.keep, files.os.fsync = keep, sync


class Worker:
    """One worker: takes a chunk, saves, dies, comes again."""

    def __init__(self, world: World, run: RunFolder, speed: float, chance: random.Random) -> None:
        self.world, self.run, self.speed, self.chance = world, run, speed, chance
        self.life()

    def life(self) -> None:
        """Begin anew, with nothing remembered."""
        clock = lambda: self.world.now  # noqa: E731
        self.queue = ChunkQueue(self.run, threading.Event(), reads=False, clock=clock)
        self.taken: Taken | None = None
        self.step = 0
        self.saved_at = self.beat_at = 0.0
        hours = self.chance.expovariate(1 / self.world.hours_to_death)
        self.dies_at = self.world.now + 3600 * hours

    def act(self, left: dict[str, tuple[float, float]]) -> float | None:
        """Do what is due, and say in how many seconds there is more to do; None at the end."""
        if self.world.now >= self.dies_at:
            return self._die(left)
        if self.taken is None:
            return self._take(left)
        return self._train()

    def _die(self, left: dict[str, tuple[float, float]]) -> float:
        self.world.deaths += 1
        if self.taken is not None:
            left[chunk_name(self.taken.chunk)] = self.world.now, self.saved_at
            lease._held.discard(self.taken.lease)  # and its name stays
        self.life()
        self.dies_at += self.world.back_seconds
        return self.world.back_seconds

    def _take(self, left: dict[str, tuple[float, float]]) -> float | None:
        self.taken = self.queue.next_now({})
        if self.taken is None:
            return None if self.queue.is_empty else PAUSE_SECONDS
        name = chunk_name(self.taken.chunk)
        if name in left:
            died, saved = left.pop(name)
            self.world.idle.append(self.world.now - died)
            self.world.lost.append(died - saved)
        self.checkpoints = self.run.checkpoints(self.taken.chunk)
        found = self.checkpoints.files()
        self.step = found[0][0] if found else 0
        self.saved_at = self.beat_at = self.world.now + START_SECONDS
        return START_SECONDS

    def _train(self) -> float:
        assert self.taken is not None
        world, chunk = self.world, self.taken.chunk
        pace = step_seconds(len(chunk)) / self.speed
        if world.now - self.beat_at >= lease.SECONDS / lease.BEATS:
            self.taken.lease.beat()
            self.beat_at = world.now
        if world.now - self.saved_at >= CHECKPOINT_SECONDS or self._reached(pace) >= world.steps:
            self.step, self.saved_at = self._reached(pace), world.now
            path = self.run.checkpoint_folder / (
                f"{chunk_name(chunk)}.step-{self.step:09d}.safetensors"
            )
            older = self.checkpoints.files()
            files.write_bytes(path, b"as if it were a checkpoint")
            for _, old in older[1:]:
                files.remove(old)
            if self.step >= world.steps:
                self.queue.done(self.taken)
                self.taken = None
                return 0.0
        rest = (world.steps - self._reached(pace)) * pace
        return max(1e-3, min(rest, lease.SECONDS / lease.BEATS, self.dies_at - world.now))

    def _reached(self, pace: float) -> int:
        since = max(0.0, self.world.now - self.saved_at)
        return min(self.world.steps, self.step + math.floor(since / pace + 1e-6))


def simulate(world: World, run: RunFolder) -> float:
    """Seconds until every chunk is trained."""
    chance = random.Random(0)
    speeds = [*world.slow, *[1.0] * world.workers][: world.workers]
    workers = [Worker(world, run, speed, chance) for speed in speeds]
    due = [(0.001 * number, number) for number in range(world.workers)]
    left: dict[str, tuple[float, float]] = {}
    ended = 0.0
    with simulated(world):
        while due:
            world.now, number = heapq.heappop(due)
            before = world.operations
            after = workers[number].act(left)
            took = (world.operations - before) * world.disk_seconds
            if after is None:
                ended = max(ended, world.now + took)
            else:
                heapq.heappush(due, (world.now + took + after, number))
    return ended


def ideal(world: World, chunks: list[int]) -> float:
    """Seconds, were the work divided among workers as one likes, and lost nowhere."""
    speeds = [*world.slow, *[1.0] * world.workers][: world.workers]
    return sum(world.steps * step_seconds(size) for size in chunks) / sum(speeds)


def row(world: World, chunks_a_worker: int) -> dict[str, float]:
    """One line of the table."""
    size = equal_work(world.models, FITS, world.workers * chunks_a_worker)
    size = equal_share(world.models, size)
    data = {"x": 3, "y": 2, "scale": 1, "image_size": 28}
    plan, dataset = make_plan(
        *("sprites", "beta_vae"),
        **{"data_options": data, "seeds": world.models, "steps": world.steps},
        **{"network": "mlp", "network_options": {"hidden": 2}, "latents": 2, "log_every": 1000},
    )
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        run = RunFolder(Path(folder) / "run", plan, size, dataset)
        run.path.mkdir()
        run.write_plan()
        sizes = [len(chunk) for chunk in run.chunks()]
        seconds = simulate(world, run)
        trained = {name.split(".")[0] for name in os.listdir(run.checkpoint_folder)}
        assert len(trained) == len(sizes), "every chunk is trained"
    best = ideal(world, [FITS] * (world.models // FITS) + [world.models % FITS])
    return {
        "chunks": len(sizes),
        "models a chunk": size,
        "hours": seconds / 3600,
        "of the ideal": seconds / ideal(world, sizes),
        "of full chunks": seconds / best,
        "deaths": world.deaths,
        "training lost a death, s": float(np.mean(world.lost or [0.0])),
        "idle until taken over, s": float(np.mean(world.idle or [0.0])),
        "file operations a second": world.operations / seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=int, default=World.models)
    parser.add_argument("--workers", type=int, default=World.workers)
    parser.add_argument("--steps", type=int, default=World.steps)
    given = parser.parse_args()
    for chunks in (1, 2, 4):
        found = row(World(given.models, given.steps, given.workers), chunks)
        print("; ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
