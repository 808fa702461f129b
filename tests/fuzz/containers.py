# SPDX-License-Identifier: Apache-2.0
"""Files in the containers that are read: whole ones, and ones with something wrong inside.

`FILES` has a generator for each container. Beside flipped and missing bytes they change what the
container itself says (headers, sizes, counts, names) and then set its checksums right, so that what
stands behind the check is reached.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz import grammar

Random = random.Random
LEGACY = Path(__file__).parents[1] / "legacy/folders"
_PLACE = b"0" * 64
_BOMB = zlib.compress(bytes(70_000_000))
_ODD_SIZES = (0, 1, 2, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)


def damaged(chance: Random, content: bytes) -> bytes:
    """*content* with bytes changed, missing, doubled or added."""
    found = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at, end = sorted((chance.randint(0, len(found)), chance.randint(0, len(found))))
        kind = chance.randrange(7)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del found[at:]
        elif kind == 2:
            del found[at : min(end, at + 40)]
        elif kind == 3:
            found[at:at] = found[at : min(end, at + 400)]
        elif kind == 4:
            found[at:at] = chance.randbytes(chance.choice((1, 4, 30)))
        elif kind == 5:
            width = chance.choice((1, 2, 4, 8))
            number = chance.choice(_ODD_SIZES) % 2 ** (8 * width)
            found[at : at + width] = number.to_bytes(width, chance.choice(("little", "big")))
        elif kind == 6:
            found[at:at] = grammar.word(chance).encode("utf-8", "surrogatepass")[:200]
    return bytes(found)


# npy and npz

_DTYPES = (
    *("<f8", "<f4", "|u1", "<i8", "<u8", "|b1", "<u2", ">f8", ">u2", "<f2", "<f16", "<c8", "|i1"),
    *("<U3", "|S2", "<M8[s]", "<m8[D]", "|V4", "|O", "<U0", "|S0", "|V0", "<f3", "<M8", "x", ""),
)
_DESCRIPTIONS = (
    *([("a", "<f8"), ("b", "<i4")], [("a", "<f8", (2,))], [], [("a",)], (), ("<f8", (3,))),
    (("<f8",),),
    *(None, 5, {"a": 1}, [["a", "<f8"]], [("a", "|O")], "f8,f8", [("", "<f8"), ("", "<f8")]),
    b"<f8",
)


def array(chance: Random) -> np.ndarray:
    """Images, codes or labels of all kinds."""
    numbers = np.random.default_rng(chance.getrandbits(32))
    shape = chance.choice(
        (
            *((12, 8, 8), (12, 8, 8, 1), (12, 9, 8, 3), (12, 8, 8, 4), (12, 3, 8, 8), (1, 8, 8)),
            *((12,), (12, 2), (12, 3), (2, 12, 3), (0,), (), (12, 0), (0, 12), (2, 1, 12, 3)),
            (12, 1, 1),
        )
    )
    kind = chance.choice(_DTYPES[:18])
    if chance.random() < 0.3:  # what can be taken for images, or for labels of as many
        shape, kind = chance.choice((((12, 8, 8), "|u1"), ((12, 8, 8, 3), "<u2"), ((12, 2), "<i8")))
    content = numbers.integers(0, 3, shape)
    if chance.random() < 0.2 and content.size:
        content = content.astype(np.float64)
        content.flat[chance.randrange(content.size)] = chance.choice(
            (np.nan, np.inf, -np.inf, 1e300, 1e-320, -0.0, 0.5, 2.0**53, 1e19)
        )
    with np.errstate(all="ignore"):
        return content.astype(kind) if "M8" not in kind else content.astype("i8").astype(kind)


def npy_of(header: bytes, rest: bytes, version: tuple[int, int] = (1, 0)) -> bytes:
    """An .npy file with any header, its length set right."""
    size = struct.pack(
        "<H" if version == (1, 0) else "<I", len(header) % 2 ** (16 if version == (1, 0) else 32)
    )
    return b"\x93NUMPY" + bytes(version) + size + header + rest


def npy(chance: Random) -> bytes:
    """A .npy file."""
    stored = array(chance)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, stored)
    whole = buffer.getvalue()
    kind = chance.random()
    if kind < 0.2:
        return whole
    if kind < 0.5:
        return damaged(chance, whole)
    description: Any = chance.choice((*_DTYPES, *_DESCRIPTIONS, stored.dtype.str, stored.dtype.str))
    shape: Any = chance.choice(
        (
            *(stored.shape, stored.shape, (10**12,), (10**6, 10**6), (2**62, 4), (2**70,), (-1,)),
            *((-5, 3), (0, 2**63), (2**63,), (True, 12), (1.0,), 12, [12], None, (), ("12",)),
            (1,) * 65,
        )
    )
    header = {
        "descr": description,
        "fortran_order": chance.choice((False, True, 0, None)),
        "shape": shape,
    }
    text = repr(header)
    if chance.random() < 0.3:
        text = grammar.mutated(chance, text, "{" * 500 + "1L" + "(" * 100)
    if chance.random() < 0.1:
        text = chance.choice(
            ("(" * 150, "[" * 9000, "-" * 9000, "{'a': " * 90, "9" * 5000, "'\\", "1L")
        )
    version = chance.choice(((1, 0), (1, 0), (1, 0), (2, 0), (3, 0), (4, 0), (1, 1)))
    return npy_of(text.encode("utf-8", "surrogatepass") + b"\n", stored.tobytes(), version)


def npz(chance: Random) -> bytes:
    """A .npz file."""
    buffer = io.BytesIO()
    others = chance.sample(("factors", "factor_names", "codes", "a b", "../x", "."), 2)
    names = [chance.choice(("images", "images", "labels")), *others]
    method = chance.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name in names[: chance.choice((0, 1, 2, 3))]:
            archive.writestr(
                f"{name}{chance.choice(('.npy', '.npy', '.npy', '', '.txt'))}", npy(chance)
            )
        if chance.random() < 0.02:
            bomb = npy_of(b"{'descr': '|u1', 'fortran_order': False, 'shape': (9000000,)}\n", b"")
            archive.writestr("bomb.npy", bomb + bytes(9_000_000), zipfile.ZIP_DEFLATED)
    whole = buffer.getvalue()
    return whole if chance.random() < 0.5 else damaged(chance, whole)


# Records: JSON with a checksum inside


def odd_json(chance: Random) -> Any:
    """A value that a record would not have there."""
    return chance.choice(
        (
            *(None, True, False, 0, 1, -1, 2**40, 10**30, 0.5, 1e308, "", "x", [], {}, [[]]),
            {"": None},
            *([0] * 50, {"a": {"b": []}}, grammar.word(chance), grammar.number(chance), [None]),
            "1e5",
        )
    )


def changed_json(chance: Random, record: Any) -> Any:
    """*record* with values somewhere in it put in the place of others."""
    record = json.loads(json.dumps(record))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        node, depth = record, 0
        while isinstance(node, (dict, list)) and node and depth < 8:
            key = (
                chance.choice(list(node)) if isinstance(node, dict) else chance.randrange(len(node))
            )
            child: Any = node[key]  # pyright: ignore
            if not isinstance(child, (dict, list)) or not child or chance.random() < 0.3:
                kind = chance.randrange(4)
                if kind == 0:
                    del node[key]  # pyright: ignore
                elif kind == 1 and isinstance(node, dict):
                    node[grammar.word(chance)[:80]] = node.pop(key)
                else:
                    node[key] = odd_json(chance)  # pyright: ignore
                break
            node, depth = child, depth + 1
    return record


def with_checksum(record: Any) -> bytes:
    """A record as `store.write_json` writes it, its checksum right."""
    return json.dumps({**record, "sha256": _digest(record)}).encode()


def _digest(record: Any) -> str:
    plain = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


def record_in(content: bytes) -> dict[str, Any]:
    """A record without its checksum."""
    record = json.loads(content)
    record.pop("sha256", None)
    return record


def record_like(content: bytes) -> Callable[[Random], bytes]:
    """Records like the one in *content*."""

    def make(chance: Random) -> bytes:
        if chance.random() < 0.15:
            return damaged(chance, content)
        changed = changed_json(chance, record_in(content))
        return with_checksum(changed if isinstance(changed, dict) else {"a": changed})

    return make


def json_text(chance: Random) -> bytes:
    """Text that is nearly JSON."""
    text = chance.choice(
        (
            *("[" * 100_000, '{"a":' * 100_000, '{"sha256": "' + "0" * 64 + '"}', "NaN", "", "{"),
            "null",
            *('{"sha256": null}', "[1e999]", '{"a": 1, "a": 2}', '{"a": "\\ud800"}'),
            *('"' + "x" * 99, "9" * 9999),
        )
    )
    return damaged(chance, text.encode()) if chance.random() < 0.5 else text.encode()


# Tensors


def tensors_of(header: Any, data: bytes) -> bytes:
    """A safetensors file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _tensor_digest(header: dict[str, Any], data: bytes, about: Any) -> str:
    """What `store.write_tensors` promises, as far as this header can be understood."""
    total = hashlib.sha256(_digest(about).encode())
    kinds = {"F": "float", "I": "int", "U": "uint"}
    for name in sorted(header):
        one = header[name]
        if name != "__metadata__" and isinstance(one, dict):
            first, last = one["data_offsets"]
            shape = tuple(one["shape"])
            kind = f"torch.{kinds[one['dtype'][0]]}{one['dtype'][1:]}"
            total.update(f"{name} {kind} {shape}".encode())
            total.update(data[first:last])
    return total.hexdigest()


