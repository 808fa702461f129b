# SPDX-License-Identifier: Apache-2.0
"""Arrays in the .npy and .npz files that people bring; pickles are never opened."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, Problem, Shown, invalid

_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    MemoryError,
    SyntaxError,
    KeyError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npy(path: Path) -> NDArray[Any]:
    """The array in the .npy file at *path*."""
    try:
        with path.open("rb") as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    except _UNREADABLE as error:
        raise InputError(_damaged(path, error)) from error


def npz_keys(path: Path) -> list[str]:
    """Names of the arrays in the .npz file at *path*."""
    if not zipfile.is_zipfile(path):
        value = Shown(f"a file of {path.stat().st_size} bytes that is none or was cut off")
        raise invalid(str(path), "must be a complete .npz (zip) file", value, "Write it again.")
    try:
        with zipfile.ZipFile(path) as archive:
            files = archive.namelist()
    except _UNREADABLE as error:
        raise InputError(_damaged(path, error)) from error
    return [name.removesuffix(".npy") for name in files if name.endswith(".npy")]


def read_npz(path: Path, key: str, remedy: str = "") -> NDArray[Any]:
    """The array *key* of the .npz file at *path*; a key that is not there is refused."""
    keys = npz_keys(path)
    if key not in keys:
        shown = Shown(f"the keys {', '.join(keys)}" if keys else "no keys")
        raise invalid(str(path), f"must hold '{key}'", shown, remedy)
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    except _UNREADABLE as error:
        raise InputError(_damaged(path, error)) from error


def npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype in the header of an .npy *stream*, or ValueError."""
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        # Written only for headers above 64 KiB; reading one could take up to 4 GiB.
        raise ValueError(f"version {version[0]}.{version[1]}")
    return np.lib.format.read_array_header_1_0(stream)


def _damaged(path: Path, error: BaseException) -> Problem:
    if "allow_pickle" in str(error) or "pickled" in str(error):
        rule, value = "must hold plain arrays; pickles are not opened", Shown("something else")
        remedy = "Save plain numbers with numpy.save or numpy.savez."
        return Problem(str(path), rule, value, remedy)
    reason = " ".join(str(error).split()) or type(error).__name__
    value = Shown(f"one that cannot be read ({reason})")
    return Problem(str(path), "must be a complete numpy file", value, "Write it again.")
