# SPDX-License-Identifier: Apache-2.0
"""Tables in the .csv and .parquet files that people bring, with the lines that messages name."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.core.checks import raise_shortened
from unbraid.core.errors import Problems, Shown, UnbraidError, invalid
from unbraid.core.files import cannot_be_read

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CsvTable:
    """The cells of a .csv as text; every row has as many."""

    path: Path
    names: tuple[str, ...] | None
    """The line of names above the rows, where there is one."""
    rows: list[list[str]]
    lines: list[int]
    """The line of the file in which each row stands."""

    def line(self, row: int) -> str:
        """What messages call the row."""
        return f"line {self.lines[row]} of {self.path}"


def read_csv(path: Path, *, named: bool | None = None) -> CsvTable:
    """The .csv at *path*, blank lines left out; the first line holds names where *named*.

    By default it does unless all its cells are numbers.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            found = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except OSError as error:
        raise UnbraidError(cannot_be_read(path, error)) from error
    except (UnicodeDecodeError, csv.Error) as error:
        rule = "must be a comma-separated text file in UTF-8"
        raise invalid(str(path), rule, Shown(f"another ({error})"), "Write it again.") from error
    if not found:
        raise invalid(str(path), "must hold numbers", Shown("an empty file"), "Write it again.")
    lines, rows = [line for line, _ in found], [row for _, row in found]
    _check_widths(path, rows, lines)
    if named is None:
        # A blank first cell is the corner above an index, which is refused by name below.
        named = not rows[0][0].strip() or any(c.strip() and not is_number(c) for c in rows[0])
    if not named:
        return CsvTable(path, None, rows, lines)
    names = tuple(name.strip() for name in rows[0])
    if not all(names):
        rule = "must not have a column without a name, such as an index"
        remedy = "Write it without (pandas: to_csv(..., index=False))."
        raise invalid(str(path), rule, rows[0], remedy)
    return CsvTable(path, names, rows[1:], lines[1:])


def _check_widths(path: Path, rows: list[list[str]], lines: list[int]) -> None:
    problems = Problems()
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(rows[0]):
            rule = f"must have {len(rows[0])} values"
            remedy = "Separate them by commas, as many in each line."
            problems.add(f"line {line} of {path}", rule, Shown(",".join(row)), remedy)
    raise_shortened(problems)


def is_number(text: str) -> bool:
    """Whether *text* spells a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_parquet(path: Path) -> pd.DataFrame:
    """The table in the .parquet file at *path*."""
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except Exception as error:  # what pandas keeps of itself in a file may be anything
        value = Shown(f"one that cannot be read ({' '.join(str(error).split())})")
        remedy = "Write it again."
        raise invalid(str(path), "must be a complete Parquet file", value, remedy) from error
