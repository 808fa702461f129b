# SPDX-License-Identifier: Apache-2.0
"""Adding a published dataset: find its files, verify, convert, then write the record.

Arrays are written beside their place in slices and renamed; whatever goes wrong, what was added
before stays as it was.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core import files, store
from unbraid.core.errors import (
    InputError,
    Problem,
    Shown,
    UnbraidError,
    invalid,
    shortened,
    unknown,
)
from unbraid.core.failpoints import failpoint
from unbraid.core.progress import Progress
from unbraid.data.official import OFFICIAL, published
from unbraid.data.official.reading import readable
from unbraid.data.official.source import Content, Source
from unbraid.data.official.stored import FORMAT, RECORD, folder_of, read_record
from unbraid.data.official.verify import overall, verify

_HEADER_BYTES = 4096
"""More than the header of an .npy file and a record take."""


def add(
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    unverified: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Verify and convert the files of *name* at *path* into the data home; returns the record.

    Without a path the folders of system packages are searched. A file that is not as published is
    refused unless *unverified*, which the record keeps; one with the wrong structure is refused
    always.
    """
    if name not in OFFICIAL:
        raise InputError(_not_published(name))
    reader = published(name)
    source = reader.source
    given = _existing(source, path)
    with readable(source, given):
        found = reader.locate(given)
    receipts = verify(source, found, unverified=unverified, quiet=quiet)
    content = reader.read(found)
    folder = folder_of(name)
    with _only_mine(folder):
        _check_room(folder, content, name)
        arrays = {
            content.array: _write(
                folder, content.array, content.blocks, content.shape, content.dtype, name, quiet
            )
        }
        if content.factors is not None:
            one = content.factors
            arrays["factors"] = _write(
                folder, "factors", iter([one]), one.shape, one.dtype, name, quiet=True
            )
        record = {
            "format": FORMAT,
            "name": name,
            "added": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "from": str(found[0].path.parent if len(found) > 1 else found[0].path),
            "verified": overall(receipts),
            "files": receipts,
            "arrays": arrays,
        }
        store.write_json(folder / RECORD, record)
    return record


def remove(name: str) -> Path:
    """Delete what `add` kept of *name*, and nothing else; returns the folder where it was."""
    if name not in OFFICIAL:
        raise InputError(_not_published(name))
    folder = folder_of(name)
    if not (folder / RECORD).exists():
        raise invalid(
            f"dataset '{name}'", "must have been added to be removed", Shown(f"nothing at {folder}")
        )
    with _only_mine(folder):
        files.remove(folder / RECORD)
    return folder


def _not_published(name: str) -> Problem:
    from unbraid.data import DATA

    if name in DATA:
        value, remedy = Shown("one that needs no file"), f"Type: unbraid data info {name}."
        return Problem(f"dataset '{name}'", "must be one that is read from files", value, remedy)
    return unknown("published dataset", name, OFFICIAL)


def _existing(source: Source, path: str | os.PathLike[str] | None) -> Path:
    """The path to look at, which must exist."""
    if path is None:
        for place in source.places:
            if Path(place).is_dir():
                return Path(place)
        looked = f"none, and nothing at {' or '.join(source.places)}" if source.places else "none"
        raise invalid(f"{source.name} file", "must be given", Shown(looked), source.how_to_add())
    given, reason = Path(path), ""
    try:
        given = given.expanduser().absolute()
        given.stat()
        return given
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (
        OSError,
        RuntimeError,
        ValueError,
    ) as error:  # a name too long, no permission; no such home; a null byte
        reason = f" ({(getattr(error, 'strerror', None) or str(error)).rstrip('.')})"
    value = Shown(f"{shortened(str(given))}{reason}")
    raise invalid(f"{source.name} file", "must exist", value, source.how_to_add())


def _check_room(folder: Path, content: Content, name: str) -> None:
    """Refuse before any array is written when the disk cannot hold the result."""
    needed = math.prod(content.shape) * content.dtype.itemsize + 2 * _HEADER_BYTES
    needed += content.factors.nbytes if content.factors is not None else 0
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UnbraidError(_full(name, needed, folder.parent, f"{free / 1e9:.1f} GB are free"))


def _full(name: str, needed: int, home: Path, state: str) -> str:
    remedy = "Free some room, or name a folder on another disk in UNBRAID_DATA."
    return f"{name} needs {needed / 1e9:.1f} GB at {home} and {state}. {remedy}"


