# SPDX-License-Identifier: Apache-2.0
"""Tables that people bring: names or none, lines as the file counts them, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.core.errors import InputError
from unbraid.core.tables import is_number, read_csv


@pytest.mark.parametrize(
    ("text", "names", "rows", "lines"),
    [
        ("a,b\n1,2\n", ("a", "b"), [["1", "2"]], [2]),
        ("1,2\n3,4\n", None, [["1", "2"], ["3", "4"]], [1, 2]),
        ("a,1\n\n , \n3,4\n", ("a", "1"), [["3", "4"]], [4]),
        ('\ufeff" a ",b\n"x,\ny",2\n3,4\n', ("a", "b"), [["x,\ny", "2"], ["3", "4"]], [3, 4]),
        ("1,2,\n", None, [["1", "2", ""]], [1]),
    ],
    ids=["names", "numbers", "blank lines", "mark of Excel and quotes", "a blank cell"],
)
def test_cells_with_the_lines_they_stand_in(tmp_path: Path, text, names, rows, lines) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    table = read_csv(path)
    assert (table.names, table.rows, table.lines) == (names, rows, lines)
    assert table.line(0) == f"line {lines[0]} of {path}"


def test_numbers_may_be_names_where_the_caller_knows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("0,1\n5,6\n")
    assert read_csv(path).names is None
    assert read_csv(path, named=True).names == ("0", "1")
    assert read_csv(path, named=False).rows == [["0", "1"], ["5", "6"]]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"", ["{}"]),
        (b"\n \n", ["{}"]),
        (b"\xff\xfe,1\n", ["{}"]),
        (b'"a"b,1\n', ["{}"]),
        (b",a\n0,1\n", ["{}"]),
        (b"a,b\n1\n2,3\n4,5,6\n", ["line 2 of {}", "line 4 of {}"]),
    ],
    ids=["empty", "blank", "not UTF-8", "not CSV", "an index", "ragged"],
)
def test_what_is_no_table_is_refused_by_file_and_line(tmp_path: Path, content, names) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_csv(path)
    assert [problem.name for problem in caught.value.problems] == [
        name.format(path) for name in names
    ]


def test_what_counts_as_a_number() -> None:
    assert all(map(is_number, ("1", "-2.5", "1e-3", " 7 ", "nan")))
    assert not any(map(is_number, ("", " ", "1,5", "two")))
