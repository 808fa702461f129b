# SPDX-License-Identifier: Apache-2.0
"""What the readers of published files share: refusals, gzip, .npy headers, exact reads."""

from __future__ import annotations

import contextlib
import gzip
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from unbraid.core.arrays import npy_header
from unbraid.core.errors import InputError, Shown, invalid
from unbraid.core.progress import Progress
from unbraid.data.official.source import PublishedFile, Source

UNREADABLE = (
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
    EOFError,
    OSError,
    struct.error,
    NotImplementedError,
    RuntimeError,
)
"""What decoders raise on damaged files."""
Stream = IO[bytes] | gzip.GzipFile
Refuse = Callable[[str, object], InputError]
"""Makes the error about one file from a rule and a value."""
_PIECE = 8 * 2**20
_WORTH_SHOWING_MIB = 512


def refused(source: Source, path: Path, rule: str, value: object, remedy: str = "") -> InputError:
    """An error about a file that is not what the dataset needs."""
    return invalid(f"{source.name} file {path}", rule, value, remedy or source.how_to_add())


@contextlib.contextmanager
def readable(source: Source, path: Path) -> Iterator[None]:
    """Turn what decoders raise inside into one message about *path*."""
    try:
        yield
    except UNREADABLE as error:
        reason = " ".join(str(error).replace(str(path), path.name).split()) or type(error).__name__
        raise refused(
            source,
            path,
            "must be readable to its end",
            Shown(f"one that cannot be read ({reason})"),
        ) from error


def is_gzipped(path: Path) -> bool:
    """Whether the first bytes are those of gzip, whatever the name says."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def open_maybe_gzipped(path: Path) -> Stream:
    """*path* for reading, through gzip where its first bytes say so."""
    return gzip.open(path, "rb") if is_gzipped(path) else path.open("rb")


def checking(source: Source, size: int, *, quiet: bool) -> Progress:
    """The bar while *size* bytes are compared with checksums; none where that takes no time."""
    total = size >> 20
    return Progress(
        f"checking {source.name}", "MiB", total, quiet=quiet or total < _WORTH_SHOWING_MIB
    )


def pieces(stream: Stream, progress: Progress) -> Iterator[bytes]:
    """All of *stream*, a few MiB at a time, counted in *progress*."""
    while piece := stream.read(_PIECE):
        yield piece
        progress.advance(len(piece) >> 20)


def exactly(stream: Stream, count: int, refuse: Callable[[str], InputError]) -> bytes:
    """The next *count* bytes; *refuse* makes the error from words that say how many are missing."""
    data = stream.read(count)
    if len(data) != count:
        raise refuse(f"that ends {count - len(data):,} bytes early")
    return data


def read_exactly(source: Source, path: Path, stream: Stream, count: int, what: str) -> bytes:
    """The next *count* bytes of a published file; fewer are refused."""
    return exactly(
        stream,
        count,
        lambda ends: refused(source, path, f"must hold {what} completely", Shown(f"a file {ends}")),
    )


def npy_dtype(
    member: IO[bytes],
    key: str,
    shape: tuple[int, ...],
    refuse: Refuse,
    must_hold: str = "must hold",
) -> np.dtype[Any]:
    """Move *member* behind its .npy header, which must say *shape* and C order; its dtype."""
    try:
        found, fortran_order, dtype = npy_header(member)
    except ValueError as error:
        value = Shown(f"none that can be read ({' '.join(str(error).split())})")
        raise refuse(f"{must_hold} '{key}' as an .npy array", value) from error
    if found != shape or fortran_order:
        order = " in Fortran order" if fortran_order else ""
        raise refuse(f"{must_hold} '{key}' of shape {shape}", Shown(f"{found}{order}"))
    return dtype


def must_end(source: Source, path: Path, stream: Stream, what: str) -> None:
    """Refuse bytes behind the last; also makes gzip and zip compare their checksums."""
    if stream.read(1):
        raise refused(source, path, f"must end after {what}", Shown("further bytes"))


def one_file(source: Source, path: Path, published: PublishedFile) -> Path:
    """*path* itself where it is a file; a folder is searched for the published name."""
    if path.is_dir():
        inside = path / published.name
        if not inside.is_file():
            remedy = f"Give the file {published.name}, or the folder that it lies in."
            raise refused(
                source,
                path,
                f"must be the file {published.name}",
                Shown("a folder without it"),
                remedy,
            )
        return inside
    return path


def all_in_folder(
    source: Source, path: Path, wanted: dict[str, tuple[str, ...]]
) -> dict[str, Path]:
    """The file of each of *wanted*, label -> names under *path*; all missing ones are named."""
    if not path.is_dir():
        remedy = f"Give the folder that it lies in, {path.parent}."
        raise refused(
            source,
            path,
            f"must be the folder with {', '.join(wanted)}",
            Shown("a single file"),
            remedy,
        )
    found = {
        label: next((path / name for name in names if (path / name).exists()), None)
        for label, names in wanted.items()
    }
    missing = [label for label, place in found.items() if place is None]
    if missing:
        rule = f"must be a folder that holds {', '.join(wanted)}"
        raise refused(source, path, rule, Shown(f"one without {', '.join(missing)}"))
    return {label: place for label, place in found.items() if place is not None}
