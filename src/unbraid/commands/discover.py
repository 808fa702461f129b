# SPDX-License-Identifier: Apache-2.0
"""`discover`: the factors in unlabelled images, with a table of codes and a plain report.

A population is trained without labels and selected by the agreement of its models
(`search/pbt/search.py`; with leaf-runs, `search/rpu/recursion.py`). What the best model finds and
others confirm is written for a person who does not know what a model is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.options import split_source
from unbraid.commands.pbt import train_search
from unbraid.commands.run import Run, stopped
from unbraid.commands.verb import Option, command
from unbraid.core.begun import before_record, remove_leftovers
from unbraid.core.errors import DamagedFileError, InputError, Shown, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import only_one, write_bytes
from unbraid.core.folders import PAGES, given_path, is_there, next_folder, record_path
from unbraid.core.progress import Progress
from unbraid.core.records import from_record, read_object
from unbraid.core.store import digest, holds, read_about_table, read_table, write_json, write_table
from unbraid.population import defaults as usual

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch
    from numpy.typing import NDArray

    from unbraid.data.dataset import Dataset
    from unbraid.search.discover.clock import Clock
    from unbraid.search.discover.find import ModelFindings
    from unbraid.search.discover.findings import Discovery
    from unbraid.search.discover.plan import DiscoveryPlan
    from unbraid.search.pbt.search import SearchOutcome, SearchRun
    from unbraid.search.rpu.stages import Stage

TABLE, CSV = "codes.parquet", "codes.csv"


@dataclass(frozen=True, repr=False)
class DiscoverResult:
    """A finished discovery."""

    path: Path
    found: Discovery
    codes: pd.DataFrame
    """A row for each image: which, and its code for every factor found."""
    models: Run
    """The winning models, as a run like any other."""

    def __repr__(self) -> str:
        """The folder and how much was found."""
        found = f"{len(self.found.factors)} factors in {self.found.images:,} images"
        return f"<DiscoverResult {self.path}: {found}>"

    @property
    def page(self) -> Path:
        """The report."""
        return self.path / PAGES["discover"]

    def summary(self) -> str:
        """What was found, for a terminal."""
        from unbraid.report.discover.words import (
            doubtful_sentence,
            found_sentence,
            learned,
            sure_sentence,
            titled,
            unexplained_sentence,
        )

        lines = [found_sentence(self.found)]
        for factor, title in titled(self.found.factors):
            lines.append(f"  {title}: {factor.name.sentence} {sure_sentence(factor.certainty)}")
        lines += [doubtful_sentence(self.found), unexplained_sentence(self.found.explained)]
        lines += [
            f"Codes of every image: {', '.join(self.found.tables)}",
            f"Open in a browser: {self.page}",
        ]
        if not learned(self.found):
            lines += [
                f"Next:  {command}"
                for command, _ in self.found.commands
                if command.startswith("unbraid discover")
            ]
        return "\n".join(line for line in lines if line)


@command
def discover(
    images: declared.Data,
    *,
    minutes: Annotated[float | None, Option("How long it may take; 15 by default.")] = None,
    steps: Annotated[
        int | None, Option("Training steps of each model, instead of minutes.")
    ] = None,
    resize: Annotated[
        int | None,
        Option(
            "Pixels to which images are scaled; by default 32 on a CPU and 64 on a GPU, where they"
            " are larger or not square."
        ),
    ] = None,
    population: Annotated[
        int | None, Option("Groups of models, at least 5; 5 on a CPU, 12 on a GPU.")
    ] = None,
    models: Annotated[int | None, Option("Models of a group; 3 on a CPU, 5 on a GPU.")] = None,
    leaf_runs: Annotated[
        int | None,
        Option(
            "How many parts of the data, in which the first findings hardly vary, to search again;"
            " 0 on a CPU, 1 on a GPU."
        ),
    ] = None,
    latents: declared.Latents = usual.LATENTS,
    seed: declared.Seed = 0,
    data_options: declared.DataOptions = None,
    out: declared.Out = None,
    device: declared.Device = "auto",
    quiet: declared.Quiet = False,
    command: declared.Command = "",
) -> DiscoverResult:
    """Find what varies in your images, without labels: a report, and a table of codes.

    Labels, if there are any, are not used.
    """
    from unbraid.population.devices import choose_device
    from unbraid.population.new_folder import check_free, new_folder
    from unbraid.search.discover.image_source import take_images
    from unbraid.search.discover.plan import (
        check_images,
        check_room_for_models,
        make_discovery_plan,
        read_request,
    )

    began, chosen = time.monotonic(), choose_device(device)
    request = read_request(
        chosen,
        minutes=minutes,
        steps=steps,
        population=population,
        models=models,
        leaf_runs=leaf_runs,
        latents=latents,
        seed=seed,
        resize=resize,
    )
    source, options = split_source(images, data_options)
    taken = take_images(source, options, request.resize, chosen)
    check_images(taken.dataset)
    folder = given_path("out", out) if out is not None else next_folder(f"discover-{taken.name}")
    check_free(folder)
    check_room_for_models(folder, taken.dataset, request, chosen, beside=taken.bytes_stored)
    with new_folder(folder):
        record = record_path(folder, "discover")
        with (
            before_record(folder, record.name, *taken.files),
            Progress("measuring speed", "images", 0, quiet) as progress,
        ):
            if request.minutes is not None:
                progress.say(
                    f"{len(taken.dataset):,} images of {_size(taken.dataset)}: measuring how fast"
                    " models train on them"
                )
            plan, dataset = make_discovery_plan(
                taken.source,
                *taken.stored(folder),
                request,
                chosen,
                resized_from=taken.resized_from,
                drawn_from=taken.drawn_from,
                command=command,
                depth=taken.depth,
                stretched=taken.stretched,
            )
            write_json(record, plan.record())
            failpoint("record.written")
        return _run(folder, plan, digest(plan.root.record()), dataset, chosen, quiet, began)


def resume_folder(
    folder: Path, data: declared.MovedData, device: str, quiet: bool
) -> DiscoverResult:
    """Go on with the discovery in *folder*."""
    from unbraid.data.dataset import Dataset
    from unbraid.data.loading import load
    from unbraid.population.devices import choose_device
    from unbraid.population.run_data import data_of
    from unbraid.search.discover.image_source import IMAGES

    remedy = "Put a copy of it back, or discover again into a new folder."
    record = record_path(folder, "discover")
    plan, made_by = read_object(record, "a discovery", _read_plan, remedy)
    if data is not None and not isinstance(data, (str, os.PathLike)):
        options = None if isinstance(data, Dataset) else plan.options
        dataset = declared.open_data(data, options)
    else:
        if data is not None:
            source, options = split_source(data, None)
            path = str(Path(source).expanduser().absolute())
            plan = replace(plan, data=path, options={**plan.options, **options})
        elif Path(plan.data).name == IMAGES and not (
            Path(plan.data).exists() and not is_there(folder / IMAGES)
        ):  # stored with the discovery, which may have been moved since
            plan = replace(plan, data=str((folder / IMAGES).absolute()))
        with nullcontext() if data is not None else data_of(folder):
            dataset = load(plan.data, **plan.options)
    if dataset.fingerprint() != plan.root.plan.data_fingerprint:
        raise _other_images(folder, plan.data if data is None else data)
    chosen = choose_device(device)
    if _whole(folder, made_by) is not None:
        return _run(folder, plan, made_by, dataset, chosen, quiet, None)
    with only_one(folder):
        remove_leftovers(folder)
        return _run(folder, plan, made_by, dataset, chosen, quiet, None)


def _read_plan(record: dict[str, Any]) -> tuple[DiscoveryPlan, str]:
    """A discovery, and by which digest its tables know it: of its search as stored, whose names may
    be older.
    """
    from unbraid.search.discover.plan import DiscoveryPlan

    plan = DiscoveryPlan.from_record(record)
    return plan, digest(record["search"] if plan.recursion is None else record["recursion"]["root"])


def _other_images(folder: Path, given: object) -> InputError:
    """What to say of images that are not those with which the discovery in *folder* began."""
    from unbraid.population.run_data import MOVED

    rule = f"must be the images with which {folder} began, to the last pixel and label"
    where = os.fspath(given) if isinstance(given, (str, os.PathLike)) else "what was given"
    remedy = f"{MOVED} For other images discover into a new folder."
    return invalid("data", rule, Shown(f"others in {where}"), remedy)


def _run(
    folder: Path,
    plan: DiscoveryPlan,
    made_by: str,
    dataset: Dataset,
    device: torch.device,
    quiet: bool,
    began: float | None,
) -> DiscoverResult:
    """Train what is left, and write everything down; *made_by* is the digest of the search."""
    from unbraid.codes.latent_names import latent_names
    from unbraid.search.discover.clock import Clock
    from unbraid.search.discover.description import described
    from unbraid.search.discover.find import find
    from unbraid.search.discover.image_source import drawn_images, image_names
    from unbraid.search.pbt.search import SearchRun
    from unbraid.search.rpu.labelling import label
    from unbraid.search.rpu.recursion import Recursion
    from unbraid.search.rpu.stages import ROOT, StageKind
    from unbraid.search.rpu.surrogate_labels import ACTIVE_NATS

    start = time.monotonic() if began is None else began

    # After an interruption there is no telling how much of the minutes was used.
    clock = Clock(
        None if began is None else plan.minutes,
        plan.recursion.leaf_runs if plan.recursion else 0,
        start,
    )
    stages: list[Stage] = []
    confirming: list[tuple[SearchRun, NDArray[np.int64]]] = []
    if plan.recursion is None:
        assert plan.search is not None
        root = final = SearchRun.begin(folder / "models", plan.search, dataset)
        root.remove_leftovers()
        if root.finished:
            root.winner_files.check()
        elif not _train(ROOT, root, device, quiet, clock).finished:
            raise stopped(folder)
    else:
        recursion = Recursion.begin(folder / "recursion", plan.recursion, dataset)
        done = recursion.train(device, lambda stage, run: _train(stage, run, device, quiet, clock))
        if done is None:
            raise stopped(folder)
        stages = done
        root = recursion.root()
        final = recursion.final() if stages[-1].kind is StageKind.FINAL else root
        if final is not root and 2 * len(final.lineage["epoch"].unique()) < final.search.epochs:
            final = root  # the time was up before it had learned as much
        confirming = [
            (search, recursion.places(stage))
            for stage, search in recursion.searches()
            if search.path != final.path and search.search.models > 1
        ]
    drawn = drawn_images(plan.drawn_from, len(dataset), plan.data)
    names = image_names(plan.data, drawn)
    nats = ACTIVE_NATS if plan.recursion is None else plan.recursion.active_nats
    model = label(root, device, nats).model if final is root else 0
    findings = find(final, model, device, names, confirming)
    given = latent_names(final.winner()).get(model, {})
    findings = findings.with_names(given)
    failpoint("findings.made")
    # Looked at before anything is written: what is whole stays as it is.
    codes = _whole(folder, made_by, given)
    minutes = _minutes(folder, time.monotonic() - start)
    found = described(folder, plan, root, final, findings, stages, device, minutes)
    # Earlier versions counted what collapsed models saw as found.
    if codes is None or (found.collapsed and any(name.startswith("factor_") for name in codes)):
        about = {"model": model, "stage": final.path.name if plan.recursion else ""}
        latents = [one.latent for one in (*found.factors, *found.doubtful)]
        about |= _about(made_by) | {"names": _spelled(given), "latents": latents}
        codes = _written(folder, found, findings, names, drawn, about)
    return DiscoverResult(folder, found, codes, Run(final.winner(), device))


def _whole(
    folder: Path, made_by: str, names: Mapping[int, str] | None = None
) -> pd.DataFrame | None:
    """The table of codes where all was written down before and is whole, with the *names* that
    people gave to latents, where they are known; None where it was not.
    """
    from unbraid.report.page import is_whole_page

    try:
        table = read_table(folder / TABLE, _about(made_by), {"image": "i", "name": "O"})
        about = read_about_table(folder / TABLE)
    except (FileNotFoundError, DamagedFileError):
        return None
    if names is not None and about.get("names", {}) != _spelled(names):
        return None
    page, made_from = folder / PAGES["discover"], _digest_of(table, about)
    return table if holds(folder / CSV, _csv(table)) and is_whole_page(page, made_from) else None


def _about(made_by: str) -> dict[str, str]:
    """What the table of codes says of its origin: the digest of the discovery's search."""
    return {"discovery": made_by, "table": TABLE}


