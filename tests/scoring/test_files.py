# SPDX-License-Identifier: Apache-2.0
"""Arrays in files that people bring: every form reads the same, and what cannot be read loses no
row in silence.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unbraid.core.errors import InputError
from unbraid.scoring.files import read_array

FACTORS = np.random.default_rng(0).integers([3, 4], size=(30, 2))
CODES = np.random.default_rng(1).normal(size=(30, 3))


def refused(path: Path, name: str = "codes") -> str:
    with pytest.raises(InputError) as caught:
        read_array(path, name)
    return str(caught.value)


def test_one_array_in_any_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", FACTORS)
    np.savez(tmp_path / "b.npz", anything=FACTORS)
    np.savez(tmp_path / "c.npz", codes=CODES, factors=FACTORS)
    pd.DataFrame(FACTORS, columns=["shape", "size"]).to_csv(tmp_path / "d.csv", index=False)
    np.savetxt(tmp_path / "e.csv", FACTORS, fmt="%d", delimiter=",")
    for old, new in (("a.npy", "A.NPY"), ("b.npz", "B.NPZ"), ("d.csv", "D.CSV")):
        (tmp_path / new).write_bytes((tmp_path / old).read_bytes())
    for file in ("a.npy", "b.npz", "c.npz", "d.csv", "e.csv", "A.NPY", "B.NPZ", "D.CSV"):
        read = read_array(tmp_path / file, "factors")
        assert np.array_equal(read, FACTORS), file
        assert read.dtype == np.int64, file
    np.savetxt(tmp_path / "f.csv", CODES, delimiter=",")
    assert read_array(tmp_path / "f.csv", "codes") == pytest.approx(CODES, abs=1e-12)


@pytest.mark.parametrize(
    "write",
    [
        lambda text: "\ufeff" + text,
        lambda text: "\n\n" + text,
        lambda text: "\n".join(
            ",".join(f'"{cell}"' for cell in line.split(",")) for line in text.splitlines()
        ),
    ],
    ids=["mark of Excel", "blank lines", "quotes"],
)
def test_no_row_is_taken_for_names(tmp_path: Path, write) -> None:
    path = tmp_path / "y.csv"
    path.write_text(write("\n".join(",".join(map(str, row)) for row in FACTORS)), encoding="utf-8")
    assert np.array_equal(read_array(path, "factors"), FACTORS)


def test_an_index_is_no_latent(tmp_path: Path) -> None:
    pd.DataFrame(FACTORS, columns=["shape", "size"]).to_csv(tmp_path / "y.csv")
    assert (
        refused(tmp_path / "y.csv")
        == f"{tmp_path / 'y.csv'} must not have a column without a name, such as an index; got ['',"
        " 'shape', 'size']. Write it without (pandas: to_csv(..., index=False))."
    )


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [("1;2\n3;4\n", 2, "3;4"), ("1,2,\n3,4,\n", 1, "1,2,"), ("a,b\n1,2\n3\n", 3, "3")],
)
def test_lines_that_are_no_numbers_are_told(
    tmp_path: Path, text: str, line: int, shown: str
) -> None:
    path = tmp_path / "y.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_array(path, "codes")
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == (f"line {line} of {path}", shown)
    assert "commas" in problem.remedy


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    assert (
        refused(tmp_path / "z.npy")
        == f"codes must be a file that exists; got '{tmp_path / 'z.npy'}'."
    )
    (tmp_path / "z.pt").write_text("1 2")
    assert (
        refused(tmp_path / "z.pt")
        == f"codes must be a .npy, .npz or .csv file; got '{tmp_path / 'z.pt'}'. Save the array"
        " with np.save."
    )
    (tmp_path / "empty.csv").write_text("\n")
    assert (
        refused(tmp_path / "empty.csv")
        == f"{tmp_path / 'empty.csv'} must hold numbers; got an empty file. Write it again."
    )
    np.savez(tmp_path / "two.npz", a=CODES, b=FACTORS)
    assert (
        refused(tmp_path / "two.npz")
        == f"{tmp_path / 'two.npz'} must hold one array, or one called codes; got a, b."
    )
    np.savez(tmp_path / "torn.npz", codes=CODES)
    whole = (tmp_path / "torn.npz").read_bytes()
    (tmp_path / "torn.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "bent.npz").write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    (tmp_path / "torn.npy").write_bytes(b"\x93NUMPY\x01")
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for file in ("torn.npz", "bent.npz", "torn.npy", "objects.npy"):
        assert refused(tmp_path / file).startswith(f"{tmp_path / file} must "), file


def test_a_first_line_of_names_and_numbers_is_neither(tmp_path: Path):
    path = tmp_path / "codes.csv"
    path.write_text("1.0,NA,3.0\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError) as caught:
        read_array(path, "codes")
    (problem,) = caught.value.problems
    assert problem.name == f"the first line of {path}"
    assert (problem.rule, problem.value) == ("must be 3 numbers, or as many names", "1.0,NA,3.0")
