# SPDX-License-Identifier: Apache-2.0
"""Reading the published dSprites file into packed rows, a slice at a time, checked.

The file is a zip of .npy members. `imgs` would take 3 GB unpacked, so it is decompressed in slices
and packed to bits on the way. `metadata` is a pickle and is never opened.
"""

from __future__ import annotations

import functools
import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, Shown, invalid
from unbraid.core.grid import FactorGrid
from unbraid.data.drawn.dsprites_drawing import SIDE, draw_some, pack, unpack
from unbraid.data.official.reading import exactly, npy_dtype

_IMAGES_PER_SLICE = 8192
_COMPARED_IMAGES = 60
_PIXELS_ALLOWED_TO_DIFFER = 4
_REMEDY = "Leave `file` out: the same images are drawn without it."


def _refused(path: Path, rule: str, value: object) -> InputError:
    return invalid(f"dSprites file {path}", rule, value, _REMEDY)


@functools.lru_cache(maxsize=1)
def read_file(path: Path, grid: FactorGrid, _changed_ns: int) -> NDArray[np.uint64]:
    """Packed rows `(grid.size, 64)` of the official npz at *path*, read once while unchanged."""
    if not zipfile.is_zipfile(path):
        raise _refused(
            path,
            "must be an .npz (zip) file",
            Shown(f"a file of {path.stat().st_size} bytes that is not one"),
        )
    try:
        with zipfile.ZipFile(path) as archive:
            present = sorted(Path(name).stem for name in archive.namelist())
            missing = [
                key for key in ("imgs", "latents_classes") if f"{key}.npy" not in archive.namelist()
            ]
            if missing:
                raise _refused(
                    path,
                    f"must hold {' and '.join(missing)}",
                    Shown(f"the keys {', '.join(present) or 'none'}"),
                )
            with archive.open("latents_classes.npy") as member:
                _check_classes(path, member, grid)
            with archive.open("imgs.npy") as member:
                packed = _read_images(path, member, grid)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise _refused(
            path, "must be readable to its end", Shown(f"a damaged file ({error})")
        ) from error
    _compare_with_drawing(path, packed, grid)
    return packed


def _header(
    path: Path, member: IO[bytes], key: str, shape: tuple[int, ...], kinds: str
) -> np.dtype:
    """Dtype of the .npy *member*; refused unless its shape, order and dtype are as needed."""
    dtype = npy_dtype(member, key, shape, lambda rule, value: _refused(path, rule, value), "needs")
    if dtype.kind not in kinds or (key == "imgs" and dtype.itemsize != 1):
        wanted = "uint8" if key == "imgs" else "whole numbers"
        raise _refused(path, f"needs '{key}' as {wanted}", Shown(f"dtype {dtype}"))
    return dtype


def _read_exactly(path: Path, member: IO[bytes], key: str, count: int) -> bytes:
    return exactly(
        member,
        count,
        lambda ends: _refused(path, f"needs '{key}' complete", Shown(f"a member {ends}")),
    )


def _check_classes(path: Path, member: IO[bytes], grid: FactorGrid) -> None:
    columns = len(grid.sizes) + 1
    dtype = _header(path, member, "latents_classes", (grid.size, columns), "iu")
    data = _read_exactly(path, member, "latents_classes", grid.size * columns * dtype.itemsize)
    classes = np.frombuffer(data, dtype=dtype).reshape(grid.size, columns)
    expected = np.concatenate(
        [np.zeros((grid.size, 1), np.int64), grid.to_factors(np.arange(grid.size))], axis=1
    )
    wrong = np.flatnonzero((classes != expected).any(axis=1))
    if len(wrong):
        row = int(wrong[0])
        rule = f"needs latents_classes in grid order, row {row} = {expected[row].tolist()}"
        raise _refused(path, rule, classes[row].tolist())


def _read_images(path: Path, member: IO[bytes], grid: FactorGrid) -> NDArray[np.uint64]:
    _header(path, member, "imgs", (grid.size, SIDE, SIDE), "u")
    packed = np.empty((grid.size, SIDE), dtype=np.uint64)
    for start in range(0, grid.size, _IMAGES_PER_SLICE):
        stop = min(start + _IMAGES_PER_SLICE, grid.size)
        data = _read_exactly(path, member, "imgs", (stop - start) * SIDE * SIDE)
        images = np.frombuffer(data, dtype=np.uint8).reshape(-1, SIDE, SIDE)
        if images.max() > 1:
            nth, row, column = (int(part) for part in np.argwhere(images > 1)[0])
            value = Shown(
                f"{images[nth, row, column]} in image {start + nth}, row {row}, column {column}"
            )
            raise _refused(path, "needs pixels 0 or 1", value)
        packed[start:stop] = pack(images)
    # The zip checksum is compared when the member's end is reached.
    if member.read(1):
        raise _refused(
            path,
            "needs 'imgs' of the size in its header",
            Shown("further bytes after the last image"),
        )
    return packed


def _compare_with_drawing(path: Path, packed: NDArray[np.uint64], grid: FactorGrid) -> None:
    # A stride prime to every factor's size visits all shapes, scales and positions.
    stride = max(1, grid.size // _COMPARED_IMAGES)
    while math.gcd(stride, grid.size) != 1:
        stride += 1
    indices = (np.arange(_COMPARED_IMAGES, dtype=np.int64) * stride) % grid.size
    differing = unpack(packed[indices] ^ draw_some(indices)).sum(axis=(1, 2), dtype=np.int64)
    worst = int(differing.argmax())
    if differing[worst] > _PIXELS_ALLOWED_TO_DIFFER:
        rule = (
            f"needs the published images (at most {_PIXELS_ALLOWED_TO_DIFFER} pixels from the drawn"
            " ones)"
        )
        raise _refused(
            path, rule, Shown(f"{differing[worst]} different pixels in image {indices[worst]}")
        )
