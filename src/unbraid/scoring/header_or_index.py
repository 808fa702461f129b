# SPDX-License-Identifier: Apache-2.0
"""What pandas writes around numbers: a header and an index that are numbers too.

In a table without names both look like data, and would be taken for a sample and a latent. What
more likely is one of them than data is refused; to name the columns, or to leave it out, settles
it.

A first line is taken for a header where it holds whole numbers from 0, each larger than the one
before, as names of columns and of a choice of them do, and one of them stands out in its column: it
alone is written without a point, or no row below has it, though fractions or few different numbers
there say that rows should be like others. A line of 0, 1, ..., or 1, 2, 3, ..., above nothing but
whole numbers may be either, and is refused; of a single column only the point tells.

A first column beside others is taken for an index where it holds whole numbers, all different, that
rise by one or, in tables of some length, at all; or in any order if no other column is like it,
where so many different ones are no accident. Codes and factors of whole numbers remain what they
are: they repeat, or all their columns are alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from unbraid.core.errors import Shown, invalid
from unbraid.core.tables import CsvTable

_NAME, _INDEX = re.compile(r"\s*\d{1,15}(\.0)?\s*"), re.compile(r"\s*\d{1,15}\s*")
_WITHOUT_POINT = re.compile(r"\s*[+-]?\d+\s*")
_FEW = 0.1
"""Of the rows: a column of fewer different numbers has most of them several times."""
_RISES_FROM, _DIFFERS_FROM = 8, 20
"""Rows from which whole numbers that rise, and those that are all different, are no accident."""


def check_header_and_index(table: CsvTable) -> None:
    """Refuse a *table* of numbers without names whose first line or column is none of the data."""
    columns = list(zip(*table.rows, strict=True))
    if _is_header(columns):
        rule, value = "must be names or numbers, and may be either", ",".join(table.rows[0])
        remedy = "Give the columns names in the first line."
        raise invalid(table.line(0), rule, Shown(value), remedy)
    if len(columns) > 1 and _is_index(columns):
        rule, value = "must not have an index as its first column", ", ".join(columns[0][:3])
        remedy = "Write it without (pandas: to_csv(..., index=False)), or name the columns."
        raise invalid(str(table.path), rule, Shown(f"{value}, ... there"), remedy)


def _is_header(columns: Sequence[Sequence[str]]) -> bool:
    first = [column[0] for column in columns]
    if len(columns[0]) < 2 or not _all_of(_NAME, first) or not _rises(first):
        return False
    if any(map(_alone_without_point, columns)):
        return True
    if len(first) == 1:
        return False
    if all(_all_of(_WITHOUT_POINT, column) for column in columns) and _counts(first):
        return True
    return any(map(_unlike_others, columns))


def _alone_without_point(column: Sequence[str]) -> bool:
    first, *others = map(_WITHOUT_POINT.fullmatch, column)
    return bool(first) and not any(others)


def _counts(cells: Sequence[str]) -> bool:
    """Whether several are 0, 1, ..., or 1, 2, 3, ..., which two of a factor's values often are."""
    start = int(cells[0])
    rise = [int(cell) - start for cell in cells] == [*range(len(cells))]
    return rise and start <= 1 < len(cells) - start


def _unlike_others(column: Sequence[str]) -> bool:
    """Whether no other row has the number of the first, where some should."""
    first, *others = map(float, column)
    fractions = any(value % 1 > 0 for value in others)
    return first not in others and (fractions or len(set(others)) <= _FEW * len(others))


def _is_index(columns: Sequence[Sequence[str]]) -> bool:
    first, rows = columns[0], len(columns[0])
    if rows < 3 or not _all_different(first):
        return False
    if _rises(first):
        return rows >= _RISES_FROM or int(first[-1]) - int(first[0]) == rows - 1
    return rows >= _DIFFERS_FROM and not any(map(_all_different, columns[1:]))


def _all_different(column: Sequence[str]) -> bool:
    """Whether all are whole numbers, each another."""
    return _all_of(_INDEX, column) and len(set(map(int, column))) == len(column)


def _all_of(spelling: re.Pattern[str], cells: Sequence[str]) -> bool:
    return all(map(spelling.fullmatch, cells))


def _rises(cells: Sequence[str]) -> bool:
    values = [float(cell) for cell in cells]
    return all(later > before for before, later in pairwise(values))
