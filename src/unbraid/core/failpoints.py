# SPDX-License-Identifier: Apache-2.0
"""Failpoints: the places at which the tests kill this program, or let the disk fail.

Every operation on files (`core/files.py`) and every boundary between two stages of a command calls
`failpoint` with a name of `POINTS`. In normal use that is one test of a global; only a program that
calls `armed` hears of it, and there is no other way to do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

POINTS: dict[str, str] = {
    "folder.wanted": "a folder is about to be made",
    "folder.made": "it is made, and not yet entered in the folder above for good",
    "half.begun": "the half beside a file's place exists and is empty",
    "half.written": "the half holds all bytes, which the disk may not have yet",
    "half.synced": "the disk has all bytes of the half",
    "file.renamed": "the half has taken its place, which the disk may not know yet",
    "file.kept": "the disk knows: the new file is there for good",
    "file.leaving": "a file is about to be removed",
    "file.removed": "it is removed",
    "file.aside": "a damaged file has its other name",
    "tree.leaving": "a folder is about to be removed with all that is in it",
    "tree.removed": "it is removed",
    "tree.copied": "the half of a folder holds a copy, which the disk may not have yet",
    "lock.wanted": "a folder is about to be held",
    "lock.held": "it is held",
    "lock.freed": "it is held no more",
    "lease.wanted": "a lease that nobody holds is about to be taken",
    "lease.held": "it is held",
    "lease.beating": "its holder is about to show that it lives",
    "lease.beaten": "it has shown it",
    "lease.over": "a lease is about to be taken over from a holder that is gone",
    "lease.renamed": "it has the new holder's name, and still the halves of the old one",
    "lease.taken_over": "those are gone, and it is the new holder's alone",
    "lease.freed": "a lease is given back",
    "record.written": "a new folder has the record that makes it one",
    "chunk.saved": "a checkpoint of members that still train is there for good",
    "chunk.done": "results of a chunk are there for good",
    "training.done": "all chunks are trained, and their tables are not yet written",
    "tables.written": "the tables of a run are there for good",
    "codes.stored": "the codes of a member are there for good",
    "scores.stored": "the scores so far are there for good",
    "lineage.written": "the lineage has the epoch that has just ended",
    "generation.replaced": "the next generation stands in memory, and no file has it yet",
    "state.saved": "a state of a search is there for good",
    "winner.stored": "a search is finished; the states of its population are still there",
    "labels.stored": "the labels of a stage of a recursion are there for good",
    "part.stored": "the images of a leaf-run are chosen and there for good",
    "stage.done": "a stage of a recursion is done",
    "images.stored": "the images of a discovery are there for good, and nobody's yet",
    "findings.made": "a discovery has its findings, none of which is written",
    "array.stored": "an array of a published dataset has its place, and no record names it",
    "plan.extended": "a run has more steps to do, and no table of the fewer",
    "plan.grown": "a run has more members to train, and no table of the fewer",
    "slice.trained": "a stage of a slice is trained and encoded",
    "slice.scored": "a stage of a slice has its rows",
    "slice.committed": "a slice has its table; its work folder is still there",
    "page.written": "a page is there for good",
}
"""What has just happened at each, or is about to happen."""

_handler: Callable[[str], None] | None = None


def failpoint(name: str) -> None:
    """Say that *name* has just happened, where anybody listens."""
    if _handler is not None:
        _handler(name)


@contextmanager
def armed(handler: Callable[[str], None]) -> Iterator[None]:
    """Call *handler* with the name of every failpoint that is met in this process meanwhile."""
    global _handler

    def known(name: str) -> None:
        if name not in POINTS:
            raise KeyError(f"failpoint '{name}' is not in POINTS")
        handler(name)

    before, _handler = _handler, known
    try:
        yield
    finally:
        _handler = before
