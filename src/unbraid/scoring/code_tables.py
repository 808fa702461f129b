# SPDX-License-Identifier: Apache-2.0
"""Codes, or factors, from tables with named columns: .csv, .parquet or a pandas table, such as the
one that `discover` writes.

Every column of numbers is a code, but `image`, `name` and the like, which say in such a table what
a row is about. Columns without any number are descriptions and left out; of factors only where
every row has another value, and else the values are numbered, sorted. A column with numbers and
words is refused unless others are asked for. Columns called `index`, `id` or `Unnamed: 0` are
descriptions too where they hold whole numbers, all different: pandas makes them of an index.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
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

NOT_CODES = ("image", "picture", "name", "file")
_LATENT = re.compile(r"latent_(\d+)(: .*)?")
_INDEXES = ("index", "id", "unnamed: 0")


@dataclass(frozen=True)
class CodeTable:
    """Codes, and the names of their columns where the source has any."""

    codes: NDArray[Any]
    names: tuple[str, ...] | None = None
    images: tuple[str, ...] | None = None
    """What the column `name` says of each row, where there is one."""
    numbered: tuple[str, ...] = ()
    """Columns whose values are no numbers and were numbered."""
    left_out: tuple[str, ...] = ()
    """Columns that were not taken."""


def read_codes(
    source: Any, columns: str | Sequence[str] | None, argument: str, *, factors: bool = False
) -> CodeTable:
    """Codes from a path, a pandas table or an array, called *argument* in messages; *columns*
    chooses among those with names. Of *factors* text and truth values are numbered.
    """
    import pandas as pd

    table, where = source, f"the table of {argument}"
    if isinstance(source, Path):
        _check_kind(source, argument)
        table, where = _table(source, columns), str(source)
    if isinstance(table, pd.DataFrame):
        return _chosen(table, columns, where, factors)
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
    table: pd.DataFrame, columns: str | Sequence[str] | None, where: str, factors: bool
) -> CodeTable:
    """The columns asked for of a table called *where* in messages, else all that can be taken."""
    there = [str(name) for name in table.columns]
    _check_names(there, where)
    table = table.set_axis(there, axis=1)
    numbers = _numbers_of(table)
    numbered = _numbered(table.drop(columns=list(numbers)), where) if factors else {}
    both = numbers | numbered
    known = {name: both[name] for name in there if name in both}
    if not known:
        value = Shown(f"the columns {', '.join(there)}" if there else "no columns")
        remedy = "A column of numbers for each latent, separated by commas."
        raise invalid(where, "must have a column of codes", value, remedy)
    names = _own(list(known), factors) if columns is None else _asked_for(columns)
    problems = Problems()
    for name in names:
        if name in known:
            continue
        if name in there:
            remedy = f"Those that do: {', '.join(sorted(known))}."
            problems.add("columns", "must hold codes", name, remedy)
        else:
            problems.say(unknown("column", name, known))
    problems.raise_if_any()
    return CodeTable(
        np.column_stack([known[name] for name in names]),
        tuple(names),
        images=tuple(map(str, table["name"])) if "name" in there else None,
        numbered=tuple(numbered),
        left_out=tuple(name for name in there if name not in names),
    )


def _own(names: list[str], factors: bool) -> list[str]:
    """Of a table that ends with latent_0, latent_1, ... behind factors, as the explorer gives, the
    columns that are asked for.
    """
    numbers = [int(found[1]) for name in names if (found := _LATENT.fullmatch(name))]
    first = len(names) - len(numbers)
    behind = numbers and numbers == [*range(len(numbers))] and _LATENT.fullmatch(names[first])
    if not behind or not first:
        return names
    return names[:first] if factors else names[first:]


def _check_names(names: Sequence[str], where: str) -> None:
    if len(set(names)) < len(names):
        raise invalid(where, "must have another name for each column", list(names))


def _numbers_of(table: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Columns of numbers."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    return {
        str(name): column.to_numpy(dtype=np.float64, na_value=np.nan)
        for name, column in table.items()
        if name not in NOT_CODES
        and is_numeric_dtype(column)
        and not is_bool_dtype(column)
        and not is_complex_dtype(column)
        and not (str(name).lower() in _INDEXES and column.is_unique and (column % 1 == 0).all())
    }


def _numbered(table: pd.DataFrame, where: str) -> dict[str, NDArray[np.float64]]:
    """Columns of text, truth values and categories, as places of their sorted values."""
    import pandas as pd
    from pandas.api.types import infer_dtype

    found: dict[str, NDArray[np.float64]] = {}
    for name, column in table.items():
        values = pd.Series(np.asarray(column))  # those of categories, too
        kind = infer_dtype(values)
        if name in NOT_CODES or kind not in ("string", "boolean", "integer"):
            continue
        if kind == "string":
            values = values.astype("string").str.strip()
            values = values.mask(values == "")
        places, different = pd.factorize(values, sort=True)
        if len(different) == len(values):
            continue  # such as names of files
        if (places < 0).any():
            rule, remedy = "must have a value in every row", "Fill it in, or remove the column."
            value = Shown(f"none in row {int(np.argmin(places))}, counted from 0")
            raise invalid(f"column '{name}' of {where}", rule, value, remedy)
        found[str(name)] = places.astype(np.float64)
    return found


def _table(path: Path, columns: str | Sequence[str] | None) -> pd.DataFrame | None:
    """The table with named columns in the file at *path*, if one is there."""
    if path.suffix.lower() == ".parquet":
        return read_parquet(path)
    cells = _named_cells(path) if path.suffix.lower() == ".csv" else None
    return None if cells is None else _parsed(cells, columns)


def _named_cells(path: Path) -> CsvTable | None:
    """The .csv at *path*; None without a line of names, when it is a plain array."""
    table = read_csv(path)
    if table.names is None:
        return None
    _check_names(table.names, str(path))
    return table


def _parsed(table: CsvTable, columns: str | Sequence[str] | None) -> pd.DataFrame:
    """Cells as numbers in columns of numbers; one that counts and has words too is refused."""
    import pandas as pd

    wanted = None if columns is None else _asked_for(columns)
    problems, found = Problems(), dict[str, Any]()
    for at, name in enumerate(table.names or ()):
        column = found[name] = [row[at] for row in table.rows]
        if name in NOT_CODES or not any(map(is_number, column)):
            continue
        bad = next((row for row, cell in enumerate(column) if not is_number(cell)), None)
        if bad is None:
            found[name] = np.array(column, dtype=np.float64)
        elif wanted is None or name in wanted:
            remedy = "Write a number there, or remove the column."
            problems.add(f"{table.line(bad)}, '{name}'", "must be a number", column[bad], remedy)
    problems.raise_if_any()
    return pd.DataFrame(found)
