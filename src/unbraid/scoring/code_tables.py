# SPDX-License-Identifier: Apache-2.0
"""Codes, or factors, from tables with named columns: .csv, .parquet or a pandas table, such as the
one that `discover` writes.

Every column of numbers is a code, but `image` and `name`, which say in such a table what a row is
about. Columns without any number are descriptions and left out. A column with both is refused
unless others are asked for. Without names a first line or column that counts 0, 1, 2, ... is
refused: it is most likely what pandas writes around a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Problems, Shown, invalid, unknown
from unbraid.core.spelling import split_list
from unbraid.core.tables import CsvTable, is_number, read_csv, read_parquet
from unbraid.scoring.files import read_array

if TYPE_CHECKING:
    import pandas as pd

NOT_CODES = ("image", "picture", "name")


@dataclass(frozen=True)
class CodeTable:
    """Codes, and the names of their columns where the source has any."""

    codes: NDArray[Any]
    names: tuple[str, ...] | None = None
    images: tuple[str, ...] | None = None
    """What the column `name` says of each row, where there is one."""


def read_codes(source: Any, columns: str | Sequence[str] | None, argument: str) -> CodeTable:
    """Codes from a path, a pandas table or an array, called *argument* in messages; *columns*
    chooses among those with names.
    """
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return replace(
            _chosen(_numbers_of(source, f"the table of {argument}"), columns, source.columns),
            images=_named(source),
        )
    if isinstance(source, Path):
        _check_kind(source, argument)
        if source.suffix.lower() == ".parquet":
            table = read_parquet(source)
            return replace(
                _chosen(_numbers_of(table, str(source)), columns, table.columns),
                images=_named(table),
            )
        if source.suffix.lower() == ".csv" and (cells := _named_cells(source)) is not None:
            found = _chosen(_numbers_in(cells, columns), columns, cells.names or ())
            return replace(found, images=_image_names(cells))
    if columns is not None:
        value = Shown(str(source) if isinstance(source, Path) else "an array")
        remedy = "Leave them out, or give a .csv or .parquet with a line of names."
        raise invalid("columns", "can be chosen only where they have names", value, remedy)
    return CodeTable(read_array(source, argument) if isinstance(source, Path) else source)


def _check_kind(path: Path, argument: str) -> None:
    if not path.is_file():
        raise invalid(argument, "must be a file that exists", str(path))
    if path.suffix.lower() not in (".npy", ".npz", ".csv", ".parquet"):
        rule, remedy = "must be a .npy, .npz, .csv or .parquet file", "Save the array with np.save."
        raise invalid(argument, rule, str(path), remedy)


def _asked_for(columns: str | Sequence[str]) -> list[str]:
    """Names in the order asked for: a list, or one text with commas."""
    given = (
        split_list(columns) if isinstance(columns, str) else [str(name).strip() for name in columns]
    )
    if not given or len(set(given)) < len(given):
        raise invalid("columns", "must name one or more columns, each once", columns)
    return given


def _chosen(
    numbers: Mapping[str, NDArray[np.float64]],
    columns: str | Sequence[str] | None,
    there: Iterable[str],
) -> CodeTable:
    """The columns asked for, else all; *there* are those that are no codes too."""
    names, others = (
        list(numbers) if columns is None else _asked_for(columns),
        set(map(str, there)) - set(numbers),
    )
    problems = Problems()
    for name in names:
        if name in others:
            problems.add(
                "columns", "must hold codes", name, f"Those that do: {', '.join(sorted(numbers))}."
            )
        elif name not in numbers:
            problems.say(unknown("column", name, numbers))
    problems.raise_if_any()
    return CodeTable(np.column_stack([numbers[name] for name in names]), tuple(names))


def _check_names(names: Sequence[str], where: str) -> None:
    if len(set(names)) < len(names):
        raise invalid(where, "must have another name for each column", list(names))


def _check_any(numbers: Mapping[str, Any], where: str, there: Sequence[str]) -> None:
    if not numbers:
        value = Shown(f"the columns {', '.join(there)}" if there else "no columns")
        remedy = "A column of numbers for each latent, separated by commas."
        raise invalid(where, "must have a column of codes", value, remedy)


def _numbers_of(table: pd.DataFrame, where: str) -> dict[str, NDArray[np.float64]]:
    """Columns of numbers of a table called *where* in messages."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    there = [str(name) for name in table.columns]
    _check_names(there, where)
    found: dict[str, NDArray[np.float64]] = {}
    for at, name in enumerate(there):
        one = table.iloc[:, at]
        if (
            name not in NOT_CODES
            and is_numeric_dtype(one)
            and not is_bool_dtype(one)
            and not is_complex_dtype(one)
        ):
            found[name] = one.to_numpy(dtype=np.float64, na_value=np.nan)
    _check_any(found, where, there)
    return found


def _named(table: pd.DataFrame) -> tuple[str, ...] | None:
    """The names of the images in a table that has them."""
    return tuple(map(str, table["name"])) if "name" in table.columns else None


def _named_cells(path: Path) -> CsvTable | None:
    """The .csv at *path*; None without a line of names, when it is a plain array."""
    table = read_csv(path)
    if table.names is not None:
        _check_names(table.names, str(path))
        return table
    if _counts_up(table.rows[0]):
        rule, value = "must be names or codes, and may be either", Shown(",".join(table.rows[0]))
        remedy = "Give the columns names in the first line."
        raise invalid(table.line(0), rule, value, remedy)
    if len(table.rows) > 2 and len(table.rows[0]) > 1 and _counts_up([r[0] for r in table.rows]):
        rule = "must not have an index as its first column"
        value = Shown(f"0 to {len(table.rows) - 1} there")
        remedy = "Write it without (pandas: to_csv(..., index=False)), or name the columns."
        raise invalid(str(path), rule, value, remedy)
    return None


def _image_names(table: CsvTable) -> tuple[str, ...] | None:
    """The column `name`, where there is one."""
    if table.names is None or "name" not in table.names:
        return None
    column = table.names.index("name")
    return tuple(row[column] for row in table.rows)


def _numbers_in(
    table: CsvTable, columns: str | Sequence[str] | None
) -> dict[str, NDArray[np.float64]]:
    """Columns of numbers; one that is asked for and has numbers and words is refused."""
    wanted = None if columns is None else _asked_for(columns)
    problems, found = Problems(), dict[str, NDArray[np.float64]]()
    names = table.names or ()
    for at, name in enumerate(names):
        column = [row[at] for row in table.rows]
        if name in NOT_CODES or not any(map(is_number, column)):
            continue
        bad = next((row for row, cell in enumerate(column) if not is_number(cell)), None)
        if bad is None:
            found[name] = np.array(column, dtype=np.float64)
        elif wanted is None or name in wanted:
            remedy = "Write a number there, or choose others with {columns=}."
            problems.add(f"{table.line(bad)}, '{name}'", "must be a number", column[bad], remedy)
    problems.raise_if_any()
    _check_any(found, str(table.path), names)
    return found


def _counts_up(cells: Sequence[str]) -> bool:
    """Whether several cells are 0, 1, 2, ...: names that pandas gives to columns without any."""
    return len(cells) > 1 and [cell.strip() for cell in cells] == [
        str(at) for at in range(len(cells))
    ]
