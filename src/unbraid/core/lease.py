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

Clocks of several machines are never compared: a holder rewrites its file every few seconds, and who
waits measures, by its own clock, for how long the file has been the same.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import platform
import secrets
import shutil
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.core.failpoints import failpoint

SUFFIX = ".lease"
SECONDS = 60.0
"""After so long without a sign of life a lease is anybody's, unless its holder promised less."""
BEATS = 6
"""How often a holder shows that it lives in the time that it promised."""
_GONE = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, *((errno.EACCES,) if os.name == "nt" else ()))
_HALVES = ".halves"
_LOOK_SECONDS, _TELL_AFTER = 0.2, 3.0
_PADDED = 512
"""Bytes of a holder's file at least, so that a sign of life is one write of the same size."""


class LostLeaseError(UnbraidError):
    """Another process took over what this one held; it writes nothing more there."""


@functools.cache
def machine() -> str:
    """A word for this machine since it was started, and this container: process numbers mean
    nothing elsewhere.
    """
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def new_name() -> str:
    """A name for a holder in this process that no other has, here or elsewhere."""
    process = os.getpid()
    return f"{machine()}-{process}-{_started(process)}-{secrets.token_hex(6)}"


def is_dead(name: str) -> bool:
    """Whether the holder called *name* ran on this machine and runs no more; where that cannot be
    known it may run.
    """
    where, _, rest = name.partition("-")
    process, _, rest = rest.partition("-")
    began = rest.partition("-")[0]
    if name in _ended:
        return True
    if where != machine() or not process.isdigit() or os.name == "nt":
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    now = _started(int(process))
    return now == "ended" or (now != "0" and now != began)


def _started(process: int) -> str:
    """When a process of this machine was started, in its own count; "ended" where nobody has asked
    yet how it ended, "0" where that cannot be known.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "0"
    return "ended" if fields[0] in "ZX" else fields[19]


@dataclass(frozen=True)
class Seen:
    """What is seen of a lease that somebody holds."""

    name: str
    """Of the holder."""
    about: dict[str, Any]
    """What it tells of itself; empty where it was just being written."""
    unchanged: float
    """Seconds since it was first seen to be as it is."""

    @property
    def seconds(self) -> float:
        """After how long without a sign of life it is anybody's."""
        found = self.about.get("seconds")
        return float(found) if isinstance(found, (int, float)) and found > 0 else SECONDS

    @property
    def host(self) -> str:
        """The holder's machine, as people call it."""
        return str(self.about.get("host", "another machine"))

    @property
    def is_over(self) -> bool:
        """Whether anybody may take it over."""
        return is_dead(self.name) or self.unchanged > self.seconds


class Watch:
    """What one process has seen of leases, and when, by its own clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Path, tuple[str, bytes, float]] = {}

    def look(self, place: Path) -> Seen | None:
        """The holder of the lease at *place*; None where it is free."""
        name = holder(place)
        if name is None:
            self._seen.pop(place, None)
            return None
        content = _content(place / name)
        before = self._seen.get(place)
        if before is None or before[:2] != (name, content):
            before = self._seen[place] = (name, content, self._clock())
        return Seen(name, _about(content), self._clock() - before[2])


def living(place: Path, watch: Watch) -> Seen | None:
    """Who holds the lease at *place*, once that is known to live: a process of this machine at
    once, another by a sign of life; None where nobody does, or once it is known to be gone.
    """
    first, began, told = None, time.monotonic(), False
    while (seen := watch.look(place)) is not None and not seen.is_over:
        first = first or seen
        same = seen.name.partition("-")[0] == machine()
        if same or (seen.name, seen.about) != (first.name, first.about):
            return seen
        if not told and time.monotonic() - began > _TELL_AFTER:
            told = True
            line = f"{place.parent} was being written on {seen.host}; waiting up to"
            line += f" {seen.seconds:g} s to see whether it still is."
            print(line, file=sys.stderr, flush=True)
        time.sleep(_LOOK_SECONDS)
    return None


def holder(place: Path) -> str | None:
    """The name of who holds the lease at *place*; None where nobody does."""
    try:
        names = os.listdir(place)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    return next((name for name in sorted(names) if not name.endswith(_HALVES)), None)


def silence(place: Path, name: str) -> float:
    """About how many seconds ago the holder called *name* showed that it lives, to be shown to
    people: by the clock of the disk, where something can be written there.
    """
    try:
        beaten = (place / name).stat().st_mtime
    except OSError:
        return 0.0
    return max(0.0, _disk_time(place.parent) - beaten)


def _disk_time(folder: Path) -> float:
    own = folder / f".{new_name()}.now"
    try:
        own.touch()
        try:
            return own.stat().st_mtime
        finally:
            own.unlink(missing_ok=True)
    except OSError:
        return time.time()


def _content(path: Path) -> bytes:
    """What a holder's file says now: opening it asks the server, where its state may be old."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _about(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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
        return self.place / f"{self.name}{_HALVES}"

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
            self.is_lost = self.is_lost or (error.errno in _GONE and not self.is_given_back)
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
                self.is_lost = error.errno in _GONE
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
        _ended.add(self.name)
        shutil.rmtree(self.halves, ignore_errors=True)
        for remove, path in ((os.unlink, self._file), (os.rmdir, self.place)):
            with contextlib.suppress(OSError):
                remove(path)
        failpoint("lease.freed")


_held: set[Lease] = set()
"""Those of this process."""
_ended: set[str] = set()
"""Names that this process has no more; a folder that was moved may still have them."""


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
            if error.errno not in (*_TAKEN, *_GONE):
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
        if left.endswith(_HALVES):
            shutil.rmtree(place / left, ignore_errors=True)


def _taken_over(lease: Lease, old: str) -> bool:
    """The same of one that *old* held."""
    place, name = lease.place, lease.name
    try:
        os.rename(place / old, place / name)
    except OSError as error:
        if error.errno not in _GONE:
            raise
        if not (place / name).exists():
            return False  # given back, or a rival was first
    failpoint("lease.renamed")
    for left in _names(place):
        if left.endswith(_HALVES):
            gone = place / f"{name}.gone{_HALVES}"
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
