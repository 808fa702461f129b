# SPDX-License-Identifier: Apache-2.0
"""`distances`: how far apart the values of each factor look to a loss and to a model."""

from __future__ import annotations

import hashlib
import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.verb import Option, command
from unbraid.core.errors import DamagedFileError, Shown, invalid
from unbraid.core.folders import check_writable
from unbraid.core.progress import Progress

if TYPE_CHECKING:
    import os

    import pandas as pd
    from numpy.typing import NDArray

    from unbraid.analysis.distances.perceived_distances import Distances
    from unbraid.commands.run import Run
    from unbraid.data.dataset import Dataset
    from unbraid.population.run_folder import RunFolder


_Data = Annotated[
    "str | os.PathLike[str] | NDArray[Any] | Dataset | None",
    Option("A dataset or your own labelled images, as for `train`; a run knows its own."),
]
_Run = Annotated[
    "str | Path | Run | None", Option("A run, to look at one of its models too.", kind="PATH")
]


_LABEL, _MOST_ROWS = 34, 40
"""Characters of a model's label, and models, that a table in a terminal has."""


@dataclass(frozen=True)
class DistancesResult:
    """Perceived distances and the page that shows them."""

    distances: Distances
    """The tables are its `importance_table()`, `order_table()` and `matrix_table()`."""
    page: Path
    advice: str
    """What a VAE will and will not see, and which loss to try."""
    members: pd.DataFrame | None = None
    """All models of the run, where they were asked for (`analysis/distances/learnt.py`)."""

    def summary(self) -> str:
        """The tables for a terminal, what follows from them, and where the page is."""
        parts = [printed(self.distances), self.advice]
        if self.members is not None:
            parts.insert(1, printed_members(self.members))
        return "\n\n".join([*parts, f"Open in a browser: {self.page}"])


@command
def distances(
    data: _Data = None,
    *,
    loss: Annotated[
        str, Option("mse or bce, alone or with a blur: mse+box31, mse+gauss31.")
    ] = "mse",
    run: _Run = None,
    member: Annotated[int | None, Option("Which model of the run; by default the first.")] = None,
    every_member: Annotated[
        bool, Option("Compare all models of the run too, level by level, in one table.")
    ] = False,
    pairs: Annotated[
        int, Option("Least number of image pairs per factor; all pairs of a factor that has fewer.")
    ] = 50_000,
    seed: Annotated[int, Option("Seed of the images that are compared.")] = 0,
    out: Annotated[
        str | Path | None,
        Option("Folder of the page; by default one under distances/ or in the run."),
    ] = None,
    data_options: declared.DataOptions = None,
    device: declared.Device = "auto",
    command: declared.Command = "",
    quiet: declared.Quiet = False,
) -> DistancesResult:
    """How far apart the values of each factor look to a loss, and to a trained model.

    Michlo et al. (2023). Says in one sentence what a VAE will and will not see, and which loss to
    try. Writes a page.
    """
    from unbraid.analysis.distances.advice import advise
    from unbraid.analysis.distances.learnt import learnt_distances
    from unbraid.analysis.distances.perceived_distances import check_request, perceived_distances
    from unbraid.commands.run import Run
    from unbraid.population.devices import choose_device
    from unbraid.population.run_folder import RunFolder
    from unbraid.report.distances.context import write_distances

    chosen = choose_device(device)
    if data is None and run is None:
        remedy = "For example 'dsprites', or {run=FOLDER}."
        raise invalid("distances", "needs data or a run to look at", Shown("neither"), remedy)
    if member is not None and run is None:
        raise invalid("member", "belongs to a run", member, "Give the run too: {run=FOLDER}.")
    if every_member and run is None:
        raise invalid("every_member", "belongs to a run", True, "Give the run too: {run=FOLDER}.")
    member = 0 if member is None else member
    dataset = None if data is None else declared.open_data(data, data_options)
    folder = run.folder if isinstance(run, Run) else None if run is None else RunFolder.open(run)
    if folder is not None:
        if dataset is not None:
            _check_same(dataset, folder)
            folder.use(dataset)
        dataset = folder.dataset
    assert dataset is not None
    asked, pairs, seed = check_request(dataset, loss, folder, member, pairs, seed)
    usual = _usual_folder(dataset, asked.name, folder, member)
    where = usual if out is None else Path(out)
    check_writable("out", where)
    with Progress("comparing", "images", 0, quiet) as bar:
        for name, told in [] if folder is None else _collapsed(folder, member):
            bar.say(f"{name}: {told}.")
        found = perceived_distances(
            dataset,
            asked,
            run=folder,
            member=member,
            pairs=pairs,
            seed=seed,
            device=chosen,
            progress=_additions(bar),
        )
    told = advise(found, dataset, chosen)
    every = None
    if every_member and folder is not None:
        with Progress("comparing", "models", 0, quiet) as bar:
            every = learnt_distances(
                folder, loss=asked, seed=seed, device=chosen, progress=_additions(bar)
            )
        every.insert(1, "model", [folder.plan.members[one].label() for one in every["member"]])
    about = _about_run(folder, member)
    page = write_distances(found, dataset, where, command, about, told, every)
    return DistancesResult(found, page, told, every)


