# SPDX-License-Identifier: Apache-2.0
"""Arrays that people bring, given or in .npy and .npz files; pickles are never opened."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import InputError, Problem, Shown, UnbraidError, invalid
from unbraid.core.files import cannot_be_read


def to_numpy(values: ArrayLike, name: str = "arrays") -> NDArray[Any]:
    """*values*, given as *name*, as a NumPy array; torch tensors without importing torch.

    Masked values are refused: NumPy would drop the mask.
    """
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()  # pyright: ignore[reportAttributeAccessIssue]
        try:
            return np.asarray(tensor)
        except TypeError:  # NumPy knows no bfloat16
            return np.asarray(tensor.float())
    if np.ma.is_masked(values):
        remedy = "Leave out rows with masked values."
        raise invalid(name, "must not have masked values", Shown("some"), remedy)
    try:
        return np.asarray(values)
    except (ValueError, RuntimeError, TypeError) as error:  # rows of different lengths, say
        shown = Shown(f"a {type(values).__name__}: {error}")
        raise invalid(name, "must be regular", shown) from error


def read_npy(path: Path) -> NDArray[Any]:
    """The array in the .npy file at *path*."""
    _check_opens(path)
    try:
        with path.open("rb") as stream:
            return _read_array(stream, path.stat().st_size)
    except Exception as error:  # foreign bytes raise many kinds, in NumPy and in what it calls
        raise InputError(_damaged(path, error)) from error


def npz_keys(path: Path) -> list[str]:
    """Names of the arrays in the .npz file at *path*."""
    _check_opens(path)
    if not zipfile.is_zipfile(path):
        value = Shown(f"a file of {path.stat().st_size} bytes that is none or was cut off")
        raise invalid(str(path), "must be a complete .npz (zip) file", value, "Write it again.")
    try:
        with zipfile.ZipFile(path) as archive:
            files = archive.namelist()
    except Exception as error:
        raise InputError(_damaged(path, error)) from error
    return [name.removesuffix(".npy") for name in files if name.endswith(".npy")]


def read_npz(path: Path, key: str, remedy: str = "") -> NDArray[Any]:
    """The array *key* of the .npz file at *path*; a key that is not there is refused."""
    keys = npz_keys(path)
    if key not in keys:
        shown = Shown(f"the keys {', '.join(keys)}" if keys else "no keys")
        raise invalid(str(path), f"must hold '{key}'", shown, remedy)
    try:
        with zipfile.ZipFile(path) as archive:
            inside = archive.getinfo(f"{key}.npy")
            with archive.open(inside) as stream:
                return _read_array(stream, inside.file_size)
    except Exception as error:
        raise InputError(_damaged(path, error)) from error


def _read_array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """The array in an .npy *stream* of *size* bytes, which must be as many as its header promises.

    A header that promised more would be trusted with any amount of memory; bytes behind the array
    are another one, or damage.
    """
    shape, _, dtype = npy_header(stream, newer=True)
    if dtype.hasobject:
        raise ValueError("it has pickled objects")
    claimed, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if claimed != there:
        raise ValueError(f"its header promises {claimed:,} bytes of numbers, and {there:,} follow")
    if claimed > (memory := _memory()):
        raise MemoryError(f"it takes {claimed / 1e9:.1f} GB, and there are {memory / 1e9:.1f}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _memory() -> int:
    """Bytes of memory that the machine has; no limit where it does not say."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**62
    return found if found > 1 else 2**62


def npy_header(
    stream: IO[bytes], *, newer: bool = False
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype in the header of an .npy *stream*, or ValueError.

    Versions that are *newer* than 1.0 are for headers above 64 KiB and names beyond ASCII, which
    published data do not have, and reading one could take up to 4 GiB.
    """
    read = {(1, 0): np.lib.format.read_array_header_1_0}
    if newer:  # 3.0 is 2.0 with names in UTF-8
        read |= dict.fromkeys([(2, 0), (3, 0)], np.lib.format.read_array_header_2_0)
    try:
        with warnings.catch_warnings():  # of headers as Python 2 wrote them
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            if version not in read:
                raise ValueError(f"version {version[0]}.{version[1]}")
            shape, fortran_order, dtype = read[version](stream)
    except Exception as error:
        raise ValueError(str(error) or type(error).__name__) from error
    if not all(type(length) is int and 0 <= length < 2**62 for length in shape):
        raise ValueError(f"shape {shape}")
    return shape, fortran_order, dtype


def _check_opens(path: Path) -> None:
    """Say what forbids to read *path*, which is no damage."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise UnbraidError(cannot_be_read(path, error)) from error


def _damaged(path: Path, error: BaseException) -> Problem:
    if "allow_pickle" in str(error) or "pickled" in str(error):
        rule, value = "must hold plain arrays; pickles are not opened", Shown("something else")
        remedy = "Save plain numbers with numpy.save or numpy.savez."
        return Problem(str(path), rule, value, remedy)
    reason = " ".join(str(error).split()) or type(error).__name__
    value = Shown(f"one that cannot be read ({reason})")
    return Problem(str(path), "must be a complete numpy file", value, "Write it again.")