def _spelled(names: Mapping[int, str]) -> dict[str, str]:
    """Names of latents as a record has them."""
    return {str(latent): name for latent, name in names.items()}


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def _digest_of(table: pd.DataFrame, about: Mapping[str, Any]) -> str:
    """By which the page knows the table of codes that it tells of."""
    return digest([dict(about), _csv(table).decode()])


def _train(
    stage: Stage, run: SearchRun, device: torch.device, quiet: bool, clock: Clock
) -> SearchOutcome:
    """Train one stage; what it is doing is said without the names of stages and metrics."""
    from unbraid.search.rpu.stages import StageKind

    doing, score = "searching", "agreement"
    if stage.kind is StageKind.LEAF:
        doing = f"searching in part {stage.leaf + 1}"
    elif stage.kind is StageKind.FINAL:
        doing, score = "last models", "fit to what was found"
    return train_search(doing, run, device, quiet, clock.late(stage), score, clock.due(stage))


@dataclass(frozen=True)
class _Time:
    """What time.json says."""

    minutes: float


def _minutes(folder: Path, seconds: float) -> float:
    """Minutes this took in all; those of earlier calls that were finished are kept."""
    place, remedy = folder / "time.json", "Remove it: the page then tells how long this call took."
    try:
        return read_object(place, "a time", lambda one: from_record(_Time, one), remedy).minutes
    except FileNotFoundError:
        write_json(folder / "time.json", {"minutes": seconds / 60})
        return seconds / 60


def _written(
    folder: Path,
    found: Discovery,
    findings: ModelFindings,
    names: tuple[str, ...],
    drawn: NDArray[np.int64] | None,
    about: Mapping[str, Any],
) -> pd.DataFrame:
    """The table of codes, written as Parquet and CSV, and the report, which comes last."""
    import numpy as np
    import pandas as pd

    from unbraid.report.discover.context import write_discover
    from unbraid.report.discover.words import table_columns

    count = len(findings.mean)
    numbers = np.arange(count) if drawn is None else drawn
    first = {
        "image": numbers,
        "name": list(names) if names else [str(number) for number in range(count)],
    }
    columns = {
        one.name: first[one.name] if one.latent is None else findings.mean[:, one.latent]
        for one in table_columns(found)
    }
    table = pd.DataFrame(columns)
    write_table(folder / TABLE, table, about)
    write_bytes(folder / CSV, _csv(table))
    write_discover(folder / PAGES["discover"], found, _digest_of(table, about))
    return table


def _size(dataset: Dataset) -> str:
    height, width, channels = dataset.image_shape
    return f"{height} x {width}" + (" in colour" if channels == 3 else "")
