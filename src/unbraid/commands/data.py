# SPDX-License-Identifier: Apache-2.0
"""`unbraid data`: what datasets there are, adding published ones from their files, and writing any
of them to files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unbraid.core.errors import Shown, invalid
from unbraid.core.spelling import as_number, as_source
from unbraid.data import DATA

data_app = typer.Typer(
    help="Datasets: look at them, add published ones, write them to files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A dataset, or a folder of images, .npy or .npz.", show_default=False
    ),
]


@data_app.command()
def info(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="A dataset, or a folder of images, .npy or .npz; all when left out.",
        ),
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Compare every stored byte with its checksum.")
    ] = False,
) -> None:
    """Say what a dataset is: images, factors, licence, citation, where it lies, whether it was
    verified.
    """
    from unbraid.data.info import describe, overview

    if not name:
        if check:
            example = "For example: unbraid data info shapes3d --check."
            raise invalid("--check", "needs the name of a dataset", Shown("none"), example)
        print(overview(), flush=True)
        return
    source, options = as_source(name)
    print(describe(source, options, full_check=check), flush=True)


@data_app.command()
def show(
    name: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write; by default data-NAME.html in this folder."),
    ] = None,
) -> None:
    """Write a page with samples, one row of images for each factor, sizes and statistics."""
    from unbraid.data import load
    from unbraid.data.info import status
    from unbraid.report.data.context import build_data_page, page_place

    source, options = as_source(name)
    place = page_place(name, out)
    dataset = load(source, **options)
    about = (
        [("Status", status(dataset.name))]
        if dataset.name in DATA
        else [("Lies in", str(dataset.options.get("source", "")))]
    )
    print(f"Open in a browser: {build_data_page(dataset, place, name, about)}", flush=True)


@data_app.command()
def add(
    name: Annotated[
        str, typer.Argument(help="A published dataset (`unbraid data info`).", show_default=False)
    ],
    file: Annotated[
        str | None,
        typer.Argument(
            help="The published file or folder; may be left out where a system package has it."
        ),
    ] = None,
    unverified: Annotated[
        bool,
        typer.Option(
            "--unverified", help="Take a file that is not as published, if its structure is right."
        ),
    ] = False,
) -> None:
    """Verify the published files of a dataset and convert them once, so that `unbraid train NAME`
    finds them.
    """
    from unbraid.data.info import describe
    from unbraid.data.official.add import add as add_dataset

    add_dataset(name, file, unverified=unverified)
    print(
        f"{describe(name)}\nNext:  unbraid train"
        f" {name}{':file=added' if name == 'dsprites' else ''}",
        flush=True,
    )


@data_app.command()
def remove(
    name: Annotated[
        str, typer.Argument(help="A published dataset that was added.", show_default=False)
    ],
) -> None:
    """Delete what `unbraid data add` kept of a dataset; the published file is not touched."""
    from unbraid.data.official.add import remove as remove_dataset

    print(f"Removed: {remove_dataset(name)}", flush=True)


@data_app.command()
def export(
    name: DataArgument,
    out: Annotated[
        Path,
        typer.Option(
            help="An .npz file, or a name without an ending for a folder of .png.",
            show_default=False,
        ),
    ],
    count: Annotated[str | None, typer.Option(help="So many images, picked at random.")] = None,
    indices: Annotated[
        str | None, typer.Option(help="These images: numbers and ranges, as in 7,9,100:200.")
    ] = None,
    seed: Annotated[str, typer.Option(help="Which images a count picks.")] = "0",
) -> None:
    """Write a dataset, or some of it, to files that `load` and other programs read."""
    from unbraid.data import load
    from unbraid.data.export import export as export_dataset
    from unbraid.data.export import parse_indices

    source, options = as_source(name)
    dataset = load(source, **options)
    written = export_dataset(
        dataset,
        out,
        count=None if count is None else as_number(count),
        indices=None if indices is None else parse_indices(indices, len(dataset)),
        seed=as_number(seed),
    )
    print(f"Written: {written}\nNext:  unbraid data info {written}", flush=True)
