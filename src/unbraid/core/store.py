# SPDX-License-Identifier: Apache-2.0
"""What is in files: whole or known to be damaged, by a checksum in each.

JSON for records, safetensors for numbers, Parquet for tables; nothing that is read can execute
code.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import DamagedFileError, UnbraidError
from unbraid.core.files import cannot_be_read, put, write_bytes

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

_CHECKSUM = "sha256"
_ABOUT = "about"
_PLACE_OF_CHECKSUM = b"0" * 64


def holds(path: Path, content: bytes) -> bool:
    """Whether the file at *path* is there and says just this."""
    try:
        return path.read_bytes() == content
    except OSError:
        return False


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
    content = _bytes_of(path)
    try:
        record = json.loads(content)
        promised = record.pop(_CHECKSUM)
        found = digest(record)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
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

    put(path, write, sum(tensor.nbytes for tensor in on_host.values()))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and their record, checked; the tensors own fresh, aligned memory."""
    import torch
    from safetensors import SafetensorError, safe_open

    _check_opens(path)
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


def _bytes_of(path: Path) -> bytes:
    """All of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _check_opens(path: Path) -> None:
    """Say why a file cannot be opened, where safetensors would call it absent."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> Exception:
    """What to raise where *path* cannot be opened: absent, damaged, or unreadable for now."""
    if os.path.isdir(path):
        return DamagedFileError(f"{path} is damaged: it is a folder.")
    if (
        os.path.islink(path) and isinstance(error, FileNotFoundError)
    ) or error.errno == errno.ELOOP:
        return DamagedFileError(f"{path} is damaged: it is a link that leads to no file.")
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return error
    # No permission, too many open files: that says nothing against the file.
    return UnbraidError(cannot_be_read(path, error))


def read_about(path: Path) -> dict[str, Any]:
    """The record about the tensors of a file, from its header alone and unchecked."""
    from safetensors import SafetensorError, safe_open

    _check_opens(path)
    try:
        with safe_open(path, framework="pt") as file:
            return dict(json.loads((file.metadata() or {})["record"])["about"])
    except OSError as error:
        raise _unreadable(path, error) from error
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged: it cannot be read ({error}).") from error


def write_npy(path: Path, array: NDArray[Any]) -> None:
    """Write an array as other programs read it, unless it is there; it has no checksum."""
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    if not holds(path, buffer.getvalue()):
        write_bytes(path, buffer.getvalue())


def write_table(path: Path, table: pd.DataFrame, about: Mapping[str, Any] | None = None) -> None:
    """Write a table, and a record about it, as Parquet that carries the checksum of its own file.

    Parquet's page checksums leave the footer uncovered, where the columns' names and types are. The
    SHA-256 here is that of the whole file with zeros in the checksum's place.
    """
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


def read_table(
    path: Path,
    about: Mapping[str, Any] | None = None,
    columns: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Read a table and check every byte of its file, that the record about it, where it has one,
    says *about* (one that was copied from elsewhere does not), and that it has *columns*, each of
    one of the kinds that NumPy has these letters for.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    content, metadata = _checked_parquet(path)
    if about is not None:
        found = _record_about(path, metadata)
        if other := [name for name, value in about.items() if found.get(name, value) != value]:
            raise DamagedFileError(f"{path} was made for another {' and '.join(other)}.")
    try:
        table = pq.read_table(pa.BufferReader(content)).to_pandas()
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{path} is damaged: it cannot be read ({error}).") from error
    for name, kinds in (columns or {}).items():
        if name not in table or table[name].dtype.kind not in kinds:
            found = f"of {table[name].dtype}" if name in table else "missing"
            raise DamagedFileError(f"{path} is no such table: its column '{name}' is {found}.")
    return table


def read_about_table(path: Path) -> dict[str, Any]:
    """The record about a table, empty without one; every byte of the file is checked."""
    _, metadata = _checked_parquet(path)
    return _record_about(path, metadata)


def _record_about(path: Path, metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    try:
        return dict(json.loads(metadata.get(_ABOUT.encode(), b"{}")))
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedFileError(
            f"{path} is damaged: its record cannot be read ({error})."
        ) from error


def _checked_parquet(path: Path) -> tuple[bytes, dict[bytes, bytes]]:
    """The content and the metadata of a file that is as its checksum promises."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = _bytes_of(path)
    try:
        metadata = pq.read_metadata(pa.BufferReader(content)).metadata
        promised = metadata[_CHECKSUM.encode()]
        if len(promised) != len(_PLACE_OF_CHECKSUM):
            raise ValueError(f"a checksum of {len(promised)} letters")
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{path} is damaged: it cannot be read ({error}).") from error
    before, _, after = content.rpartition(promised or _PLACE_OF_CHECKSUM)
    if hashlib.sha256(before + _PLACE_OF_CHECKSUM + after).hexdigest().encode() != promised:
        raise DamagedFileError(f"{path} is damaged: its content does not match its checksum.")
    return content, metadata