@contextlib.contextmanager
def _only_mine(folder: Path) -> Iterator[None]:
    """Hold *folder* against other writers, with nothing in it that its record does not name."""
    made = [place for place in folder.parents if not os.path.lexists(place)]
    try:
        files.make_folder(folder)
    except OSError as error:
        _remove_empty(made)
        remedy = "Name another folder in UNBRAID_DATA."
        raise UnbraidError(
            f"{shortened(str(folder))} cannot be made: {error.strerror or error}. {remedy}"
        ) from error
    with files.only_one(folder):
        try:
            with _writing(folder, folder.name, 0):
                _tidy(folder)
            yield
        finally:
            with contextlib.suppress(OSError, UnbraidError):
                _tidy(folder)
            if not (folder / RECORD).exists():
                # Whoever comes next makes the lock again; an empty folder would only raise
                # questions.
                with contextlib.suppress(OSError, UnbraidError):
                    files.remove_lock(folder)
                    _remove_empty([folder, *made])


def _remove_empty(folders: Iterable[Path]) -> None:
    """Delete *folders*, the innermost first, up to one that others use by now."""
    with contextlib.suppress(OSError):
        for folder in folders:
            if folder.exists():
                files.remove_empty(folder)


def _tidy(folder: Path) -> None:
    """Delete unfinished files and arrays that no record names.

    A record that cannot be read names all of them.
    """
    files.sync_folder(folder)  # nothing goes before the record that does not name it is there
    files.remove_unfinished(folder)
    try:
        record = read_record(folder.name) or {"arrays": {}}
    except UnbraidError:
        return
    named = {one["file"] for one in record["arrays"].values()}
    for path in folder.glob("*.npy"):
        if path.name not in named:
            files.remove(path)


def _write(
    folder: Path,
    array: str,
    blocks: Iterable[NDArray[Any]],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    name: str,
    quiet: bool,
) -> dict[str, Any]:
    """Write *blocks* as one .npy file named by its content; returns what the record keeps."""
    beside = files.half_of(folder / array)
    digest, size, rows = hashlib.sha256(), 0, 0
    needed = math.prod(shape) * dtype.itemsize
    with contextlib.ExitStack() as opened:
        with _writing(folder, name, needed):
            file = opened.enter_context(files.stream_to(beside))
        with Progress(f"converting {name}", "images", shape[0], quiet=quiet) as progress:
            header = {
                "descr": np.lib.format.dtype_to_descr(dtype),
                "fortran_order": False,
                "shape": shape,
            }
            for piece in _pieces(header, blocks, shape, dtype):
                if not isinstance(piece, bytes):
                    rows += len(piece)
                    progress.advance(len(piece))
                # A memory view of the block's bytes: hashed and written without a copy.
                octets = (
                    piece if isinstance(piece, bytes) else piece.reshape(-1).view(np.uint8).data
                )
                digest.update(octets)
                with _writing(folder, name, needed):
                    file.write(octets)
                size += len(octets)
        with _writing(folder, name, needed):
            opened.close()
    if rows != shape[0]:
        raise AssertionError(f"{name}: {rows} rows were read, not {shape[0]}")
    final = folder / f"{array}-{digest.hexdigest()[:12]}.npy"
    with _writing(folder, name, needed):
        files.put_in_place(beside, final)
    failpoint("array.stored")
    return {
        "file": final.name,
        "shape": list(shape),
        "dtype": dtype.str,
        "bytes": size,
        "sha256": digest.hexdigest(),
    }


@contextlib.contextmanager
def _writing(folder: Path, name: str, needed: int) -> Iterator[None]:
    """Turn a failure to write inside into one message.

    Nothing is read inside, so that files of the user are not blamed on it.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UnbraidError(_full(name, needed, folder.parent, "the disk is full")) from error
        raise UnbraidError(f"{folder} cannot be written: {error.strerror or error}.") from error


def _pieces(
    header: dict[str, Any],
    blocks: Iterable[NDArray[Any]],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Iterator[bytes | NDArray[Any]]:
    """The bytes of the header, then each block as it is to be written."""
    import io

    start = io.BytesIO()
    np.lib.format.write_array_header_1_0(start, header)
    yield start.getvalue()
    for block in blocks:
        if block.shape[1:] != shape[1:]:
            raise AssertionError(f"a block has shape {block.shape}, not (n, {shape[1:]})")
        yield np.ascontiguousarray(block, dtype=dtype)
