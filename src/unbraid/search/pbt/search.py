# SPDX-License-Identifier: Apache-2.0
"""A search is a folder: pbt.json, lineage.parquet, population/ while it trains, the winner.

The winner is the individual with the best score of all epochs, kept whatever becomes of its line.
When the search ends it is stored as an ordinary run in the same folder (plan.json, checkpoint/,
...): its models are encoded, scored and reported like any other.

While it trains, the state of all models, the lineage so far and the best individual lie in
population/ in one file with a checksum, written between epochs and within them every
`checkpoint_seconds` (and at most a tenth of the time). A search that is stopped or killed goes on
from there to the same lineage, to the last bit on a CPU.
"""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from unbraid.core.errors import DamagedFileError, InputError, Problem, UnbraidError, invalid
from unbraid.core.folders import RECORDS, check_still_there, record_path
from unbraid.core.store import (
    digest,
    only_one,
    read_json,
    read_table,
    remove_unfinished,
    write_json,
    write_table,
)
from unbraid.data.dataset import IN_MEMORY, Dataset
from unbraid.population.devices import explain_oom
from unbraid.population.draws import rule_on
from unbraid.population.plan import Plan
from unbraid.population.run_folder import RunFolder, check_free, check_room, new_folder
from unbraid.search.pbt.exploit import Individual, converged, next_individuals, ranking
from unbraid.search.pbt.generation import Generation, Heritage, Rows, updates_of_epoch
from unbraid.search.pbt.judging import Judging
from unbraid.search.pbt.lineage import best_by_epoch, epoch_rows
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.state import Checkpointer, Elite, SearchState, StateFiles

if TYPE_CHECKING:
    import pandas as pd

POPULATION = "population"
"""Where the state of all models lies while they train."""
LINEAGE = "lineage.parquet"


