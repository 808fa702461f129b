# SPDX-License-Identifier: Apache-2.0
"""A run is a folder: plan.json, tables of members, history and scores, checkpoint/, codes/."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import DamagedFileError, InputError, Shown, invalid
from unbraid.core.folders import check_exists, kind_of, other_kind, record_path
from unbraid.core.store import only_one, read_json, read_table, write_json, write_table
from unbraid.data import load
from unbraid.data.dataset import IN_MEMORY, Dataset
from unbraid.networks.layout import Layout
from unbraid.population.checkpoint import Checkpoints
from unbraid.population.devices import cores, members_by_kind
from unbraid.population.member import Member
from unbraid.population.plan import Plan
from unbraid.population.training_step import State, quantities

if TYPE_CHECKING:
    import pandas as pd
    import torch


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
        self, path: str | Path, plan: Plan, chunk_size: int, dataset: Dataset | None = None
    ) -> None:
        self.path = Path(path)
        self.plan = plan
        self.chunk_size = chunk_size
        self._dataset = dataset

    @classmethod
    def create(cls, path: str | Path, plan: Plan, chunk_size: int, dataset: Dataset) -> RunFolder:
        """Start a run in an empty or new folder, if there is room for it on the disk."""
        folder = Path(path)
        check_free(folder)
        check_room(folder, plan, dataset, chunk_size)
        run = cls(folder, plan, chunk_size, dataset)
        make_folder(folder)
        with only_one(folder):
            check_free(folder)  # again, now that nobody else can write here
            record = {**plan.record(), "chunk_size": chunk_size}
            write_json(record_path(folder, "train"), record)
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
        return cls(folder, Plan.from_record(record), chunk_size, dataset)

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
        """Members that train together: neighbours of a kind, at most `chunk_size` of them."""
        chunks: list[list[Member]] = []
        for member in self.plan.members:
            last = chunks[-1] if chunks else []
            if last and len(last) < self.chunk_size and last[-1].structure() == member.structure():
                last.append(member)
            else:
                chunks.append([member])
        return [tuple(chunk) for chunk in chunks]

    def checkpoints(self, chunk: tuple[Member, ...]) -> Checkpoints:
        """The checkpoint files of a chunk."""
        return Checkpoints(
            self.path / "checkpoint", tuple(member.id for member in chunk), self.plan.digest()
        )

    def trained_state(self, chunk: tuple[Member, ...]) -> State:
        """The final state of a chunk; a chunk that has steps left to do is refused."""
        checkpoints = self.checkpoints(chunk)
        state = checkpoints.newest() if checkpoints.files() else None
        if state is None or (state.step < self.plan.steps and bool((state.diverged_at < 0).any())):
            value, remedy = (
                Shown(f"{self.path}, unfinished"),
                f"Go on with: unbraid resume {self.path}",
            )
            raise invalid("run", "must be trained to the end", value, remedy)
        return state

    def member_weights(
        self, member: int, device: torch.device | str = "cpu"
    ) -> dict[str, torch.Tensor]:
        """The trained weights of one member by name, each with a member axis of one."""
        chunk = next(chunk for chunk in self.chunks() if any(one.id == member for one in chunk))
        position = [one.id for one in chunk].index(member)
        rows = self.trained_state(chunk).model.weights[position : position + 1]
        return self.layout(chunk[position]).views(rows.to(device))

    def states(self) -> list[tuple[tuple[Member, ...], State]]:
        """Every chunk with its newest state."""
        return [(chunk, self.checkpoints(chunk).newest()) for chunk in self.chunks()]

    def write_tables(self) -> None:
        """Write members.parquet and history.parquet from the checkpoints."""
        import pandas as pd

        rows, curves = [], []
        # The usual prior stands in the table only beside others.
        left_out = {"objective"} | (
            {"prior"} if all(member.prior == "isotropic" for member in self.plan.members) else set()
        )
        for chunk, state in self.states():
            names = quantities(self.plan, chunk[0])
            for position, member in enumerate(chunk):
                diverged = int(state.diverged_at[position])
                done = diverged if diverged >= 0 else state.step
                rows.append(
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
                table = pd.DataFrame(state.history[position].numpy(), columns=list(names))
                table.insert(0, "step", (table.index + 1) * self.plan.log_every)
                table.insert(0, "member", member.id)
                curves.append(table[table["step"] <= done])
        write_table(self.path / "members.parquet", _one_type_per_column(pd.DataFrame(rows)))
        write_table(self.path / "history.parquet", pd.concat(curves, ignore_index=True))

    def forget_tables(self) -> None:
        """Remove both tables: what is about to change must not be read from them."""
        for name in ("members.parquet", "history.parquet"):
            (self.path / name).unlink(missing_ok=True)

    def members(self) -> pd.DataFrame:
        """One row per member: what it is and how its training ended."""
        return self._table("members.parquet")

    def history(self) -> pd.DataFrame:
        """Recorded means over `log_every` steps: member, step, one column per quantity."""
        return self._table("history.parquet")

    def _table(self, name: str) -> pd.DataFrame:
        """A table of the run, made again from the checkpoints where it is missing or damaged."""
        try:
            return read_table(self.path / name)
        except (FileNotFoundError, DamagedFileError):
            self.write_tables()
            return read_table(self.path / name)


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
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    except OSError as error:
        raise invalid(
            "out", "must be a folder that can be made", str(folder), f"{error.strerror}."
        ) from error
    if not there.is_dir():
        raise invalid("out", "must be a folder", str(folder), "Choose another name.")
    if not os.access(there, os.W_OK):
        raise invalid(
            "out", "must be a folder that can be written", str(folder), "Choose another folder."
        )
    if kind_of(folder) is not None:
        remedy = f"Go on with `unbraid resume {folder}` or choose another folder."
        raise invalid("out", "must not hold another run", str(folder), remedy)
    if folder.is_dir() and any(path.name != ".lock" for path in folder.iterdir()):
        raise invalid("out", "must be a new or empty folder", str(folder), "Choose another folder.")


def make_folder(folder: Path) -> None:
    """Make *folder* and those above it, or say why that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid(
            "out", "must be a folder that can be made", str(folder), f"{error.strerror}."
        ) from error


def check_room(folder: Path, plan: Plan, dataset: Dataset, chunk_size: int = 1) -> None:
    """Refuse a plan whose files would not fit on the disk."""
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
        raise invalid("out", "needs a disk with room for the plan", found, remedy)


def bytes_needed(plan: Plan, dataset: Dataset, chunk_size: int = 1) -> int:
    """Upper estimate of a run folder: two checkpoints per member, a third in writing, codes."""
    samples = min(plan.code_samples, len(dataset))
    total = largest = 0
    for member, count in members_by_kind(plan):
        auxiliary = member.build().auxiliary_network()
        weights = plan.layout(member, dataset).size + (
            auxiliary.layout(plan.latents).size if auxiliary else 0
        )
        records = plan.steps // plan.log_every * (len(quantities(plan, member)) + 2)
        checkpoint = 4 * (3 * weights + records)
        total += count * (2 * checkpoint + samples * (8 + 2 * 4 * plan.latents) + 8 * records)
        largest = max(largest, checkpoint)
    being_written = min(len(plan.members), max(chunk_size, cores()))
    return total + largest * being_written + 10_000_000  # the report and the tables
