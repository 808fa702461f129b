# SPDX-License-Identifier: Apache-2.0
"""Labels of own data: whole numbers, a row per image and a column per factor."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.arrays import read_npy, to_numpy
from unbraid.core.checks import raise_shortened
from unbraid.core.errors import InputError, Problems, Shown, invalid
from unbraid.core.grid import relabel
from unbraid.core.tables import CsvTable, read_csv

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}(\.0*)?\s*")


@dataclass(frozen=True)
class FactorTable:
    """Known factors of `n` images: renumbered values, and what each number stood for."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    rows: NDArray[np.int64]
    values: tuple[NDArray[np.int64], ...]
    """For each factor its original values in ascending order; row value k stands for entry k."""


def no_factors(count: int) -> FactorTable:
    """The table of *count* images about which nothing is known."""
    return FactorTable((), (), np.empty((count, 0), dtype=np.int64), ())


def table_from_array(labels: Any, count: int, names: Sequence[str] | None) -> FactorTable:
    """Check *labels* `(n,)` or `(n, factors)` of *count* images; number each factor's values.

    Columns of a pandas table, or a series, that have names keep them.
    """
    given = getattr(labels, "columns", None)
    given = [getattr(labels, "name", None)] if given is None else list(given)
    named = [name for name in given if isinstance(name, str) and name]
    if names is None and named and len(named) == len(given):
        names = named
    rows = to_numpy(labels, "factors")
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise invalid(
            "factors",
            "must have shape (n,) or (n, factors)",
            Shown(f"shape {rows.shape}"),
            "Give a row of whole numbers for each image.",
        )
    if len(rows) != count:
        raise invalid(
            "factors",
            f"must have one row for each of {count} images",
            Shown(f"{len(rows)} rows"),
            "Give those of these images.",
        )
    rows = _whole_numbers(rows)
    names = (
        tuple(f"factor_{column}" for column in range(rows.shape[1]))
        if names is None
        else tuple(names)
    )
    problems = Problems()
    if len(names) != rows.shape[1]:
        problems.add("factor_names", f"must name each of {rows.shape[1]} columns", list(names))
    if len(set(names)) != len(names) or not all(
        isinstance(name, str) and name.strip() for name in names
    ):
        problems.add("factor_names", "must be different words, none empty", list(names))
    problems.raise_if_any()
    renumbered, sizes = relabel(rows)
    return FactorTable(names, sizes, renumbered, tuple(np.unique(column) for column in rows.T))


def _whole_numbers(rows: NDArray[Any]) -> NDArray[np.int64]:
    remedy = "Number the values of each factor 0, 1, 2, ..."
    if rows.dtype.kind in "biu":
        if rows.size and int(rows.max()) > np.iinfo(np.int64).max:
            rule = f"must be whole numbers of at most {np.iinfo(np.int64).max}"
            raise invalid("factors", rule, Shown(str(rows.max())), remedy)
        return rows.astype(np.int64)
    if rows.dtype.kind != "f":
        raise invalid("factors", "must be whole numbers", Shown(f"dtype {rows.dtype}"), remedy)
    with np.errstate(over="ignore"):
        sizes = np.abs(rows.astype(np.float64))  # half precision knows no 2^53
    wrong = ~(np.isfinite(rows) & (rows == np.rint(rows)) & (sizes < 2**53))
    if wrong.any():
        row, column = (int(part) for part in np.argwhere(wrong)[0])
        value = Shown(
            f"{rows[row, column]} in row {row}, column {column} ({int(wrong.sum())} such values)"
        )
        raise invalid("factors", "must be whole numbers", value, remedy)
    return rows.astype(np.int64)


def table_from_file(
    path: Path, count: int, names: Sequence[str] | None, files: Sequence[str] | None
) -> FactorTable:
    """Labels in *path*, a .npy or a .csv.

    A .csv has a `file` column exactly when the images are *files* of a folder.
    """
    if not path.is_file():
        rule, remedy = "must be an existing .npy or .csv file", "Put it there, or correct the path."
        raise invalid("factors", rule, Shown(os.fspath(path)), remedy)
    if path.suffix.lower() == ".npy":
        try:
            return table_from_array(read_npy(path), count, names)
        except InputError as error:
            told = [replace(one, sentence=f"{path}: {one.text}") for one in error.problems]
            raise InputError(*told) from error
    if path.suffix.lower() != ".csv":
        raise invalid("factors", "must be a .npy or .csv file", Shown(os.fspath(path)))
    table = read_csv(path, named=True)
    if not table.rows:
        raise invalid(str(path), "must have a row for each image", Shown("none"), "Add them.")
    header = list(table.names or ())
    rows = table.rows
    if files is not None:
        order = _in_file_order(table, files)
        table = replace(table, lines=[table.lines[row] for row in order])
        header, rows = header[1:], [rows[row][1:] for row in order]
    elif header[0] == "file":
        rule, value = "may name files only for a folder of images", Shown("a column 'file'")
        remedy = "Take the column out and put the rows in the order of the images."
        raise invalid(str(path), rule, value, remedy)
    numbers = _whole_cells(table, header, rows)
    return table_from_array(numbers, count, header if names is None else names)


def _in_file_order(table: CsvTable, files: Sequence[str]) -> list[int]:
    """The row of each of *files*; each must have exactly one."""
    header = list(table.names or ())
    if header[0] != "file" or len(header) < 2:
        rule, value = "must have `file` as first column, then factors", Shown(",".join(header))
        remedy = "Write a header such as: file,shape,size."
        raise invalid(str(table.path), rule, value, remedy)
    known, found = set(files), dict[str, int]()
    problems = Problems()
    for row, cells in enumerate(table.rows):
        name = cells[0].strip()
        if name not in known:
            remedy = "Put that image there, or take the line out."
            problems.add(table.line(row), "must name an image of the folder", name, remedy)
        elif name in found:
            rule = f"may name each image once, but line {table.lines[found[name]]} has it too"
            problems.add(table.line(row), rule, name)
        else:
            found[name] = row
    for name in files:
        if name not in found:
            value = Shown(f"none for '{name}'")
            remedy = "Add a line for it, or take the image out."
            problems.add(str(table.path), "must have a row for every image", value, remedy)
    raise_shortened(problems)
    return [found[name] for name in files]


def _whole_cells(
    table: CsvTable, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> NDArray[np.int64]:
    """The cells of *rows*, which stand in the lines of *table*, as whole numbers."""
    problems = Problems()
    numbers = np.zeros((len(rows), len(header)), dtype=np.int64)
    for nth, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            if _WHOLE.fullmatch(cell):
                numbers[nth, column] = int(cell.split(".")[0])
            else:
                where = f"{table.line(nth)}, '{header[column]}'"
                problems.add(where, "must be a whole number", cell)
    raise_shortened(problems)
    return numbers
