# SPDX-License-Identifier: Apache-2.0
"""A search is a folder: pbt.json, lineage.parquet, population/ while it trains, the winner.

When the search ends its winner is stored as an ordinary run in the same folder (plan.json,
checkpoint/, ...): its models are encoded, scored and reported like any other.

While it trains, the state of all models, the lineage so far and the best individual lie in
population/ in one file with a checksum, written between epochs and within them every
`checkpoint_seconds` (and at most a tenth of the time). A search that is stopped or killed goes on
from there to the same lineage, to the last bit on a CPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from unbraid.core.errors import DamagedFileError, InputError, Problem, UnbraidError, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import only_one, remove_folder, remove_unfinished
from unbraid.core.folders import RECORDS, is_there, record_path
from unbraid.core.lease import tell
from unbraid.core.records import read_object
from unbraid.core.store import digest, write_json
from unbraid.data.dataset import IN_MEMORY, Dataset
from unbraid.population.devices import device_type
from unbraid.population.new_folder import check_free, check_room, new_folder
from unbraid.population.run_folder import CHECKPOINTS, RunFolder
from unbraid.scoring.collapse import least_active
from unbraid.search.pbt.collapsed import collapsed_winner
from unbraid.search.pbt.lineage import LINEAGE, read_lineage
from unbraid.search.pbt.loop import SearchLoop
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.state import Checkpointer, StateFiles
from unbraid.search.pbt.winner import WINNER, WinnerFiles

if TYPE_CHECKING:
    import pandas as pd

_COPY = "Put a copy of it back, or search again into a new folder."
POPULATION = "population"
"""Where the state of all models lies while they train."""


def _read_search(record: dict[str, Any]) -> tuple[SearchPlan, str]:
    """A search, and by which digest its states know it."""
    return SearchPlan.from_record(record), digest(record)


@dataclass(frozen=True)
class SearchOutcome:
    """How a call of `SearchRun.train` ended."""

    finished: bool
    why: str = ""
    """Why it ended: all epochs, converged, or out of time."""


def searched_data(folder: RunFolder) -> Dataset:
    """The data of a search or a recursion, made again where need be."""
    try:
        return folder.dataset
    except InputError as error:
        if folder.plan.data_options.get("source") != IN_MEMORY:
            raise
        raise InputError(
            Problem(
                "data",
                "must be given again, since it was an array in memory",
                str(folder.path),
                "Pass it again, loaded as it was:"
                f" unbraid.resume('{folder.path}', data=unbraid.load(array, ...)).",
                f"{folder.path} was searched on an array in memory.",
            )
        ) from error


class SearchRun:
    """The files of one search, and its training."""

    def __init__(
        self, path: str | Path, search: SearchPlan, dataset: Dataset | None = None
    ) -> None:
        self.path = Path(path)
        self.search = search
        self._data = RunFolder(self.path, search.plan, 1, dataset)
        self.digest = digest(search.record())
        """By which files belong to this search: its record as stored, whose names may be older."""

    @classmethod
    def create(cls, path: str | Path, search: SearchPlan, dataset: Dataset) -> SearchRun:
        """Start a search in an empty or new folder that has room for it."""
        folder = Path(path)
        check_free(folder)
        check_room(folder, search.all_models, dataset)
        with new_folder(folder):
            write_json(record_path(folder, "pbt"), search.record())
            failpoint("record.written")
        return cls(folder, search, dataset)

    @classmethod
    def open(cls, path: str | Path, dataset: Dataset | None = None) -> SearchRun:
        """The search that a folder holds."""
        place = record_path(path, "pbt")
        try:
            search, own = read_object(place, "a search", _read_search, _COPY)
        except (FileNotFoundError, NotADirectoryError):
            rule = f"must be a folder made by `unbraid pbt`, with a {RECORDS['pbt'].record} in it"
            raise invalid("run", rule, str(path), _COPY) from None
        found = cls(path, search, dataset)
        found.digest = own
        return found

    @classmethod
    def begin(cls, path: Path, search: SearchPlan, dataset: Dataset) -> SearchRun:
        """The search of a stage, begun in *path* or new there; a record of it that is lost, damaged
        or another's is written again, since the larger plan that it is part of holds it too.
        """
        try:
            found = cls.open(path, dataset)
            if found.search.is_but_for_its_place(search):
                return found
        except DamagedFileError:
            pass
        except InputError:
            if not any(is_there(path / name) for name in (LINEAGE, POPULATION, "plan.json")):
                return cls.create(path, search, dataset)
        write_json(record_path(path, "pbt"), search.record())
        return cls(path, search, dataset)

    @staticmethod
    def is_search(path: str | Path) -> bool:
        """Whether *path* is the folder of a search."""
        return record_path(path, "pbt").is_file()

    @property
    def dataset(self) -> Dataset:
        """The data of the search, made again where need be."""
        return searched_data(self._data)

    def use(self, dataset: Dataset) -> None:
        """Take *dataset* as the data of the search, if it is the same."""
        self._data.use(dataset)

    @property
    def _go_on(self) -> str:
        return f"Go on with: unbraid resume {self.path}"

    @property
    def finished(self) -> bool:
        """Whether the winner is stored; its plan may have been lost since, and be made again."""
        lost = is_there(self.path / WINNER) and not is_there(self.path / POPULATION)
        return lost or is_there(record_path(self.path, "train"))

    @property
    def begun(self) -> bool:
        """Whether it has been trained at all, as far as files say."""
        return self._has_winner or is_there(self.path / POPULATION)

    @property
    def _has_winner(self) -> bool:
        """Whether the winner's models are there: no epoch is left to train."""
        return self.finished or any((self.path / CHECKPOINTS).glob("*.safetensors"))

    @property
    def lineage(self) -> pd.DataFrame:
        """One row per individual and epoch: its parent, hyperparameters and score."""
        try:
            return read_lineage(self.path, self.digest)
        except FileNotFoundError:
            if self._has_winner:
                raise DamagedFileError(f"{self.path / LINEAGE} is missing. {_COPY}") from None
            rule = "must have a finished epoch, or there is no lineage"
            raise invalid("run", rule, str(self.path), self._go_on) from None
        except DamagedFileError as error:
            told = _COPY if self._has_winner else self._go_on
            raise DamagedFileError(f"{error} {told}") from error

    @property
    def winner_files(self) -> WinnerFiles:
        """What of the winner lies here."""
        return WinnerFiles(self.path, self.search, lambda: self.dataset, lambda: self.lineage)

    def winner(self) -> RunFolder:
        """The run of the winner's models."""
        if not self.finished:
            raise invalid("run", "must be a finished search", str(self.path), self._go_on)
        return RunFolder.open(self.path, self.dataset)

    def train(
        self,
        device: torch.device,
        progress: Callable[[int, bool], None] = lambda images, found_done: None,
        warn: Callable[[str], None] = lambda line: None,
        *,
        out_of_time: Callable[[], bool] = lambda: False,
        on_epoch: Callable[[dict[str, Any]], None] = lambda epoch: None,
        stop: threading.Event | None = None,
    ) -> SearchOutcome:
        """Train what is left; Ctrl-C, or *stop* that is set, writes a checkpoint first.

        *out_of_time* is asked between epochs. *on_epoch* is called with every epoch that ends:
        its number from 0, the best score in it, whether all were collapsed, how many individuals it
        had, and how many images each of their models has seen.
        """
        if self.finished:
            self.winner_files.check(warn)
            self.remove_leftovers()
            return SearchOutcome(True, "found done")
        with only_one(self.path):
            remove_unfinished(self.path / POPULATION)
            self._data.remove_halves()
            width = self.search.plan.layout(self.search.plan.members[0], self.dataset).size
            files = StateFiles(self.path / POPULATION, self.digest, width)
            if not files.files() and self._has_winner and self.winner_files.made_again(warn):
                return SearchOutcome(True, "found done")
            loop = SearchLoop(self.search, self.dataset, device, self.path, self.digest)
            # No name of ours but the checkpointer's may hold a population, or it would stay in
            # memory beside those that come after it.
            checkpointer = Checkpointer(
                files,
                files.load(loop.begin, warn) or loop.first(),
                self.search.plan.checkpoint_seconds,
            )
            progress(loop.seen(checkpointer.state), True)
            stop = stop or threading.Event()
            began, first = time.monotonic(), checkpointer.state.epoch
            tell(self.path, device=device_type(device))

            def epoch_done(epoch: dict[str, Any]) -> None:
                ended = epoch["epoch"] + 1 - first
                tell(self.path, epoch_seconds=(time.monotonic() - began) / ended)
                on_epoch(epoch)

            try:
                least = self._least_active()
                why = loop.run(checkpointer, least, stop, progress, warn, out_of_time, epoch_done)
                if not why:
                    return SearchOutcome(False)
                assert checkpointer.state.elite is not None
                self.winner_files.store(checkpointer.state.elite)
            except KeyboardInterrupt:
                stop.set()
                checkpointer.save()
                return SearchOutcome(False)
            except UnbraidError as error:
                # Between two epochs the state is whole; within one a step may have been cut short,
                # and the last file counts.
                out_of_memory = isinstance(error.__cause__, torch.OutOfMemoryError)
                if out_of_memory and checkpointer.state.generation.done:
                    checkpointer.save()
                raise
            remove_folder(self.path / POPULATION)  # the states, once the winner is stored
            return SearchOutcome(True, why)

    def _least_active(self) -> int:
        """The fewest active latents of an individual that is not collapsed, where one can be."""
        search = self.search
        if not search.collapsed_last:
            return 0
        known = search.scorer.known_factors(self.dataset, self.path)
        return least_active(search.plan.latents, known)

    def remove_leftovers(self) -> None:
        """Remove the population of a finished search that was killed before it did."""
        if self.finished and (self.path / POPULATION).is_dir():
            # It may lie where nothing can be written, or another process does the same.
            with suppress(UnbraidError), only_one(self.path):
                remove_folder(self.path / POPULATION)

    def winner_record(self) -> dict[str, Any]:
        """Epoch, individual, score and evolved values of the winner, and what latents it uses."""
        return asdict(self.winner_files.stored())

    def remark(self) -> str:
        """What must be known of the winner: that it is collapsed; else empty."""
        record = self.winner_record()
        if not record["collapsed"]:
            return ""
        try:
            least = self._least_active()
        except (FileNotFoundError, DamagedFileError):  # of labels that nobody else needs any more
            least = None
        return collapsed_winner(record["active_latents"], self.search.plan.latents, least)
