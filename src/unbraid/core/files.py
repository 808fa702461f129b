# SPDX-License-Identifier: Apache-2.0
"""Every change of files that this package makes: written beside their place, synced, renamed.

What a reader finds at a path is the old file or the new one, whole, also after a power cut: bytes
are on the disk before the rename, and the rename is on the disk before anything older goes. Other
files of the package change nothing on a disk but through this one; a test looks. What libraries
write inside a half is not meant, which are the images or the archive of an export, and tensors:
there is no failpoint among them, and all is said of the half that they are in.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import filelock

from unbraid.core.errors import HeldError, UnbraidError
from unbraid.core.failpoints import failpoint
from unbraid.core.lease import check_leases_of, held, leases_of, take
from unbraid.core.lease_holder import SUFFIX, Watch, holder, is_dead, living, machine

_PAUSE = 0.2
UNFINISHED = ".part"
_HALVES, _NAMELESS = _LEFT_BESIDE = (f".*{UNFINISHED}", ".tmp??????")
"""What interrupted writes leave: ours, and those of safetensors, beside a half of ours."""


def write_bytes(path: Path, content: bytes) -> None:
    """Put *content* at *path* in one step: a reader sees the old file or the new one."""
    put(path, lambda beside: beside.write_bytes(content), len(content))


def put(path: Path, write: Callable[[Path], object], size: int) -> None:
    """Let *write* make a file of *size* bytes, and put it at *path* in one step.

    Where *path* is under a lease of this process that was lost, it is left as it is.
    """
    beside = half_of(path)
    for lease in leases_of(path)[:1]:
        beside = lease.halves / beside.name if lease.own_halves else beside
    try:
        make_folder(path.parent)
        beside.touch()
        mode = stat.S_IMODE(beside.stat().st_mode)
        failpoint("half.begun")
        write(beside)
        beside.chmod(mode)  # safetensors puts a file of its own there, which nobody else may read
        failpoint("half.written")
        check_leases_of(path)
        put_in_place(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        check_leases_of(path)  # the half goes with the lease
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UnbraidError(
                f"{path.name} needs {size / 1e6:.1f} MB and the disk at {path.parent} is full; free"
                " some room and give the command again, or resume what it had begun."
            ) from error
        remedy = "Give the command again where it can be, or by the user who may."
        if os.path.isdir(path):
            remedy = (
                "It is a folder where a file belongs: move it away, and give the command again."
            )
        raise UnbraidError(
            f"{path} cannot be written: {error.strerror or error}. {remedy}"
        ) from error


@contextlib.contextmanager
def stream_to(beside: Path) -> Iterator[BinaryIO]:
    """Write *beside* piece by piece, to be put in its place when the block has ended well."""
    file = beside.open("wb")
    try:
        failpoint("half.begun")
        yield file
        file.flush()
        failpoint("half.written")
    finally:
        with contextlib.suppress(OSError):  # all is written, or something went wrong already
            file.close()


def try_to_write(path: Path) -> None:
    """`OSError` where nothing can be written at *path*, where nothing is."""
    path.open("xb").close()
    path.unlink()


def fill(path: Path, content: bytes) -> None:
    """Write a file of a folder that is not in its place yet, which syncs it."""
    path.write_bytes(content)


def half_of(path: Path) -> Path:
    """Where this process writes what it will put at *path*."""
    return path.with_name(f".{path.name}.{machine()}-{os.getpid()}{UNFINISHED}")


def put_in_place(beside: Path, path: Path) -> None:
    """Rename the file or folder *beside* to *path*, once all of it is on the disk."""
    _sync(beside)
    failpoint("half.synced")
    os.replace(beside, path)
    failpoint("file.renamed")
    sync_folder(path.parent)
    failpoint("file.kept")


def copy_folder(source: Path, path: Path) -> None:
    """Put a copy of a folder at *path*, where nothing is, in one step."""
    beside = path.with_name(f".{path.name}{UNFINISHED}")
    remove_folder(beside)  # of a copy that was interrupted
    try:
        shutil.copytree(source, beside)
        failpoint("tree.copied")
        put_in_place(beside, path)
    except OSError as error:
        remove_folder(beside)
        reason = error.strerror or error
        if isinstance(error, shutil.Error):  # a file each, with what is wrong there
            reason = error.args[0][0][2]
        remedy = "Free some room, or make it writable, and resume what it is part of."
        raise UnbraidError(f"{path} cannot be written: {reason}. {remedy}") from error


def make_folder(folder: Path) -> None:
    """Make *folder* and those above it where they are not there, for good."""
    if folder.is_dir():
        return
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    failpoint("folder.wanted")
    folder.mkdir(parents=True, exist_ok=True)
    failpoint("folder.made")
    for one in missing:
        sync_folder(one.parent)


def set_aside(path: Path) -> None:
    """Give a file that cannot be used another name: it is out of the way, and not lost."""
    names = (f"{path.name}.damaged", *(f"{path.name}.{n}.damaged" for n in range(2, 1000)))
    places = (path.with_name(name) for name in names)
    check_leases_of(path)
    try:
        path.rename(next(place for place in places if not os.path.lexists(place)))
        failpoint("file.aside")
        sync_folder(path.parent)
    except FileNotFoundError:  # another process was first, or has put a good one there since
        return
    except OSError as error:
        raise UnbraidError(f"{path} cannot be renamed: {error.strerror or error}.") from error


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    check_leases_of(path)
    try:
        failpoint("file.leaving")
        path.unlink(missing_ok=True)
        failpoint("file.removed")
    except OSError as error:
        remedy = "Move it away, and give the command again."
        raise UnbraidError(
            f"{path} cannot be removed: {error.strerror or error}. {remedy}"
        ) from error


def remove_folder(folder: Path) -> None:
    """Remove a folder that nobody needs with all that is in it, as far as that can be done."""
    if not folder.is_dir():
        return
    check_leases_of(folder)
    with contextlib.suppress(OSError):
        failpoint("tree.leaving")
        shutil.rmtree(folder, ignore_errors=True)
        failpoint("tree.removed")


def remove_empty(folder: Path) -> None:
    """Remove an empty folder; `OSError` where it is not."""
    folder.rmdir()


def _sync(path: Path) -> None:
    """Have the disk take a file, or a folder with all that is in it."""
    if path.is_dir():
        for one in path.iterdir():
            _sync(one)
        sync_folder(path)
        return
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have the disk take the names in *folder*, where the system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # cannot be asked here
            raise
    finally:
        os.close(handle)


def is_unfinished(path: Path) -> bool:
    """Whether an interrupted write left *path* beside its place: ours, or that of safetensors."""
    return any(path.match(pattern) for pattern in _LEFT_BESIDE) and not path.is_dir()


def remove_unfinished(folder: Path) -> None:
    """Delete what interrupted writes left in *folder*; to be called by who holds it, where nobody
    else may write.
    """
    for pattern in _LEFT_BESIDE:
        for leftover in list(folder.rglob(pattern)):
            remove_folder(leftover) if leftover.is_dir() else remove(leftover)


def remove_halves(path: Path) -> None:
    """Delete what killed processes of this machine left of writing *path*; others keep theirs."""
    _remove_dead(path.parent.glob(f".{glob.escape(path.name)}.*{UNFINISHED}"))


def remove_halves_in(folder: Path) -> None:
    """The same of all files in *folder* and below; and leftovers that name nobody, where no half
    is left beside them whose writer may be writing them.
    """
    for place in [Path(place) for place, _, _ in os.walk(folder)]:
        nameless = list(place.glob(_NAMELESS))  # first: a half is there before them and after them
        _remove_dead(place.glob(_HALVES))
        if not any(place.glob(_HALVES)):
            _try_to_remove(nameless)


def _remove_dead(halves: Iterable[Path]) -> None:
    _try_to_remove([half for half in halves if _is_dead(half)])


def _is_dead(half: Path) -> bool:
    """Whether the process that wrote *half* ran on this machine and runs no more."""
    writer = half.name.removesuffix(UNFINISHED).rpartition(".")[2]
    where, _, process = writer.rpartition("-")  # earlier versions named no machine
    return where in ("", machine()) and process.isdigit() and not _runs(int(process))


def _try_to_remove(leftovers: Iterable[Path]) -> None:
    for one in leftovers:
        with contextlib.suppress(OSError, UnbraidError):
            remove_folder(one) if one.is_dir() else remove(one)


def _runs(process: int) -> bool:
    """Whether a process of that number runs; where that cannot be asked, it may."""
    if os.name == "nt":  # where asking would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def file_names(folder: Path) -> list[str]:
    """Names in *folder*, none where it does not exist; one that cannot be read is not empty."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnbraidError(cannot_be_read(folder, error)) from error


