# SPDX-License-Identifier: Apache-2.0
"""MPI3D (Gondal et al. 2019): a robot arm with an object, rendered twice and photographed.

Each file is an .npz with `images` uint8 (1036800, 64, 64, 3) in C order of the factors. The
authors' page gives 6 colours and 6 shapes for all three files; an earlier edition had 4 and 4
(460,800 images), and disentanglement_lib and disent still say so of toy and realistic. Both are
read; the earlier one has no checksum known to us. Departs: the factors have the names of the
authors' page.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unbraid.core.arrays import npy_header
from unbraid.core.errors import Shown
from unbraid.core.registry import Citation
from unbraid.data.dataset import as_planes
from unbraid.data.official.dataset import OfficialDataset
from unbraid.data.official.reading import (
    must_end,
    npy_dtype,
    one_file,
    read_exactly,
    readable,
    refused,
)
from unbraid.data.official.source import Content, Factor, Found, PublishedFile, Source

_IMAGES_PER_BLOCK = 2048
_MEMBER = "images.npy"

FACTORS = (
    Factor("object_color", 6, "white, green, red, blue, brown, olive"),
    Factor("object_shape", 6, "cone, cube, cylinder, hexagonal prism, pyramid, sphere"),
    Factor("object_size", 2, "small, large"),
    Factor("camera_height", 3, "top, centre, bottom"),
    Factor("background_color", 3, "purple, sea green, salmon"),
    Factor("horizontal_axis", 40, "turn of the arm about its vertical axis"),
    Factor("vertical_axis", 40, "turn of the arm about its horizontal axis"),
)
EARLIER = (
    Factor("object_color", 4, "green, red, blue, brown"),
    Factor("object_shape", 4, "cone, cube, hexagonal prism, sphere"),
)
"""The first two factors of the earlier edition, as its page had them; the others are the same."""


def _source(kind: str, md5: str) -> Source:
    """The three files differ in nothing but their images."""
    file = f"mpi3d_{kind}.npz"
    return Source(
        name=f"mpi3d_{kind}",
        # md5: nmichlo/disent, _groundtruth__mpi3d.py. No published size is known to us.
        files=(
            PublishedFile(
                file,
                f"https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/{file}",
                md5=md5,
            ),
        ),
        page="https://github.com/rr-learning/disentanglement_dataset",
        get=file,
        typed=file,
        factors=FACTORS,
        image_shape=(64, 64, 3),
        shown="all images of the file, as they are",
        licence="CC BY 4.0",
        citation=Citation(
            "M. W. Gondal, M. Wüthrich, Đ. Miladinović, F. Locatello, M. Breidt, V. Volchkov, J."
            " Akpo, O. Bachem, B. Schölkopf, S. Bauer",
            2019,
            "On the transfer of inductive bias from simulation to the real world: a new"
            " disentanglement dataset",
            "NeurIPS",
        ),
    )


class _MPI3D(OfficialDataset):
    """What the three sets share."""

    @classmethod
    def earlier(cls) -> Source:
        """The edition of 2019."""
        return replace(cls.source, factors=(*EARLIER, *cls.source.factors[len(EARLIER) :]))

    @classmethod
    def edition(cls, record: dict[str, Any] | None) -> Source:
        """The one whose number of images was added."""
        kept = None if record is None else record["arrays"].get("planes", {}).get("shape", [0])[0]
        return cls.earlier() if kept == cls.earlier().grid.size else cls.source

    @classmethod
    def locate(cls, path: Path) -> list[Found]:
        """The one file."""
        (file,) = cls.source.files
        return [Found(one_file(cls.source, path, file), file)]

    @classmethod
    def read(cls, found: Sequence[Found]) -> Content:
        """Check the archive and the header now; the images are unpacked block by block."""
        source, path = cls.source, found[0].path
        if not zipfile.is_zipfile(path):
            value = Shown(f"a file of {path.stat().st_size:,} bytes that is none or was cut off")
            raise refused(source, path, "must be a complete .npz (zip) file", value)
        with readable(source, path), zipfile.ZipFile(path) as archive:
            if _MEMBER not in archive.namelist():
                keys = ", ".join(Path(name).stem for name in archive.namelist())
                raise refused(
                    source, path, "must hold 'images'", Shown(f"the keys {keys or 'none'}")
                )
            if _images(archive) == cls.earlier().grid.size:
                source = cls.earlier()
            with archive.open(_MEMBER) as member:
                _check_header(source, path, member)
        return Content(_blocks(source, path), source.plane_shape, np.dtype("|u1"))


SOURCE_TOY = _source("toy", "55889cb7c7dfc655d6e0277beee88868")
SOURCE_REALISTIC = _source("realistic", "59a6225b88b635365f70c91b3e52f70f")
SOURCE_REAL = _source("real", "0f33f609918fb5c97996692f91129802")


class MPI3DToy(_MPI3D):
    """MPI3D toy: simple renderings of a robot arm with an object, 7 factors."""

    source: ClassVar[Source] = SOURCE_TOY


class MPI3DRealistic(_MPI3D):
    """MPI3D realistic: realistic renderings of a robot arm with an object, 7 factors."""

    source: ClassVar[Source] = SOURCE_REALISTIC


class MPI3DReal(_MPI3D):
    """MPI3D real: photographs of a robot arm with an object, 7 factors."""

    source: ClassVar[Source] = SOURCE_REAL


def _images(archive: zipfile.ZipFile) -> int:
    """How many images the header speaks of; 0 where it cannot be read."""
    with archive.open(_MEMBER) as member:
        try:
            shape, _, _ = npy_header(member)
        except ValueError:
            return 0
    return shape[0] if shape else 0


def _check_header(source: Source, path: Path, member: IO[bytes]) -> None:
    """Move *member* behind its .npy header, refused unless it describes the images."""
    shape = (source.grid.size, *source.image_shape)
    dtype = npy_dtype(
        member, "images", shape, lambda rule, value: refused(source, path, rule, value)
    )
    if dtype != np.uint8:
        raise refused(source, path, "must hold 'images' as uint8", Shown(str(dtype)))


def _blocks(source: Source, path: Path) -> Iterator[NDArray[np.uint8]]:
    height, width, channels = source.image_shape
    with readable(source, path), zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as member:
        _check_header(source, path, member)
        for start in range(0, source.grid.size, _IMAGES_PER_BLOCK):
            count = min(_IMAGES_PER_BLOCK, source.grid.size - start)
            data = read_exactly(source, path, member, count * height * width * channels, "'images'")
            yield as_planes(
                np.frombuffer(data, dtype=np.uint8).reshape(count, height, width, channels)
            )
        must_end(source, path, member, "the last image")
