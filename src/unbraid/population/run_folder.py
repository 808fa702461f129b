# SPDX-License-Identifier: Apache-2.0
"""A run is a folder: plan.json, tables of members, history and scores, checkpoint/, codes/."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.begun import holds_anything, remove_leftovers
from unbraid.core.errors import DamagedFileError, InputError, Shown, UnbraidError, invalid
from unbraid.core.folders import check_exists, check_writable, kind_of, other_kind, record_path
from unbraid.core.store import only_one, read_json, read_table, write_json, write_table
from unbraid.data import load
from unbraid.data.dataset import IN_MEMORY, Dataset
from unbraid.networks.layout import Layout
from unbraid.population.checkpoint import Checkpoints, Curves, Trained
from unbraid.population.devices import cores, members_by_kind
from unbraid.population.former_plans import chunks_of_one_kind
from unbraid.population.kind import chunks_of, quantities
from unbraid.population.member import Member
from unbraid.population.plan import Plan
from unbraid.population.state import State, is_over

if TYPE_CHECKING:
    import pandas as pd
    import torch


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
        return run

    @classmethod
    def open(cls, path: str | Path, dataset: Dataset | None = None) -> RunFolder:
        """The run that a folder holds."""
        folder = Path(path)
        try:
            record = read_json(record_path(folder, "train"))
        except (FileNotFoundError, NotADirectoryError):
            check_exists("run", folder)
            rule = "must be a folder made by `unbraid train`, with a plan.json in it"
            remedy = _where_runs_are(folder)
            raise invalid("run", rule, str(path), remedy) from None
        chunk_size = record.pop("chunk_size")
        usual = {"mixed_chunks": False, "keep_optimiser": True, "former_digests": ()}
        own: dict[str, Any] = {name: record.pop(name, value) for name, value in usual.items()}
        return cls(folder, Plan.from_record(record), chunk_size, dataset, **own)

    def write_plan(self) -> None:
        """Write plan.json."""
        own = {
            "chunk_size": self.chunk_size,
            "mixed_chunks": self.mixed_chunks,
            "keep_optimiser": self.keep_optimiser,
            "former_digests": list(self.former_digests),
        }
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
            self._dataset = self._verified(load(self.plan.data, **self.plan.data_options))
        return self._dataset

    def use(self, dataset: Dataset) -> None:
        """Take *dataset* as the data of the run, if it is the same."""
        self._dataset = self._verified(dataset)

    def _verified(self, dataset: Dataset) -> Dataset:
        if dataset.fingerprint() != self.plan.data_fingerprint:
            raise InputError(
                f"the data of {self.path} has changed since the run began: '{dataset.name}' has"
                " another fingerprint."
            )
        return dataset

    def layout(self, member: Member) -> Layout:
        """Where the weights of *member* lie."""
        return self.plan.layout(member, self.dataset)

    def chunks(self) -> list[tuple[Member, ...]]:
        """Members that train together."""
        return self._chunks

    @cached_property
    def _chunks(self) -> list[tuple[Member, ...]]:
        rule = chunks_of if self.mixed_chunks else chunks_of_one_kind
        return rule(self.plan.members, self.chunk_size)

    def checkpoints(self, chunk: tuple[Member, ...]) -> Checkpoints:
        """The checkpoint files of a chunk."""
        return Checkpoints(
            self.path / "checkpoint",
            tuple(member.id for member in chunk),
            self.plan.digest(),
            *self.former_digests,
        )

    def is_over(self, state: State | Curves) -> bool:
        """Whether no member of a chunk has a step left to do."""
        return is_over(state.step, state.diverged_at, self.plan.steps)

    def extend(self, steps: int) -> None:
        """Give the plan more *steps*: what is trained goes on from its optimisers' states."""
        plan = self.plan
        if isinstance(steps, bool) or not isinstance(steps, int) or steps <= plan.steps:
            rule = f"must be a whole number above the {plan.steps:,} of {self.path}"
            raise invalid("steps", rule, steps)
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
                path.unlink(missing_ok=True)
            self.former_digests = (plan.digest(), *self.former_digests)
            self.plan = replace(plan, steps=steps)
            self.write_plan()

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
        """Write members.parquet and history.parquet, from the checkpoints of chunks whose curves
        are not *known* by their first member's id.
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
        for name, table in (("members.parquet", members), ("history.parquet", history)):
            write_table(self.path / name, table, self.about_table(name))

    def about_table(self, name: str) -> dict[str, str]:
        """What a table of the run says of its origin, so that no other's passes for it."""
        return {"plan": self.plan.digest(), "table": name}

    def forget_tables(self) -> None:
        """Remove both tables: what is about to change must not be read from them."""
        for path in (self.path / "members.parquet", self.path / "history.parquet"):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise UnbraidError(
                    f"{path} is in the way of the table of that name and cannot be removed:"
                    f" {error.strerror}. Remove it."
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
            return read_table(self.path / name, about)
        except (FileNotFoundError, DamagedFileError):
            self.write_tables()
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
        folder.mkdir(parents=True, exist_ok=True)
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
