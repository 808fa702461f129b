# SPDX-License-Identifier: Apache-2.0
"""A search is a folder: pbt.json, lineage.parquet, population/ while it trains, the winner.

The winner is the individual with the best score of all epochs, kept whatever becomes of its line;
one that is collapsed only where all are (`search/pbt/collapsed.py`).
When the search ends it is stored as an ordinary run in the same folder (plan.json, checkpoint/,
...): its models are encoded, scored and reported like any other.

While it trains, the state of all models, the lineage so far and the best individual lie in
population/ in one file with a checksum, written between epochs and within them every
`checkpoint_seconds` (and at most a tenth of the time). A search that is stopped or killed goes on
from there to the same lineage, to the last bit on a CPU.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from unbraid.core.errors import DamagedFileError, InputError, Problem, UnbraidError, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import only_one, remove_folder, remove_unfinished
from unbraid.core.folders import RECORDS, check_still_there, is_there, record_path
from unbraid.core.lease import tell
from unbraid.core.records import read_object
from unbraid.core.store import digest, read_table, write_json, write_table
from unbraid.data.dataset import IN_MEMORY, Dataset
from unbraid.population.cuda_graph import rehearse
from unbraid.population.devices import device_type, explain_oom
from unbraid.population.draws import rule_on
from unbraid.population.new_folder import check_free, check_room, new_folder
from unbraid.population.run_folder import CHECKPOINTS, RunFolder
from unbraid.scoring.collapse import least_active
from unbraid.search.pbt.collapsed import collapsed_winner
from unbraid.search.pbt.exploit import Individual, converged, next_individuals, ranking
from unbraid.search.pbt.generation import Generation, Heritage, Rows, updates_of_epoch
from unbraid.search.pbt.judging import Judging
from unbraid.search.pbt.lineage import EpochBest, best_by_epoch, epoch_rows, is_collapsed
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.state import Checkpointer, Elite, SearchState, StateFiles
from unbraid.search.pbt.winner import WINNER, WinnerFiles

if TYPE_CHECKING:
    import pandas as pd

POPULATION = "population"
"""Where the state of all models lies while they train."""
LINEAGE = "lineage.parquet"
_COLUMNS = {"epoch": "i", "individual": "i", "parent": "i", "copied": "b", "change": "O"} | {
    "score": "f",
    "diverged": "b",
    "images": "i",
}
"""What a lineage has at least, with the kinds of NumPy."""


class NoScoresError(UnbraidError):
    """No member of a population ever had a score, so that there is no winner."""


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
        remedy = "Put a copy of it back, or search again into a new folder."
        try:
            search, own = read_object(place, "a search", _read_search, remedy)
        except (FileNotFoundError, NotADirectoryError):
            rule = f"must be a folder made by `unbraid pbt`, with a {RECORDS['pbt'].record} in it"
            raise invalid("run", rule, str(path), remedy) from None
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
        remedy = "Put a copy of it back, or search again into a new folder."
        try:
            return read_table(self.path / LINEAGE, self._about_lineage, _COLUMNS)
        except FileNotFoundError:
            if self._has_winner:
                raise DamagedFileError(f"{self.path / LINEAGE} is missing. {remedy}") from None
            rule = "must have a finished epoch, or there is no lineage"
            raise invalid("run", rule, str(self.path), self._go_on) from None
        except DamagedFileError as error:
            told = remedy if self._has_winner else self._go_on
            raise DamagedFileError(f"{error} {told}") from error

    @property
    def _about_lineage(self) -> dict[str, str]:
        return {"search": self.digest, "table": LINEAGE}

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
            begin = self._beginning(device)
            # No name of ours but the checkpointer's may hold a population, or it would stay in
            # memory beside those that come after it.
            checkpointer = Checkpointer(
                files,
                files.load(begin, warn) or self._first(begin),
                self.search.plan.checkpoint_seconds,
            )
            progress(self._seen(checkpointer.state), True)
            stop = stop or threading.Event()
            began, first = time.monotonic(), checkpointer.state.epoch
            tell(self.path, device=device_type(device))

            def epoch_done(epoch: dict[str, Any]) -> None:
                ended = epoch["epoch"] + 1 - first
                tell(self.path, epoch_seconds=(time.monotonic() - began) / ended)
                on_epoch(epoch)

            try:
                why = self._run(begin, checkpointer, stop, progress, warn, out_of_time, epoch_done)
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
            self._forget_population()
            return SearchOutcome(True, why)

    def _beginning(self, device: torch.device) -> Callable[..., Generation]:
        """Puts the population of an epoch on *device*."""
        search, dataset = self.search, self.dataset
        with explain_oom(device, f"the data '{dataset.name}'", "Free some memory, or use the CPU."):
            sampler, rule = dataset.sampler(device), rule_on(search.plan, dataset, device)
        rehearsed: set[int] = set()

        def begin(
            epoch: int,
            individuals: list[Individual],
            rows: Rows | Heritage | None,
            clocks: Sequence[int] | None = None,
            before: Generation | None = None,
        ) -> Generation:
            generation = Generation(
                search.plan,
                search.generation_models(individuals, epoch),
                dataset,
                device,
                sampler,
                epoch=epoch,
                epochs=search.epochs,
                epoch_images=search.epoch_images,
                rows=rows,
                clocks=clocks,
                cumulative=rule,
                before=before,
                together=search.together,
            )
            for chunk in generation.chunks:  # kernels differ by batch size, and that may evolve
                if chunk.program.plan.batch_size not in rehearsed:
                    rehearsed.add(chunk.program.plan.batch_size)
                    rehearse(chunk.program)
            return generation

        return begin

    def _first(self, begin: Callable[..., Generation]) -> SearchState:
        """Where a search begins."""
        individuals = self.search.first()
        return SearchState(0, individuals, begin(0, individuals, None))

    def _run(
        self,
        begin: Callable[..., Generation],
        checkpointer: Checkpointer,
        stop: threading.Event,
        progress: Callable[[int, bool], None],
        warn: Callable[[str], None],
        out_of_time: Callable[[], bool],
        on_epoch: Callable[[dict[str, Any]], None],
    ) -> str:
        """Epoch after epoch until the search is over; returns why it is, nothing where stopped."""
        search = self.search
        least = self._least_active()
        while True:
            state = checkpointer.state
            with Judging(search.scorer, state.generation, self.dataset, self.path) as judging:
                while not state.generation.train(
                    stop,
                    checkpointer.seconds_left(),
                    lambda images: progress(images, False),
                    judging.chunk_done,
                ):
                    checkpointer.save()
                    if stop.is_set():
                        return ""
                scores, active = judging.scores(), judging.active_latents()
            ranked = [search.scorer.better(score) for score in scores]
            rows = epoch_rows(search, state, scores, active, least)
            collapsed = [is_collapsed(row) for row in rows]
            # An epoch that was stopped after this is scored again when the search goes on; it must
            # not stand here twice.
            state.lineage = [row for row in state.lineage if row["epoch"] < state.epoch] + rows
            self._write_lineage(state)
            self._keep_best(state, rows, ranked, collapsed)
            best = best_by_epoch(state.lineage, search.scorer.better)
            sunk = best[-1].collapsed and math.isfinite(best[-1].score)
            told = {"epoch": state.epoch, "best": best[-1].score, "collapsed": sunk}
            counts = {"individuals": len(state.individuals), "images": rows[-1]["images"]}
            on_epoch({**told, **counts})
            if state.elite is None:
                checkpointer.save()
                raise self._no_scores(state.epoch)
            why = self._why_over(state.epoch, ranked, best, out_of_time)
            if why:
                count = sum(row["diverged"] for row in rows)
                if count:
                    warn(f"{count} of {len(rows)} individuals had diverged when the search ended.")
                return why
            checkpointer.state = self._selected(state, ranked, collapsed, begin)
            failpoint("generation.replaced")
            if checkpointer.due():
                checkpointer.save()

    def _least_active(self) -> int:
        """The fewest active latents of an individual that is not collapsed, where one can be."""
        search = self.search
        if not search.collapsed_last:
            return 0
        known = search.scorer.known_factors(self.dataset, self.path)
        return least_active(search.plan.latents, known)

    def _why_over(
        self,
        epoch: int,
        ranked: list[float],
        best: list[EpochBest],
        out_of_time: Callable[[], bool],
    ) -> str:
        """Why the search ends after *epoch*; empty where it goes on."""
        within, epochs = self.search.converged_within, self.search.converged_epochs
        if epoch + 1 >= self.search.epochs:
            return "all epochs are done"
        if not any(map(math.isfinite, ranked)):
            return "no individual has a score any more"
        # Where all are collapsed, a score that stands still is no convergence.
        scores = [math.nan if one.collapsed else one.score for one in best]
        if within and converged(scores, within, epochs):
            return f"the best score moved by less than {within:g} in each of {epochs} epochs"
        return "the time is up" if out_of_time() else ""

    def _selected(
        self,
        state: SearchState,
        ranked: list[float],
        collapsed: list[bool],
        begin: Callable[..., Generation],
    ) -> SearchState:
        """Exploit and explore: the next epoch begins, with every state gathered on the device."""
        search, epoch = self.search, state.epoch + 1
        now = [one.values for one in state.individuals]
        individuals = next_individuals(
            ranked,
            now,
            search.evolved,
            search.rule,
            seed=search.seed,
            epoch=epoch,
            population=search.population,
            collapsed=collapsed,
        )
        places = [
            one.parent * search.models + number
            for one in individuals
            for number in range(search.models)
        ]
        # Held until the new one stands, so that it can be saved whatever happens here.
        old = state.generation
        generation = begin(
            epoch,
            individuals,
            lambda part: old.rows([places[place] for place in part]),
            before=old,
        )
        return SearchState(epoch, individuals, generation, state.lineage, state.elite)

    def _no_scores(self, epoch: int) -> NoScoresError:
        return NoScoresError(
            f"no member of the population has a score after epoch {epoch + 1}:"
            f" {self.search.scorer.metric} is NaN for every one, so that there is nothing to select"
            f" by. What trained so far is kept in {self.path}. Start again with lower learning"
            " rates if the models diverged (see lineage.parquet), or with another score."
        )

    def _keep_best(
        self,
        state: SearchState,
        rows: list[dict[str, Any]],
        ranked: list[float],
        collapsed: list[bool],
    ) -> None:
        """Keep the best individual of an epoch where it is the best of all."""
        search, first, old = self.search, ranking(ranked, collapsed)[0], state.elite
        if not math.isfinite(ranked[first]):
            return
        # Of equals the one that has trained longer.
        if old is not None and (not collapsed[first], ranked[first]) < (
            not old.collapsed,
            search.scorer.better(old.score),
        ):
            return
        values = state.individuals[first].values
        updates = updates_of_epoch(search.epoch_images, search.batch_size(values))
        state.elite = Elite(
            epoch=state.epoch,
            individual=first,
            score=rows[first]["score"],
            values=dict(values),
            clock=(state.epoch + 1) * updates,
            rows=state.generation.rows(range(first * search.models, (first + 1) * search.models)),
            active_latents=rows[first]["active_latents"],
            collapsed=collapsed[first],
        )

    def _seen(self, state: SearchState) -> int:
        """Images seen by all models so far, for a progress bar that begins in the middle."""
        seen = (
            sum(row["epoch"] < state.epoch for row in state.lineage)
            * self.search.models
            * self.search.epoch_images
        )
        for chunk in state.generation.chunks:
            batch_size = chunk.program.plan.batch_size
            begun = state.epoch * updates_of_epoch(self.search.epoch_images, batch_size)
            seen += (chunk.state.step - begun) * batch_size * len(chunk.places)
        return seen

    def _write_lineage(self, state: SearchState) -> None:
        import pandas as pd

        check_still_there(self.path)
        table = pd.DataFrame(state.lineage)
        table["collapsed"] = [is_collapsed(row) for row in state.lineage]
        kinds = {"score": float, "active_latents": "Int64"}
        write_table(self.path / LINEAGE, table.astype(kinds), self._about_lineage)
        failpoint("lineage.written")

    def remove_leftovers(self) -> None:
        """Remove the population of a finished search that was killed before it did."""
        if self.finished and (self.path / POPULATION).is_dir():
            # It may lie where nothing can be written, or another process does the same.
            with suppress(UnbraidError), only_one(self.path):
                self._forget_population()

    def _forget_population(self) -> None:
        """Remove the states of all models, which nobody needs once the winner is stored."""
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
