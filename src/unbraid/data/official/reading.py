# SPDX-License-Identifier: Apache-2.0
"""What the readers of published files share: refusals in one form, files plain or gzipped, and reading exactly so many bytes."""

from __future__ import annotations

import contextlib
import gzip
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from unbraid.data.official.source import PublishedFile, Source
from unbraid.errors import InputError, Shown, problem

UNREADABLE = (zlib.error, zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, struct.error, NotImplementedError, RuntimeError)
"""What decoders raise on damaged files."""
Stream = IO[bytes] | gzip.GzipFile


def refused(source: Source, path: Path, rule: str, value: object, remedy: str = "") -> InputError:
    """An error about a file that is not what the dataset needs."""
    return InputError(problem(f"{source.name} file {path}", rule, value, remedy or source.how_to_add()))


@contextlib.contextmanager
def readable(source: Source, path: Path) -> Iterator[None]:
    """Turn what decoders raise inside into one message about *path*."""
    try:
        yield
    except UNREADABLE as error:
        reason = " ".join(str(error).replace(str(path), path.name).split()) or type(error).__name__
        raise refused(source, path, "must be readable to its end", Shown(f"one that cannot be read ({reason})")) from error


def open_maybe_gzipped(path: Path) -> Stream:
    """*path* for reading, through gzip where its first bytes say so."""
    stream = path.open("rb")
    try:
        gzipped = stream.read(2) == b"\x1f\x8b"
    finally:
        stream.close()
    return gzip.open(path, "rb") if gzipped else path.open("rb")


def read_exactly(source: Source, path: Path, stream: Stream, count: int, what: str) -> bytes:
    """The next *count* bytes; fewer is a refusal that says how many are missing."""
    data = stream.read(count)
    if len(data) != count:
        raise refused(source, path, f"must hold {what} completely", Shown(f"a file that ends {count - len(data):,} bytes early"))
    return data


def must_end(source: Source, path: Path, stream: Stream, what: str) -> None:
    """Refuse bytes behind the last one that belongs; also makes gzip and zip compare their checksums."""
    if stream.read(1):
        raise refused(source, path, f"must end after {what}", Shown("further bytes"))


def one_file(source: Source, path: Path, published: PublishedFile) -> Path:
    """*path* itself where it is a file; a folder is searched for the published name."""
    if path.is_dir():
        inside = path / published.name
        if not inside.is_file():
            remedy = f"Give the file {published.name}, or the folder that it lies in."
            raise refused(source, path, f"must be the file {published.name}", Shown("a folder without it"), remedy)
        return inside
    return path


def all_in_folder(source: Source, path: Path, wanted: dict[str, tuple[str, ...]]) -> dict[str, Path]:
    """The file of each of *wanted*, label -> acceptable names relative to *path*, all missing ones named at once."""
    if not path.is_dir():
        remedy = f"Give the folder that it lies in, {path.parent}."
        raise refused(source, path, f"must be the folder with {', '.join(wanted)}", Shown("a single file"), remedy)
    found = {label: next((path / name for name in names if (path / name).exists()), None) for label, names in wanted.items()}
    missing = [label for label, place in found.items() if place is None]
    if missing:
        rule = f"must be a folder that holds {', '.join(wanted)}"
        raise refused(source, path, rule, Shown(f"one without {', '.join(missing)}"))
    return {label: place for label, place in found.items() if place is not None}