def printed(found: Distances) -> str:
    """Importance of every factor and rank correlation with the truth, a table per level."""
    import pandas as pd

    blocks = []
    for level in found.levels:
        ranked = sorted(level.factors, key=lambda one: -one.importance.mean)
        rows = [("random pairs", level.random, "")]
        rows += [
            (one.factor, one.importance, "two values" if one.binary else _shown(one.spearman))
            for one in ranked
        ]
        table = pd.DataFrame(
            {
                "mean": f"{one.mean:#.4g}".rstrip("."),
                "std": f"{one.std:#.4g}".rstrip("."),
                "std error": _shown(one.standard_error, "{:.1e}"),
                "pairs": f"{one.pairs:,}",
                "rank correlation": correlation,
            }
            for _, one, correlation in rows
        )
        table.index = pd.Index([name for name, _, _ in rows])
        blocks.append(f"{level.key} ({level.measure})\n{table.to_string()}")
    return "\n\n".join([*blocks, *found.missing])


def printed_members(members: pd.DataFrame) -> str:
    """All models of a run, one a line, a table for each thing they are compared with; none is wider
    than a terminal, and files and page have them all in one.
    """
    import pandas as pd

    from unbraid.analysis.distances.learnt import LEVELS
    from unbraid.report.distances.context import MEMBERS

    labels = members["member"].astype(str) + " " + members["model"]
    names = [textwrap.shorten(label, _LABEL, placeholder=" ...") for label in labels]
    blocks = []
    for heading, suffix, more in (
        ("with the truth", "_with_truth", {"overlap": "overlap"}),
        ("with the inputs", "_with_inputs", {}),
        ("with the inputs, random pairs", "_with_inputs_random", {}),
    ):
        columns = {level: f"{level}{suffix}" for level in LEVELS} | more
        own = pd.DataFrame({name: members[key] for name, key in columns.items()}).set_axis(names)
        told = own.to_string(float_format="{:.3f}".format, na_rep="undefined", max_rows=_MOST_ROWS)
        blocks.append(f"all models, {heading}\n{told}")
    inputs = members["inputs_with_truth"].iloc[0]  # the same for all
    blocks.append(f"inputs with the truth: {_shown(inputs)}. All of it: {MEMBERS} beside the page.")
    return "\n\n".join(blocks)


def _shown(value: float, form: str = "{:.3f}") -> str:
    return form.format(value) if math.isfinite(value) else "undefined"


def _additions(bar: Progress) -> Callable[[int, int], None]:
    """Progress that counts from the start, on a bar that counts additions."""
    before = 0

    def tell(done: int, total: int) -> None:
        nonlocal before
        if before == 0:
            bar.total(total)
        bar.advance(done - before)
        before = done

    return tell


def _about_run(folder: Any, member: int) -> list[tuple[str, str]]:
    if folder is None:
        return []
    rule = [("Trained where", folder.plan.where)] if folder.plan.where else []
    return [("Run", f"{folder.path}, member {member}"), *rule, *_collapsed(folder, member)]


def _collapsed(folder: RunFolder, member: int) -> list[tuple[str, str]]:
    """That the member is collapsed, where its codes are stored by which that is known."""
    from unbraid.scoring.counted import collapsed_members

    try:
        found = collapsed_members(folder, [member])
    except (FileNotFoundError, DamagedFileError):
        return []
    told = f"{found[member]} of {folder.plan.latents} latents are active" if found else ""
    return [("Collapsed", f"{told}: distances between its codes are those of noise")] * bool(found)


def _check_same(dataset: Dataset, run: Any) -> None:
    if dataset.fingerprint() != run.plan.data_fingerprint:
        rule = f"must be what {run.path} was trained on, which is {run.plan.data}"
        raise invalid("data", rule, dataset.name, "Leave the data out: the run knows its own.")


def _usual_folder(dataset: Dataset, loss: str, run: RunFolder | None, member: int) -> Path:
    """A folder for each data, loss and member; a digest tells files of one name apart."""
    from unbraid.analysis.distances.perceived_distances import data_words

    words = [data_words(dataset) if run is None else f"distances-{member}", loss]
    if run is None and "source" in dataset.options:
        words.append(hashlib.sha256(str(dataset.options["source"]).encode()).hexdigest()[:6])
    name = re.sub(r"\W+", "-", "-".join(words)).strip("-")
    return (Path("distances") if run is None else run.path) / name
