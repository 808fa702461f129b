# SPDX-License-Identifier: Apache-2.0
"""The kinds of folder there are: the record that makes a folder one, and the page it is shown by.

File names of records and pages stand here and nowhere else. What opens a folder of each kind is
`commands/resume.py`.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unbraid.core.errors import Shown, UnbraidError, invalid, nearest
from unbraid.core.files import cannot_be_read


@dataclass(frozen=True)
class FolderKind:
    """One kind of folder, called by the command that makes it."""

    name: str
    record: str
    former: tuple[str, ...] = ()
    """Names that the record had in earlier versions, which are still read."""
    page: str = ""

    def __post_init__(self) -> None:
        if not self.page:
            object.__setattr__(self, "page", f"{self.name}.html")


RECORDS: dict[str, FolderKind] = {
    kind.name: kind
    for kind in (
        FolderKind("discover", "discover.json", ("discovery.json",)),
        FolderKind("rpu", "rpu.json", ("recursion.json",)),
        # A finished search holds its winner as a run, so it is asked before the run.
        FolderKind("pbt", "pbt.json", ("search.json",)),
        FolderKind("train", "plan.json", page="report.html"),
    )
}
"""By name, and in the order in which a folder is asked what it is."""

_STAGE = re.compile(r"root|models|recursion|(leaf|level|final)-\d+")
"""Runs in the folder of a recursion or a discovery."""
_MOST_TOLD = 8
"""Runs that a message names."""

PERTURBED = "perturbed.json"
"""The record of perturbed data, which is no run but can be trained on."""

_ALIKE = 0.75
"""Names at least so alike may be one of them misspelled: 1 is equal."""

PAGES = {name: kind.page for name, kind in RECORDS.items()} | {
    verb: f"{verb}.html" for verb in ("reduce", "distances", "crossings", "gallery")
}
"""The page that each command writes; that of a run is written by `report`."""


def record_path(folder: str | Path, kind: str) -> Path:
    """The record of a folder of this *kind*: the file that exists, else the one to write."""
    known = RECORDS[kind]
    paths = [Path(folder) / name for name in (known.record, *known.former)]
    return next((path for path in paths if is_there(path)), paths[0])


def is_there(path: Path) -> bool:
    """Whether there is anything at *path*, a link to nowhere too: what is damaged is not absent."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no path at all: a null byte
        return False
    except OSError as error:  # unreadable is not absent
        raise UnbraidError(cannot_be_read(path.parent, error)) from error
    return True


def kind_of(folder: str | Path) -> str | None:
    """The kind of *folder*, or None where it holds no record."""
    return next((name for name in RECORDS if is_there(record_path(folder, name))), None)


def check_kind(folder: str | Path, verb: str) -> str:
    """The kind of *folder*, given to the command *verb*; one without a record is refused."""
    check_exists("folder", folder)
    check_not_above(folder, verb)
    if (kind := kind_of(folder)) is None:
        records = ", ".join(known.record for known in RECORDS.values())
        raise invalid(
            "folder",
            f"must hold one of {records}",
            str(folder),
            other_kind(folder),
        )
    return kind


def check_not_above(folder: str | Path, verb: str) -> None:
    """Refuse a *folder* of runs, which is one level too high for the command *verb*."""
    place = Path(folder)
    if kind_of(place) is not None or not place.is_dir():
        return
    found = []
    with suppress(OSError):
        for one in place.iterdir():
            with suppress(UnbraidError):  # of one that cannot be read
                found += [one.name] * (kind_of(one) is not None)
    if not found or all(map(_STAGE.fullmatch, found)):  # then its own record was lost
        return
    found.sort()
    told = ", ".join(found[:_MOST_TOLD]) + ", ..." * (len(found) > _MOST_TOLD)
    rule = "must be one run, and not a folder that holds runs"
    remedy = f"It holds {told}: {shlex.join(['unbraid', verb, str(place / found[0])])}"
    raise invalid("folder", rule, str(folder), remedy)


def given_path(name: str, given: object) -> Path:
    """The path that a person gave as *name*, with ~ for a home; a shell leaves it after "="."""
    if not isinstance(given, (str, os.PathLike)):
        raise invalid(name, "must be a path", given, "Give it as text, or as a pathlib.Path.")
    text = os.fspath(given)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        rule = "must be a path whose name is text in UTF-8"
        raise invalid(name, rule, Shown(ascii(text)), "Rename it.") from error
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        rule = "must begin with ~ only where that is somebody's home"
        raise invalid(name, rule, text, "Write the whole path.") from error


def whole_path(name: str, given: str | os.PathLike[str]) -> Path:
    """The same from the root on, without links."""
    try:
        return given_path(name, given).resolve()
    except (OSError, RuntimeError) as error:
        rule, remedy = "must be a path that leads somewhere", "Put the file or folder itself there."
        raise invalid(name, rule, Shown(f"{given}, a link to itself"), remedy) from error


def check_writable(name: str, folder: Path) -> None:
    """Refuse, before any work, a *folder* in which nothing can be written, there or to be made."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        is_folder = there.is_dir()
    except OSError as error:
        rule = "must be a folder that can be made"
        raise invalid(name, rule, str(folder), f"{error.strerror}.") from error
    if not is_folder:
        raise invalid(name, "must be a folder", str(folder), "Choose another name.")
    if not os.access(there, os.W_OK | os.X_OK):
        rule = "must be a folder that can be written"
        raise invalid(name, rule, str(folder), f"Choose another: {{{name}=FOLDER}}.")


def check_still_there(folder: str | Path) -> None:
    """Refuse to write into a *folder* that had a record and has none any more."""
    if kind_of(folder) is None:
        raise UnbraidError(
            f"{folder} was moved or removed while it was written, so nothing more is written there."
            " If it was moved, go on where it is now: unbraid resume NEW_PLACE"
        )


def check_exists(name: str, folder: str | Path) -> None:
    """Refuse a *folder* that does not exist, or that is a file."""
    if not Path(folder).is_dir():
        there = Path(folder).exists()
        remedy = "" if there else meant(folder)
        raise invalid(name, "must be a folder" if there else "must exist", str(folder), remedy)


def meant(folder: str | Path) -> str:
    """A question for whoever names a *folder* that is not there; empty where none beside it has
    a similar name.
    """
    path = Path(folder)
    with suppress(OSError):
        beside = [one.name for one in path.parent.iterdir() if one.is_dir()]
        if near := nearest(path.name, beside, _ALIKE):
            return f"Did you mean {path.parent / near}?"
    return ""


def other_kind(folder: str | Path) -> str:
    """What to do with a folder that is none of those that have a record."""
    if (Path(folder) / PERTURBED).is_file():
        return f"It holds perturbed data: unbraid train {folder}"
    return "Give another folder; where its record was lost, put a copy of that back."


def next_folder(stem: str, parent: str = "runs") -> Path:
    """The first of <parent>/<stem>-1, -2, ... that is free."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", stem)
    number = 1
    while (Path(parent) / f"{stem}-{number}").exists():
        number += 1
    return Path(parent) / f"{stem}-{number}"
