# SPDX-License-Identifier: Apache-2.0
"""Arrays and tables of scores in files that people bring: .npy, .npz and .csv in, .csv and .parquet
out.
"""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, Shown, invalid

if TYPE_CHECKING:
    import pandas as pd


def read_array(path: Path, name: str) -> NDArray[Any]:
    """The array in a .npy file, in a .npz file (the only one, or the one called *name*), or in a
    .csv file of numbers.
    """
    if not path.is_file():
        raise invalid(name, "must be a file that exists", str(path))
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv}
    if path.suffix not in readers:
        raise invalid(
            name, "must be a .npy, .npz or .csv file", str(path), "Save the array with np.save."
        )
    try:
        return readers[path.suffix](path, name)
    except InputError:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} cannot be read as an array of numbers ({error}). Save it with np.save."
        ) from error


def _read_npy(path: Path, name: str) -> NDArray[Any]:
    return np.load(path, allow_pickle=False)


def _read_npz(path: Path, name: str) -> NDArray[Any]:
    # Opened here, the file is closed whatever NumPy makes of it.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        if name in file.files or len(file.files) == 1:
            return file[name if name in file.files else file.files[0]]
        shown = Shown(", ".join(file.files) or "none")
        raise invalid(str(path), f"must hold one array, or one called {name}", shown)


def _read_csv(path: Path, name: str) -> NDArray[Any]:
    """Numbers separated by commas, with or without a line of names above."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    if not rows:
        raise invalid(str(path), "must hold numbers", Shown("an empty file"))
    named = not any(is_number(cell) for cell in rows[0])
    if named and not rows[0][0].strip():
        remedy = "Write it without (pandas: to_csv(..., index=False))."
        raise invalid(
            str(path), "must not have a column without a name, such as an index", rows[0], remedy
        )
    body = rows[1:] if named else rows
    for number, row in enumerate(body, start=1 + named):
        if len(row) != len(rows[0]) or not all(is_number(cell) for cell in row):
            remedy = "Separate numbers by commas, as many in each line."
            raise invalid(
                f"line {number} of {path}",
                f"must be {len(rows[0])} numbers",
                Shown(",".join(row)),
                remedy,
            )
    try:
        return np.array([[int(cell) for cell in row] for row in body], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array([[float(cell) for cell in row] for row in body])


def is_number(text: str) -> bool:
    """Whether *text* spells a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_table_file(path: Path | None) -> None:
    """Refuse, before any work, a table that is neither .csv nor .parquet, is there already, or
    whose folder is not.
    """
    if path is None:
        return
    if path.suffix not in (".csv", ".parquet"):
        raise invalid("out", "must end in .csv or .parquet", str(path))
    if not path.parent.is_dir():
        raise invalid("out", "must lie in a folder that exists", str(path))
    if path.exists():
        raise invalid("out", "must not exist yet", str(path), "Remove it, or choose another name.")


def write_scores(table: pd.DataFrame, path: Path) -> None:
    """Write the table as .csv or .parquet."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False)
