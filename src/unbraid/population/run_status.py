# SPDX-License-Identifier: Apache-2.0
"""How far a run is, read off its folder without touching it: what is done, who trains what, what is
stalled or has failed, and how long the rest will take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unbraid.core.errors import DamagedFileError, UnbraidError
from unbraid.core.files import file_names
from unbraid.core.lease_holder import Seen, Watch, silence
from unbraid.core.store import read_about
from unbraid.population.checkpoint import chunk_name
from unbraid.population.chunk_queue import lease_place, steps_by_chunk
from unbraid.population.failures import read_failure
from unbraid.population.member import Chunk, members_told
from unbraid.population.run_folder import RunFolder

State = Literal["done", "running", "stalled", "failed", "begun", "left"]


@dataclass(frozen=True)
class ChunkStatus:
    """How far one chunk is."""

    chunk: Chunk
    state: State
    step: int
    """That its newest checkpoint holds, or its holder says that it has reached."""
    where: str = ""
    """Who trains it, or did last."""
    silent: float = 0.0
    """Seconds since its holder showed that it lives."""
    rate: float = 0.0
    """Model-steps a second of its holder."""
    why: str = ""
    """Why it has failed."""

    @property
    def name(self) -> str:
        """Its members, as messages call them."""
        return members_told(self.chunk)


@dataclass(frozen=True)
class RunStatus:
    """How far a run is."""

    path: Path
    steps: int
    chunks: tuple[ChunkStatus, ...]
    is_decided: bool
    diverged: int | None
    """Members that stopped being finite; None while the tables are not written."""

    @property
    def total(self) -> int:
        """Model-steps of the whole run."""
        return self.steps * sum(len(one.chunk) for one in self.chunks)

    @property
    def done(self) -> int:
        """Those that are done."""
        return sum(min(one.step, self.steps) * len(one.chunk) for one in self.chunks)

    @property
    def rate(self) -> float:
        """Model-steps a second of all who train now."""
        return sum(one.rate for one in self.chunks if one.state == "running")

    @property
    def seconds_left(self) -> float | None:
        """At that rate; None where it is not known."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None

    def count(self, state: State) -> int:
        """How many chunks are in *state*."""
        return sum(one.state == state for one in self.chunks)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        return self.count("done") == len(self.chunks)


def run_status(run: RunFolder, watch: Watch | None = None) -> RunStatus:
    """How far *run* is; with one *watch* for several looks, silence is told by one's own clock."""
    names = set(file_names(run.checkpoint_folder))
    steps = steps_by_chunk(names)
    found = tuple(_chunks(run, names, steps, watch or Watch()))
    members = run.finished_members()
    diverged = None if members is None else members["status"].tolist().count("diverged")
    return RunStatus(run.path, run.plan.steps, found, run.is_decided, diverged)


def _chunks(
    run: RunFolder, names: set[str], steps: dict[str, int], watch: Watch
) -> Iterator[ChunkStatus]:
    for chunk in run.chunks():
        saved = steps.get(chunk_name(chunk), 0)
        place = lease_place(run.checkpoint_folder, chunk)
        seen = watch.look(place) if place.name in names else None
        gone = seen is None or seen.is_over
        if saved >= run.plan.steps or (saved and gone and _is_over(run, chunk)):
            yield ChunkStatus(chunk, "done", run.plan.steps)  # whoever may hold it still
        elif seen is not None:
            yield _held(chunk, saved, seen, place)
        elif (failure := read_failure(run.checkpoint_folder, chunk)) is not None:
            yield ChunkStatus(chunk, "failed", saved, failure.host, why=failure.why)
        else:
            yield ChunkStatus(chunk, "begun" if saved else "left", saved)


def _held(chunk: Chunk, saved: int, seen: Seen, place: Path) -> ChunkStatus:
    silent = max(seen.unchanged, silence(place, seen.name))
    over = seen.is_over or silent > seen.seconds
    told = seen.about.get("step")
    step = told if isinstance(told, int) and not over else saved
    rate = seen.about.get("rate")
    return ChunkStatus(
        chunk,
        "stalled" if over else "running",
        max(saved, step),
        f"{seen.host} ({seen.about.get('device', 'device unknown')})",
        silent,
        float(rate) if isinstance(rate, (int, float)) else 0.0,
    )


def _is_over(run: RunFolder, chunk: Chunk) -> bool:
    """Whether the newest checkpoint holds results: all had diverged before the last step."""
    try:
        _, path = run.checkpoints(chunk).files()[0]
        return bool(read_about(path).get("trained"))
    except (OSError, IndexError, DamagedFileError, UnbraidError):
        return False
