# SPDX-License-Identifier: Apache-2.0
"""What can be explored: a run, a search, a recursion, a discovery, or the table of a study.

Of a search all individuals are shown, and the winner's models can be opened; of a recursion those
of the winners that were trained on all images.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from unbraid.codes.codes import CodeStore
from unbraid.core.errors import DamagedFileError, Shown, UnbraidError, invalid
from unbraid.core.folders import kind_of
from unbraid.core.store import read_about_table
from unbraid.population.run_folder import RunFolder
from unbraid.report.explore.population import (
    NOT_SCORED,
    Column,
    Population,
    Row,
    merged_columns,
    of_lineage,
    of_run,
    of_table,
)
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu.recursion import Recursion
from unbraid.search.rpu.stages import StageKind

if TYPE_CHECKING:
    import pandas as pd

    from unbraid.data.dataset import Dataset
    from unbraid.studies.results import Results

_LINEAGE_COLOUR = "#8a94a1"
_NOT_KEPT_OF_STUDY = (
    "The weights of these models were not kept, so none can be opened: unbraid study run keeps them"
    " with --keep-models."
)
_KEPT_OF_STUDY = "Models at the end of their training can be opened where their weights were kept."
_KEPT = "Of a search the weights of its winner alone are kept: only its models can be opened."


def open_population(folder: Path, dataset: Dataset | None = None) -> Population:
    """The population that a folder of any kind holds; *dataset* where its data was moved."""
    kind = kind_of(folder)
    if kind == "discover":
        return _of_discovery(folder, dataset)
    if kind == "rpu":
        return _of_recursion(folder, dataset)
    if kind == "pbt":
        return _of_search(SearchRun.open(folder, dataset), title_of(folder))
    run = RunFolder.open(folder)
    if dataset is not None:
        run.use(dataset)
    return of_run(_with_codes(run), title_of(folder))


def of_results(results: Results) -> Population:
    """The models of a study, as far as its tables hold them."""
    table = results.table()
    if not len(table):
        remedy = f"Train some: unbraid study run {results.study.name} --scale {results.scale}"
        rule = "must have models in its tables"
        raise invalid("study", rule, f"{results.study.name} at the scale {results.scale}", remedy)
    title = f"{results.study.citation.authors} {results.study.citation.year}, {results.scale}"
    found = of_table(table, title)
    _open_kept(found, results, table)
    found.notes.append(_KEPT_OF_STUDY if found.opened else _NOT_KEPT_OF_STUDY)
    return found


def _open_kept(found: Population, results: Results, table: pd.DataFrame) -> None:
    """Let rows be opened whose models were kept, of the first data set that has some: a slice's
    last rows are its members in their order.
    """
    places = table.groupby(["pool", "slice"], sort=False).indices
    for pool, one in results.slices():
        folder, rows = results.models(pool, one), places.get((pool.name, one.name), ())
        if kind_of(folder) != "train":
            continue
        try:
            run = _with_codes(RunFolder.open(folder))
        except UnbraidError as error:  # others can be opened all the same
            found.notes.append(str(error))
            continue
        first = next(iter(found.opened.values()), (run, 0))[0].plan
        same = first.data_fingerprint == run.plan.data_fingerprint
        if not same or first.latents != run.plan.latents or len(rows) < len(run.plan.members):
            continue
        found.dataset = run.dataset
        last = rows[-len(run.plan.members) :]
        for member, place in zip(run.plan.members, last, strict=True):
            row = found.rows[place]
            if row.status != "diverged":
                row.can_be_opened = True
                found.opened[row.key] = run, member.id
    found.best = next(iter(found.opened), None)


def _with_codes(run: RunFolder) -> RunFolder:
    """A trained run, encoded where it is not; one that is not trained is refused."""
    for chunk in run.chunks():
        files = run.checkpoints(chunk).files()
        if not files or files[0][0] < run.plan.steps:
            run.trained(chunk)  # which says what is missing, or that all of it diverged
    store, members = CodeStore(run), run.members()
    healthy = members.loc[members["status"] != "diverged", "member"].tolist()
    if not all(store.has(member) for member in healthy):
        store.encode(torch.device("cpu"))
    return run


def _of_search(search: SearchRun, title: str, prefix: str = "", kind: str = "pbt") -> Population:
    if not search.finished:
        rule, remedy = "must be a finished search", f"Go on with: unbraid resume {search.path}"
        raise invalid("run", rule, Shown(str(search.path)), remedy)
    found = of_run(_with_codes(search.winner()), title, kind, f"{prefix}winner-")
    record, score = search.winner_record(), search.search.scorer.metric
    columns, rows = of_lineage(search.lineage, score, _LINEAGE_COLOUR, prefix)
    # Its models stand for the individual that won, which would else be listed beside them.
    won = f"{prefix}epoch-{record['epoch']}-{record['individual']}"
    individual = next(row for row in rows if row.key == won)
    for row in found.rows:
        row.name = f"winner: {row.name}"
        known = {name: value for name, value in row.values.items() if value is not None}
        row.values = row.values | individual.values | known
    found.rows = [*found.rows, *(row for row in rows if row is not individual)]
    found.columns = merged_columns([found.columns, columns])
    selected = f"By {score} the search selected: `unbraid score` adds other scores of the winner."
    notes = [selected if note == NOT_SCORED else note for note in found.notes]
    found.notes = [_KEPT, *notes, *filter(None, [search.remark()])]
    return found


def _of_recursion(folder: Path, dataset: Dataset | None) -> Population:
    recursion = Recursion.open(folder, dataset)
    stages = [
        (stage, search)
        for stage, search in recursion.searches()
        if stage.kind is not StageKind.LEAF
    ]
    if not stages:
        rule, remedy = "must have a finished stage", f"Go on with: unbraid resume {folder}"
        raise invalid("run", rule, Shown(str(folder)), remedy)
    parts = [
        _of_search(search, title_of(folder), f"{stage.name}-", "rpu") for stage, search in stages
    ]
    for (stage, _), part in zip(stages, parts, strict=True):
        for row in part.rows:
            row.name = f"{stage.name}: {row.name}"
            row.setting = f"{stage.name}: {row.setting}"
            row.values["stage"] = stage.name
    return _joined(parts)


def _joined(parts: list[Population]) -> Population:
    """Several populations of the same data as one; the last is opened first."""
    last = parts[-1]
    rows: list[Row] = [row for part in parts for row in part.rows]
    columns = merged_columns(
        [[Column("stage", "stage", "setting")], *(part.columns for part in parts)]
    )
    notes = list(dict.fromkeys(note for part in parts for note in part.notes))
    opened = {key: value for part in parts for key, value in part.opened.items()}
    return Population(
        last.title, last.kind, last.data, columns, rows, last.dataset, notes, opened, last.best
    )


def _of_discovery(folder: Path, dataset: Dataset | None) -> Population:
    recursion, about = folder / "recursion", _about_codes(folder)
    if about is None:  # a name that is given must never go on with its training
        rule, remedy = "must be a finished discovery", f"Go on with: unbraid resume {folder}"
        raise invalid("run", rule, Shown(str(folder)), remedy)
    if kind_of(recursion) == "rpu":
        found = _of_recursion(recursion, dataset)
    else:
        found = _of_search(SearchRun.open(folder / "models", dataset), title_of(folder))
    found.title, found.kind = title_of(folder), "discover"
    stage = about.get("stage", "")
    key = f"{stage}-winner-{about.get('model')}" if stage else f"winner-{about.get('model')}"
    if key in found.opened:
        found.best = key
        name = next(row.name for row in found.rows if row.key == key)
        latents = ", ".join(map(str, about.get("latents", ()))) or "none"
        found.notes.insert(0, f"codes.csv holds what {name} found, in its latents: {latents}.")
    return found


def _about_codes(folder: Path) -> dict[str, Any] | None:
    """What the table of codes of a discovery says of itself; None where there is none."""
    try:
        return read_about_table(folder / "codes.parquet")
    except (FileNotFoundError, DamagedFileError):
        return None


def title_of(folder: Path) -> str:
    """What a folder is called, also where it was given as a dot."""
    return folder.resolve().name