def cannot_be_read(path: Path, error: OSError) -> str:
    """What to say of a file or folder that is there and may not be read, or not now."""
    remedy = "Give the command again."
    if isinstance(error, PermissionError):
        remedy = "Give yourself the right to read it (chmod u+rX), or ask its owner to."
    return f"{path} cannot be read: {error.strerror or error}. {remedy}"


@contextlib.contextmanager
def only_one(
    folder: Path, name: str = ".lock", *covers: Path, patience: float = 0.0
) -> Iterator[None]:
    """Hold *folder* for one writing process; a second one is refused, after *patience* in seconds.

    On one machine a lock excludes others, which ends with its process, however that ends; between
    machines that share a disk a lease does. By its usual name it covers all of the folder, else
    what is below *covers*: there a process that has lost its lease writes nothing more.
    """
    if not folder.is_dir():  # which the lock would make
        raise UnbraidError(f"{folder} cannot be written: No such directory. Make it first.")
    below = covers or ((folder,) if name == ".lock" else ())
    lock = filelock.FileLock(folder / name, blocking=False)
    with contextlib.ExitStack() as stack:
        try:
            failpoint("lock.wanted")
            lock.acquire(blocking=patience > 0, timeout=patience or -1)
            stack.callback(_release, lock)
            failpoint("lock.held")
            _hold_between_machines(folder, name, below, patience, stack)
        except filelock.Timeout:
            raise _held_elsewhere(folder) from None
        except OSError as error:
            remedy = "Copy it to where you may write, and give the command for the copy."
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                remedy = "Free some room, and give the command again."
            raise UnbraidError(
                f"{folder} cannot be written: {error.strerror or error}. {remedy}"
            ) from error
        yield