def tensors_like(content: bytes) -> Callable[[Random], bytes]:
    """Tensor files like *content*: damage, other headers, other records with right checksums."""
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    record = json.loads(header.get("__metadata__", {}).get("record", "{}"))

    def make(chance: Random) -> bytes:
        kind = chance.random()
        if kind < 0.2:
            return damaged(chance, content)
        if kind < 0.4:
            return tensors_of(changed_json(chance, header), data)
        changed = json.loads(json.dumps(header))
        about = record.get("about", {})
        if kind < 0.8:
            about = changed_json(chance, about)
        elif kind < 0.9:
            names = [name for name in changed if name != "__metadata__"]
            name = chance.choice(names)
            if chance.random() < 0.5:
                del changed[name]
            else:
                changed[name]["shape"] = [1, *changed[name]["shape"]]
        try:
            promised = _tensor_digest(changed, data, about)
        except (KeyError, TypeError, ValueError):
            promised = _PLACE.decode()
        text = json.dumps({"about": about, "sha256": promised})
        if kind > 0.97:
            text = chance.choice(("[" * 50_000, "null", "[]", '"x"', "{}", '{"about": []}'))
        changed["__metadata__"] = {"record": text}
        return tensors_of(changed, data)

    return make


# Tables


def table(chance: Random) -> bytes:
    """A .parquet file that a person may bring."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = chance.choice((0, 1, 12, 12, 12))
    columns: list[Any] = []
    for _ in range(chance.choice((0, 1, 2, 4))):
        values: list[Any] = [chance.choice((0, 1, 2, 0.5, -1.5)) for _ in range(rows)]
        if rows and chance.random() < 0.3:
            values[chance.randrange(rows)] = chance.choice(
                (None, float("nan"), float("inf"), 1e300)
            )
        kind = chance.choice(
            (
                *(pa.float64(), pa.float64(), pa.int64(), pa.float32(), pa.string(), pa.bool_()),
                pa.null(),
                *(pa.date32(), pa.timestamp("ns"), pa.decimal128(10, 2), pa.list_(pa.float64())),
                pa.uint64(),
                *(
                    pa.dictionary(pa.int8(), pa.string()),
                    pa.struct([("a", pa.int64())]),
                    pa.float16(),
                ),
                *(pa.binary(), pa.time64("ns"), pa.duration("s"), pa.large_string()),
                pa.decimal256(60, 3),
            )
        )
        try:
            columns.append(pa.array(values).cast(kind, safe=False))
        except (pa.ArrowException, TypeError, ValueError):
            columns.append(pa.nulls(rows, kind))
    names = [
        chance.choice(
            ("z0", "z1", "z2", "x", "image", "name", "0", "1", grammar.word(chance)[:100])
        )
        .encode("utf-8", "replace")
        .decode()
        for _ in columns
    ]
    made = pa.table(columns, names=names)
    if chance.random() < 0.3:
        about = chance.choice(
            (
                *(b"{", b"[]", b"null", b'{"index_columns": ["gone"], "columns": []}', b"\xff"),
                *(
                    b'{"index_columns": [{"kind": "range"}], "columns": []}',
                    b'{"columns": 5}',
                    b"{}",
                ),
                *(b'{"index_columns": [], "columns": [{}], "column_indexes": [{}]}', b"[" * 5000),
                b'{"index_columns": [{"kind": "range", "name": null, "stop": 9, "step": 0}],'
                b' "columns": [], "column_indexes": []}',
            )
        )
        made = made.replace_schema_metadata({b"pandas": about})
    buffer = io.BytesIO()
    pq.write_table(made, buffer, compression=chance.choice(("NONE", "SNAPPY", "ZSTD", "GZIP")))
    whole = buffer.getvalue()
    return whole if chance.random() < 0.6 else damaged(chance, whole)


def own_table_like(content: bytes) -> Callable[[Random], bytes]:
    """Tables of ours like *content*: damage under a checksum that is set right, odd records."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = pq.read_table(pa.BufferReader(content))
    metadata = dict(whole.schema.metadata or {})

    def make(chance: Random) -> bytes:
        kind = chance.random()
        if kind < 0.3:
            return damaged(chance, content)
        if kind < 0.6:
            promised = metadata[b"sha256"]
            before, _, after = content.rpartition(promised)
            before, after = damaged(chance, before), after
            right = hashlib.sha256(before + _PLACE + after).hexdigest().encode()
            return before + right + after
        changed = dict(metadata) | {b"sha256": _PLACE}
        changed[b"about"] = chance.choice(
            (b"{", b"[]", b"null", b"5", b"[" * 50_000, b"[[1, 2]]", b'"ab"', b"\xff", b"{}")
        )
        if kind < 0.65:
            changed[b"sha256"] = chance.choice((b"", b"0", b"x" * 64))
        rows = whole
        if kind > 0.8 and whole.num_columns:
            at = chance.randrange(whole.num_columns)
            rows = (
                whole.remove_column(at)
                if chance.random() < 0.5
                else whole.set_column(at, whole.column_names[at], pa.array(["x"] * whole.num_rows))
            )
            changed[b"about"] = metadata.get(b"about", b"{}")
        buffer = io.BytesIO()
        pq.write_table(rows.replace_schema_metadata(changed), buffer)
        made = buffer.getvalue()
        before, place, after = made.rpartition(_PLACE)
        return before + hashlib.sha256(made).hexdigest().encode() + after if place else made

    return make


