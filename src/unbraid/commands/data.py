# SPDX-License-Identifier: Apache-2.0
"""Datasets: look at them, add published ones, write them to files."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.verb import Option, command
from unbraid.core.errors import Shown, invalid


@command
def info(
    data: Annotated[
        str, Option("A dataset, or a folder of images, .npy or .npz; all by default.")
    ] = "",
    *,
    check: Annotated[bool, Option("Compare every stored byte with its checksum.")] = False,
) -> str:
    """Say what a dataset is: images, factors, licence, citation, where it lies, if verified."""
    from unbraid.data.info import describe, overview

    if data:
        source, options = declared.split_source(data, None)
        return describe(source, options, full_check=check)
    if check:
        example = "For example: unbraid data info shapes3d --check."
        raise invalid("check", "needs the name of a dataset", Shown("none"), example)
    return overview()


@command
def show(
    data: Annotated[str, Option("A dataset, or a folder of images, .npy or .npz.")],
    *,
    out: Annotated[
        str | Path | None, Option("The page to write; by default data-NAME.html in this folder.")
    ] = None,
) -> Path:
    """Write a page with samples, one row of images for each factor, sizes and statistics."""
    from unbraid.data import DATA
    from unbraid.data.info import status
    from unbraid.report.data.context import page_place, write_data

    place = page_place(data, None if out is None else Path(out))
    dataset = declared.open_data(data)
    about = (
        [("Status", status(dataset.name))]
        if dataset.name in DATA
        else [("Lies in", str(dataset.options.get("source", "")))]
    )
    return write_data(place, dataset, data, about)


@command
def add(
    name: Annotated[str, Option("A published dataset (`unbraid data info`).")],
    file: Annotated[
        str | os.PathLike[str] | None,
        Option("The published file or folder; may be left out where a system package has it."),
    ] = None,
    *,
    unverified: Annotated[
        bool, Option("Take a file that is not as published, if its structure is right.")
    ] = False,
) -> str:
    """Verify and convert the published files of a dataset, so that `train` finds them.

    Returns what `info` says of it.
    """
    from unbraid.data.info import describe
    from unbraid.data.official.add import add as add_files

    add_files(name, file, unverified=unverified)
    return describe(name)


@command
def remove(name: Annotated[str, Option("A published dataset that was added.")]) -> Path:
    """Delete what `unbraid data add` kept of a dataset; the published file is not touched."""
    from unbraid.data.official.add import remove as remove_files

    return remove_files(name)


@command
def export(
    data: declared.Data,
    *,
    out: Annotated[
        str | Path, Option("An .npz file, or a name without an ending for a folder of .png.")
    ],
    count: Annotated[int | None, Option("How many images to pick at random.")] = None,
    indices: Annotated[
        str | Sequence[int] | None,
        Option("These images: numbers and ranges, as in 7,9,100:200.", kind="TEXT"),
    ] = None,
    seed: Annotated[int, Option("Which images a count picks.")] = 0,
    data_options: declared.DataOptions = None,
) -> Path:
    """Write a dataset, or some of it, to files that `load` and other programs read."""
    from unbraid.data.export import export as export_files
    from unbraid.data.export import parse_indices

    dataset = declared.open_data(data, data_options)
    chosen = parse_indices(indices, len(dataset)) if isinstance(indices, str) else indices
    return export_files(dataset, out, count=count, indices=chosen, seed=seed)


def shown(verb: str, made: Any, given: dict[str, Any]) -> str:
    """What was made, and what to type next."""
    if verb == "show":
        return f"Open in a browser: {made}"
    if verb == "add":
        name = given["name"]
        return f"{made}\nNext:  unbraid train {name}{':file=added' * (name == 'dsprites')}"
    if verb == "remove":
        return f"Removed: {made}"
    if verb == "export":
        return f"Written: {made}\nNext:  unbraid data info {made}"
    return made


def __getattr__(name: str) -> Any:
    """What the package `unbraid.data` has, since `unbraid.data` as an attribute is this module."""
    return getattr(importlib.import_module("unbraid.data"), name)
