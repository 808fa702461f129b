# SPDX-License-Identifier: Apache-2.0
"""Leases: what one process holds at a time, on a disk that several machines may share.

`flock` holds on one machine alone (on many network file systems), and ends with its process. A
lease holds wherever a rename is atomic, and ends when it is given back, when its process is known
to be dead, or when its holder shows no sign of life for as long as it promised. It is a folder:

    members-00000-00127.lease/             there and not empty: held
        3f0c9a1b7d2e4455-1234-88172-5d…    the holder's name; in it what the holder tells of itself
        3f0c9a1b7d2e4455-1234-88172-5d….halves/    where the holder writes what it will put in place

Taken: a folder with the holder's name in it is made beside and renamed; a folder that is not empty
cannot be renamed over, so one of several rivals wins. Taken over: the name of the old holder is
renamed to that of the new one, which can be done once, by one of several. Then the folder of halves
of the old holder goes. A holder that was only asleep finds its name gone; and what it was writing
can no longer be renamed to its place, because the file to be renamed is gone.

How it is seen whether a holder lives stands in core/lease_holder.py.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.core.failpoints import failpoint
from unbraid.core.lease_holder import (
    ENDED,
    GONE,
    HALVES,
    SECONDS,
    SUFFIX,
    Watch,
    holder,
    is_dead,
    new_name,
)

BEATS = 6
"""How often a holder shows that it lives in the time that it promised."""
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, *((errno.EACCES,) if os.name == "nt" else ()))
_PADDED = 512
"""Bytes of a holder's file at least, so that a sign of life is one write of the same size."""


class LostLeaseError(UnbraidError):
    """Another process took over what this one held; it writes nothing more there."""


@dataclass(eq=False)
class Lease:
    """One that this process holds, or held."""

    place: Path
    name: str
    seconds: float
    covers: Callable[[Path], bool]
    """Which files may be written and removed by who holds it alone."""
    own_halves: bool
    """Whether halves of those files are written in the lease, on whose disk they must lie."""
    about: dict[str, Any] = field(default_factory=dict)
    """What its file says too, from the next sign of life on."""
    beats: int = 0
    is_lost: bool = False
    is_given_back: bool = False

    @property
    def _file(self) -> Path:
        return self.place / self.name

    @property
    def halves(self) -> Path:
        """Where its holder writes what it will put in place."""
        return self.place / f"{self.name}{HALVES}"

    def content(self) -> bytes:
        """What its file says."""
        told = {"host": platform.node(), "process": os.getpid(), "seconds": self.seconds}
        record = {**told, **dict(self.about), "beats": self.beats}
        return json.dumps(record).encode().ljust(_PADDED)

    def beat(self) -> None:
        """Show that its holder lives."""
        if self.is_lost or self.is_given_back:
            return
        self.beats += 1
        failpoint("lease.beating")
        try:
            handle = os.open(self._file, os.O_WRONLY)  # never made: it may have been taken over
        except OSError as error:
            self.is_lost = self.is_lost or (error.errno in GONE and not self.is_given_back)
            return
        try:
            content = self.content()
            os.write(handle, content)
            os.ftruncate(handle, len(content))
        except OSError as error:  # a full disk is no reason to stop: saving will tell
            self.is_lost = self.is_lost or error.errno == errno.ESTALE
        finally:
            with contextlib.suppress(OSError):
                os.close(handle)
        failpoint("lease.beaten")

    def check(self) -> None:
        """`LostLeaseError` where somebody else holds it now."""
        if not self.is_lost and not self.is_given_back:
            try:
                os.stat(self._file)
            except OSError as error:
                self.is_lost = error.errno in GONE
        if self.is_lost:
            raise LostLeaseError(
                f"{self.place} was taken over by another process, because this one had shown no"
                f" sign of life for {self.seconds:g} s; it writes nothing more there."
            )

    def give_back(self) -> None:
        """End it; nothing happens where it was lost."""
        if self.is_given_back:
            return
        self.is_given_back = True
        _held.discard(self)
        ENDED.add(self.name)
        shutil.rmtree(self.halves, ignore_errors=True)
        for remove, path in ((os.unlink, self._file), (os.rmdir, self.place)):
            with contextlib.suppress(OSError):
                remove(path)
        failpoint("lease.freed")


_held: set[Lease] = set()
"""Those of this process."""


def leases_of(path: Path) -> list[Lease]:
    """The leases of this process under which *path* is written, the one with own halves first."""
    found = [one for one in tuple(_held) if one.covers(path)]
    return sorted(found, key=lambda one: not one.own_halves)


def check_leases_of(path: Path) -> None:
    """`LostLeaseError` where *path* is under a lease that this process has lost."""
    for lease in leases_of(path):
        lease.check()


def tell(path: Path, **about: Any) -> None:
    """Have the leases under which *path* is written say this of their holder."""
    for lease in leases_of(path):
        lease.about.update(about)


