# SPDX-License-Identifier: Apache-2.0
"""Cars3D (Reed et al. 2015): renderings of 183 car models, from the published MATLAB files.

Each `car_NNN_mesh.mat` holds `im` uint8 (128, 128, 3, azimuth 24, elevation 4). As in
disentanglement_lib, images are scaled to 64x64 with the Lanczos filter. Departs: objects are
numbered in the order of their files' names, so that the numbers mean the same everywhere;
disentanglement_lib takes the order in which a file system happens to list them.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, Shown
from unbraid.core.registry import Citation
from unbraid.data.dataset import as_planes
from unbraid.data.official.dataset import OfficialDataset
from unbraid.data.official.reading import open_maybe_gzipped, readable, refused
from unbraid.data.official.source import Content, Factor, Found, PublishedFile, Source
from unbraid.data.own.image_arrays import resized

_STORED_SIDE = 128
_MOST_BYTES = 64 * 2**20
"""Larger than any of the files is, packed or not, smaller than what would fill the memory."""
_COMPRESSED = 15
_DTYPES = {"double": "float64", "single": "float32"}
"""What MATLAB calls them."""

SOURCE = Source(
    name="cars3d",
    # md5: nmichlo/disent, _groundtruth__cars3d.py, and a second project with the same value. No
    # published size is known to us, and no checksums of the files inside.
    files=(
        PublishedFile(
            "nips2015-analogy-data.tar.gz",
            "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
            md5="4e866a7919c1beedf53964e6f7a23686",
        ),
    ),
    page="http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
    get="nips2015-analogy-data.tar.gz",
    typed="nips2015-analogy-data.tar.gz",
    factors=(
        Factor("elevation", 4, "height of the camera"),
        Factor("azimuth", 24, "turn of the car, every 15 degrees"),
        Factor("object", 183, "which car, in the order of the files' names"),
    ),
    image_shape=(64, 64, 3),
    shown="all images, 128x128 scaled to 64x64 (Lanczos)",
    licence="none stated by its authors",
    citation=Citation(
        "S. Reed, Y. Zhang, Y. Zhang, H. Lee", 2015, "Deep visual analogy-making", "NIPS"
    ),
)


class Cars3D(OfficialDataset):
    """Cars3D: renderings of 183 cars with 3 factors, from the published files."""

    source: ClassVar[Source] = SOURCE

    @classmethod
    def locate(cls, path: Path) -> list[Found]:
        """The published archive, or a folder of its .mat files, which have no checksums."""
        if path.is_file():
            return [Found(path, cls.source.files[0])]
        archive = path / cls.source.files[0].name
        if archive.is_file():
            return [Found(archive, cls.source.files[0])]
        for place in (path, path / "cars", path / "data" / "cars"):
            if any(place.glob("*.mat")):
                return [Found(place, label=f"{place.name}/*.mat")]
        rule = f"must be {cls.source.files[0].name} or the folder of its car_*_mesh.mat files"
        raise refused(cls.source, path, rule, Shown("a folder without any"))

    @classmethod
    def read(cls, found: Sequence[Found]) -> Content:
        """The cars are read and scaled one after another, and arranged in memory."""
        source, path = cls.source, found[0].path
        if path.is_dir():
            count = len(list(path.glob("*.mat")))
            if count != source.factors[2].size:
                _raise_count(source, path, count)
        return Content(_blocks(source, path), source.plane_shape, np.dtype("|u1"))


def _raise_count(source: Source, path: Path, count: int) -> None:
    rule = f"must hold {source.factors[2].size} .mat files, one for each car"
    raise refused(source, path, rule, Shown(f"{count}"))


def _blocks(source: Source, path: Path) -> Iterator[NDArray[np.uint8]]:
    """Images in grid order, where the object moves fastest; scaled they take 216 MB."""
    elevations, azimuths, objects = source.grid.sizes
    cars = {}
    for name, content in _in_folder(source, path) if path.is_dir() else _in_archive(source, path):
        im = _read_car(source, path, name, content)
        images = im.transpose(4, 3, 0, 1, 2).reshape(-1, _STORED_SIDE, _STORED_SIDE, 3)
        cars[name] = as_planes(resized(np.ascontiguousarray(images), source.image_shape[0]))
    if len(cars) != objects:
        _raise_count(source, path, len(cars))
    in_order = [cars[name] for name in sorted(cars)]
    for view in range(elevations * azimuths):
        yield np.stack([car[view] for car in in_order])


def _in_folder(source: Source, path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.glob("*.mat")):
        with readable(source, file):
            size = file.stat().st_size
            if size > _MOST_BYTES:
                raise refused(
                    source, file, f"must have at most {_MOST_BYTES:,} bytes", Shown(f"{size:,}")
                )
            content = file.read_bytes()
        yield file.name, content


def _in_archive(source: Source, path: Path) -> Iterator[tuple[str, bytes]]:
    """Members `cars/*.mat`, read in the archive's order; nothing is unpacked to disk."""
    with (
        readable(source, path),
        open_maybe_gzipped(path) as raw,
        tarfile.open(fileobj=raw, mode="r|") as archive,
    ):
        for member in archive:
            place = PurePosixPath(member.name)
            if not member.isfile() or place.suffix != ".mat" or place.parent.name != "cars":
                continue
            stream = archive.extractfile(member)
            if stream is None or member.size > _MOST_BYTES:
                raise refused(
                    source,
                    path,
                    f"must hold files of at most {_MOST_BYTES:,} bytes",
                    Shown(f"{member.name}"),
                )
            yield place.name, stream.read()
        # To the very end: gzip compares its checksum there.
        while raw.read(2**20):
            pass


