# SPDX-License-Identifier: Apache-2.0
"""A table of pictures in SVG: images as they are, densities from white to ink.

Pictures are PNG files without compression, so that the same numbers give the same file with every
version of every library.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.report.study.svg import (
    INK,
    LINE,
    MUTED,
    SIZE,
    centred,
    document,
    element,
    text_width,
    upright,
    wrapped,
)
from unbraid.studies.finding import Exhibit

DARK = (11, 61, 110)
"""Where a density is the largest; white where it is 0."""
SMALLEST, LARGEST = 30.0, 150.0
"""Pixels that a picture takes on the page."""
_GAP = 4.0
_MOST_STORED = 65_535


def draw_images(exhibit: Exhibit, width: float) -> str:
    """The pictures in rows and columns with their names."""
    table = exhibit.table
    rows, columns = (list(map(str, names)) for names in (table.index, table.columns))
    if not rows or not columns:
        words = element("text", "There is nothing to draw.", x=0, y=SIZE, fill=MUTED)
        return document(width, 2 * SIZE, [words], exhibit.caption)
    named = max(map(text_width, rows), default=0.0)
    left = LINE + 10 + named + (8 if named else 0)
    side = min(max((width - left - 8) / len(columns) - _GAP, SMALLEST), LARGEST)
    step, top = side + _GAP, LINE * max(len(wrapped(name, side)) for name in columns) + 8
    parts = [
        part
        for place, name in enumerate(columns)
        for part in centred(wrapped(name, side), left + step * place + side / 2, SIZE, INK)
    ]
    for i, name in enumerate(rows):
        y = top + step * i
        parts.append(element("text", name, x=left - 8, y=y + side / 2 + 4, text_anchor="end"))
        for j in range(len(columns)):
            parts += _cell(table.iat[i, j], left + step * j, y, side)
    right, bottom = left + step * len(columns), top + step * len(rows)
    parts.append(upright(exhibit.y, LINE * 0.8, (top + bottom) / 2))
    titles = wrapped(exhibit.x, max(right - left, 120.0))
    parts += centred(titles, (left + right) / 2, bottom + LINE, MUTED)
    height = bottom + LINE * (len(titles) + 1)
    return document(max(right + 4, width if right < width else 0), height, parts, exhibit.caption)


def _cell(value: Any, x: float, y: float, side: float) -> list[str]:
    """One picture, or an empty frame where there is none."""
    frame = element("rect", x=x, y=y, width=side, height=side, fill="none", stroke="#c3cad3")
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return [frame]
    shown = {"x": x, "y": y, "width": side, "height": side, "href": as_png(np.asarray(value))}
    return [element("image", **shown, style="image-rendering: pixelated"), frame]


def as_png(picture: NDArray[Any]) -> str:
    """A picture as an address that holds it: bytes as grey or RGB, other numbers as a density."""
    pixels = picture if picture.dtype == np.uint8 else _coloured(picture)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    kind = 2 if pixels.ndim == 3 else 0
    height, width = pixels.shape[:2]
    lines = b"".join(b"\0" + np.ascontiguousarray(line).tobytes() for line in pixels)
    header = struct.pack(">2I5B", width, height, 8, kind, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", _stored(lines)), (b"IEND", b"")]
    content = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _coloured(density: NDArray[Any]) -> NDArray[np.uint8]:
    """From white at 0 to dark at the largest number."""
    values = np.nan_to_num(density.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    most = values.max(initial=0.0)
    share = np.clip(values / most if most > 0 else values, 0.0, 1.0)[..., None]
    return np.rint(255.0 + share * (np.array(DARK) - 255.0)).astype(np.uint8)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _stored(data: bytes) -> bytes:
    """A stream of zlib that holds *data* as they are."""
    pieces = [data[at : at + _MOST_STORED] for at in range(0, len(data), _MOST_STORED)]
    blocks = [
        struct.pack("<B2H", at == len(pieces) - 1, len(piece), len(piece) ^ 0xFFFF) + piece
        for at, piece in enumerate(pieces)
    ]
    return b"\x78\x01" + b"".join(blocks) + struct.pack(">I", zlib.adler32(data))
