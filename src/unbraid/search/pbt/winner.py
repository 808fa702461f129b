# SPDX-License-Identifier: Apache-2.0
"""The winner of a search: winner.json, and its models as an ordinary run in the folder.

The models come first and plan.json last, which says that all is there. What is told of the models
is made again where it is lost; they cannot be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.core.checks import is_whole, plain
from unbraid.core.errors import DamagedFileError
from unbraid.core.failpoints import failpoint
from unbraid.core.files import only_one
from unbraid.core.folders import check_still_there, is_there, record_path
from unbraid.core.records import from_record, read_object
from unbraid.core.store import write_json
from unbraid.data.dataset import Dataset
from unbraid.population.checkpoint import OtherPlanError
from unbraid.population.plan import Plan
from unbraid.population.run_folder import RunFolder
from unbraid.search.pbt.exploit import ranking
from unbraid.search.pbt.generation import updates_of_epoch
from unbraid.search.pbt.lineage import is_collapsed
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.state import Elite

if TYPE_CHECKING:
    import pandas as pd

WINNER = "winner.json"


@dataclass(frozen=True)
class Winner:
    """The best individual of all epochs, as winner.json has it."""

    epoch: int
    individual: int
    score: float
    values: dict[str, float]
    metric: str
    active_latents: int | None = None
    """None where an earlier version stored it, which did not count."""
    collapsed: bool = False


class WinnerFiles:
    """What of the winner lies in the folder of a search."""

    def __init__(
        self,
        path: Path,
        search: SearchPlan,
        dataset: Callable[[], Dataset],
        lineage: Callable[[], pd.DataFrame],
    ) -> None:
        self.path, self.search = path, search
        self._dataset, self._lineage = dataset, lineage

    def check(self, warn: Callable[[str], None] = lambda line: None) -> None:
        """Read the stored winner; what is written about it is made again where it is damaged or
        another's, its models cannot be.
        """
        try:
            if not is_there(record_path(self.path, "train")):
                raise DamagedFileError(f"{self.path} has lost its plan.")
            stored = RunFolder.open(self.path, self._dataset())
            stored.results()  # which belong to the very plan
        except DamagedFileError:
            winner = self._read((), warn)
            made = self._run(self._plan(winner))
            made.results()
            with only_one(self.path):
                made.remove_halves()
                made.write_plan()
            warn(f"{record_path(self.path, 'train')} could not be used; it was made again.")
        else:
            self._read(stored.digests, warn)

    def made_again(self, warn: Callable[[str], None]) -> bool:
        """Whether the winner's models are there and whole; what is told of them is made again.

        A kill may have left them so, or the records are lost: to search again would replace them.
        """
        winner = self._best()
        if winner is None:
            return False
        made = self._run(self._plan(winner))
        try:
            made.results()
        except OtherPlanError:
            raise
        except DamagedFileError:
            return False
        self._write_records(made, winner)
        warn(f"The records of {self.path} were lost or not yet written; they were made again.")
        return True

    def _read(self, known: Collection[str], warn: Callable[[str], None]) -> Winner:
        """winner.json, made again from the lineage where it is lost or none of the plans of the run
        that is stored, by their digests, where it is *known*.
        """

        def fits(winner: Winner) -> bool:
            return not known or self._plan(winner).digest() in known

        try:
            found = self.stored()
            if fits(found):
                return found
        except DamagedFileError:
            pass
        made = self._best()
        if made is None or not fits(made):
            remedy = "Put a copy of it back, or search again into a new folder."
            raise DamagedFileError(f"{self.path / WINNER} does not fit the models. {remedy}")
        self._write(made)
        warn(f"{self.path / WINNER} could not be used; it was made again.")
        return made

    def _best(self) -> Winner | None:
        """The best individual of all epochs, one that is not collapsed before any that is; of
        equals the one that has trained longer.
        """
        found, highest = None, (False, -math.inf)
        for _, table in self._lineage().groupby("epoch", sort=True):
            rows = table.to_dict("records")
            ranked = [self.search.scorer.better(row["score"]) for row in rows]
            collapsed = [is_collapsed(row) for row in rows]
            first = ranking(ranked, collapsed)[0]
            place = (not collapsed[first], ranked[first])
            if math.isfinite(ranked[first]) and place >= highest:
                highest, row = place, rows[first]
                values = {name: plain(row[name]) for name in self.search.evolved}
                numbers = int(row["epoch"]), int(row["individual"]), float(row["score"])
                active = row.get("active_latents")
                active = int(active) if is_whole(active) else None
                metric = self.search.scorer.metric
                found = Winner(*numbers, values, metric, active, collapsed[first])
        return found

    def _plan(self, winner: Winner | Elite) -> Plan:
        """The plan of the run that an individual of an epoch is stored as."""
        search, epoch, values = self.search, winner.epoch, winner.values
        updates = updates_of_epoch(search.epoch_images, search.batch_size(values))
        return replace(
            search.plan,
            batch_size=search.batch_size(values),
            steps=(epoch + 1) * updates,
            log_every=updates,
            members=tuple(search.members(winner.individual, values, epoch)),
        )

    def _run(self, plan: Plan) -> RunFolder:
        return RunFolder(self.path, plan, self.search.models, self._dataset(), keep_optimiser=True)

    def store(self, elite: Elite) -> None:
        """Write the winner as an ordinary run; plan.json comes last and says that all is there."""
        check_still_there(self.path)
        rows = {name: tensor.cpu() for name, tensor in elite.rows.items()}
        rows |= {
            "age": rows["age"] - elite.clock,
            "history": rows["history"][:, : elite.epoch + 1].contiguous(),
        }
        run = self._run(self._plan(elite))
        (chunk,) = run.chunks()
        run.checkpoints(chunk).save(rows, elite.clock)
        found = elite.epoch, elite.individual, elite.score, elite.values
        metric, latents = self.search.scorer.metric, elite.active_latents
        self._write_records(run, Winner(*found, metric, latents, elite.collapsed))

    def _write_records(self, run: RunFolder, winner: Winner) -> None:
        """Write what is told of the winner's models."""
        run.write_tables()
        self._write(winner)
        run.write_plan()
        failpoint("winner.stored")

    def _write(self, winner: Winner) -> None:
        write_json(self.path / WINNER, asdict(winner))

    def stored(self) -> Winner:
        """What winner.json says."""
        path, remedy = self.path / WINNER, f"Run `unbraid resume {self.path}` to make it again."
        try:
            found = read_object(path, "a winner", lambda one: from_record(Winner, one), remedy)
        except (FileNotFoundError, NotADirectoryError):
            raise DamagedFileError(f"{path} is missing. {remedy}") from None
        own = self.search.evolved.keys(), self.search.scorer.metric
        if (found.values.keys(), found.metric) != own:
            raise DamagedFileError(f"{path} is that of another search. {remedy}")
        return found
