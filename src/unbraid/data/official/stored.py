# SPDX-License-Identifier: Apache-2.0
"""What `unbraid data add` left in the data home: a record and the arrays it names, mapped.

    <data home>/<name>/
        record.json             where the data came from, whether it was verified, the arrays
        planes-<digest>.npy     all images, uint8 (n, channels, height, width)
        packed-<digest>.npy     the same as bits, for dSprites
        factors-<digest>.npy    uint8 (n, factors), where the factors do not form a grid

An array is named by its content, so a new one never takes the place of one that the record still
names.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.checks import is_whole
from unbraid.core.errors import DamagedFileError, InputError, Shown, invalid
from unbraid.core.store import read_json
from unbraid.data.home import data_home
from unbraid.data.official.reading import checking, pieces
from unbraid.data.official.source import Source
from unbraid.data.official.verify import NO, UNKNOWN, YES

RECORD = "record.json"
FORMAT = 1
_HEX = frozenset("0123456789abcdef")


def folder_of(name: str) -> Path:
    """Where the dataset *name* is kept once it was added."""
    return data_home() / name


def read_record(name: str) -> dict[str, Any] | None:
    """The checked record of an added dataset; None when it was not added."""
    path = folder_of(name) / RECORD
    try:
        record = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DamagedFileError as error:
        raise DamagedFileError(f"{error} Add it again: unbraid data add {name} FILE.") from error
    if record.get("format") != FORMAT or record.get("name") != name or not _well_formed(record):
        again = f"Add it again: unbraid data add {name} FILE."
        raise DamagedFileError(
            f"{path} is not a record of '{name}' that this version reads. {again}"
        )
    return record


def _well_formed(record: dict[str, Any]) -> bool:
    """Whether everything is there that is read later, in the right form."""
    arrays, files = record.get("arrays"), record.get("files")
    texts = isinstance(record.get("added"), str) and isinstance(record.get("from"), str)
    known = record.get("verified") in (YES, NO, UNKNOWN)
    named = isinstance(arrays, dict) and all(_is_array(one) for one in arrays.values())
    return texts and known and named and isinstance(files, list)


def _is_array(one: object) -> bool:
    """Whether this is what a record keeps of an array: file name, size and checksum."""
    if not isinstance(one, dict):
        return False
    file, size, digest = one.get("file"), one.get("bytes"), one.get("sha256")
    named = isinstance(file, str) and file.endswith(".npy") and Path(file).name == file
    sized = is_whole(size) and size >= 0
    return (
        named
        and sized
        and isinstance(digest, str)
        and len(digest) == 64
        and _HEX.issuperset(digest)
    )


def not_here(source: Source) -> InputError:
    """What is said when a dataset is asked for that was never added."""
    value = Shown(f"nothing at {folder_of(source.name)}")
    return invalid(
        f"dataset '{source.name}'", "must be added before it is loaded", value, source.how_to_add()
    )


def array_path(name: str, record: dict[str, Any], array: str) -> Path:
    """The file of one array."""
    return folder_of(name) / Path(record["arrays"][array]["file"]).name


def open_array(
    source: Source, record: dict[str, Any], array: str, shape: tuple[int, ...], dtype: str
) -> NDArray[Any]:
    """One array, mapped copy-on-write; size and header are checked now, content by `check`."""
    promised = record["arrays"].get(array)
    if promised is None:
        raise _damaged(source, folder_of(source.name) / RECORD, f"it names no array '{array}'")
    path = array_path(source.name, record, array)
    try:
        size = path.stat().st_size
        if size != promised["bytes"]:
            raise _damaged(source, path, f"it has {size:,} bytes instead of {promised['bytes']:,}")
        stored = np.load(path, mmap_mode="c", allow_pickle=False)
    except DamagedFileError:
        raise
    except Exception as error:  # a damaged header raises many kinds
        raise _damaged(
            source, path, f"it cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from error
    if stored.shape != shape or stored.dtype != np.dtype(dtype):
        raise _damaged(
            source,
            path,
            f"it holds {stored.dtype} {stored.shape} instead of {np.dtype(dtype)} {shape}",
        )
    return stored


_CHECKED: set[tuple[object, ...]] = set()
"""Arrays that were compared with their checksums, by their files as they were then."""


def check_once(source: Source, record: dict[str, Any], *, if_newer: bool = False) -> None:
    """`check`, where this process has not done so since the files were written; *if_newer* only
    where one was written after the record that names it, as none of `add` is.
    """
    written = (folder_of(source.name) / RECORD).stat().st_mtime_ns
    key: tuple[object, ...] = ()
    newer = False
    for array, promised in record["arrays"].items():
        path = array_path(source.name, record, array)
        try:
            state = path.stat()
        except OSError as error:  # another process adds it again, or removes it
            raise _damaged(source, path, f"it cannot be read ({error.strerror})") from error
        newer |= state.st_mtime_ns > written
        key += (str(path), state.st_mtime_ns, state.st_size, promised["sha256"])
    if key not in _CHECKED and (newer or not if_newer):
        check(source, record, quiet=True)
        _CHECKED.add(key)


def check(source: Source, record: dict[str, Any], *, quiet: bool = False) -> None:
    """Compare every byte of the arrays with the record; damage is a `DamagedFileError`."""
    arrays = record["arrays"]
    with checking(source, sum(one["bytes"] for one in arrays.values()), quiet=quiet) as progress:
        for array, promised in arrays.items():
            path, digest = array_path(source.name, record, array), hashlib.sha256()
            try:
                with path.open("rb") as stream:
                    for piece in pieces(stream, progress):
                        digest.update(piece)
            except OSError as error:
                raise _damaged(
                    source, path, f"it cannot be read ({error.strerror or error})"
                ) from error
            if digest.hexdigest() != promised["sha256"]:
                raise _damaged(source, path, "its content does not match its checksum")


def _damaged(source: Source, path: Path, reason: str) -> DamagedFileError:
    again = f"Add it again: unbraid data add {source.name} {source.typed}."
    return DamagedFileError(f"{path} is damaged: {reason}. {again}")
