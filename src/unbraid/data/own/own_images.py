# SPDX-License-Identifier: Apache-2.0
"""The user's own images: an array, a .npy or .npz file, or a folder, with labels if there are any.

The grid has one axis, `sample`. Labels, where given, are the factors: whole numbers, renumbered
from 0 for each column.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.arrays import npz_keys, read_npy, read_npz
from unbraid.core.checks import read_whole
from unbraid.core.errors import Shown, invalid
from unbraid.core.folders import whole_path
from unbraid.core.grid import samples_grid
from unbraid.data.dataset import IN_MEMORY, PixelDataset, as_planes
from unbraid.data.own.factor_table import FactorTable, no_factors, table_from_array, table_from_file
from unbraid.data.own.image_arrays import LARGEST_SIDE, SMALLEST_SIDE, as_pixels, resized
from unbraid.data.own.image_depth import ABOUT
from unbraid.data.own.image_folder import LABELS, image_files, read_folder
from unbraid.data.own.image_sizes import SHAPE, sizes_of, stretched


class OwnImages(PixelDataset):
    """Your own images: a folder, a .npy or .npz file, or an array, with labels if you have them.

    `images` names the key of the images in an .npz (default `images`). `factors` holds labels: an
    array `(n, factors)`, the path of a .npy or .csv, or a key of the .npz; by default the key
    `factors` of an .npz and the file `factors.csv` of a folder are used. `factor_names` names the
    columns. `resize` scales every image to that side. Images of 16 bits are scaled to 8, all by one
    rule.
    """

    licence: ClassVar[str] = "yours"

    def __init__(
        self,
        source: str | os.PathLike[str] | NDArray[Any],
        images: str | None = None,
        factors: str | os.PathLike[str] | ArrayLike | None = None,
        factor_names: str | Sequence[str] | None = None,
        resize: int | None = None,
    ) -> None:
        self.name = "own"
        side = None if resize is None else read_whole("resize", resize, SMALLEST_SIDE, LARGEST_SIDE)
        names = _read_names(factor_names)
        (pixels, *told), table, described = _read(source, images, factors, names, side)
        self._told = [(name, text) for name, text in zip((ABOUT, SHAPE), told, strict=True) if text]
        self.planes = as_planes(pixels)
        self.options: dict[str, Any] = described
        if names is not None:
            self.options["factor_names"] = names
        if side is not None:
            self.options["resize"] = side
        self.grid = samples_grid(len(pixels))
        height, width, channels = pixels.shape[1:]
        self.image_shape = (height, width, channels)
        self._table = table
        self._digest: str | None = None

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the labels' columns; empty without labels."""
        return self._table.names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """How many values each label takes."""
        return self._table.sizes

    @property
    def factor_values(self) -> tuple[NDArray[np.int64], ...]:
        """For each factor the values as given, ascending: `factors` returns positions in them."""
        return self._table.values

    @property
    def about(self) -> list[tuple[str, str]]:
        """How 16 bits were brought to 8, and that images were stretched, where they were."""
        return [*self._told]

    @property
    def repeatable(self) -> bool:
        """Whether everything came from files."""
        return IN_MEMORY not in (self.options["source"], self.options.get("factors"))

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Factor values of *indices*, renumbered from 0; zero columns without labels."""
        return self._table.rows[self.grid.check_index(indices)]

    def fingerprint(self) -> str:
        """A digest of every pixel and label; where the files lie does not matter."""
        if self._digest is None:
            digest = hashlib.sha256(
                json.dumps([self.name, self.pixels.shape, self.factor_names]).encode()
            )
            for image in self.pixels:
                digest.update(np.ascontiguousarray(image).data)
            digest.update(np.ascontiguousarray(self._table.rows).data)
            for values in self.factor_values:
                digest.update(values.tobytes())
            self._digest = digest.hexdigest()
        return self._digest


Pixels = tuple[NDArray[np.uint8], str, str]
"""Images, how 16 bits were brought to 8, and that images were stretched to a square: sentences,
empty for other images.
"""


def _read(
    source: object, images: str | None, factors: Any, names: Sequence[str] | None, side: int | None
) -> tuple[Pixels, FactorTable, dict[str, Any]]:
    """Pixels, labels, and the options that say where both came from."""
    if isinstance(source, np.ndarray):
        _refuse_key(images)
        pixels, depth, shape = _finish(source, "images", side)
        if np.shares_memory(pixels, source):
            pixels = pixels.copy()
        return (pixels, depth, shape), *_labels(
            factors, len(pixels), names, None, {"source": IN_MEMORY}
        )
    if not isinstance(source, (str, os.PathLike)):
        remedy = "Use numpy.asarray for other kinds of arrays."
        raise invalid(
            "source", "must be a path or a numpy array", Shown(type(source).__name__), remedy
        )
    path = whole_path("data", source)
    described: dict[str, Any] = {"source": str(path)}
    if path.is_dir():
        _refuse_key(images)
        pixels, files, depth = read_folder(path, side)
        found = pixels, depth, "" if side is None else stretched(sizes_of(image_files(path)), side)
        if factors is None and (path / LABELS).is_file():
            return found, table_from_file(path / LABELS, len(pixels), names, files), described
        return found, *_labels(factors, len(pixels), names, files, described)
    if not path.is_file():
        raise invalid("source", "must be an existing folder or file", Shown(str(path)))
    if path.suffix.lower() == ".npy":
        _refuse_key(images)
        found = _finish(read_npy(path), path.name, side)
        return found, *_labels(factors, len(found[0]), names, None, described)
    if path.suffix.lower() != ".npz":
        raise invalid("source", "must be a folder, an .npy or an .npz file", Shown(str(path)))
    return _read_npz(path, images, factors, names, side, described)


def _read_npz(
    path: Path,
    images: str | None,
    factors: Any,
    names: Sequence[str] | None,
    side: int | None,
    described: dict[str, Any],
) -> tuple[Pixels, FactorTable, dict[str, Any]]:
    keys = npz_keys(path)
    # A word that is neither a file nor a path is meant as a key, so that the message can list the
    # keys there are.
    is_key = isinstance(factors, str) and (
        factors in keys or not factors.lower().endswith((".npy", ".csv"))
    )
    key, labels_key = images or "images", factors if is_key else "factors"
    stored = read_npz(path, key, "Name the key with images=KEY.")
    found = _finish(stored, f"{path.name} '{key}'", side)
    pixels = found[0]
    if images is not None:
        described["images"] = images
    if is_key:
        described["factors"] = factors
    if names is None and "factor_names" in keys and labels_key in keys:
        names = _stored_names(path)
    if is_key or (factors is None and labels_key in keys):
        labels = read_npz(path, labels_key, "Name the key with factors=KEY.")
        return found, table_from_array(labels, len(pixels), names), described
    return found, *_labels(factors, len(pixels), names, None, described)


def _stored_names(path: Path) -> list[str]:
    """Names of the factors that an .npz itself gives, as `export` writes them."""
    words = read_npz(path, "factor_names")
    if words.dtype.kind != "U" or words.ndim != 1:
        value = Shown(f"{words.dtype} of shape {words.shape}")
        raise invalid(
            f"{path.name} 'factor_names'",
            "must be a list of words",
            value,
            "Write it again without.",
        )
    return [str(word) for word in words]


def _read_names(factor_names: object) -> list[str] | None:
    if factor_names is None:
        return None
    names = factor_names.split(",") if isinstance(factor_names, str) else factor_names
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise invalid(
            "factor_names",
            "must be a list of words",
            factor_names,
            'Write ["shape", "size"], for instance.',
        )
    return [name.strip() for name in names]


def _labels(
    factors: Any,
    count: int,
    names: Sequence[str] | None,
    files: Sequence[str] | None,
    described: dict[str, Any],
) -> tuple[FactorTable, dict[str, Any]]:
    if factors is None:
        if names is not None:
            raise invalid(
                "factor_names", "needs factors to name", list(names), "Give factors=... too."
            )
        return no_factors(count), described
    if isinstance(factors, str) and factors == IN_MEMORY:
        rule = "were an array in memory and cannot be loaded again"
        raise invalid("factors", rule, IN_MEMORY, "Pass the array: load(..., factors=labels).")
    if isinstance(factors, (str, os.PathLike)):
        path = whole_path("factors", factors)
        return table_from_file(path, count, names, files), described | {"factors": str(path)}
    return table_from_array(factors, count, names), described | {"factors": IN_MEMORY}


def _finish(stored: NDArray[Any], name: str, side: int | None) -> Pixels:
    pixels, found = as_pixels(stored, name, any_side=side is not None)
    depth = found.sentence() if found else ""
    if side is None:
        return pixels, depth, ""
    return resized(pixels, side), depth, stretched([pixels.shape[1:3]], side)


def _refuse_key(images: str | None) -> None:
    if images is not None:
        raise invalid(
            "images", "names a key of an .npz file", images, "Leave it out for other sources."
        )
