# SPDX-License-Identifier: Apache-2.0
"""A record and named arrays as one run of bytes, which `scripts/arrays.js` reads.

First the length of the text as an unsigned 32-bit number, then so many bytes of JSON, padded with
spaces up to a multiple of 8 from the start, then the data:

    {"record": ..., "arrays": {name: {"dtype": ..., "shape": [...], "at": ...}}}

Arrays lie one after the other, in C order, each at a multiple of 8 bytes; `at` counts from the
start of the data. All numbers are little-endian.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Shown, invalid

DTYPES = ("float32", "float16", "uint8", "int32")
_ALIGNMENT = 8
_LENGTH = np.dtype("<u4")


def pack(record: object, arrays: Mapping[str, NDArray]) -> bytes:
    """The bytes of a *record* that JSON can hold and of *arrays* of the types in `DTYPES`."""
    described, pieces, end = {}, [], 0
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            rule = f"must hold {', '.join(DTYPES[:-1])} or {DTYPES[-1]}"
            raise invalid(f"array {name}", rule, Shown(array.dtype.name))
        data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        described[name] = {"dtype": array.dtype.name, "shape": list(array.shape), "at": end}
        pieces.append(data + bytes(-len(data) % _ALIGNMENT))
        end += len(pieces[-1])
    header = {"record": record, "arrays": described}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(_LENGTH.itemsize + len(text)) % _ALIGNMENT)
    return b"".join([np.array(len(text), _LENGTH).tobytes(), text, *pieces])
