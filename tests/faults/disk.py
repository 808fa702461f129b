# SPDX-License-Identifier: Apache-2.0
"""What a command does to the disk, seen at the operating system, and what a power cut leaves of it.

`Disk` wraps the calls that change names, sync and lock. It knows nothing of how the package says
that it writes: bytes are synced when `fsync` saw the file as it is now, a name when the folder was
synced after it, a folder is held when `flock` says so. Every breach of the protocol is a `Breach`
with the name of the check.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHECKS = {
    "bytes": "the bytes of a file are synced before it takes its place",
    "beside": "a file is written in the folder of its place, under another name",
    "name": "the name of a file is synced before the command ends",
    "order": "the name of a file is synced before anything older goes",
    "newest": "what is newest stays until there is something newer, for good",
    "lock": "files of a folder or a chunk take their place and go while it is held",
    "again": "what was saved is not done again",
    "leftovers": "no half, note, lease or damaged file stays",
}
"""What `Disk` looks for."""
_UNFINISHED = re.compile(r"\..*\.part|\.tmp.{6}")
_LEFTOVER = re.compile(r"\..*\.part|\.tmp.{6}|\.begun\.json|.*\.damaged")
_LEASE = ".lease"
_CHECKPOINT = re.compile(r"(.*)\.step-(\d{9})\.safetensors")
_STATE = re.compile(r"(state)-\d{6}\.safetensors")

Mark = tuple[int, int, int]


@dataclass(frozen=True)
class Breach:
    """Something that a crash could turn into a loss."""

    check: str
    path: str
    told: str = ""


@dataclass(frozen=True)
class Change:
    """A change of names that the disk may not have yet."""

    kind: str
    folder: str
    path: str
    source: str = ""
    old: str = ""
    """What was at *path* before, kept under this name."""
    thread: int = 0


class Disk:
    """Everything that happens to the files below *root* in this process from now on."""

    def __init__(self, root: Path, *, held: bool = True, damaged: str = "") -> None:
        """With *held* false nothing needs a lock; one file that is found may be *damaged*."""
        self.root, self.needs_lock, self.damaged = root, held, damaged
        self.breaches: list[Breach] = []
        self.pending: list[Change] = []
        self._synced: dict[tuple[int, int], bytes] = {}
        self._placed: dict[str, Mark] = {}
        self._locks: dict[int, Path] = {}
        self._leases: set[Path] = set()
        self._turn = threading.RLock()
        self._old = root.parent / f"{root.name}.old"
        shutil.rmtree(self._old, ignore_errors=True)
        self._old.mkdir()
        self._before = {str(path): _mark(path) for path in _files(root)}
        self._best = _best(root, damaged)
        self._left = {path for path in root.rglob(f".lock{_LEASE}")}
        self._install()

    # What is wrapped.

    def _install(self) -> None:
        for name in ("rename", "replace"):
            setattr(os, name, self._renaming(getattr(os, name)))
        for name in ("unlink", "remove"):
            setattr(os, name, self._removing(getattr(os, name)))
        os.rmdir = self._removing_folder(os.rmdir)
        os.mkdir = self._making(os.mkdir)
        os.fsync = self._syncing(os.fsync)
        os.close = self._closing(os.close)
        fcntl.flock = self._locking(fcntl.flock)

    def _renaming(self, real: Callable[..., None]) -> Callable[..., None]:
        def rename(
            source: Any,
            target: Any,
            *,
            src_dir_fd: int | None = None,
            dst_dir_fd: int | None = None,
        ) -> None:
            before, after = _path(source, src_dir_fd), _path(target, dst_dir_fd)
            if after.suffix == _LEASE:
                real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                self._leases.add(after)
                return None
            if not self._ours(after):
                if _in_lease(before) == before.parent and _in_lease(after) == after.parent:
                    self._leases.add(after.parent)  # taken over, when the call has ended well
                return real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            with self._turn:
                self._look_at_rename(before, after)
                old = self._kept(after)
                real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                self._change("rename", after, str(before), old)
                for path in _files(after):
                    self._placed[str(path)] = _mark(path)

        return rename

    def _removing(self, real: Callable[..., None]) -> Callable[..., None]:
        def remove(path: Any, *, dir_fd: int | None = None) -> None:
            whole = _path(path, dir_fd)
            if not self._ours(whole) or not os.path.lexists(whole):
                return real(path, dir_fd=dir_fd)
            with self._turn:
                self._look_at_removal(whole, tree=dir_fd is not None)
                old = self._kept(whole)
                real(path, dir_fd=dir_fd)
                self._change("remove", whole, old=old)

        return remove

    def _removing_folder(self, real: Callable[..., None]) -> Callable[..., None]:
        def rmdir(path: Any, *, dir_fd: int | None = None) -> None:
            whole = _path(path, dir_fd)
            with self._turn:
                real(path, dir_fd=dir_fd)
                self._leases.discard(whole)
                if self._ours(whole):
                    # Nothing in it can be lost any more.
                    self.pending = [
                        one
                        for one in self.pending
                        if one.kind == "remove" or not Path(one.path).is_relative_to(whole)
                    ]
                    self._change("rmdir", whole)

        return rmdir

    def _making(self, real: Callable[..., None]) -> Callable[..., None]:
        def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            whole = _path(path, dir_fd)
            with self._turn:
                real(path, mode, dir_fd=dir_fd)
                if self._ours(whole):
                    self._change("mkdir", whole)

        return mkdir

    def _syncing(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def fsync(handle: Any) -> None:
            number = handle if isinstance(handle, int) else handle.fileno()
            with self._turn:
                real(number)
                state = os.fstat(number)
                if stat.S_ISDIR(state.st_mode):
                    folder = os.readlink(f"/proc/self/fd/{number}")
                    here = [one for one in self.pending if one.folder == folder]
                    gone = [Path(one.path) for one in here if one.kind == "rmdir"]
                    self.pending = [
                        one
                        for one in self.pending
                        if one not in here
                        and not any(Path(one.path).is_relative_to(path) for path in gone)
                    ]
                else:
                    content = Path(f"/proc/self/fd/{number}").read_bytes()
                    self._synced[state.st_dev, state.st_ino] = hashlib.sha256(content).digest()

        return fsync

    def _locking(self, real: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        def flock(handle: Any, operation: int) -> None:
            real(handle, operation)
            number = handle if isinstance(handle, int) else handle.fileno()
            if operation & fcntl.LOCK_UN:
                self._locks.pop(number, None)
            elif operation & fcntl.LOCK_EX:
                self._locks[number] = Path(os.readlink(f"/proc/self/fd/{number}"))

        return flock

    def _closing(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def close(number: int) -> None:
            self._locks.pop(number, None)
            real(number)

        return close

    # What is looked for.

    def _breach(self, check: str, path: Path, told: str = "") -> None:
        assert check in CHECKS
        self.breaches.append(Breach(check, str(path.relative_to(self.root)), told))

    def _look_at_rename(self, source: Path, target: Path) -> None:
        lease = _in_lease(source)
        if (lease.parent if lease else source.parent) != target.parent:
            self._breach("beside", target, f"was written in {source.parent}")
        if target.name.endswith(".damaged"):
            return self._look_at_lock(target)
        for path in _files(source):
            if not self._is_synced(path):
                self._breach("bytes", target, path.name)
        if source.is_dir():  # the names in it must be on the disk, too
            for one in self.pending:
                if Path(one.path).is_relative_to(source) and one.kind != "remove":
                    if Path(one.folder).is_relative_to(source):
                        self._breach("name", target, one.path)
        self._look_at_lock(target)
        self._look_at_progress(source, target)

    def _look_at_progress(self, source: Path, target: Path) -> None:
        family = _family(target)
        if _CHECKPOINT.fullmatch(target.name) and (target.parents[1] / "pbt.json").exists():
            family = None  # a winner, which is stored when all is done
        if family in self._best and _progress(source, target.name) <= self._best[family]:
            self._breach("again", target, "goes back behind what was found")
        found = self._before.get(str(target))
        if "codes" in target.parts and found and target.is_file():
            if target.read_bytes() == source.read_bytes():
                self._breach("again", target, "was there already")

    def _look_at_removal(self, path: Path, *, tree: bool) -> None:
        if _UNFINISHED.fullmatch(path.name):
            return
        own = threading.get_ident()
        early = [
            one
            for one in self.pending
            if one.kind == "rename" and one.thread == own and one.path != str(path)
        ]
        if early and not tree:
            self._breach("order", path, f"before {Path(early[0].path).name}")
        self._look_at_lock(path.parent if tree else path)
        record = path.with_name("record.json")  # of a published dataset: it names its arrays
        if path.suffix == ".npy" and record.exists() and path.name in record.read_text():
            self._breach("newest", path, "which the record names")
        if tree:
            successor = _successor_of_tree(path)
            if successor and not self._is_there(successor):
                self._breach("newest", path, f"without {successor.name}")
        elif (family := _family(path)) is not None:
            others = [one for one in path.parent.iterdir() if _family(one) == family]
            mine = _progress(path, path.name)
            if not any(
                one != path and self._is_there(one) and _progress(one, one.name) >= mine
                for one in others
            ):
                self._breach("newest", path)

    def _look_at_lock(self, path: Path) -> None:
        """Codes and pages are functions of what is locked: two that write them write the same."""
        free = path.suffix == ".html" or path.parent.name == "codes"
        if (
            self.needs_lock
            and not free
            and not any(_covers(lock, path) for lock in list(self._locks.values()))
            and not any(_leases(lease, path) for lease in list(self._leases))
        ):
            self._breach("lock", path)

    def at_the_end(self, *, notes: bool = False) -> None:
        """Look for what is wrong once the command has ended well; *notes* of what a killed one had
        begun may be there.
        """
        for one in self.pending:
            if one.kind in ("rename", "mkdir"):
                self._breach("name", Path(one.path), one.kind)
        for path in _files(self.root):
            known = (self._before.get(str(path)), self._placed.get(str(path)))
            if _mark(path) not in known and not _is_lock(path) and _in_lease(path) is None:
                self._breach("beside", path, "was written at its place")
            may_stay = (self.damaged and path.suffix == ".damaged") or (
                notes and path.name == ".begun.json"
            )
            if _LEFTOVER.fullmatch(path.name) and not may_stay:
                self._breach("leftovers", path)
        for path in self.root.rglob(f"*{_LEASE}"):
            if path not in self._left:  # of a killed process, where nothing was left to write
                self._breach("leftovers", path)

    # What a power cut needs to know.

    def crash(self, record: Path) -> None:
        """Write down what the disk may not have yet; the process is about to be killed."""
        self._turn.acquire()  # nobody else changes a name after this
        known = {"torn": self._torn(), "pending": [asdict(one) for one in self.pending]}
        record.write_text(json.dumps(known))

    def is_settled(self) -> bool:
        """Whether a power cut would change nothing now."""
        with self._turn:
            return not self.pending and not self._torn()

    def _torn(self) -> list[str]:
        return [
            str(path)
            for path in _files(self.root)
            if self._before.get(str(path)) != _mark(path)
            and not self._is_synced(path)
            and not _is_lock(path)
        ]

    # Details.

    def _ours(self, path: Path) -> bool:
        return path.is_relative_to(self.root) and _in_lease(path) is None

    def _is_synced(self, path: Path) -> bool:
        if self._before.get(str(path)) == _mark(path):
            return True
        state = path.lstat()
        content = hashlib.sha256(path.read_bytes()).digest()
        return self._synced.get((state.st_dev, state.st_ino)) == content

    def _is_there(self, path: Path) -> bool:
        """Whether a file is there for good."""
        return path.exists() and not any(one.path == str(path) for one in self.pending)

    def _kept(self, path: Path) -> str:
        if not path.is_file():
            return ""
        kept = self._old / str(len(list(self._old.iterdir())))
        os.link(path, kept)
        return str(kept)

    def _change(self, kind: str, path: Path, source: str = "", old: str = "") -> None:
        own = threading.get_ident()
        self.pending.append(Change(kind, str(path.parent), str(path), source, old, own))


POWER = ("lost", "back", "empty")
"""What a power cut may leave of what was not synced: new names are lost and removed files stay
away; everything is as it was; names are there, and their files are empty.
"""


def cut_power(record: Path, kind: str) -> None:
    """Make the disk look as a power cut may leave it."""
    known = json.loads(record.read_text())
    for path in known["torn"]:
        os.truncate(path, 0)
    if kind == "empty":
        return
    for one in reversed([Change(**one) for one in known["pending"]]):
        path = Path(one.path)
        if one.kind == "rename" and path.exists():
            path.rename(one.source)
            if one.old:
                os.link(one.old, path)
        elif one.kind == "mkdir":
            shutil.rmtree(path, ignore_errors=True)
        elif kind == "back" and one.kind == "rmdir":
            path.mkdir(exist_ok=True)
        elif kind == "back" and one.kind == "remove" and one.old and not path.exists():
            os.link(one.old, path)


def damage_newest(root: Path) -> Path | None:
    """Cut the newest file of the states there are, as a bad disk would; None without two."""
    families: dict[Any, list[Path]] = {}
    for path in _files(root):
        if (family := _family(path)) is not None:
            families.setdefault(family, []).append(path)
    for found in families.values():
        newest = max(found, key=lambda path: _progress(path, path.name))
        os.truncate(newest, newest.stat().st_size - 1)
        return newest
    return None


def newest_alone(contents: dict[str, str]) -> dict[str, str]:
    """*contents* by path without checkpoints but the newest of each training, and without those
    that were set aside.
    """
    best: dict[Any, str] = {}
    for place in contents:
        if (family := _family(Path(place))) is not None:
            best[family] = max(best.get(family, ""), place)
    return {
        place: digest
        for place, digest in contents.items()
        if (_family(Path(place)) is None or place in best.values())
        and not place.endswith(".damaged")
    }


def _files(path: Path) -> Iterator[Path]:
    if path.is_file() and not path.is_symlink():
        yield path
    elif path.is_dir():
        for folder, _, names in os.walk(path):
            yield from (Path(folder, name) for name in names)


def _mark(path: Path) -> Mark:
    state = path.lstat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def _path(given: Any, dir_fd: int | None) -> Path:
    start = os.getcwd() if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
    return Path(os.path.abspath(os.path.join(start, os.fspath(given))))


def _is_lock(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".lock") and not path.stat().st_size


def _in_lease(path: Path) -> Path | None:
    """The lease, held or being taken, in which *path* is, or which it is."""
    found = (one for one in (path, *path.parents) if _LEASE in (one.suffix, *one.suffixes))
    return next((one for one in found if one.name.startswith(".")), None)


def _leases(lease: Path, path: Path) -> bool:
    """Whether holding a chunk's *lease* allows to change *path*."""
    chunk = lease.name[1:].removesuffix(_LEASE)
    return path.parent == lease.parent and path.name.startswith(f"{chunk}.")


