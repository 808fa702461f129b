# SPDX-License-Identifier: Apache-2.0
"""SmallNORB (LeCun, Huang, Bottou 2004): photographs of 50 toys, from the published byte matrices.

A matrix file is a little-endian magic number, the number of axes, their sizes (at least three are
stored), then the values. `dat` holds pairs of 96x96 images from two cameras, `cat` the category,
`info` instance, elevation, azimuth (even numbers) and lighting. The training files hold instances
4, 6, 7, 8, 9 of each category, the test files the others: together every combination once.

As in disentanglement_lib: the left camera only, both splits together, azimuth halved, 96x96 scaled
to 64x64 (Lanczos). Departs: the instance is a factor here; disentanglement_lib draws it at random
for each image. `instance=hidden` leaves it out of the factors, as there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import InputError, Shown, unknown
from unbraid.core.registry import Citation
from unbraid.data.official.dataset import OfficialDataset
from unbraid.data.official.reading import (
    Stream,
    all_in_folder,
    must_end,
    open_maybe_gzipped,
    read_exactly,
    readable,
    refused,
)
from unbraid.data.official.source import Content, Factor, Found, PublishedFile, Source
from unbraid.data.own.image_arrays import resized

INSTANCES = ("factor", "hidden")
_BYTES, _INTEGERS = 0x1E3D4C55, 0x1E3D4C54
_CAMERAS, _STORED_SIDE = 2, 96
_PAIRS_PER_BLOCK = 512
_PAGE = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small"
_SPLITS = ("5x46789x9x18x6x2x96x96-training", "5x01235x9x18x6x2x96x96-testing")


def _file(split: str, kind: str, size: int, sha256: str) -> PublishedFile:
    name = f"smallnorb-{split}-{kind}.mat.gz"
    return PublishedFile(name, f"{_PAGE}/{name}", size=size, sha256=sha256)


SOURCE = Source(
    name="smallnorb",
    # Sizes and sha256: tensorflow/datasets, url_checksums/smallnorb.txt. They are those of the .gz
    # files as given out.
    files=(
        _file(
            _SPLITS[0],
            "dat",
            131_896_188,
            "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873",
        ),
        _file(
            _SPLITS[0],
            "cat",
            348,
            "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa",
        ),
        _file(
            _SPLITS[0],
            "info",
            71_052,
            "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32",
        ),
        _file(
            _SPLITS[1],
            "dat",
            130_799_817,
            "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474",
        ),
        _file(
            _SPLITS[1],
            "cat",
            347,
            "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff",
        ),
        _file(
            _SPLITS[1],
            "info",
            10_428,
            "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2",
        ),
    ),
    page=_PAGE,
    get="its six files smallnorb-*.mat.gz",
    typed="FOLDER",
    factors=(
        Factor("category", 5, "four-legged animal, human figure, airplane, truck, car"),
        Factor("instance", 10, "which of the 10 toys of the category"),
        Factor("elevation", 9, "camera 30 to 70 degrees above the horizon, every 5"),
        Factor("azimuth", 18, "turn of the toy, 0 to 340 degrees, every 20"),
        Factor("lighting", 6, "one of 6 lighting conditions"),
    ),
    image_shape=(64, 64, 1),
    shown="the left camera's images of both splits, 96x96 scaled to 64x64 (Lanczos)",
    licence="for research; may not be sold",
    citation=Citation(
        "Y. LeCun, F. J. Huang, L. Bottou",
        2004,
        "Learning methods for generic object recognition with invariance to pose and lighting",
        "CVPR",
    ),
)

TRAINING_INSTANCES = (4, 6, 7, 8, 9)


class SmallNORB(OfficialDataset):
    """SmallNORB: photographs of 50 toys with 5 factors, from the published files."""

    source: ClassVar[Source] = SOURCE
    splits: ClassVar[tuple[str, ...]] = ("train", "test")

    def __init__(
        self, instance: str = "factor", resize: int | None = None, split: str | None = None
    ) -> None:
        """The *instance* is a `factor`, or `hidden`; *resize* and *split* as of others."""
        if instance not in INSTANCES:
            raise InputError(unknown("instance", str(instance), INSTANCES))
        super().__init__(resize, split)
        if instance != "factor":
            self.options["instance"] = instance
        names = self.published_as.factor_names
        self._told = [at for at, name in enumerate(names) if name not in self.options]

    def indices_of(self, split: str) -> NDArray[np.int64]:
        """Instances 4, 6, 7, 8, 9 of each category were published for training."""
        every = np.arange(len(self))
        place = self.published_as.factor_names.index("instance")
        training = np.isin(self.grid.to_factors(every)[:, place], TRAINING_INSTANCES)
        return every[training if split == "train" else ~training]

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the factors that are not hidden."""
        every = super().factor_names
        return tuple(every[at] for at in self._told)

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """How many values each takes."""
        every = super().factor_sizes
        return tuple(every[at] for at in self._told)

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Values of the factors that are not hidden."""
        return super().factors(indices)[..., self._told]

    @classmethod
    def locate(cls, path: Path) -> list[Found]:
        """The six files of a folder, gzipped as given out, or unpacked without checksums."""
        wanted = {
            file.name: (file.name, file.name.removesuffix(".gz")) for file in cls.source.files
        }
        places = all_in_folder(cls.source, path, wanted)
        return [
            Found(places[file.name], file if places[file.name].name == file.name else None)
            for file in cls.source.files
        ]

    @classmethod
    def read(cls, found: Sequence[Found]) -> Content:
        """Check the labels: every combination occurs once. Images are sorted in memory."""
        source = cls.source
        paths = [one.path for one in found]
        splits = [
            (paths[0], _places(source, *paths[1:3])),
            (paths[3], _places(source, *paths[4:6])),
        ]
        together = np.concatenate([places for _, places in splits])
        if len(together) != source.grid.size or len(np.unique(together)) != source.grid.size:
            times = np.bincount(together, minlength=source.grid.size)
            rule = (
                f"must label each of {source.grid.size:,} combinations once, with {paths[5].name}"
            )
            value = Shown(
                f"{int((times == 0).sum()):,} missing and {int((times > 1).sum()):,} repeated"
            )
            raise refused(source, paths[2], rule, value)
        return Content(_blocks(source, splits), source.plane_shape, np.dtype("|u1"))


def _header(
    source: Source, path: Path, stream: Stream, magic: int, shape: tuple[int | None, ...]
) -> tuple[int, ...]:
    """Sizes of a matrix; None in *shape* stands for any size."""
    kind = "bytes" if magic == _BYTES else "integers"
    start = np.frombuffer(read_exactly(source, path, stream, 8, "its header"), dtype="<i4")
    if start[0] != magic:
        raise refused(
            source,
            path,
            f"must begin with the mark of a matrix of {kind}, {magic:#x}",
            Shown(f"{int(start[0]) % 2**32:#x}"),
        )
    axes = int(start[1])
    sizes: tuple[int, ...] = ()
    if axes == len(shape):
        data = read_exactly(source, path, stream, 4 * max(3, axes), "its header")
        sizes = tuple(int(size) for size in np.frombuffer(data, dtype="<i4")[:axes])
    if axes != len(shape) or any(
        want is not None and size != want for size, want in zip(sizes, shape, strict=True)
    ):
        wanted = ", ".join("n" if size is None else str(size) for size in shape)
        found = ", ".join(str(size) for size in sizes) if sizes else f"a matrix with {axes} axes"
        raise refused(
            source,
            path,
            f"must hold a matrix of sizes ({wanted})",
            Shown(f"({found})" if sizes else found),
        )
    return sizes


def _integers(source: Source, path: Path, columns: tuple[int, ...]) -> NDArray[np.int64]:
    with readable(source, path), open_maybe_gzipped(path) as stream:
        sizes = _header(source, path, stream, _INTEGERS, (None, *columns))
        if not 0 <= sizes[0] <= source.grid.size:
            raise refused(
                source, path, f"must hold at most {source.grid.size:,} rows", Shown(f"{sizes[0]:,}")
            )
        data = read_exactly(source, path, stream, 4 * math.prod(sizes), "its rows")
        must_end(source, path, stream, "the last row")
    return np.frombuffer(data, dtype="<i4").reshape(sizes[0], -1).astype(np.int64)


def _places(source: Source, cat: Path, info: Path) -> NDArray[np.int64]:
    """Where on the grid each image of a split belongs."""
    category, rest = _integers(source, cat, ()), _integers(source, info, (4,))
    if len(category) != len(rest):
        rule = f"must have {len(category):,} rows, as many as {cat.name}"
        raise refused(source, info, rule, Shown(f"{len(rest):,}"))
    rows = np.concatenate([category, rest], axis=1)
    azimuth = source.factor_names.index("azimuth")
    for column, factor in enumerate(source.factors):
        step = 2 if column == azimuth else 1
        wrong = (
            (rows[:, column] < 0)
            | (rows[:, column] >= step * factor.size)
            | (rows[:, column] % step != 0)
        )
        if wrong.any():
            row = int(np.argmax(wrong))
            even = "even numbers " if step == 2 else ""
            rule = f"must have {factor.name} as {even}in 0..{step * (factor.size - 1)}"
            raise refused(
                source,
                cat if column == 0 else info,
                rule,
                Shown(f"{rows[row, column]} in row {row}"),
            )
    rows[:, azimuth] //= 2
    return source.grid.to_index(rows)


def _blocks(
    source: Source, splits: Sequence[tuple[Path, NDArray[np.int64]]]
) -> Iterator[NDArray[np.uint8]]:
    """All images on their places; they take 200 MB, so they are sorted in memory."""
    planes = np.empty(source.plane_shape, dtype=np.uint8)
    pair = (_CAMERAS, _STORED_SIDE, _STORED_SIDE)
    for path, places in splits:
        with readable(source, path), open_maybe_gzipped(path) as stream:
            _header(source, path, stream, _BYTES, (len(places), *pair))
            for start in range(0, len(places), _PAIRS_PER_BLOCK):
                now = places[start : start + _PAIRS_PER_BLOCK]
                data = read_exactly(source, path, stream, len(now) * math.prod(pair), "its images")
                left = np.frombuffer(data, dtype=np.uint8).reshape(-1, *pair)[:, 0, :, :, None]
                planes[now] = resized(left, source.image_shape[0])[..., 0][:, None]
            must_end(source, path, stream, "the last image")
    yield planes
