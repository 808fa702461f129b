# SPDX-License-Identifier: Apache-2.0
"""Who holds a lease, and whether that one still lives: what can be seen without holding it.

A lease is a folder with the name of its holder in it (core/lease.py). The name says on which
machine and in which process it runs: a process that has died on this machine is known to be dead at
once. One elsewhere rewrites its file every few seconds, and who waits measures, by its own clock,
for how long the file has been the same: clocks of several machines are never compared.
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
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUFFIX = ".lease"
HALVES = ".halves"
"""What the folder is called, after its holder, in which that one writes."""
SECONDS = 60.0
"""After so long without a sign of life a lease is anybody's, unless its holder promised less."""
GONE = (errno.ENOENT, errno.ESTALE, errno.ENOTDIR)
"""What a system says of a file that somebody has renamed or removed."""
ENDED: set[str] = set()
"""Names that this process has no more; a folder that was moved may still have them."""
_LOOK_SECONDS, _TELL_AFTER = 0.2, 3.0


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
    if name in ENDED:
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
        if error.errno in GONE:
            return None
        raise
    return next((name for name in sorted(names) if not name.endswith(HALVES)), None)


def silence(place: Path, name: str) -> float:
    """About how many seconds ago the holder called *name* showed that it lives, to be shown to
    people: by the clock of the disk, where something can be written there.
    """
    try:
        beaten = (place / name).stat().st_mtime
    except OSError:
        return 0.0
    return max(0.0, _disk_time(place) - beaten)


def _disk_time(place: Path) -> float:
    own = place.with_name(f"{place.name}.{new_name()}")  # which goes as what a killed taker leaves
    try:
        own.mkdir()
        try:
            return own.stat().st_mtime
        finally:
            own.rmdir()
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
