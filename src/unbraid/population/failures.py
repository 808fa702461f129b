# SPDX-License-Identifier: Apache-2.0
"""Why a chunk could not be trained, beside its checkpoints, so that not every worker tries it in
vain, and that `unbraid status` can tell.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from unbraid.core.errors import UnbraidError
from unbraid.core.files import remove
from unbraid.core.store import read_json, write_json
from unbraid.population.checkpoint import chunk_name
from unbraid.population.chunk_queue import FAILED, Chunk


@dataclass(frozen=True)
class Failure:
    """What went wrong, and where."""

    host: str
    why: str


def failure_path(folder: Path, chunk: Chunk) -> Path:
    """Where that of *chunk* lies in the *folder* of checkpoints."""
    return folder / f"{chunk_name(chunk)}{FAILED}"


def write_failure(folder: Path, chunk: Chunk, error: BaseException) -> None:
    """Keep what went wrong with *chunk*."""
    why = str(error) if isinstance(error, UnbraidError) else f"{type(error).__name__}: {error}"
    write_json(failure_path(folder, chunk), {"host": platform.node(), "why": why})


def read_failure(folder: Path, chunk: Chunk) -> Failure | None:
    """What went wrong with *chunk* last; None where nothing did."""
    try:
        found = read_json(failure_path(folder, chunk))
        return Failure(str(found["host"]), str(found["why"]))
    except (OSError, KeyError, UnbraidError):
        return None


def forget_failure(folder: Path, chunk: Chunk) -> None:
    """*chunk* is tried again."""
    if (path := failure_path(folder, chunk)).exists():
        remove(path)
