# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or known to be damaged: written beside their place, renamed, checked.

JSON for records, safetensors for numbers, Parquet for tables; nothing that is read can execute
code.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from unbraid.core.errors import DamagedFileError, InputError, UnbraidError

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

_CHECKSUM = "sha256"
_UNFINISHED = ".part"
_LEFT_BESIDE = (f".*{_UNFINISHED}", ".tmp??????")
_ABOUT = "about"
_PLACE_OF_CHECKSUM = b"0" * 64


def write_bytes(path: Path, content: bytes) -> None:
    """Put *content* at *path* in one step: a reader sees the old file or the new one."""
    _put(path, lambda beside: beside.write_bytes(content), len(content))


def half_of(path: Path) -> Path:
    """Where this process writes what it will put at *path*."""
    return path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")


def _put(path: Path, write: Callable[[Path], object], size: int) -> None:
    """Let *write* make a file of *size* bytes, and put it at *path* in one step."""
    beside = half_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.touch()
        mode = stat.S_IMODE(beside.stat().st_mode)
        write(beside)
        beside.chmod(mode)  # safetensors puts a file of its own there, which nobody else may read
        put_in_place(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UnbraidError(
                f"{path.name} needs {size / 1e6:.1f} MB and the disk at {path.parent} is full; free"
                " some room and give the command again, or resume what it had begun."
            ) from error
        raise UnbraidError(f"{path} cannot be written: {error.strerror or error}.") from error


def put_in_place(beside: Path, path: Path) -> None:
    """Rename the file or folder *beside* to *path*, once all of it is on the disk."""
    if beside.is_dir():
        for file in beside.iterdir():
            _sync_file(file)
        _sync_folder(beside)
    else:
        _sync_file(beside)
    os.replace(beside, path)
    _sync_folder(path.parent)


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_unfinished(path: Path) -> bool:
    """Whether an interrupted write left *path* beside its place: ours, or that of safetensors."""
    return any(path.match(pattern) for pattern in _LEFT_BESIDE) and not path.is_dir()


def remove_unfinished(folder: Path) -> None:
    """Delete what interrupted writes left in *folder*; to be called with it locked."""
    for pattern in _LEFT_BESIDE:
        for leftover in folder.rglob(pattern):
            leftover.unlink(missing_ok=True)


def remove_halves(path: Path) -> None:
    """Delete what killed processes of this machine left of writing *path*; others keep theirs."""
    for half in path.parent.glob(f".{glob.escape(path.name)}.*{_UNFINISHED}"):
        process = half.name.removesuffix(_UNFINISHED).rpartition(".")[2]
        if process.isdigit() and not _runs(int(process)):
            with contextlib.suppress(OSError):
                shutil.rmtree(half) if half.is_dir() else half.unlink()


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


def digest(record: Any) -> str:
    """SHA-256 of a record's canonical JSON."""
    return hashlib.sha256(
        json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    ).hexdigest()


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record with its checksum inside."""
    # As a reader will see it: keys that are numbers turn to text, and text sorts differently.
    plain = json.loads(json.dumps(dict(record), allow_nan=False))
    whole = {**plain, _CHECKSUM: digest(plain)}
    write_bytes(
        path, (json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a record and check it."""
    try:
        record = json.loads(path.read_bytes())
        promised = record.pop(_CHECKSUM)
        found = digest(record)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except PermissionError as error:  # says nothing against the file
        raise UnbraidError(f"{path} cannot be read: {error.strerror}.") from error
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedFileError(
            f"{path} is damaged: it is not a whole record ({type(error).__name__})."
        ) from error
    if found != promised:
        raise DamagedFileError(f"{path} is damaged: its content does not match its checksum.")
    return record


def _tensor_digest(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> str:
    import torch

    total = hashlib.sha256(digest(dict(about)).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write named tensors and a small record about them, with one checksum over both."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One entry: safetensors writes several in a random order, and the same content should be the
    # same bytes.
    header = {
        "record": json.dumps({"about": dict(about), _CHECKSUM: _tensor_digest(on_host, about)})
    }

    def write(beside: Path) -> None:
        try:
            save_file(on_host, beside, metadata=header)
        except SafetensorError as error:  # which holds the system's own error as text
            full = f"os error {errno.ENOSPC}" in str(error)
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error

    _put(path, write, sum(tensor.nbytes for tensor in on_host.values()))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and their record, checked; the tensors own fresh, aligned memory."""
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            # A view into the mapped file may start at any byte, and some CPU kernels round
            # differently by alignment.
            tensors = {
                name: file.get_tensor(name).clone(memory_format=torch.contiguous_format)
                for name in file.keys()
            }
        record = json.loads(header["record"])
        about, promised = record["about"], record[_CHECKSUM]
        found = _tensor_digest(tensors, about)
    except OSError as error:
        raise _unreadable(path, error) from error
    except (
        SafetensorError,
        KeyError,
        ValueError,
        RuntimeError,
        TypeError,
        AttributeError,
    ) as error:
        raise DamagedFileError(f"{path} is damaged: it cannot be read ({error}).") from error
    if found != promised:
        raise DamagedFileError(f"{path} is damaged: its content does not match its checksum.")
    return tensors, about


def _unreadable(path: Path, error: OSError) -> Exception:
    """What to raise where *path* cannot be opened: absent, damaged, or unreadable for now."""
    if path.is_dir():
        return DamagedFileError(f"{path} is damaged: it is a folder.")
    if path.is_symlink() and not path.exists():
        return DamagedFileError(f"{path} is damaged: it is a link that leads to no file.")
    if isinstance(error, FileNotFoundError):
        return error
    # No permission, too many open files: that says nothing against the file.
    return UnbraidError(f"{path} cannot be read: {error.strerror or error}.")


def file_names(folder: Path) -> list[str]:
    """Names in *folder*, none where it does not exist; one that cannot be read is not empty."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnbraidError(f"{folder} cannot be read: {error.strerror}.") from error


def read_about(path: Path) -> dict[str, Any]:
    """The record about the tensors of a file, from its header alone and unchecked."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return json.loads((file.metadata() or {})["record"])["about"]
    except OSError as error:
        raise _unreadable(path, error) from error
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedFileError(f"{path} is damaged: it cannot be read ({error}).") from error


def write_table(path: Path, table: pd.DataFrame, about: Mapping[str, Any] | None = None) -> None:
    """Write a table, and a record about it, as Parquet that carries the checksum of its own file.

    Parquet's page checksums leave the footer uncovered, where the columns' names and types are. The
    SHA-256 here is that of the whole file with zeros in the checksum's place.
    """
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.Table.from_pandas(table, preserve_index=False)
    record = {} if about is None else {_ABOUT: json.dumps(dict(about), allow_nan=False)}
    buffer = io.BytesIO()
    pq.write_table(
        rows.replace_schema_metadata(
            {**(rows.schema.metadata or {}), **record, _CHECKSUM: _PLACE_OF_CHECKSUM}
        ),
        buffer,
    )
    content = buffer.getvalue()
    before, _, after = content.rpartition(_PLACE_OF_CHECKSUM)
    write_bytes(path, before + hashlib.sha256(content).hexdigest().encode() + after)


def read_table(path: Path, about: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Read a table and check every byte of its file, and that the record about it, where it has
    one, says *about*: one that was copied from elsewhere does not.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    content, metadata = _checked_parquet(path)
    if about is not None:
        found = _record_about(path, metadata)
        if other := [name for name, value in about.items() if found.get(name, value) != value]:
            raise DamagedFileError(f"{path} was made for another {' and '.join(other)}.")
    try:
        return pq.read_table(pa.BufferReader(content)).to_pandas()
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{path} is damaged: it cannot be read ({error}).") from error


def read_about_table(path: Path) -> dict[str, Any]:
    """The record about a table, empty without one; every byte of the file is checked."""
    _, metadata = _checked_parquet(path)
    return _record_about(path, metadata)


def _record_about(path: Path, metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    try:
        return dict(json.loads(metadata.get(_ABOUT.encode(), b"{}")))
    except (ValueError, TypeError) as error:
        raise DamagedFileError(
            f"{path} is damaged: its record cannot be read ({error})."
        ) from error


def _checked_parquet(path: Path) -> tuple[bytes, dict[bytes, bytes]]:
    """The content and the metadata of a file that is as its checksum promises."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        metadata = pq.read_metadata(pa.BufferReader(content)).metadata
        promised = metadata[_CHECKSUM.encode()]
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{path} is damaged: it cannot be read ({error}).") from error
    before, _, after = content.rpartition(promised)
    if hashlib.sha256(before + _PLACE_OF_CHECKSUM + after).hexdigest().encode() != promised:
        raise DamagedFileError(f"{path} is damaged: its content does not match its checksum.")
    return content, metadata


@contextlib.contextmanager
def only_one(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Hold *folder* for one writing process; a second one is refused.

    The lock ends with its process, however that ends.
    """
    if not folder.is_dir():  # which the lock would make
        raise UnbraidError(f"{folder} cannot be written: No such directory.")
    lock = filelock.FileLock(folder / name, blocking=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise InputError(
            f"{folder} is being written by another process; wait for it to end or stop it."
        ) from None
    except OSError as error:
        raise UnbraidError(f"{folder} cannot be written: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()
