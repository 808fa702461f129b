# SPDX-License-Identifier: Apache-2.0
"""A run is a folder: plan.json, tables of members, history and scores, checkpoint/, codes/."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unbraid.core.errors import DamagedFileError, Shown, UnbraidError, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import (
    only_one,
    remove,
    remove_halves_in,
    remove_unfinished,
)
from unbraid.core.folders import check_exists, kind_of, other_kind, record_path
from unbraid.core.lease import remove_leftovers as remove_leases_in
from unbraid.core.records import from_record, in_range, read_object
from unbraid.core.store import read_table, write_json, write_table
from unbraid.data.dataset import Dataset
from unbraid.networks.layout import Layout
from unbraid.population.checkpoint import Checkpoints, Curves, OtherPlanError, Trained
from unbraid.population.former_plans import chunks_of_one_kind
from unbraid.population.kind import chunks_of, kinds_of, quantities
from unbraid.population.member import Member
from unbraid.population.new_folder import check_free, check_room, new_folder
from unbraid.population.plan import Plan
from unbraid.population.run_data import data_again, same_data
from unbraid.population.run_tables import run_tables
from unbraid.population.state import State, is_over

if TYPE_CHECKING:
    import pandas as pd
    import torch


_COLUMNS = {
    "members.parquet": {"member": "i", "label": "O", "objective": "O", "seed": "i", "status": "O"}
    | {"steps": "i"},
    "history.parquet": {"member": "i", "step": "i", "loss": "f"},
}
"""What the tables of a run have at least, with the kinds of NumPy."""
CHECKPOINTS = "checkpoint"
SCORES_LOCK = ".scores.lock"
"""Held while scores.parquet is written."""


def _where_runs_are(folder: Path) -> str:
    """What to do with a folder of another kind, which is not itself a run."""
    go_on = f"unbraid resume {folder}"
    kind = kind_of(folder)
    if kind == "pbt":
        return f"It holds a search that is not finished. Go on with: {go_on}"
    if kind == "rpu":
        return (
            f"It holds a recursion; its runs are the folders in it, such as {folder}/root. If"
            f" unfinished: {go_on}"
        )
    if kind == "discover":
        runs = next((one for one in ("models", "recursion/root") if (folder / one).is_dir()), "")
        if not runs:
            return f"It holds a discovery that has no models yet. Go on with: {go_on}"
        return f"It holds a discovery, with a run in {folder / runs}. If unfinished: {go_on}"
    return other_kind(folder)


def _without_plan(folder: Path) -> str:
    """What to do about a plan.json that is lost."""
    if kind_of(folder) == "pbt":
        return f"Run `unbraid resume {folder}` to make it again."
    return "Put a copy of it back; without one, train again into a new folder."


class Growth(NamedTuple):
    """A plan that had fewer seeds and was the same otherwise."""

    digest: str
    """Empty where no file is known by it any more."""
    members: int
    """How many it had: these keep their ids, chunks and files."""
    chunk_size: int
    """The most of those that came next that train together."""


@dataclass(frozen=True)
class _How:
    """What plan.json says beside the plan; defaults are what went without saying."""

    chunk_size: int
    mixed_chunks: bool = False
    keep_optimiser: bool = True
    former_digests: tuple[str, ...] = ()
    grown: tuple[tuple[str, int] | tuple[str, int, int], ...] = ()
    device: str = ""
    undecided: bool = False
    precision_is_open: bool = False
    processes: int = 1

    def others(self) -> dict[str, Any]:
        """All but the size of a chunk, by name."""
        own = ("chunk_size", "undecided")
        return {name: value for name, value in vars(self).items() if name not in own}


def _read_plan(record: dict[str, Any]) -> tuple[_How, Plan]:
    own = {field.name for field in fields(_How)}
    how = from_record(_How, {name: record[name] for name in own & record.keys()})
    # Earlier versions trained members that came later in chunks of the size of the first.
    grown = tuple(Growth._make((*one, how.chunk_size)[:3]) for one in how.grown)
    in_range("processes", how.processes, 1)
    for size in (how.chunk_size, *(one.chunk_size for one in grown)):
        in_range("chunk_size", size, 1)
    plan = Plan.from_record({name: record[name] for name in record.keys() - own})
    counts = [0, *(one.members for one in grown), len(plan.members)]
    if any(after <= before for before, after in pairwise(counts)):
        raise invalid("grown", "must have rising numbers of members", Shown(f"{counts}"))
    return replace(how, grown=grown), plan


class RunFolder:
    """The files of one run."""

    def __init__(
        self,
        path: str | Path,
        plan: Plan,
        chunk_size: int,
        dataset: Dataset | None = None,
        *,
        mixed_chunks: bool = True,
        keep_optimiser: bool = False,
        former_digests: Sequence[str] = (),
        grown: Sequence[Growth] = (),
        device: str = "",
        precision_is_open: bool = False,
        processes: int = 1,
    ) -> None:
        self.path = Path(path)
        self.plan = plan
        self.chunk_size = chunk_size
        """The most members that train together, of those that the run began with; 0 until somebody
        begins to train, who decides it.
        """
        self.device = device
        """The type of device that this was decided for; empty where that is not known."""
        self.precision_is_open = precision_is_open
        """Whether the precision is decided then, too."""
        self.processes = processes
        """How many processes are to train it together."""
        self.mixed_chunks = mixed_chunks
        """Whether members of several kinds do."""
        self.keep_optimiser = keep_optimiser
        """Whether the state to go on from stays when the run is trained."""
        self.former_digests = tuple(former_digests)
        """Of the plans that this one continues."""
        self.grown = tuple(grown)
        """Its plans of fewer seeds, the first one first."""
        self._dataset = dataset

    @classmethod
    def create(
        cls,
        path: str | Path,
        plan: Plan,
        chunk_size: int,
        dataset: Dataset,
        **how: Any,
    ) -> RunFolder:
        """Start a run in an empty or new folder, if there is room for it on the disk; *how* are
        further arguments of a run.
        """
        folder = Path(path)
        check_free(folder)
        run = cls(folder, plan, chunk_size, dataset, **how)
        room = {"keep_optimiser": run.keep_optimiser, "processes": run.processes}
        check_room(folder, plan, dataset, chunk_size, **room)
        with new_folder(folder):
            run.write_plan()
            failpoint("record.written")
        return run

    @classmethod
    def open(cls, path: str | Path, dataset: Dataset | None = None) -> RunFolder:
        """The run that a folder holds."""
        folder = Path(path)
        record = record_path(folder, "train")
        try:
            how, plan = read_object(record, "a plan", _read_plan, _without_plan(folder))
        except (FileNotFoundError, NotADirectoryError):
            check_exists("run", folder)
            rule = "must be a folder made by `unbraid train`, with a plan.json in it"
            remedy = _where_runs_are(folder)
            raise invalid("run", rule, str(path), remedy) from None
        size = 0 if how.undecided else how.chunk_size
        return cls(folder, plan, size, dataset, **how.others())

    def write_plan(self) -> None:
        """Write plan.json."""
        own: dict[str, Any] = {
            "chunk_size": self.chunk_size or 1,
            "mixed_chunks": self.mixed_chunks,
            "keep_optimiser": self.keep_optimiser,
            "former_digests": list(self.former_digests),
        }
        for name in ("grown", "device", "precision_is_open"):
            own |= {name: found} if (found := getattr(self, name)) else {}
        own |= {} if self.is_decided else {"undecided": True}
        own |= {"processes": self.processes} if self.processes > 1 else {}
        write_json(record_path(self.path, "train"), {**self.plan.record(), **own})

    @property
    def is_decided(self) -> bool:
        """Whether it is known which members train together."""
        return self.chunk_size > 0

    def decide(self, precision: str, size_of: Callable[[Plan, int], int], device: str) -> None:
        """Settle what was left to whoever trains first; to be called with the folder locked.

        Another process may have done so since the run was opened: its decision counts.
        """
        now = RunFolder.open(self.path)
        if now.is_decided:
            self.plan, self.chunk_size, self.device = now.plan, now.chunk_size, now.device
        else:
            plan = replace(self.plan, precision=precision) if self.precision_is_open else self.plan
            self.chunk_size, self.plan = size_of(plan, self.processes), plan
            self.device = device
        self.precision_is_open = False
        self.__dict__.pop("_chunks", None)
        if not now.is_decided:
            self.write_plan()

    @property
    def dataset(self) -> Dataset:
        """The data of the run, made again from the plan and checked against its fingerprint."""
        if self._dataset is None:
            self._dataset = data_again(self.plan, self.path)
        return self._dataset

    def use(self, dataset: Dataset) -> None:
        """Take *dataset* as the data of the run, if it is the same."""
        self._dataset = same_data(dataset, self.plan, self.path)

    def layout(self, member: Member) -> Layout:
        """Where the weights of *member* lie."""
        return self.plan.layout(member, self.dataset)

    def width(self, chunk: tuple[Member, ...]) -> int:
        """How many numbers a row of a chunk has: as many as its kind with the most weights."""
        return max(self.layout(kind[0]).size for kind in kinds_of(chunk))

    def chunks(self) -> list[tuple[Member, ...]]:
        """Members that train together."""
        return self._chunks

    @cached_property
    def _chunks(self) -> list[tuple[Member, ...]]:
        rule, members = chunks_of if self.mixed_chunks else chunks_of_one_kind, self.plan.members
        parts = [Growth("", 0, self.chunk_size or 1), *self.grown, Growth("", len(members), 0)]
        return [
            chunk
            for part, after in pairwise(parts)
            for chunk in rule(members[part.members : after.members], part.chunk_size)
        ]

    @property
    def digests(self) -> tuple[str, ...]:
        """Of the plan, and of those that it continues."""
        return self.plan.digest(), *self.former_digests

    @property
    def checkpoint_folder(self) -> Path:
        """Where the checkpoints of all chunks are, and the leases of those that are trained."""
        return self.path / CHECKPOINTS

    def plan_state(self) -> tuple[int, int, int]:
        """What changes when plan.json is written again."""
        found = record_path(self.path, "train").stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def checkpoints(self, chunk: tuple[Member, ...]) -> Checkpoints:
        """The checkpoint files of a chunk."""
        return Checkpoints(
            self.checkpoint_folder,
            tuple(member.id for member in chunk),
            *self.digests,
            quantities=max(len(quantities(member)) for member in chunk),
        )

    def is_over(self, state: State | Curves) -> bool:
        """Whether no member of a chunk has a step left to do."""
        return is_over(state.step, state.diverged_at, self.plan.steps)

    @property
    def has_changed(self) -> bool:
        """Whether somebody gave the run more steps or seeds since it was opened."""
        return RunFolder.open(self.path).plan.digest() != self.plan.digest()

    def check_unchanged(self) -> None:
        """Refuse to go by this plan where it is no longer the run's."""
        if self.has_changed:
            rule = "must have the plan with which it was opened"
            found = Shown(f"{self.path}, which has changed since: it has other steps or seeds")
            raise invalid("run", rule, found, "Open it again, or give the command again.")

    def continue_by(self, plan: Plan, grown: tuple[Growth, ...], *outdated: Path) -> None:
        """Let *plan* take the place of the one that it continues.

        What tells of fewer steps or members would pass for what is told of all, also if this is
        killed on the way: it goes first.
        """
        self.forget_tables()
        for path in (*self.path.glob("*.html"), *outdated):
            remove(path)
        self.former_digests, self.plan, self.grown = self.digests, plan, grown
        self.__dict__.pop("_chunks", None)
        self.write_plan()

    def had(self, member: int, digest: object) -> bool:
        """Whether a plan of that *digest*, the same but for fewer seeds, had *member* too."""
        return any(digest == one.digest and member < one.members for one in self.grown)

    def trained(self, chunk: tuple[Member, ...]) -> Trained:
        """The results of a chunk; one that has steps left to do is refused."""
        checkpoints = self.checkpoints(chunk)
        found = self._newest(chunk) if checkpoints.files() else None
        if found is None or not self.is_over(found):
            value, remedy = f"{self.path}, unfinished", f"Go on with: unbraid resume {self.path}"
            raise invalid("run", "must be trained to the end", Shown(value), remedy)
        checkpoints.check_width(found, self.width(chunk))
        return found

    def _newest(self, chunk: tuple[Member, ...]) -> Trained:
        """The newest results of a chunk, which may be those of more steps than this plan has."""
        try:
            return self.checkpoints(chunk).newest()
        except OtherPlanError:
            self.check_unchanged()
            raise

    def member_weights(
        self, member: int, device: torch.device | str = "cpu"
    ) -> dict[str, torch.Tensor]:
        """The trained weights of one member by name, each with a member axis of one."""
        chunk = next(chunk for chunk in self.chunks() if any(one.id == member for one in chunk))
        position = [one.id for one in chunk].index(member)
        rows = self.trained(chunk).weights[position : position + 1]
        return self.layout(chunk[position]).views(rows.to(device))

    def results(self) -> list[tuple[tuple[Member, ...], Trained]]:
        """Every chunk with its newest results."""
        return [(chunk, self.checkpoints(chunk).newest()) for chunk in self.chunks()]

    def write_tables(self, known: Mapping[int, Curves] | None = None) -> None:
        """Write members.parquet and history.parquet; to be called with the folder locked."""
        for name, table in self._tables(known).items():
            write_table(self.path / name, table, self.about_table(name))

    def _tables(self, known: Mapping[int, Curves] | None = None) -> dict[str, pd.DataFrame]:
        """Both tables, from the checkpoints of chunks whose curves are not *known* by their first
        member's id.
        """
        curves = ((one, (known or {}).get(one[0].id) or self._curves(one)) for one in self.chunks())
        return run_tables(self.plan, curves)

    def _curves(self, chunk: tuple[Member, ...]) -> Curves:
        """How far a chunk is; one that nobody has begun is at step 0."""
        begun = self.checkpoints(chunk).files()
        return self._newest(chunk) if begun else Curves.not_begun(chunk)

    def about_table(self, name: str) -> dict[str, str]:
        """What a table of the run says of its origin, so that no other's passes for it."""
        return {"plan": self.plan.digest(), "table": name}

    def forget_tables(self) -> None:
        """Remove both tables: what is about to change must not be read from them."""
        for name in ("members.parquet", "history.parquet"):
            remove(self.path / name)

    def remove_halves(self) -> None:
        """Remove what killed writers of this machine left; others may write here."""
        remove_halves_in(self.path)
        for folder in (self.path, self.checkpoint_folder):
            remove_leases_in(folder)

    def remove_all_halves(self) -> None:
        """Remove what killed writers of any machine left of checkpoints; to be called with the
        folder locked and all chunks trained.
        """
        remove_unfinished(self.checkpoint_folder)

    def members(self) -> pd.DataFrame:
        """One row per member: what it is and how its training ended."""
        return self._table("members.parquet")

    def history(self) -> pd.DataFrame:
        """Recorded means over `log_every` steps: member, step, one column per quantity."""
        return self._table("history.parquet")

    def _table(self, name: str) -> pd.DataFrame:
        """A table of the run, made again from the checkpoints where it is missing, damaged or
        another run's.
        """
        if (table := self._stored(name)) is not None:
            return table
        tables = self._tables()
        if "unfinished" in tables["members.parquet"]["status"].tolist():
            return tables[name]  # others may train what is left, and a table would outlive that
        try:
            with only_one(self.path):  # or it could take the place of a newer one
                self.check_unchanged()
                remove_halves_in(self.path)
                self.write_tables()
        except DamagedFileError:  # of a checkpoint
            raise
        except UnbraidError:  # another writes it, has changed the run, or nothing can be written
            return tables[name]
        return read_table(self.path / name, self.about_table(name))

    def _stored(self, name: str) -> pd.DataFrame | None:
        """A table of the run, where it is there, whole and the run's own."""
        try:
            table = read_table(self.path / name, self.about_table(name), _COLUMNS[name])
        except (FileNotFoundError, DamagedFileError):
            return None
        own = set(table["member"]) <= {member.id for member in self.plan.members}
        return table if own else None

    def finished_members(self) -> pd.DataFrame | None:
        """The stored table of members, where both tables are there and say that all is trained."""
        found = self._stored("members.parquet")
        if found is None or "unfinished" in found["status"].tolist():
            return None
        whole = len(found) == len(self.plan.members)
        return found if whole and self._stored("history.parquet") is not None else None
