# SPDX-License-Identifier: Apache-2.0
"""The door to reduction: labels in; out a folder with the images to keep and a page that shows why.
The command line calls it.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import whole
from unbraid.core.errors import Problems, Shown
from unbraid.search.reduce.reduction import (
    NO_PEAKS,
    USUAL,
    Reduction,
    ReductionRule,
    checked_labels,
    reduce,
)

if TYPE_CHECKING:
    import pandas as pd

    from unbraid.data.dataset import Dataset
    from unbraid.report.reduce.context import Examples
    from unbraid.scoring.code_tables import CodeTable

PAGE, POSITIONS, TABLE = "reduce.html", "kept.npy", "kept.csv"
EXAMPLES = 10
"""Images in a row of the page."""
_CALL = (
    "from unbraid.commands.reduce import reduce_labels\nfrom unbraid.search.reduce.reduction import"
    " ReductionRule"
)


@dataclass(frozen=True)
class Reduced:
    """A reduction and the folder it was written to."""

    reduction: Reduction
    names: tuple[str, ...]
    folder: Path

    @property
    def indices(self) -> NDArray[np.int64]:
        """Ascending positions of the images that are kept."""
        return self.reduction.indices

    @property
    def page(self) -> Path:
        """The page that shows how they were chosen."""
        return self.folder / PAGE

    def summary(self) -> str:
        """A line for each latent, what is kept or why nothing is, and where it was written."""
        from unbraid.report.reduce.words import latent_sentence, stopped_sentence

        found = self.reduction
        lines = [f"{name}: {latent_sentence(found, at)}" for at, name in enumerate(self.names)]
        if found.stopped:
            lines += ["", stopped_sentence(found, self.names)]
        else:
            taken = f"candidate {found.index} of 0..{len(found.candidates) - 1}"
            lines += ["", f"{len(found.indices):,} of {len(found.cells):,} images kept, {taken}."]
            lines.append(f"Written: {self.folder / POSITIONS}, {self.folder / TABLE}")
        return "\n".join([*lines, f"Open in a browser: {self.page}"])


def reduce_labels(
    labels: ArrayLike | pd.DataFrame | str | Path,
    *,
    columns: str | Sequence[str] | None = None,
    index: int = 0,
    rule: ReductionRule = USUAL,
    out: str | Path | None = None,
    images: Any = None,
    data_options: dict[str, Any] | None = None,
    names: Sequence[str] | None = None,
    command: str = "",
) -> Reduced:
    """Reduce a dataset by *labels*, and write page, positions and table of the images that are kept
    to the new folder *out*.

    *labels* are codes `(images, latents)`: an array, a pandas table, or the path of a .npy, .npz, .csv or .parquet file, such as
    the codes.csv of `discover`. Of a table with names all columns of numbers are codes but `image`
    and `name`, or those that
    *columns* names. *index* picks among the candidates, see `unbraid.search.reduce.reduction.reduce`. *images*, a name, a path, an array
    or a `Dataset` in the order of the labels, puts examples on the page. *names* are those of the
    latents; unless given, those of the columns. Without *out* the folder is the next free
    `reductions/<labels>-<n>`. Where the reduction stops, only the page is written: there is nothing
    to keep.
    """
    from unbraid.commands.train import next_folder
    from unbraid.core.store import write_bytes
    from unbraid.population.run_folder import check_free
    from unbraid.report.reduce.context import write_reduce

    problems = Problems()
    path = Path(labels) if isinstance(labels, (str, Path)) else None
    table = problems.collect(lambda: _read(labels if path is None else path, columns))
    codes = None if table is None else table.codes
    dataset = (
        None if images is None else problems.collect(lambda: _opened(images, data_options or {}))
    )
    index = whole(problems, "index", index, 0)
    titles = _names(problems, names, table)
    if codes is not None and dataset is not None and len(dataset) != len(codes):
        remedy = "Give the very images that were encoded, in their order."
        problems.add(
            "images",
            f"must be {len(codes):,}, one for each row of the labels",
            Shown(f"{len(dataset):,}"),
            remedy,
        )
    folder = (
        next_folder(path.stem if path else "labels", "reductions") if out is None else Path(out)
    )
    problems.collect(lambda: check_free(folder))
    problems.raise_if_any()
    assert table is not None
    assert codes is not None
    chosen = (table.names or ()) if columns is not None else ()

    found = reduce(codes, index, rule)
    made = Reduced(found, titles, folder)
    if found.stopped is None:
        write_bytes(folder / POSITIONS, _positions(found.indices))
        write_bytes(folder / TABLE, _table(found.indices, codes, titles, table.images))
    write_reduce(
        made.page,
        found,
        titles,
        source=str(path) if path else "",
        examples=None if dataset is None else _examples(found, dataset),
        next_steps=_next_steps(made, path, chosen, images, data_options or {}),
        command=command,
    )
    return made


def _read(labels: Any, columns: str | Sequence[str] | None) -> CodeTable:
    from unbraid.scoring.code_tables import read_codes

    table = read_codes(labels, columns, "labels")
    return replace(table, codes=checked_labels(table.codes))


def _opened(images: Any, options: dict[str, Any]) -> Dataset:
    from unbraid.data import load
    from unbraid.data.dataset import Dataset

    return images if isinstance(images, Dataset) else load(images, **options)


def _names(
    problems: Problems, names: Sequence[str] | None, table: CodeTable | None
) -> tuple[str, ...]:
    """Names of the latents: those given, those of the columns, or numbers."""
    count = table.codes.shape[1] if table is not None else 0
    if names is None:
        return (table.names if table is not None else None) or tuple(
            f"latent {at}" for at in range(count)
        )
    given = [names] if isinstance(names, str) else list(names)
    if table is not None and len(given) != count:
        problems.add("names", f"must be {count}, one for each latent", given)
    if len({str(name) for name in given}) < len(given) or not all(
        str(name).strip() for name in given
    ):
        problems.add("names", "must differ from each other and not be empty", given)
    return tuple(str(name) for name in given)


def _positions(indices: NDArray[np.int64]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, indices, allow_pickle=False)
    return buffer.getvalue()


def _table(
    indices: NDArray[np.int64],
    codes: NDArray[np.float64],
    names: Sequence[str],
    images: Sequence[str] | None,
) -> bytes:
    """Position and codes of every image that is kept, and its name where it is known."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["position", *(["name"] if images else []), *names])
    writer.writerows(
        [at, *([images[at]] if images else []), *codes[at].tolist()] for at in indices.tolist()
    )
    return buffer.getvalue().encode()