# Text tables


def csv_table(chance: Random) -> bytes:
    """A .csv as people and programs write it."""
    width, height = chance.choice((0, 1, 2, 3, 5)), chance.choice((0, 1, 2, 12, 12, 12))
    separator = chance.choice((",", ",", ",", ",", ";", "\t", ", "))
    odd = chance.choice((0, 0, 0.02, 0.3))
    files = chance.random() < 0.4

    def cell() -> str:
        if chance.random() >= odd:
            return str(chance.randint(0, 3))
        return chance.choice(
            (
                *(grammar.number(chance), grammar.word(chance)[:300], '"1"', '"1,000"', '"a""b"'),
                *('"', "1.0"),
                *("1\x002", '"1\n2"', "1,5", " 1 ", "=1+1", "NULL", "N/A", "#REF!", "1e0", "'1"),
                *("$5", "1%"),
            )
        )

    names = ["file"] * files + [
        chance.choice(
            ("shape", "x", "y", "0", "1", "name", "image", '"a,b"', grammar.word(chance)[:50])
        )
        for _ in range(width)
    ]
    rows = [[f"{at:06d}.png"] * files + [cell() for _ in range(width)] for at in range(height)]
    if chance.random() < 0.2:
        rows = [[str(at), *row] for at, row in enumerate(rows)]
        names = ["", *names]
    if chance.random() < 0.6:
        rows = [names, *rows]
    ending = chance.choice(("\n", "\n", "\r\n", "\r", "\n\n", "\n \n"))
    text = ending.join(separator.join(row) for row in rows) + chance.choice((ending, "", "\x1a"))
    encoding = chance.choice(("utf-8",) * 6 + ("utf-8-sig", "utf-16", "utf-32", "latin-1"))
    content = text.encode(encoding, "replace" if encoding != "utf-8" else "surrogatepass")
    return damaged(chance, content) if chance.random() < 0.1 else content