def _covers(lock: Path, path: Path) -> bool:
    """Whether holding *lock* allows to change *path*."""
    if path.name == "scores.parquet":
        return lock == path.with_name(".scores.lock")
    if lock.name == ".scores.lock":
        return False
    if lock.name == ".lock":
        return path.is_relative_to(lock.parent)
    slice_name = lock.name[1:].removesuffix(".lock")
    if path.is_relative_to(lock.parent):  # the work folder of the slice
        return path.is_relative_to(lock.parent / slice_name)
    return path.stem == slice_name and path.parent.name == lock.parent.name  # its table


def _family(path: Path) -> tuple[Path, str] | None:
    """What *path* is a stage of, where it is one."""
    found = _CHECKPOINT.fullmatch(path.name) or _STATE.fullmatch(path.name)
    return (path.parent, found[1]) if found else None


def _progress(path: Path, name: str) -> tuple[int, ...]:
    """How far the training was that a file of such a *name* holds; behind all where it is torn."""
    if found := _CHECKPOINT.fullmatch(name):
        return (int(found[2]),)
    try:
        content = path.read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = json.loads(header["__metadata__"]["record"])["about"]
    except (ValueError, KeyError):
        return ()
    return about["epoch"], sum(about["steps"])


def _best(root: Path, damaged: str) -> dict[tuple[Path, str], tuple[int, ...]]:
    """How far each training is that is found, without the file that is *damaged*."""
    found: dict[tuple[Path, str], tuple[int, ...]] = {}
    for path in _files(root):
        if (family := _family(path)) is not None and str(path) != damaged:
            found[family] = max(found.get(family, ()), _progress(path, path.name))
    return found


def _successor_of_tree(path: Path) -> Path | None:
    """What must be there before the folder goes in which *path* is."""
    parts = path.parts
    if "population" in parts:
        return Path(*parts[: parts.index("population")], "plan.json")
    if ".work" in parts:
        at = parts.index(".work")
        scale, pool, name = parts[at + 1 : at + 4]
        return Path(*parts[:at], scale, pool, f"{name}.parquet")
    return None
