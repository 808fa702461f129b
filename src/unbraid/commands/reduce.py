# SPDX-License-Identifier: Apache-2.0
"""`reduce`: labels in; out a folder with the images to keep and a page that shows why."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.options import split_source
from unbraid.commands.verb import Option, command
from unbraid.core.checks import whole
from unbraid.core.errors import Problems, Shown
from unbraid.core.folders import PAGES, next_folder

if TYPE_CHECKING:
    import os

    import numpy as np
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from unbraid.data.dataset import Dataset
    from unbraid.report.reduce.context import Examples
    from unbraid.scoring.code_tables import CodeTable
    from unbraid.search.reduce.reduction import Reduction, ReductionRule

_Labels = Annotated[
    "ArrayLike | pd.DataFrame | str | Path",
    Option(
        "Codes or other numbers of each image: .npy, .npz, .csv or .parquet, as `discover` writes;"
        " in Python an array or a table too.",
        kind="PATH",
    ),
]
_Images = Annotated[
    "str | os.PathLike[str] | NDArray[Any] | Dataset | None",
    Option("The images, in the same order, for examples on the page."),
]
_Rule = Annotated[
    "ReductionRule | None",
    Option("What counts as a step of the codes; beside `published`.", cli=False),
]
PAGE, POSITIONS, TABLE = PAGES["reduce"], "kept.npy", "kept.csv"
EXAMPLES = 10
"""Images in a row of the page."""


@dataclass(frozen=True)
class ReduceResult:
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


@command
def reduce(
    labels: _Labels,
    *,
    columns: Annotated[
        str | Sequence[str] | None,
        Option(
            "Which columns of a table are the codes, as in a,b; by default all numbers in it.",
            kind="TEXT",
        ),
    ] = None,
    index: Annotated[int, Option("Which of the candidates to keep, counted from 0.")] = 0,
    images: _Images = None,
    published: Annotated[
        bool, Option("The paper's rule alone, which takes chance gaps of noise for steps.")
    ] = False,
    rule: _Rule = None,
    names: Annotated[
        Sequence[str] | None,
        Option("Names of the latents; by default those of the columns.", cli=False),
    ] = None,
    data_options: declared.DataOptions = None,
    out: Annotated[
        str | Path | None,
        Option("Folder to write to; by default the next free one under reductions/."),
    ] = None,
    command: declared.Command = "",
) -> ReduceResult:
    """Cut a dataset down to images for which given labels hardly vary, and draw how.

    Estermann et al. (2020), figure 3. Writes a page, and positions and codes of the images that are
    kept; where the reduction stops, only the page.
    """
    from unbraid.core.files import write_bytes
    from unbraid.core.store import write_npy
    from unbraid.population.new_folder import check_free
    from unbraid.report.reduce.context import write_reduce
    from unbraid.search.reduce.reduction import USUAL, ReductionRule
    from unbraid.search.reduce.reduction import reduce as reduce_codes

    chosen_rule = rule or (ReductionRule(chance=None) if published else USUAL)
    source, source_options = split_source(images, data_options)
    problems = Problems()
    path = Path(labels) if isinstance(labels, (str, Path)) else None
    table = problems.collect(lambda: _read(labels if path is None else path, columns))
    codes = None if table is None else table.codes
    dataset = (
        None
        if source is None
        else problems.collect(lambda: declared.open_data(source, source_options))
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

    found = reduce_codes(codes, index, chosen_rule)
    made = ReduceResult(found, titles, folder)
    if found.stopped is None:
        write_npy(folder / POSITIONS, found.indices)
        write_bytes(folder / TABLE, _table(found.indices, codes, titles, table.images))
    write_reduce(
        made.page,
        found,
        titles,
        source=str(path) if path else "",
        examples=None if dataset is None else _examples(found, dataset),
        next_steps=_next_steps(made, path, chosen, source, source_options),
        command=command,
    )
    return made


def _read(labels: Any, columns: str | Sequence[str] | None) -> CodeTable:
    from unbraid.scoring.code_tables import read_codes
    from unbraid.search.reduce.reduction import checked_labels

    table = read_codes(labels, columns, "labels")
    return replace(table, codes=checked_labels(table.codes))


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
    import numpy as np

    from unbraid.report.reduce.context import Examples

    left_out = np.setdiff1d(np.arange(len(found.cells)), found.indices)
    return Examples(*(dataset.images(_spread(some)) for some in (found.indices, left_out)))


def _spread(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """A few of *positions*, one of each of equal parts: regular spacing would follow the grid of a
    dataset that has one.
    """
    import numpy as np

    parts = np.array_split(positions, min(EXAMPLES, max(1, len(positions))))
    rng = np.random.default_rng(0)
    return np.array([rng.choice(part) for part in parts if len(part)], dtype=np.int64)


def _called(images: Any, options: dict[str, Any]) -> str:
    """The kept images in Python, as far as the call tells where they come from."""
    if not isinstance(images, (str, Path)):
        return "images[kept]  # your images, in the order of the labels"
    given = "".join(f", {key}={value!r}" for key, value in options.items())
    return f"ub.load({str(images)!r}{given}).images(kept)"


def _options(
    columns: Sequence[str], rule: ReductionRule, images: Any, options: dict[str, Any]
) -> str:
    """The options of the command line with which the same is done again, as far as it has them."""
    from unbraid.search.reduce.reduction import ReductionRule

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
    made: ReduceResult,
    path: Path | None,
    columns: Sequence[str],
    images: Any,
    options: dict[str, Any],
) -> list[tuple[str, str]]:
    """What a person can do next, each with the lines that do it."""
    from unbraid.search.reduce.reduction import NO_PEAKS

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
                f"ub.reduce(labels, {f'columns={list(columns)}, ' if columns else ''}index={other})"
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
            steps.append((told, "ub.reduce(labels, published=True)"))
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
