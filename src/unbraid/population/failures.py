# SPDX-License-Identifier: Apache-2.0
"""Why a chunk could not be trained, beside its checkpoints, so that not every worker tries it in
vain, and that `unbraid status` can tell.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from unbraid.core.errors import UnbraidError
from unbraid.core.files import remove
from unbraid.core.store import read_json, write_json
from unbraid.population.checkpoint import chunk_name
from unbraid.population.member import Chunk, members_told

FAILED = ".failed.json"
"""What a chunk is called that could not be trained."""
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@dataclass(frozen=True)
class Failure:
    """What went wrong, and where."""

    host: str
    why: str


def failure_path(folder: Path, chunk: Chunk) -> Path:
    """Where that of *chunk* lies in the *folder* of checkpoints."""
    return folder / f"{chunk_name(chunk)}{FAILED}"


def failure_of(error: BaseException) -> Failure:
    """What went wrong by *error*, here."""
    why = str(error) if isinstance(error, UnbraidError) else f"{type(error).__name__}: {error}"
    return Failure(platform.node(), why)


def is_of_the_disk(error: BaseException) -> bool:
    """Whether *error* is one that every chunk would meet, since the disk is full or broken."""
    found = error if isinstance(error, OSError) else error.__cause__
    return isinstance(found, OSError) and found.errno in _OF_THE_DISK


def write_failure(folder: Path, chunk: Chunk, failure: Failure) -> None:
    """Keep what went wrong with *chunk*."""
    write_json(failure_path(folder, chunk), vars(failure))


def read_failure(folder: Path, chunk: Chunk) -> Failure | None:
    """What went wrong with *chunk* last; None where nothing did."""
    try:
        found = read_json(failure_path(folder, chunk))
        return Failure(str(found["host"]), str(found["why"]))
    except (OSError, KeyError, UnbraidError):
        return None


def failed_here(folder: Path, chunk: Chunk) -> Failure | None:
    """What went wrong with *chunk* last, where that was on this machine."""
    found = read_failure(folder, chunk)
    return found if found is not None and found.host == platform.node() else None


def told_failures(failures: Iterable[tuple[Chunk, Failure]]) -> list[str]:
    """A line for each reason, with the members that could not be trained for it."""
    names: dict[Failure, list[str]] = {}
    for chunk, failure in failures:
        names.setdefault(failure, []).append(members_told(chunk))
    return [
        f"{', '.join(found)} could not be trained on {failure.host}: {failure.why}"
        for failure, found in names.items()
    ]


def forget_failure(folder: Path, chunk: Chunk) -> None:
    """*chunk* is tried again."""
    if (path := failure_path(folder, chunk)).exists():
        remove(path)
