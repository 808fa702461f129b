# SPDX-License-Identifier: Apache-2.0
"""The door to perceived distances: open the data and the run, measure, write the page. The command
line calls the same.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import InputError, invalid
from unbraid.core.progress import Progress
from unbraid.data import load
from unbraid.data.dataset import Dataset

if TYPE_CHECKING:
    from unbraid.analysis.distances.perceived_distances import Distances
    from unbraid.commands.train import Run


def measure_distances(
    data: Any = None,
    loss: str = "mse",
    *,
    data_options: dict[str, Any] | None = None,
    run: str | Path | Run | None = None,
    member: int | None = None,
    pairs: int = 50_000,
    seed: int = 0,
    out: str | Path | None = None,
    device: str = "auto",
    command: str = "",
    quiet: bool = False,
) -> tuple[Distances, Path]:
    """Perceived distances of *data*, or of the data of a *run* with one of its members, and the
    path of the page that shows them.

    The tables are `importance_table()`, `order_table()` and `matrix_table()` of the first result.

    *data* is a name, a path, an array or a `Dataset`. The *member* is the first unless told. *out* is the folder of the page;
    without it `distances/<data>-<loss>`, or `distances-<member>-<loss>` in the run folder. See
    `unbraid.analysis.distances.perceived_distances.perceived_distances` for the rest.
    """
    from unbraid.analysis.distances.perceived_distances import perceived_distances
    from unbraid.commands.train import Run
    from unbraid.population.devices import choose_device
    from unbraid.population.run_folder import RunFolder
    from unbraid.report.distances.context import write_distances

    chosen = choose_device(device)
    if data is None and run is None:
        raise InputError(
            "distances need data or a run to look at. For example: unbraid distances dsprites."
        )
    if member is not None and run is None:
        raise invalid("member", "belongs to a run", member, "Give the run too: --run FOLDER.")
    member = 0 if member is None else member
    dataset = (
        None
        if data is None
        else data
        if isinstance(data, Dataset)
        else load(data, **(data_options or {}))
    )
    folder = run.folder if isinstance(run, Run) else None if run is None else RunFolder.open(run)
    if folder is not None:
        if dataset is not None:
            _check_same(dataset, folder)
            folder.use(dataset)
        dataset = folder.dataset
    assert dataset is not None
    with Progress("comparing", "images", 0, quiet) as bar:
        found = perceived_distances(
            dataset,
            loss,
            run=folder,
            member=member,
            pairs=pairs,
            seed=seed,
            device=chosen,
            progress=_told(bar),
        )
    where = (
        Path(out)
        if out is not None
        else _usual_folder(found, dataset, folder.path if folder else None, member)
    )
    return found, write_distances(found, dataset, where, command, _about_run(folder, member))


def printed(found: Distances) -> str:
    """The importance of every factor and the rank correlation with the ground truth, a table for
    each level.
    """
    import pandas as pd

    blocks = []
    for level in found.levels:
        ranked = sorted(level.factors, key=lambda one: -one.importance.mean)
        rows = [("random pairs", level.random, "")]
        rows += [(one.factor, one.importance, _shown(one.spearman)) for one in ranked]
        table = pd.DataFrame(
            {
                "mean": f"{one.mean:#.4g}",
                "std": f"{one.std:#.4g}",
                "std error": _shown(one.standard_error, "{:.1e}"),
                "pairs": f"{one.pairs:,}",
                "rank correlation": correlation,
            }
            for _, one, correlation in rows
        )
        table.index = pd.Index([name for name, _, _ in rows])
        blocks.append(f"{level.key} ({level.measure})\n{table.to_string()}")
    return "\n\n".join([*blocks, *found.missing])


def _shown(value: float, form: str = "{:.3f}") -> str:
    return form.format(value) if math.isfinite(value) else "undefined"


def _told(bar: Progress) -> Callable[[int, int], None]:
    """Progress as the analysis tells it, which counts from the start, on a bar that is told of
    every addition.
    """
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
    return [("Run", f"{folder.path}, member {member}"), *rule]


def _check_same(dataset: Dataset, run: Any) -> None:
    if dataset.fingerprint() != run.plan.data_fingerprint:
        rule = f"must be what {run.path} was trained on, which is {run.plan.data}"
        raise invalid("data", rule, dataset.name, "Leave the data out: the run knows its own.")


def _usual_folder(found: Distances, dataset: Dataset, run: Path | None, member: int | None) -> Path:
    """A folder of its own for every data, loss and member: files of one name in two places are told
    apart by a digest.
    """
    words = [f"distances-{member or 0}" if run else found.data, found.loss]
    if run is None and "source" in dataset.options:
        words.append(hashlib.sha256(str(dataset.options["source"]).encode()).hexdigest()[:6])
    name = re.sub(r"\W+", "-", "-".join(words)).strip("-")
    return run / name if run else Path("distances") / name