def _examples(found: Reduction, dataset: Dataset) -> Examples:
    """Images spread evenly over those that are kept and those that are not."""
    from unbraid.report.reduce.context import Examples

    left_out = np.setdiff1d(np.arange(len(found.cells)), found.indices)
    return Examples(*(dataset.images(_spread(some)) for some in (found.indices, left_out)))


def _spread(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """A few of *positions*, one of each of equal parts: regular spacing would follow the grid of a
    dataset that has one.
    """
    parts = np.array_split(positions, min(EXAMPLES, max(1, len(positions))))
    rng = np.random.default_rng(0)
    return np.array([rng.choice(part) for part in parts if len(part)], dtype=np.int64)


def _called(images: Any, options: dict[str, Any]) -> str:
    """The kept images in Python, as far as the call tells where they come from."""
    if not isinstance(images, (str, Path)):
        return "images[kept]  # your images, in the order of the labels"
    return f"ub.load({str(images)!r}{''.join(f', {key}={value!r}' for key, value in options.items())}).images(kept)"


def _options(
    columns: Sequence[str], rule: ReductionRule, images: Any, options: dict[str, Any]
) -> str:
    """The options of the command line with which the same is done again, as far as it has them."""
    said = ["--columns", ",".join(columns)] if columns else []
    said += ["--published"] if rule == ReductionRule(chance=None) else []
    if isinstance(images, (str, Path)):
        said += [
            "--images",
            str(images)
            + ":" * bool(options)
            + ",".join(f"{name}={value}" for name, value in options.items()),
        ]
    return "".join(f" {shlex.quote(word)}" for word in said)


def _next_steps(
    made: Reduced, path: Path | None, columns: Sequence[str], images: Any, options: dict[str, Any]
) -> list[tuple[str, str]]:
    """What a person can do next, each with the lines that do it; *columns* are those that were
    chosen, if any.
    """
    found, steps, called = made.reduction, [], _called(images, options)
    if found.stopped is None:
        lines = [
            "import numpy as np",
            "import unbraid as ub",
            f"kept = np.load({str(made.folder / POSITIONS)!r})",
        ]
        lines += [f"kept_images = {called}", 'ub.train(kept_images, "beta_tcvae", seeds=5)']
        steps.append(
            (
                "Train on what is kept. What these latents found no longer varies in it.",
                "\n".join(lines),
            )
        )
        told = (
            f"{TABLE} has the positions, counted from 0, and the codes of the images that are kept"
        )
        steps.append((f"{told}; {POSITIONS} has the positions alone.", ""))
    if len(found.candidates) > 1:
        other = 1 if found.index == 0 else 0
        if path:
            where = (
                "unbraid reduce"
                f" {shlex.quote(str(path))}{_options(columns, found.rule, images, options)} --index"
                f" {other}"
            )
        else:
            where = (
                "reduce_labels(labels,"
                f" {f'columns={list(columns)}, ' if columns else ''}index={other})"
            )
        steps.append(("Keep another candidate of the table.", where))
    if found.stopped == NO_PEAKS:
        told = (
            "Codes rise without steps when what the latent follows varies without steps, when"
            " several things share the latent, or when the model was not trained to the end. Leave"
            " out the latents without steps, or train on."
        )
        steps.append((told, ""))
        if any(len(one.by_chance) for one in found.latents):
            told = (
                "The published rule alone, without the bound on chance, takes the marked rises for"
                " steps."
            )
            steps.append((told, f"{_CALL}\nreduce_labels(labels, rule=ReductionRule(chance=None))"))
    elif found.stopped:
        steps.append(
            (
                (
                    "The recursion ends here: the labels so far describe the images as finely as so"
                    " few of them allow."
                ),
                "",
            )
        )
    return steps
