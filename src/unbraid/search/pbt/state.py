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
from unbraid.core.folders import check_still_there
from unbraid.core.store import file_names, read_tensors, write_tensors
from unbraid.search.pbt.exploit import Individual
from unbraid.search.pbt.generation import Generation, Rows, stored_rows

_LEAST_TRAINING_PER_SAVING = 10
"""States of large populations take seconds to write: at most a tenth of the time goes there."""
_KEPT = 2
_FILE = re.compile(r"state-(\d{6})\.safetensors")


@dataclass
class Elite:
    """The best individual of all epochs so far."""

    epoch: int
    individual: int
    score: float
    values: dict[str, float]
    clock: int
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

    def __init__(self, folder: Path, search_digest: str) -> None:
        self.folder, self.search_digest = folder, search_digest

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
            path.unlink(missing_ok=True)

    def load(
        self, begin: Callable[..., Generation], warn: Callable[[str], None]
    ) -> SearchState | None:
        """The newest good state, its population put on the device by *begin*; None without one."""
        for _, path in self.files():
            try:
                tensors, about = read_tensors(path)
            except DamagedFileError as error:
                warn(f"{error} It is set aside.")
                path.rename(path.with_name(f"{path.name}.damaged"))
                continue
            if about["search"] != self.search_digest:
                raise DamagedFileError(f"{path} belongs to another search.")
            individuals = [Individual(**one) for one in about["individuals"]]
            rows, clocks = stored_rows(
                _part(tensors, "generation."), about["places"], about["steps"]
            )
            generation = begin(about["epoch"], individuals, rows, clocks)
            elite = (
                Elite(**about["elite"], rows=_part(tensors, "elite.")) if "elite" in about else None
            )
            return SearchState(about["epoch"], individuals, generation, about["lineage"], elite)
        return None


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
