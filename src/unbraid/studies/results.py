# SPDX-License-Identifier: Apache-2.0
"""The results of a study at a scale: `<folder>/<scale>/<pool>/<slice>.parquet`, and all in one.

A row is a model at a stage of its training. Columns: `pool`, `slice`, `data`, `objective`,
`strength` (of the objective's swept hyperparameter, which `strength_name` names), `seed`, `steps`
(updates done), `learning_rate`, `status` (trained or diverged). Then one for each metric: its score
on mean codes under the metric's name, on sampled codes as `<metric>_sampled`, further numbers of
its result as `<metric>.<field>`. Of data with factors, `information` (factors x latents, row by
row: mutual information of mean codes as a share of the factor's entropy) and `factors` (their
names). Of slices that ask for it: `kl_by_latent` (nats), `variance_by_latent` (posterior variances,
mean over images), `information_level` (of the latent that encodes each factor, 1 - its posterior
variance), settings under their own names, and what is measured (`studies/measures.py`). Scores of
diverged models are NaN. Slices that are searches have more columns (`studies/search_table.py`).

Each file says what it was made from and by: the slice's definition, versions, device, precision,
date, seconds. A table of another definition than today's is refused, never removed.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from unbraid.core.errors import (
    DamagedFileError,
    InputError,
    Problem,
    Problems,
    Shown,
    invalid,
    unknown,
)
from unbraid.core.store import (
    digest,
    read_about_table,
    read_table,
    read_tensors,
    write_table,
    write_tensors,
)
from unbraid.metrics import METRICS
from unbraid.studies import measures
from unbraid.studies.definition import definition
from unbraid.studies.pool import ABOUT_THE_MODEL, BY_LATENT, Pool, Scale, Slice, check_pools
from unbraid.studies.study import Study

if TYPE_CHECKING:
    import pandas as pd

    from unbraid.studies.made_data import Left

OF_LABELS = ("label_latents", "label_peaks", "sorted_labels", "explained")
LISTS = (*BY_LATENT, *measures.LISTS, *OF_LABELS)
"""Columns whose cells are lists."""
ABOUT_THE_SEARCH = ("stage", "row", "epoch", "individual")
"""Where a row belongs in a search."""
SCALES: tuple[Scale, ...] = get_args(Scale)
_TEXTS = ("pool", "slice", "data", "objective", "strength_name", "status")
COLUMN_KINDS = {name: "O" for name in _TEXTS} | {
    "strength": "f",
    "learning_rate": "f",
    "seed": "i",
    "steps": "i",
}
"""What a table has at least, with the kinds of NumPy."""
_FORMAT = 1


def check_scale(scale: str) -> Scale:
    """*scale*, which must be one."""
    if scale not in SCALES:
        raise InputError(unknown("scale", scale, SCALES))
    return scale


class Results:
    """The tables of one study at one scale."""

    def __init__(
        self,
        study: Study,
        scale: str,
        folder: str | Path | None = None,
        first_seed: int | None = None,
    ) -> None:
        """By default those in the study's own folder.

        Without *first_seed*, seeds are those of the tables that are there, else from 0 on.
        """
        self.study, self.scale = study, check_scale(scale)
        self.folder = study.folder / "results" if folder is None else Path(folder)
        self._read: dict[tuple[Path, int, int], dict[str, Any]] = {}
        """What each table said about itself, by its file as it was then."""
        self._left: dict[tuple[Path, int, int], Left] = {}
        self.first_seed = self._seed_found() if first_seed is None else first_seed
        self.pools = study.pools(self.scale, self.first_seed)
        check_pools(self.pools)

    @property
    def place_given(self) -> str:
        """The option that names the folder to a command; empty for the study's own."""
        own = self.folder == self.study.folder / "results"
        return "" if own else f" --results {shlex.quote(str(self.folder))}"

    def slices(self) -> list[tuple[Pool, Slice]]:
        """Every slice with its pool, in the order in which they are run."""
        return [(pool, one) for pool in self.pools for one in pool.slices]

    def path(self, pool: Pool, one: Slice) -> Path:
        """Where the table of a slice lies."""
        return self.folder / self.scale / pool.name / f"{one.name}.parquet"

    def models(self, pool: Pool, one: Slice) -> Path:
        """Where the models of a slice lie, a run like any other, where they were kept."""
        return self.folder / ".models" / self.scale / pool.name / one.name

    def labels(self, name: str) -> Path:
        """Where the labels lie that the recursion *name*, as pool/slice, has found: too large to
        be kept with the tables, and needed by final populations alone.
        """
        return self.folder / ".labels" / self.scale / f"{name}.safetensors"

    def files(self) -> list[Path]:
        """Every table that is there, of today's slices or not."""
        return sorted((self.folder / self.scale).glob("*/*.parquet"))

    def done(self, pool: Pool, one: Slice) -> bool:
        """Whether a slice has its table."""
        return self.path(pool, one).is_file()

    def _seed_found(self) -> int:
        for path in self.files():
            return int(self._about(path).get("first_seed", 0))
        return 0

    def _about(self, path: Path) -> dict[str, Any]:
        state = path.lstat()
        key = path, state.st_mtime_ns, state.st_size
        if key not in self._read:
            try:
                self._read[key] = read_about_table(path)
            except DamagedFileError as error:
                raise self._damaged(error) from error
        return self._read[key]

    def about(self, pool: Pool, one: Slice) -> dict[str, Any]:
        """What the table of a slice says it was made from and by."""
        return self._about(self.path(pool, one))

    def part(self, name: str) -> tuple[Pool, Slice]:
        """The slice called *name*, as pool/slice."""
        return next(part for part in self.slices() if f"{part[0].name}/{part[1].name}" == name)

    def left_path(self, pool: Pool, one: Slice) -> Path:
        """Where lies what a slice left, beside its table."""
        return self.path(pool, one).with_suffix(".safetensors")

    def left(self, name: str) -> Left:
        """What the slice called *name*, as pool/slice, left for others.

        Refused where it left nothing, or is not what it would leave today.
        """
        pool, one = self.part(name)
        if not self.done(pool, one):
            raise invalid("slice", "must be made before what needs it", name)
        path, why = self.left_path(pool, one), self.about(pool, one).get("left_nothing")
        if why:
            raise invalid("slice", "must leave something for others", name, why)
        try:
            state = path.lstat()
            key = path, state.st_mtime_ns, state.st_size
            if key not in self._left:
                self._left[key] = read_tensors(path)
        except FileNotFoundError as error:
            raise self._damaged(DamagedFileError(f"{path} is missing.")) from error
        except DamagedFileError as error:
            raise self._damaged(error) from error
        tensors, about = self._left[key]
        if about.get("made") != self._made(one):
            other = {"versions": about.get("versions")}
            raise InputError(self._of_another_version(path, "what another slice leaves", other))
        return tensors, about

    def leave(self, pool: Pool, one: Slice, left: Left) -> None:
        """Keep what a slice leaves for others."""
        tensors, about = left
        held = {
            name: hashlib.sha256(tensor.numpy().tobytes()).hexdigest()
            for name, tensor in tensors.items()
        }
        about = {**about, "made": self._made(one), "held": held}
        write_tensors(self.left_path(pool, one), tensors, about)

    def _made(self, one: Slice) -> str:
        """A digest of what a slice's leavings follow from."""
        leaves = one.leaves.definition() if one.leaves else None
        return digest([definition(one), self.first_seed, leaves])

    def write(
        self, pool: Pool, one: Slice, table: pd.DataFrame, provenance: Mapping[str, Any]
    ) -> None:
        """Keep the table of a slice, with its definition and *provenance*."""
        about = {
            "format": _FORMAT,
            "study": self.study.name,
            "scale": self.scale,
            "pool": pool.name,
            "slice": one.name,
            "first_seed": self.first_seed,
            "definition": definition(one),
        }
        if one.made and one.made.after:
            about["made_from"] = digest(self.left(one.made.after)[1])
        rows = table.reindex(columns=ordered(table.columns))
        write_table(self.path(pool, one), rows, about | dict(provenance))

    def check(self) -> None:
        """Refuse a folder with tables that are not of today's slices, every one of them named."""
        problems = Problems()
        known = {self.path(pool, one): (pool, one) for pool, one in self.slices()}
        for path in self.files():
            if path in known:
                found = self._problem(path, *known[path])
            else:
                found = self._of_other_seeds(path, self._about(path))
                found = found or self._of_another_version(path, "a slice that it no longer has")
            if found:
                problems.say(found)
        problems.raise_if_any()

    def _problem(self, path: Path, pool: Pool, one: Slice) -> Problem | None:
        """What speaks against the table at *path* as that of slice *one* of *pool*."""
        about, today = self._about(path), definition(one)
        own = {"study": self.study.name, "scale": self.scale, "pool": pool.name, "slice": one.name}
        if wrong := [key for key, name in own.items() if about.get(key, name) != name]:
            return self._of_another_version(path, f"the table of another {wrong[-1]}", about)
        if found := self._of_other_seeds(path, about):
            return found
        made = about.get("definition") or {}
        other = sorted(key for key in made.keys() | today.keys() if made.get(key) != today.get(key))
        if about.get("format") != _FORMAT or other:
            named = ", ".join(other) or "format"
            return self._of_another_version(path, f"another {named}", about)
        after = one.made.after if one.made else ""
        if after and self.done(*self.part(after)) and self.left_path(*self.part(after)).is_file():
            if about.get("made_from") != digest(self.left(after)[1]):
                return self._of_another_version(path, f"data from another {after}", about)
        return None

    def _of_other_seeds(self, path: Path, about: Mapping[str, Any]) -> Problem | None:
        """What speaks against a table of other seeds, whose slices have other names."""
        seed = about.get("first_seed")
        if seed == self.first_seed:
            return None
        rule = f"must hold tables of seeds from {self.first_seed} on"
        remedy = f"Give the folder's own {{first_seed={seed}}}, or another {{results=FOLDER}}."
        return Problem("results", rule, Shown(f"{path} with seeds from {seed} on"), remedy)

    def _of_another_version(
        self, path: Path, what: str, about: Mapping[str, Any] | None = None
    ) -> Problem:
        version = ((about or self._about(path)).get("versions") or {}).get("unbraid", "another")
        remedy = (
            "Move it away and run the study again, or read it with the version that made it"
            f" (unbraid {version})."
        )
        rule = f"must be of study {self.study.name} as it is today"
        return Problem(str(path), rule, Shown(what), remedy)

    def _damaged(self, error: DamagedFileError) -> DamagedFileError:
        again = f"unbraid study run {self.study.name} --scale {self.scale}{self.place_given}"
        return DamagedFileError(
            f"{error} Restore it from a copy, or move it away and make it again: {again}"
        )

    def read(self, pool: Pool, one: Slice) -> pd.DataFrame:
        """The table of a slice, every byte of it checked."""
        path = self.path(pool, one)
        try:
            table = read_table(path, columns=COLUMN_KINDS)
        except DamagedFileError as error:
            raise self._damaged(error) from error
        if found := self._problem(path, pool, one):
            raise InputError(found)
        return table

    def table(self) -> pd.DataFrame:
        """All models of all slices that are done, in the order of the slices."""
        self.check()
        return stacked(
            [self.read(pool, one) for pool, one in self.slices() if self.done(pool, one)]
        )


def ordered(columns: Iterable[str]) -> list[str]:
    """*columns* in the one order that tables have: model, metrics as registered, by latent."""
    names, places = set(columns), {name: place for place, name in enumerate(METRICS)}

    def place(column: str) -> tuple[Any, ...]:
        score, _, field = column.partition(".") if ":" not in column else (column, "", "")
        base = score.partition(":")[0].removesuffix("_sampled")
        return places.get(base, len(places)), base, score.endswith("_sampled"), score, field

    lead = [name for name in (*ABOUT_THE_MODEL, *ABOUT_THE_SEARCH) if name in names]
    last = [name for name in LISTS if name in names]
    return [*lead, *sorted(names - {*lead, *last}, key=place), *last]


def stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """*tables* one below the other; what one of them does not have is NaN, None for lists."""
    import pandas as pd

    names = ordered({*ABOUT_THE_MODEL, *(name for table in tables for name in table.columns)})
    columns: dict[str, list[Any]] = {}
    for name in names:
        empty = None if name in LISTS else float("nan")
        columns[name] = [
            value
            for table in tables
            for value in (table[name] if name in table else [empty] * len(table))
        ]
    return pd.DataFrame(columns, columns=pd.Index(names))
