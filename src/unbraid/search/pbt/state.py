# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a search: the epoch that trains, its models, the lineage, the best of all.

A state is one file with a checksum: the tensors of all models wherever their clocks stand, those of
the best individual, and the lineage. The newest two are kept; a damaged one is set aside and the
other used.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unbraid.core.errors import DamagedFileError
from unbraid.core.failpoints import failpoint
from unbraid.core.files import file_names, remove, set_aside
from unbraid.core.folders import check_still_there
from unbraid.core.records import build_object, from_record
from unbraid.core.store import read_tensors, write_tensors
from unbraid.population.checkpoint import OtherPlanError
from unbraid.population.state import STORED
from unbraid.search.pbt.exploit import Individual
from unbraid.search.pbt.generation import Generation, Rows, stored_rows

_LEAST_TRAINING_PER_SAVING = 10
"""States of large populations take seconds to write: at most a tenth of the time goes there."""
_KEPT = 2
_FILE = re.compile(r"state-(\d{6})\.safetensors")


@dataclass(kw_only=True)
class _StoredElite:
    """What a state says of the best individual of all epochs so far."""

    epoch: int
    individual: int
    score: float
    values: dict[str, float]
    clock: int
    active_latents: int | None = None
    """None where an earlier version kept it, which did not count."""
    collapsed: bool = False


@dataclass(kw_only=True)
class Elite(_StoredElite):
    """With the states of its models."""

    rows: Rows


@dataclass
class SearchState:
    """Where a search stands."""

    epoch: int
    individuals: list[Individual]
    generation: Generation
    lineage: list[dict[str, Any]] = field(default_factory=list)
    elite: Elite | None = None


class StateFiles:
    """The states of one search in a folder."""

    def __init__(self, folder: Path, search_digest: str, width: int) -> None:
        """Of a search whose models have *width* weights each."""
        self.folder, self.search_digest, self.width = folder, search_digest, width

    def files(self) -> list[tuple[int, Path]]:
        """Number and path of each state, the newest first."""
        matches = (_FILE.fullmatch(name) for name in file_names(self.folder))
        found = ((int(match[1]), self.folder / match[0]) for match in matches if match)
        return sorted(found, reverse=True)

    def save(self, state: SearchState) -> None:
        """Write *state*, then drop what is older than the newest two."""
        tensors = {
            f"generation.{name}": tensor for name, tensor in state.generation.tensors().items()
        }
        about: dict[str, Any] = {
            "search": self.search_digest,
            "epoch": state.epoch,
            "individuals": [asdict(one) for one in state.individuals],
            "places": state.generation.places(),
            "steps": state.generation.steps(),
            "lineage": state.lineage,
        }
        if state.elite is not None:
            tensors |= {f"elite.{name}": tensor for name, tensor in state.elite.rows.items()}
            about["elite"] = {
                key: value for key, value in vars(state.elite).items() if key != "rows"
            }
        check_still_there(self.folder.parent)
        files = self.files()
        number = files[0][0] + 1 if files else 0
        write_tensors(self.folder / f"state-{number:06d}.safetensors", tensors, about)
        for _, path in self.files()[_KEPT:]:
            remove(path)
        failpoint("state.saved")

    def load(
        self, begin: Callable[..., Generation], warn: Callable[[str], None]
    ) -> SearchState | None:
        """The newest good state, its population put on the device by *begin*; None without one."""
        bad: dict[Path, str] = {}
        others: dict[Path, OtherPlanError] = {}
        for _, path in self.files():
            try:
                stored, rows, clocks, best = self._read(path)
            except DamagedFileError as error:
                others |= {path: error} if isinstance(error, OtherPlanError) else {}
                bad[path] = str(error)
                continue
            _set_aside(bad, warn)
            generation = begin(stored.epoch, stored.individuals, rows, clocks)
            elite = Elite(**vars(stored.elite), rows=best) if stored.elite else None
            return SearchState(stored.epoch, stored.individuals, generation, stored.lineage, elite)
        if others:
            raise OtherPlanError.of(others)  # rather than begin again beside good models
        _set_aside(bad, warn)
        return None

    def _read(self, path: Path) -> tuple[_Stored, Rows, list[int], Rows]:
        """What a state says, the rows and clocks of its models, and the rows of the best."""
        tensors, about = read_tensors(path)
        if about.get("search") != self.search_digest:
            raise OtherPlanError(
                f"{path} belongs to another search than the record beside {self.folder}. Put the"
                " right one back, or remove that file: then the search begins again."
            )
        again = "An earlier state is taken, or the search begins again."
        stored = build_object(path, "a state", lambda: from_record(_Stored, about), again)
        generation, best = _part(tensors, "generation."), _part(tensors, "elite.")
        order = [place for chunk in stored.places for place in chunk]
        whole = sorted(order) == list(range(len(order))) and bool(order)
        whole &= len(stored.steps) == len(stored.places) and all(stored.places)
        whole &= len(order) % max(1, len(stored.individuals)) == 0
        for number, places in enumerate(stored.places):
            whole &= self._are_rows(_part(generation, f"{number}."), len(places))
        if stored.elite is not None:
            whole &= self._are_rows(best, len(order) // max(1, len(stored.individuals)))
        if not whole:
            raise DamagedFileError(f"{path} does not hold the models that it says it holds.")
        rows, clocks = stored_rows(generation, stored.places, stored.steps)
        return stored, rows, clocks, best

    def _are_rows(self, rows: Rows, count: int) -> bool:
        """Whether these are the states of so many models."""
        known = {"diverged_at": 1, "age": 1, "window": 2, "history": 3}
        groups = {name.rpartition(".")[0] for name in rows} - {""}
        known |= {f"{group}.{part}": 2 for group in groups for part in STORED}
        names = {name: tensor.dim() for name, tensor in rows.items() if name != "memory"}
        if (
            names != known
            or "model" not in groups
            or any(len(one) != count for one in rows.values())
        ):
            return False
        alike = all(len({rows[f"{one}.{part}"].shape for part in STORED}) == 1 for one in groups)
        recorded = rows["window"].shape[1] == rows["history"].shape[2]
        return alike and recorded and rows["model.weights"].shape[1] == self.width


def _set_aside(bad: dict[Path, str], warn: Callable[[str], None]) -> None:
    for path, why in bad.items():
        warn(f"{why} It is set aside.")
        set_aside(path)


@dataclass(frozen=True)
class _Stored:
    """What a state says beside its tensors."""

    search: str
    epoch: int
    individuals: list[Individual]
    places: list[list[int]]
    steps: list[int]
    lineage: list[dict[str, Any]]
    elite: _StoredElite | None = None


def _part(tensors: Rows, prefix: str) -> Rows:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


class Checkpointer:
    """Says when the state is due to be written, and writes it."""

    def __init__(self, files: StateFiles, state: SearchState, seconds: float) -> None:
        self.files, self.state, self.seconds = files, state, seconds
        self._saved_at, self._saving = time.monotonic(), 0.0

    def _wait(self) -> float:
        return max(self.seconds, _LEAST_TRAINING_PER_SAVING * self._saving)

    def seconds_left(self) -> float:
        """Until the next writing; a moment at least, so that training moves on."""
        return max(0.01, self._saved_at + self._wait() - time.monotonic())

    def due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self._saved_at + self._wait()

    def save(self) -> None:
        """Write the state."""
        began = time.monotonic()
        self.files.save(self.state)
        self._saved_at = time.monotonic()
        self._saving = self._saved_at - began