class NoScoresError(UnbraidError):
    """No member of a population ever had a score, so that there is no winner."""


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
        # By which states belong to this search: of the record as stored, whose names may be older.
        self._digest = digest(search.record())

    @classmethod
    def create(cls, path: str | Path, search: SearchPlan, dataset: Dataset) -> SearchRun:
        """Start a search in an empty or new folder that has room for it."""
        folder = Path(path)
        check_free(folder)
        everyone = tuple(
            replace(search.plan.members[0], id=number) for number in range(search.trained_models)
        )
        check_room(folder, replace(search.plan, members=everyone), dataset)
        with new_folder(folder):
            write_json(record_path(folder, "pbt"), search.record())
        return cls(folder, search, dataset)

    @classmethod
    def open(cls, path: str | Path, dataset: Dataset | None = None) -> SearchRun:
        """The search that a folder holds."""
        try:
            record = read_json(record_path(path, "pbt"))
        except (FileNotFoundError, NotADirectoryError):
            rule = f"must be a folder made by `unbraid pbt`, with a {RECORDS['pbt'].record} in it"
            raise invalid("run", rule, str(path)) from None
        found = cls(path, SearchPlan.from_record(record), dataset)
        found._digest = digest(record)
        return found

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
        """Whether the winner is stored."""
        return (self.path / "plan.json").is_file()

    @property
    def lineage(self) -> pd.DataFrame:
        """One row per individual and epoch: its parent, hyperparameters and score."""
        try:
            return read_table(self.path / LINEAGE, self._about_lineage)
        except FileNotFoundError:
            rule = "must have a finished epoch, or there is no lineage"
            raise invalid("run", rule, str(self.path), self._go_on) from None

    @property
    def _about_lineage(self) -> dict[str, str]:
        return {"search": self._digest, "table": LINEAGE}

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
    ) -> SearchOutcome:
        """Train what is left; Ctrl-C writes a checkpoint first.

        *out_of_time* is asked between epochs. *on_epoch* is called with every epoch that ends:
        its number from 0, the best score in it, how many individuals it had, and how many images
        each of their models has seen.
        """
        if self.finished:
            self._check_winner(warn)
            self._forget_population()
            return SearchOutcome(True, "found done")
        with only_one(self.path):
            remove_unfinished(self.path)
            begin = self._beginning(device)
            files = StateFiles(self.path / POPULATION, self._digest)
            # No name of ours but the checkpointer's may hold a population, or it would stay in
            # memory beside those that come after it.
            checkpointer = Checkpointer(
                files,
                files.load(begin, warn) or self._first(begin),
                self.search.plan.checkpoint_seconds,
            )
            progress(self._seen(checkpointer.state), True)
            stop = threading.Event()
            try:
                why = self._run(begin, checkpointer, stop, progress, warn, out_of_time, on_epoch)
                assert checkpointer.state.elite is not None
                self._store_winner(checkpointer.state.elite)
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

        def begin(
            epoch: int,
            individuals: list[Individual],
            rows: Rows | Heritage | None,
            clocks: Sequence[int] | None = None,
        ) -> Generation:
            return Generation(
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
            )

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
        """Epoch after epoch until the search is over; returns why it is."""
        search = self.search
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
                scores = judging.scores()
            ranked = [search.scorer.better(score) for score in scores]
            rows = epoch_rows(search, state, scores)
            # An epoch that was stopped after this is scored again when the search goes on; it must
            # not stand here twice.
            state.lineage = [row for row in state.lineage if row["epoch"] < state.epoch] + rows
            self._write_lineage(state)
            self._keep_best(state, scores, ranked)
            best = best_by_epoch(state.lineage, search.scorer.better)
            told = {"epoch": state.epoch, "best": best[-1], "images": rows[-1]["images"]}
            on_epoch({**told, "individuals": len(state.individuals)})
            if state.elite is None:
                checkpointer.save()
                raise self._no_scores(state.epoch)
            why = self._why_over(state.epoch, ranked, best, out_of_time)
            if why:
                count = sum(row["diverged"] for row in rows)
                if count:
                    warn(f"{count} of {len(rows)} individuals had diverged when the search ended.")
                return why
            checkpointer.state = self._selected(state, ranked, begin)
            if checkpointer.due():
                checkpointer.save()

    def _why_over(
        self, epoch: int, ranked: list[float], best: list[float], out_of_time: Callable[[], bool]
    ) -> str:
        """Why the search ends after *epoch*; empty where it goes on."""
        within, epochs = self.search.converged_within, self.search.converged_epochs
        if epoch + 1 >= self.search.epochs:
            return "all epochs are done"
        if not any(map(math.isfinite, ranked)):
            return "no individual has a score any more"
        if within and converged(best, within, epochs):
            return f"the best score moved by less than {within:g} in each of {epochs} epochs"
        return "the time is up" if out_of_time() else ""

    def _selected(
        self, state: SearchState, ranked: list[float], begin: Callable[..., Generation]
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
        )
        places = [
            one.parent * search.models + number
            for one in individuals
            for number in range(search.models)
        ]
        # Held until the new one stands, so that it can be saved whatever happens here.
        old = state.generation
        generation = begin(
            epoch, individuals, lambda part: old.rows([places[place] for place in part])
        )
        return SearchState(epoch, individuals, generation, state.lineage, state.elite)

    def _no_scores(self, epoch: int) -> NoScoresError:
        return NoScoresError(
            f"no member of the population has a score after epoch {epoch + 1}:"
            f" {self.search.scorer.metric} is NaN for every one, so that there is nothing to select"
            f" by. What trained so far is kept in {self.path}. Start again with lower learning"
            " rates if the models diverged (see lineage.parquet), or with another score."
        )

    def _keep_best(self, state: SearchState, scores: list[float], ranked: list[float]) -> None:
        """Keep the best individual of an epoch where it is the best of all."""
        search, first = self.search, ranking(ranked)[0]
        old = -math.inf if state.elite is None else search.scorer.better(state.elite.score)
        # Of equals the one that has trained longer.
        if not (math.isfinite(ranked[first]) and ranked[first] >= old):
            return
        values = state.individuals[first].values
        updates = updates_of_epoch(search.epoch_images, search.batch_size(values))
        state.elite = Elite(
            epoch=state.epoch,
            individual=first,
            score=scores[first],
            values=dict(values),
            clock=(state.epoch + 1) * updates,
            rows=state.generation.rows(range(first * search.models, (first + 1) * search.models)),
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
        write_table(self.path / LINEAGE, table.astype({"score": float}), self._about_lineage)

    def _forget_population(self) -> None:
        """Remove the states of all models, which nobody needs once the winner is stored."""
        shutil.rmtree(self.path / POPULATION, ignore_errors=True)

    def _check_winner(self, warn: Callable[[str], None]) -> None:
        """Read the stored winner; a damaged plan is made again, damaged models cannot be."""
        try:
            run = self.winner()
        except DamagedFileError as error:
            record = self.winner_record()
            plan = self._winner_plan(record["epoch"], record["individual"], record["values"])
            run = self._winner_run(plan)
            run.results()  # which belong to the very plan
            run.write_plan()
            warn(f"{error} It was made again.")
        run.results()

    def _winner_plan(self, epoch: int, individual: int, values: dict[str, float]) -> Plan:
        """The plan of the run that an individual of an epoch is stored as."""
        search = self.search
        updates = updates_of_epoch(search.epoch_images, search.batch_size(values))
        return replace(
            search.plan,
            batch_size=search.batch_size(values),
            steps=(epoch + 1) * updates,
            log_every=updates,
            members=tuple(search.members(individual, values, epoch)),
        )

    def _winner_run(self, plan: Plan) -> RunFolder:
        return RunFolder(self.path, plan, self.search.models, self.dataset, keep_optimiser=True)

    def _store_winner(self, elite: Elite) -> None:
        """Write the winner as an ordinary run; plan.json comes last and says that all is there."""
        check_still_there(self.path)
        rows = {name: tensor.cpu() for name, tensor in elite.rows.items()}
        rows |= {
            "age": rows["age"] - elite.clock,
            "history": rows["history"][:, : elite.epoch + 1].contiguous(),
        }
        run = self._winner_run(self._winner_plan(elite.epoch, elite.individual, elite.values))
        (chunk,) = run.chunks()
        run.checkpoints(chunk).save(rows, elite.clock)
        run.write_tables()
        about = {
            "epoch": elite.epoch,
            "individual": elite.individual,
            "score": elite.score,
            "values": elite.values,
        }
        write_json(self.path / "winner.json", {**about, "metric": self.search.scorer.metric})
        run.write_plan()

    def winner_record(self) -> dict[str, Any]:
        """Epoch, individual, score and evolved values of the winner."""
        return read_json(self.path / "winner.json")
