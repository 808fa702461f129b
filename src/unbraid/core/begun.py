# SPDX-License-Identifier: Apache-2.0
"""What a command that was killed leaves in a new folder, before its record made the folder one.

Halves of files are known by their names. Whole files that are written before the record stand in a
note while they are written, so that they are known for leftovers and nothing else ever is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from unbraid.core.errors import UnbraidError
from unbraid.core.files import is_unfinished, remove, sync_folder
from unbraid.core.lease_holder import SUFFIX
from unbraid.core.store import read_json, write_json

NOTE = ".begun.json"
LOCK = ".lock"


@contextlib.contextmanager
def before_record(folder: Path, record: str, *files: str) -> Iterator[None]:
    """Note that *files* of *folder* are leftovers until its *record* is written, in this block.

    Where the block fails they are removed.
    """
    write_json(folder / NOTE, {"record": record, "files": list(files)})
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError, UnbraidError):
            remove_leftovers(folder)
        raise
    remove(folder / NOTE)


def leftovers(folder: Path) -> set[Path]:
    """What in *folder* an interrupted command left there."""
    found = {path for path in folder.iterdir() if is_unfinished(path)}
    try:
        note = read_json(folder / NOTE)
        names = [] if (folder / note["record"]).exists() else note["files"]
    except (FileNotFoundError, NotADirectoryError):
        return found
    except UnbraidError:  # damaged: nothing is known of the other files
        names = []
    return found | {folder / NOTE, *(folder / Path(name).name for name in names)}


def remove_leftovers(folder: Path) -> None:
    """Delete them; to be called with the folder locked."""
    found = leftovers(folder)
    if not found:
        return
    sync_folder(folder)  # the record may be what was written last
    for path in found - {folder / NOTE}:
        remove(path)
    if folder / NOTE in found:
        sync_folder(folder)  # the note last: without it the others would be nobody's
        remove(folder / NOTE)


def holds_anything(folder: Path) -> bool:
    """Whether *folder* has anything in it but leftovers and locks."""
    locks = (f"{LOCK}{SUFFIX}.", f"{LOCK}{SUFFIX}/")
    names = (path for path in folder.iterdir() if path.name != LOCK)
    found = {path for path in names if not f"{path.name}/".startswith(locks)}
    return bool(found - leftovers(folder))
