# SPDX-License-Identifier: Apache-2.0
"""Arrays to score from .npy, .npz and .csv files; tables of scores to .csv and .parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.arrays import npz_keys, read_npy, read_npz
from unbraid.core.errors import Shown, invalid
from unbraid.core.files import try_to_write, write_bytes
from unbraid.core.folders import check_writable
from unbraid.core.tables import CsvTable, is_number, read_csv
from unbraid.scoring.header_or_index import check_header_and_index

if TYPE_CHECKING:
    import pandas as pd


def read_array(path: Path, name: str) -> NDArray[Any]:
    """The array in a .npy file, in a .npz file or in a .csv file of numbers.

    Of a .npz with several arrays it is the one called *name*.
    """
    if not path.is_file():
        raise invalid(name, "must be a file that exists", str(path))
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return read_npy(path)
    if suffix == ".csv":
        return _numbers_of(read_csv(path))
    if suffix != ".npz":
        rule, remedy = "must be a .npy, .npz or .csv file", "Save the array with np.save."
        raise invalid(name, rule, str(path), remedy)
    keys = npz_keys(path)
    if name not in keys and len(keys) != 1:
        shown = Shown(", ".join(keys) or "none")
        raise invalid(str(path), f"must hold one array, or one called {name}", shown)
    return read_npz(path, name if name in keys else keys[0])


def _numbers_of(table: CsvTable) -> NDArray[Any]:
    """All cells as numbers, whole ones where all are."""
    if not table.rows:
        raise invalid(str(table.path), "must hold numbers", Shown("a line of names alone"))
    remedy = "Separate numbers by commas, as many in each line."
    if table.names is not None and any(map(is_number, table.names)):
        rule = f"must be {len(table.names)} numbers, or as many names"
        shown = Shown(",".join(table.names))
        raise invalid(f"the first line of {table.path}", rule, shown, remedy)
    for nth, row in enumerate(table.rows):
        if not all(map(is_number, row)):
            rule, value = f"must be {len(row)} numbers", Shown(",".join(row))
            raise invalid(table.line(nth), rule, value, remedy)
    if table.names is None:
        check_header_and_index(table)
    try:
        return np.array([[int(cell) for cell in row] for row in table.rows], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array([[float(cell) for cell in row] for row in table.rows])


def check_table_file(path: Path | None) -> None:
    """Refuse, before any work, a table that is neither .csv nor .parquet, is there already, or
    whose folder is not.
    """
    if path is None:
        return
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise invalid("out", "must end in .csv or .parquet", str(path))
    if not path.parent.is_dir():
        raise invalid("out", "must lie in a folder that exists", str(path))
    check_writable("out", path.parent)
    try:
        taken = path.exists()
    except OSError as error:
        rule = "must be a file that can be written"
        raise invalid("out", rule, str(path), f"{error.strerror}.") from error
    if taken:
        raise invalid("out", "must not exist yet", str(path), "Remove it, or choose another name.")
    try:
        try_to_write(path)
    except OSError as error:
        rule = f"must be a file that can be written ({error.strerror})"
        raise invalid("out", rule, str(path), "Choose another folder.") from error


def write_scores(table: pd.DataFrame, path: Path) -> None:
    """Write the table as .csv or .parquet."""
    if path.suffix.lower() == ".csv":
        write_bytes(path, table.to_csv(index=False).encode())
    else:
        write_bytes(path, table.to_parquet(index=False))