def remove_lock(folder: Path, name: str = ".lock") -> None:
    """End what `only_one` holds, with nothing left of it in *folder*, which is about to go."""
    for lease in leases_of(folder):
        if lease.place == folder / f"{name}{SUFFIX}":
            lease.give_back()
    remove(folder / name)


def _release(lock: filelock.BaseFileLock) -> None:
    lock.release()
    failpoint("lock.freed")


def is_held(folder: Path, name: str = ".lock") -> bool:
    """Whether somebody holds *folder*, as far as can be seen at once and without writing."""
    found = holder(folder / f"{name}{SUFFIX}")
    return found is not None and not is_dead(found)


def check_nobody_holds(folder: Path, places: Iterable[Path]) -> None:
    """Refuse to change *folder* while somebody lives who holds one of the leases at *places*."""
    watch = Watch()
    for place in places:
        if (seen := living(place, watch)) is not None:
            raise _held_elsewhere(folder, f" on {seen.host}")


def _held_elsewhere(folder: Path, where: str = "") -> HeldError:
    return HeldError(
        f"{folder} is being written by another process{where}; wait for it to end or stop it."
    )


def _hold_between_machines(
    folder: Path,
    name: str,
    below: tuple[Path, ...],
    patience: float,
    stack: contextlib.ExitStack,
) -> None:
    """Take the lease of a lock that is held; whoever has it is on another machine, and refused
    where that one lives, or was killed there.
    """
    place, watch = folder / f"{name}{SUFFIX}", Watch()
    began = time.monotonic()
    while (lease := take(place, lambda path: _is_below(path, below), watch)) is None:
        if (seen := living(place, watch)) is not None:
            if time.monotonic() - began >= patience:
                raise _held_elsewhere(folder, f" on {seen.host}")
            time.sleep(_PAUSE)
    stack.enter_context(held(lease))


def _is_below(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(one) for one in folders)
