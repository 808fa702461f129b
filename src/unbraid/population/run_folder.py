# SPDX-License-Identifier: Apache-2.0
"""A run is a folder: plan.json, tables of members, history and scores, checkpoint/, codes/."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.begun import holds_anything, remove_leftovers
from unbraid.core.checks import is_whole
from unbraid.core.errors import DamagedFileError, InputError, Shown, UnbraidError, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import make_folder, only_one, remove, remove_halves_in
from unbraid.core.folders import check_exists, check_writable, kind_of, other_kind, record_path
from unbraid.core.records import from_record, in_range, read_object
from unbraid.core.store import read_table, write_json, write_table
from unbraid.data import load
from unbraid.data.dataset import IN_MEMORY, Dataset
from unbraid.networks.layout import Layout
from unbraid.population.checkpoint import Checkpoints, Curves, Trained
from unbraid.population.devices import cores, members_by_kind
from unbraid.population.former_plans import chunks_of_one_kind
from unbraid.population.kind import chunks_of, kinds_of, quantities
from unbraid.population.member import Member
from unbraid.population.plan import Plan
from unbraid.population.seeds_and_rates import MOST_SEEDS
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
_PLACES = ("source", "factors", "indices")
"""Options of data that say where it was read from."""
_ABOVE = 4
"""A search of a leaf-run lies so deep in a discovery."""
SCORES_LOCK = ".scores.lock"
"""Held while scores.parquet is written."""


MOVED = (
    "Put it back; or, where it was moved, give its new place with {data=NEW_PLACE}: options that it"
    " had, such as resize, need not be repeated."
)
"""What to do where data is not found, or is other data."""


@contextmanager
def remedy_of_moved() -> Iterator[None]:
    """Data that is not found in this block was moved: say what to do about it."""
    try:
        yield
    except InputError as error:
        told = [replace(one, remedy=one.remedy or MOVED) for one in error.problems]
        raise InputError(*told) from error


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


@dataclass(frozen=True)
class _How:
    """What plan.json says beside the plan; defaults are what went without saying."""

    chunk_size: int
    mixed_chunks: bool = False
    keep_optimiser: bool = True
    former_digests: tuple[str, ...] = ()
    grown: tuple[tuple[str, int], ...] = ()

    def others(self) -> dict[str, Any]:
        """All but the size of a chunk, by name."""
        return {name: value for name, value in vars(self).items() if name != "chunk_size"}


def _read_plan(record: dict[str, Any]) -> tuple[_How, Plan]:
    own = {field.name for field in fields(_How)}
    how = from_record(_How, {name: record[name] for name in own & record.keys()})
    in_range("chunk_size", how.chunk_size, 1)
    return how, Plan.from_record({name: record[name] for name in record.keys() - own})


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
        grown: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.path = Path(path)
        self.plan = plan
        self.chunk_size = chunk_size
        """The most members that train together."""
        self.mixed_chunks = mixed_chunks
        """Whether members of several kinds do."""
        self.keep_optimiser = keep_optimiser
        """Whether the state to go on from stays when the run is trained."""
        self.former_digests = tuple(former_digests)
        """Of the plans that this one continues."""
        self.grown = tuple((digest, count) for digest, count in grown)
        """Digests of the plans that had fewer seeds and were the same otherwise, and how many
        members they had: these keep their ids, chunks and files.
        """
        self._dataset = dataset

    @classmethod
    def create(
        cls,
        path: str | Path,
        plan: Plan,
        chunk_size: int,
        dataset: Dataset,
        *,
        keep_optimiser: bool = False,
    ) -> RunFolder:
        """Start a run in an empty or new folder, if there is room for it on the disk."""
        folder = Path(path)
        check_free(folder)
        check_room(folder, plan, dataset, chunk_size)
        run = cls(folder, plan, chunk_size, dataset, keep_optimiser=keep_optimiser)
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
        return cls(folder, plan, how.chunk_size, dataset, **how.others())

    def write_plan(self) -> None:
        """Write plan.json."""
        own: dict[str, Any] = {
            "chunk_size": self.chunk_size,
            "mixed_chunks": self.mixed_chunks,
            "keep_optimiser": self.keep_optimiser,
            "former_digests": list(self.former_digests),
        }
        own |= {"grown": self.grown} if self.grown else {}
        write_json(record_path(self.path, "train"), {**self.plan.record(), **own})

    @property
    def dataset(self) -> Dataset:
        """The data of the run, made again from the plan and checked against its fingerprint."""
        if self._dataset is None:
            if self.plan.data_options.get("source") == IN_MEMORY:
                raise InputError(
                    f"{self.path} was trained on an array in memory; pass it again, loaded as it"
                    f" was: unbraid.open_run('{self.path}', data=unbraid.load(array, ...))."
                )
            try:
                found = load(self.plan.data, **self._as_they_lie(self.plan.data_options))
            except InputError as error:
                told = f"the data of {self.path} cannot be opened{self._read_from()}: "
                raise InputError(
                    *(
                        replace(one, sentence=told + one.text, remedy=MOVED)
                        for one in error.problems
                    )
                ) from error
            self._dataset = self._verified(found)
        return self._dataset

    def _as_they_lie(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of data with the places of files that were moved along with the run's folder or
        one of those above it, as all of a discovery is; whether it is the same data is checked.
        """
        found = dict(options)
        for name in _PLACES:
            path = Path(str(options.get(name, "")))
            if path.is_absolute() and not path.exists():
                above = (folder / path.name for folder in self.path.absolute().parents[:_ABOVE])
                found[name] = str(next((one for one in above if one.is_file()), path))
        if isinstance(inner := options.get("of_options"), dict):
            found["of_options"] = self._as_they_lie(inner)
        return found

    def _read_from(self) -> str:
        """Where the data lay when the run began, for messages."""
        options = self.plan.data_options
        files = [str(options[name]) for name in _PLACES if name in options]
        return f", from {' and '.join(files)}" if files else ""

    def use(self, dataset: Dataset) -> None:
        """Take *dataset* as the data of the run, if it is the same."""
        self._dataset = self._verified(dataset)

    def _verified(self, dataset: Dataset) -> Dataset:
        if dataset.fingerprint() != self.plan.data_fingerprint:
            rule = f"must be what {self.path} began with, to the last pixel and label"
            where = dataset.options.get("source", dataset.name)
            raise invalid("data", rule, Shown(f"other data in '{where}'"), MOVED)
        return dataset

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
        ends = sorted({0, len(members), *(count for _, count in self.grown)})
        return [
            chunk
            for first, end in pairwise(ends)
            for chunk in rule(members[first:end], self.chunk_size)
        ]

    def checkpoints(self, chunk: tuple[Member, ...]) -> Checkpoints:
        """The checkpoint files of a chunk."""
        return Checkpoints(
            self.path / "checkpoint",
            tuple(member.id for member in chunk),
            self.plan.digest(),
            *self.former_digests,
            quantities=max(len(quantities(member)) for member in chunk),
        )

    def is_over(self, state: State | Curves) -> bool:
        """Whether no member of a chunk has a step left to do."""
        return is_over(state.step, state.diverged_at, self.plan.steps)

    def extend(self, steps: int) -> None:
        """Give the plan more *steps*: what is trained goes on from its optimisers' states."""
        plan = self.plan
        if not is_whole(steps) or not plan.steps < steps <= 10**9:
            rule = f"must be a whole number above the {plan.steps:,} of {self.path}, at most 10^9"
            raise invalid("steps", rule, steps)
        _ = self.dataset  # which is refused where it has changed, with nothing touched
        with only_one(self.path), only_one(self.path, SCORES_LOCK):
            for chunk in self.chunks():
                if self.checkpoints(chunk).trained_alone():
                    remedy = "Train it again, by `unbraid train --keep-optimiser`."
                    found = Shown(f"{self.path}, which kept the weights alone")
                    rule = "needs a run that kept its optimiser's state"
                    raise invalid("steps", rule, found, remedy)
            # Scores and pages of the shorter training would pass for those of the longer one, also
            # if this is killed on the way: they go first.
            self.forget_tables()
            for path in (*self.path.glob("*.html"), self.path / "scores.parquet"):
                remove(path)
            self.former_digests = (plan.digest(), *self.former_digests)
            # Files of fewer members stay theirs by id, and all are made again for the new steps.
            self.grown = tuple(("", count) for _, count in self.grown)
            self.plan = replace(plan, steps=steps, command=self._and_then(f"--steps {steps}"))
            self.write_plan()
            failpoint("plan.extended")

    def grow(self, seeds: int) -> None:
        """Give every setting of the plan so many *seeds*; models, codes and scores stay.

        Nothing is done where it has them, so that a call that was killed can be repeated.
        """
        plan = self.plan
        if kind_of(self.path) != "train":
            remedy = "Search again with another seed, into a folder of its own."
            raise invalid("seeds", "can be given for a run of `unbraid train` alone", seeds, remedy)
        groups = plan.siblings()
        had = {tuple(member.seed for member in group) for group in groups}
        count = max(map(len, had))
        if had != {tuple(range(count))}:
            told = ", ".join(map(str, dict.fromkeys(one for listed in had for one in listed)))
            remedy = "Train the other seeds into a folder of their own: {seeds=...}."
            rule = "needs a run whose seeds were given by their number"
            raise invalid("seeds", rule, Shown(f"{self.path}, with the seeds {told}"), remedy)
        if not is_whole(seeds) or not count <= seeds <= MOST_SEEDS:
            rule = f"must be a whole number from the {count:,} of {self.path} to {MOST_SEEDS:,}"
            raise invalid("seeds", rule, seeds)
        if seeds == count:
            return
        more = [(group[0], seed) for group in groups for seed in range(count, seeds)]
        new = tuple(
            replace(first, id=len(plan.members) + place, seed=seed)
            for place, (first, seed) in enumerate(more)
        )
        check_room(self.path, replace(plan, members=new), self.dataset, self.chunk_size)
        with only_one(self.path), only_one(self.path, SCORES_LOCK):
            self.forget_tables()
            for path in list(self.path.glob("*.html")):
                remove(path)
            digest = plan.digest()
            self.former_digests = (digest, *self.former_digests)
            self.grown = (*self.grown, (digest, len(plan.members)))
            command = self._and_then(f"--seeds {seeds}")
            self.plan = replace(plan, members=(*plan.members, *new), command=command)
            self.__dict__.pop("_chunks", None)
            self.write_plan()

    def _and_then(self, options: str) -> str:
        """The command that made the plan, where one did, and the one that gives it more."""
        told = self.plan.command
        return told and f"{told} && unbraid resume {shlex.quote(str(self.path))} {options}"

    def had(self, member: int, digest: object) -> bool:
        """Whether a plan of that *digest*, the same but for fewer seeds, had *member* too."""
        return any(digest == known and member < count for known, count in self.grown)

    def trained(self, chunk: tuple[Member, ...]) -> Trained:
        """The results of a chunk; one that has steps left to do is refused."""
        checkpoints = self.checkpoints(chunk)
        found = checkpoints.newest() if checkpoints.files() else None
        if found is None or not self.is_over(found):
            value, remedy = (
                Shown(f"{self.path}, unfinished"),
                f"Go on with: unbraid resume {self.path}",
            )
            raise invalid("run", "must be trained to the end", value, remedy)
        checkpoints.check_width(found, self.width(chunk))
        return found

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
        import pandas as pd

        rows, curves = {}, {}
        # The usual prior stands in the table only beside others.
        left_out = {"objective"} | (
            {"prior"} if all(member.prior == "isotropic" for member in self.plan.members) else set()
        )
        for chunk in self.chunks():
            state = (known or {}).get(chunk[0].id) or self.checkpoints(chunk).newest()
            for position, member in enumerate(chunk):
                names = quantities(member)
                diverged = int(state.diverged_at[position])
                done = diverged if diverged >= 0 else state.step
                rows[member.id] = (
                    {
                        "member": member.id,
                        "label": member.label(),
                        "objective": member.objective,
                        "seed": member.seed,
                    }
                    | {
                        name: _cell(value)
                        for name, value in member.settings().items()
                        if name not in left_out
                    }
                    | {f"{name}_given": value for name, value in member.given.items()}
                    | {
                        "status": (
                            "diverged"
                            if diverged >= 0
                            else "trained"
                            if done >= self.plan.steps
                            else "unfinished"
                        ),
                        "steps": done,
                    }
                )
                table = pd.DataFrame(
                    state.history[position, :, : len(names)].numpy(), columns=list(names)
                )
                table.insert(0, "step", (table.index + 1) * self.plan.log_every)
                table.insert(0, "member", member.id)
                curves[member.id] = table[table["step"] <= done]
        members = _one_type_per_column(pd.DataFrame([rows[id] for id in sorted(rows)]))
        history = pd.concat([curves[id] for id in sorted(curves)], ignore_index=True)
        return {"members.parquet": members, "history.parquet": history}

    def about_table(self, name: str) -> dict[str, str]:
        """What a table of the run says of its origin, so that no other's passes for it."""
        return {"plan": self.plan.digest(), "table": name}

    def forget_tables(self) -> None:
        """Remove both tables: what is about to change must not be read from them."""
        for path in (self.path / "members.parquet", self.path / "history.parquet"):
            try:
                remove(path)
            except UnbraidError as error:
                raise UnbraidError(
                    f"{error} It is in the way of the table of that name: remove it."
                ) from error

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
        about = self.about_table(name)
        try:
            table = read_table(self.path / name, about, _COLUMNS[name])
            if set(table["member"]) <= {member.id for member in self.plan.members}:
                return table
        except (FileNotFoundError, DamagedFileError):
            pass
        try:
            with only_one(self.path):  # or it could take the place of a newer one
                remove_halves_in(self.path)
                self.write_tables()
        except DamagedFileError:  # of a checkpoint
            raise
        except UnbraidError:  # another process writes it, or it lies where nothing can be written
            return self._tables()[name]
        return read_table(self.path / name, about)