def _read_car(source: Source, path: Path, name: str, content: bytes) -> NDArray[np.uint8]:
    """The array `im` of one file: uint8 (128, 128, 3, azimuth, elevation)."""
    from scipy.io import loadmat, whosmat

    elevations, azimuths, _ = source.grid.sizes
    shape = (_STORED_SIDE, _STORED_SIDE, 3, azimuths, elevations)
    where = path / name if path.is_dir() else path
    inside = "" if path.is_dir() else f" in {name}"
    try:
        size = _unpacked_size(content)
        if size > _MOST_BYTES:
            raise refused(
                source,
                where,
                f"must unpack to at most {_MOST_BYTES:,} bytes{inside}",
                Shown("more"),
            )
        # From the headers alone, so that nothing of another size is made.
        found = {key: (kind, sizes) for key, sizes, kind in whosmat(io.BytesIO(content))}.get("im")
        if found is None:
            raise refused(source, where, f"must hold 'im'{inside}", Shown("no such array"))
        if found != ("uint8", shape):
            value = Shown(f"{_DTYPES.get(found[0], found[0])} {found[1]}")
            raise refused(source, where, f"must hold 'im' as uint8 {shape}{inside}", value)
        im = loadmat(io.BytesIO(content), variable_names=["im"])["im"]
    except InputError:
        raise
    except (
        Exception
    ) as error:  # decoders of foreign bytes raise many kinds, type and zlib errors among them
        reason = " ".join(str(error).split()) or type(error).__name__
        value = Shown(f"one that cannot be read ({reason})")
        raise refused(source, where, f"must be a whole MATLAB 5 file{inside}", value) from error
    if im.shape != shape or im.dtype != np.uint8:
        raise refused(
            source,
            where,
            f"must hold 'im' as uint8 {shape}{inside}",
            Shown(f"{im.dtype} {im.shape}"),
        )
    return im


def _unpacked_size(content: bytes) -> int:
    """How many bytes a MATLAB 5 file takes unpacked, counted to just above the limit.

    It is a header of 128 bytes, then elements of type, size and content; those of type 15 are
    compressed.
    """
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError("it has no such header")
    size, start = 128, 128
    while start < len(content):
        kind, length = struct.unpack_from(f"{order}2I", content, start)
        element = content[start + 8 : start + 8 + length]
        if len(element) < length:
            raise ValueError(f"it ends {length - len(element):,} bytes early")
        start += 8 + length
        size += length
        if kind == _COMPRESSED:
            unpacking = zlib.decompressobj()
            size += len(unpacking.decompress(element, max(1, _MOST_BYTES + 1 - size)))
            if size <= _MOST_BYTES and not unpacking.eof:
                raise ValueError("a compressed array in it ends early")
        if size > _MOST_BYTES:
            break
    return size
