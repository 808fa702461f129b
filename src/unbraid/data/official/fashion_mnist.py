# SPDX-License-Identifier: Apache-2.0
"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 70,000 grey images of clothes, 28x28.

idx: big-endian magic (2051 for images, 2049 for labels), count, for images height and width, then
bytes. The one factor is the category; the grid has one axis, `sample`, with the 60,000 of the
training set first. Departs: none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Shown
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

_IMAGES, _LABELS = 2051, 2049
_KIND = {_IMAGES: "images", _LABELS: "labels"}
_IMAGES_PER_BLOCK = 8192
_FILES_AT = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"


def _file(name: str, size: int, sha256: str) -> PublishedFile:
    return PublishedFile(name, f"{_FILES_AT}/{name}.gz", size=size, sha256=sha256, unpacked=True)


SOURCE = Source(
    name="fashion_mnist",
    # Of the unpacked content, since packers differ. With its name and time put back into the gzip
    # header, each file of Debian's package has the sha256 of the published .gz
    # (tensorflow/datasets, url_checksums/fashion_mnist.txt), so the content is that.
    files=(
        _file(
            "train-images-idx3-ubyte",
            47_040_016,
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        _file(
            "train-labels-idx1-ubyte",
            60_008,
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        _file(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        _file(
            "t10k-labels-idx1-ubyte",
            10_008,
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
    page="https://github.com/zalandoresearch/fashion-mnist",
    get="its four files",
    typed="FOLDER",
    factors=(
        Factor(
            "category",
            10,
            "T-shirt/top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot",
        ),
    ),
    samples=70_000,
    image_shape=(28, 28, 1),
    shown="the 60,000 training images, then the 10,000 test images, as they are",
    licence="MIT",
    citation=Citation(
        "H. Xiao, K. Rasul, R. Vollgraf",
        2017,
        "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms",
        "arXiv:1708.07747",
    ),
    places=("/usr/share/datasets/fashion-mnist",),
    instead="The Debian package dataset-fashion-mnist is found by itself.",
)


class FashionMNIST(OfficialDataset):
    """Fashion-MNIST: 70,000 grey images of clothes with 1 factor, from the published files."""

    source: ClassVar[Source] = SOURCE
    splits: ClassVar[tuple[str, ...]] = ("train", "test")

    training_images: ClassVar[int] = 60_000

    def indices_of(self, split: str) -> NDArray[np.int64]:
        """The training images come first."""
        every = np.arange(len(self))
        first, rest = np.split(every, [self.training_images])
        return first if split == "train" else rest

    @classmethod
    def locate(cls, path: Path) -> list[Found]:
        """The four files of a folder, each plain or gzipped."""
        wanted = {file.name: (file.name, f"{file.name}.gz") for file in cls.source.files}
        places = all_in_folder(cls.source, path, wanted)
        return [Found(places[file.name], file) for file in cls.source.files]

    @classmethod
    def read(cls, found: Sequence[Found]) -> Content:
        """Check headers and labels now; the images are unpacked block by block."""
        source = cls.source
        (train_images, train_labels), (test_images, test_labels) = (
            (one.path for one in found[:2]),
            (one.path for one in found[2:]),
        )
        rows = []
        for images, labels in ((train_images, train_labels), (test_images, test_labels)):
            rows.append(_read_labels(source, labels))
            with readable(source, images), open_maybe_gzipped(images) as stream:
                (count,) = _header(source, images, stream, _IMAGES)
            if count != len(rows[-1]):
                rule = f"must hold {len(rows[-1]):,} images, as many as {labels.name} has labels"
                raise refused(source, images, rule, Shown(f"{count:,}"))
        category = np.concatenate(rows)[:, None]
        if len(category) != source.samples:
            rule = f"must hold {source.samples:,} images with {test_images.name}"
            raise refused(source, train_images, rule, Shown(f"{len(category):,}"))
        return Content(
            _blocks(source, (train_images, test_images)),
            source.plane_shape,
            np.dtype("|u1"),
            factors=category,
        )


def _header(source: Source, path: Path, stream: Stream, magic: int) -> tuple[int]:
    """How many items follow; for images their sides must be right too."""
    sides = source.image_shape[:2] if magic == _IMAGES else ()
    names = "magic number, count" + (", height and width" if sides else "")
    words = 2 + len(sides)
    found = struct.unpack(
        f">{words}i", read_exactly(source, path, stream, 4 * words, f"its header ({names})")
    )
    if found[0] != magic:
        what = f"{found[0]}, that of {_KIND[found[0]]}" if found[0] in _KIND else f"{found[0]}"
        raise refused(
            source, path, f"must begin with {magic}, the mark of idx {_KIND[magic]}", Shown(what)
        )
    if found[2:] != sides:
        raise refused(
            source, path, f"must hold images of {_times(sides)}", Shown(_times(found[2:]))
        )
    return (found[1],)


def _times(sides: Sequence[int]) -> str:
    return "x".join(str(side) for side in sides)


def _read_labels(source: Source, path: Path) -> NDArray[np.uint8]:
    size = source.factors[0].size
    with readable(source, path), open_maybe_gzipped(path) as stream:
        (count,) = _header(source, path, stream, _LABELS)
        if not 0 <= count <= (source.samples or 0):
            raise refused(
                source, path, f"must hold at most {source.samples:,} labels", Shown(f"{count:,}")
            )
        labels = np.frombuffer(
            read_exactly(source, path, stream, count, "its labels"), dtype=np.uint8
        )
        must_end(source, path, stream, "the last label")
    if count and labels.max() >= size:
        row = int(np.argmax(labels >= size))
        raise refused(
            source,
            path,
            f"must have labels in 0..{size - 1}",
            Shown(f"{labels[row]} for image {row}"),
        )
    return labels


def _blocks(source: Source, paths: Sequence[Path]) -> Iterator[NDArray[np.uint8]]:
    height, width, _ = source.image_shape
    for path in paths:
        with readable(source, path), open_maybe_gzipped(path) as stream:
            (count,) = _header(source, path, stream, _IMAGES)
            for start in range(0, count, _IMAGES_PER_BLOCK):
                now = min(_IMAGES_PER_BLOCK, count - start)
                data = read_exactly(source, path, stream, now * height * width, "its images")
                yield np.frombuffer(data, dtype=np.uint8).reshape(now, 1, height, width)
            must_end(source, path, stream, "the last image")