def take(
    place: Path,
    covers: Callable[[Path], bool],
    watch: Watch,
    *,
    seconds: float = SECONDS,
    own_halves: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Lease | None:
    """Hold the lease at *place*, where it is free or its holder gone; None where it is another's.

    How long its holder has been silent is what *watch* has seen.
    """
    lease = Lease(place, new_name(), seconds, covers, own_halves, dict(about or {}))
    seen = watch.look(place)
    if seen is None:
        failpoint("lease.wanted")
        taken = _taken_free(lease)
    elif seen.is_over:
        failpoint("lease.over")
        taken = _taken_over(lease, seen.name)
    else:
        return None
    if not taken:
        return None
    _held.add(lease)
    _heart.keep(lease)
    failpoint("lease.held")
    return lease


def _taken_free(lease: Lease) -> bool:
    """Whether this process is the one that has it now."""
    place = lease.place
    own = place.with_name(f"{place.name}.{lease.name}")
    own.mkdir()
    try:
        (own / lease.name).write_bytes(lease.content())
        (own / lease.halves.name).mkdir()
        try:
            os.rename(own, place)
        except OSError as error:
            if error.errno not in (*_TAKEN, *GONE):
                raise
            _remove_nobodys(place)
        # Over a network the answer may be lost, and the rename done: what is there decides.
        return (place / lease.name).exists()
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _remove_nobodys(place: Path) -> None:
    """Remove halves that stayed when a lease was given back, or it could not be taken again."""
    for _ in range(2):  # a name that is just being changed may be missing once
        if holder(place) is not None:
            return
        time.sleep(0.05)
    for left in _names(place):
        if left.endswith(HALVES):
            shutil.rmtree(place / left, ignore_errors=True)


def _taken_over(lease: Lease, old: str) -> bool:
    """The same of one that *old* held."""
    place, name = lease.place, lease.name
    try:
        os.rename(place / old, place / name)
    except OSError as error:
        if error.errno not in GONE:
            raise
        if not (place / name).exists():
            return False  # given back, or a rival was first
    failpoint("lease.renamed")
    for number, left in enumerate(_names(place)):
        if left.endswith(HALVES):
            gone = place / f"{name}.{number}{HALVES}"  # one each: it may not be had empty at once
            with contextlib.suppress(OSError):
                os.rename(place / left, gone)
            shutil.rmtree(gone, ignore_errors=True)
    lease.halves.mkdir()
    lease.beat()  # nothing is made: this process may have been asleep itself, and lost it again
    if lease.is_lost:
        shutil.rmtree(lease.halves, ignore_errors=True)
        return False
    failpoint("lease.taken_over")
    return True


def _names(place: Path) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes of this machine left of taking leases in *folder*."""
    for name in _names(folder):
        if (at := name.find(f"{SUFFIX}.")) >= 0 and is_dead(name[at + len(SUFFIX) + 1 :]):
            shutil.rmtree(folder / name, ignore_errors=True)


def remove_of_the_dead(folder: Path) -> None:
    """Remove the leases in *folder* whose holders are known to be dead."""
    watch = Watch()
    for name in _names(folder):
        if name.endswith(SUFFIX) and (lease := take(folder / name, lambda path: False, watch)):
            lease.give_back()


class _Heart:
    """A thread that beats for every lease of this process."""

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            own = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: (one := own()) and one._forked())

    def _begin(self) -> None:
        self._turn = threading.Condition()
        self._due: dict[Lease, float] = {}
        self._thread: threading.Thread | None = None

    def _forked(self) -> None:
        """A child holds nothing of its parent's."""
        _held.clear()
        self._begin()

    def keep(self, lease: Lease) -> None:
        """Beat for *lease* until it is lost or given back."""
        with self._turn:
            self._due[lease] = time.monotonic() + lease.seconds / BEATS
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="unbraid-beat", daemon=True)
                self._thread.start()
            self._turn.notify()

    def _run(self) -> None:
        while True:
            with self._turn:
                ended = [one for one in self._due if one.is_lost or one.is_given_back]
                for one in ended:
                    del self._due[one]
                if not self._due:
                    # Threads that wait for nothing hold up the end of nobody; the next begins one.
                    if not self._turn.wait(timeout=1.0) and not self._due:
                        self._thread = None
                        return
                    continue
                now = time.monotonic()
                due = [one for one, at in self._due.items() if at <= now]
                if not due:
                    self._turn.wait(timeout=min(self._due.values()) - now)
                    continue
                for one in due:
                    self._due[one] = now + one.seconds / BEATS
            for one in due:
                with contextlib.suppress(Exception):
                    one.beat()


_heart = _Heart()


@contextlib.contextmanager
def held(lease: Lease) -> Iterator[Lease]:
    """Give *lease* back when the block ends."""
    try:
        yield lease
    finally:
        lease.give_back()