def _cell(value: Any) -> Any:
    """A hyperparameter as a table holds it: numbers that belong together as text."""
    return "/".join(f"{one:g}" for one in value) if isinstance(value, (list, tuple)) else value


def _one_type_per_column(table: pd.DataFrame) -> pd.DataFrame:
    """*table* with columns of numbers and words (a number, a schedule) as words throughout."""
    for name in table.columns:
        kinds = {
            type(value)
            for value in table[name]
            if not (isinstance(value, float) and value != value)
        }
        if str in kinds and len(kinds) > 1:
            # A number to its last digit, as a column of numbers would hold it.
            table[name] = [
                value if isinstance(value, str) or value != value else str(value).removesuffix(".0")
                for value in table[name]
            ]
    return table


def check_free(folder: Path) -> None:
    """Refuse a folder that holds another run, or anything else."""
    check_writable("out", folder)
    if kind_of(folder) is not None:
        remedy = f"Go on with `unbraid resume {folder}` or choose another folder."
        raise invalid("out", "must not hold another run", str(folder), remedy)
    if folder.is_dir() and holds_anything(folder):
        raise invalid("out", "must be a new or empty folder", str(folder), "Choose another folder.")


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make *folder*, hold it for this process alone, and clear away what a killed one left."""
    _make(folder)
    with only_one(folder):
        check_free(folder)  # again, now that nobody else can write here
        remove_leftovers(folder)
        yield


def _make(folder: Path) -> None:
    """Make *folder* and those above it, or say why that cannot be done."""
    rule = "must be a folder that can be made"
    try:
        make_folder(folder)
    except OSError as error:
        raise invalid("out", rule, str(folder), f"{error.strerror}.") from error
    except RecursionError as error:
        value = Shown(f"{len(folder.parts):,} folders, each in the one before")
        raise invalid("out", rule, value, "Choose another folder.") from error


def check_room(
    folder: Path, plan: Plan, dataset: Dataset, chunk_size: int = 1, option: str = "out"
) -> None:
    """Refuse a plan whose files would not fit on the disk of *folder*, which *option* chose."""
    needed = bytes_needed(plan, dataset, chunk_size)
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if needed > free:
        found = Shown(
            f"{free / 1e9:.3f} GB free at {there}, {needed / 1e9:.3f} GB needed for"
            f" {len(plan.members)} members"
        )
        remedy = "Free some room, or train fewer members."
        if option != "out":
            remedy = f"Free some room, or give a folder on another disk: {{{option}=FOLDER}}."
        raise invalid(option, "needs a disk with room for the plan", found, remedy)


def bytes_needed(plan: Plan, dataset: Dataset, chunk_size: int = 1) -> int:
    """Upper estimate of a run folder: two checkpoints per member, a third in writing, codes."""
    samples = min(plan.code_samples, len(dataset))
    total = largest = 0
    for member, count in members_by_kind(plan):
        auxiliary = member.build().auxiliary_network()
        weights = plan.layout(member, dataset).size + (
            auxiliary.layout(plan.latents).size if auxiliary else 0
        )
        records = plan.steps // plan.log_every * (len(quantities(member)) + 2)
        checkpoint = 4 * (3 * weights + records)
        total += count * (2 * checkpoint + samples * (8 + 2 * 4 * plan.latents) + 8 * records)
        largest = max(largest, checkpoint)
    being_written = min(len(plan.members), max(chunk_size, cores()))
    return total + largest * being_written + 10_000_000  # the report and the tables