# Images


@functools.cache
def _pictures() -> list[bytes]:
    """A small image in every format that is read."""
    from PIL import Image

    found = []
    values = np.arange(12 * 10, dtype=np.uint8).reshape(10, 12)
    for mode in ("L", "RGB", "RGBA", "P", "1", "LA", "I;16", "CMYK", "F", "I"):
        image = (
            Image.fromarray(values.astype(np.uint16) * 300)
            if mode == "I;16"
            else Image.fromarray(values).convert(mode)
        )
        for kind in ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP"):
            buffer = io.BytesIO()
            try:
                image.save(buffer, kind)
            except (OSError, ValueError, KeyError):
                continue
            found.append(buffer.getvalue())
    return found


def _chunk(kind: bytes, data: bytes) -> bytes:
    return (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", binascii.crc32(kind + data))
    )


def png(chance: Random) -> bytes:
    """A .png whose chunks say odd things and have right checksums."""
    width, height = chance.choice((8, 12, 1, 0)), chance.choice((8, 12, 2**31 - 1, 40_000))
    width = chance.choice((width, 12, 12, 60_000))
    height = chance.choice((height, 10, 10))
    depth, colour = chance.choice((1, 2, 4, 8, 8, 16, 3)), chance.choice((0, 0, 2, 3, 4, 6, 1))
    header = struct.pack(
        ">IIBBBBB", width, height, depth, colour, 0, 0, chance.choice((0, 0, 1, 2))
    )
    lines = zlib.compress(bytes(13 * 10 * 8))
    chunks = [_chunk(b"IHDR", header)]
    for _ in range(chance.choice((0, 0, 1, 3))):
        kind = chance.choice(
            (
                b"tEXt",
                b"zTXt",
                b"iTXt",
                b"iCCP",
                b"tRNS",
                b"PLTE",
                b"eXIf",
                b"gAMA",
                b"acTL",
                b"fcTL",
                b"sRGB",
                b"pHYs",
            )
        )
        data = chance.choice(
            (
                *(b"", b"a\0", b"a\0\0" + _BOMB, b"\0", bytes(2), bytes(768)),
                *(
                    chance.randbytes(30),
                    b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09\0\0",
                    b"\0\0\0\5\0\0\0\0",
                ),
            )
        )
        chunks.append(_chunk(kind, data))
    chunks += [_chunk(b"IDAT", lines)] * chance.choice((0, 1, 1, 1, 2))
    chunks += [_chunk(b"IEND", b"")] * chance.choice((0, 1, 1, 1))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def picture(chance: Random) -> bytes:
    """An image file."""
    if chance.random() < 0.4:
        return png(chance)
    whole = chance.choice(_pictures())
    return whole if chance.random() < 0.2 else damaged(chance, whole)
