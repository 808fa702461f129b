# SPDX-License-Identifier: Apache-2.0
"""3D Shapes (Burgess and Kim 2018): 480,000 images of a solid in a coloured room.

The file holds `images` uint8 (480000, 64, 64, 3) and `labels` float64 (480000, 6), the last factor
moving fastest. Departs: none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Shown
from unbraid.data.dataset import as_planes
from unbraid.data.drawn.shapes3d_drawn import Shapes3DDrawn
from unbraid.data.official.dataset import OfficialDataset
from unbraid.data.official.reading import one_file, readable, refused
from unbraid.data.official.source import Content, Found, PublishedFile, Source, factors_of

if TYPE_CHECKING:
    import h5py

_IMAGES_PER_BLOCK = 4096
_MOST_IMAGES_PER_BLOCK = 65_536

SOURCE = Source(
    name="shapes3d",
    # Size and sha256: tensorflow/datasets, url_checksums/shapes3d.txt; md5: nmichlo/disent,
    # _groundtruth__shapes3d.py.
    files=(
        PublishedFile(
            "3dshapes.h5",
            "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
            size=267_573_662,
            sha256="0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
            md5="099a2078d58cec4daad0702c55d06868",
        ),
    ),
    page="https://github.com/google-deepmind/3d-shapes",
    get="3dshapes.h5",
    typed="3dshapes.h5",
    factors=factors_of(Shapes3DDrawn().grid, Shapes3DDrawn.factor_meanings),
    image_shape=(64, 64, 3),
    shown="all images of the file, as they are",
    licence="Apache-2.0",
    citation=Shapes3DDrawn.citation,
    instead="`shapes3d_drawn` needs no file.",
)


class Shapes3D(OfficialDataset):
    """3D Shapes: a solid in a coloured room with 6 factors, from the published file."""

    source: ClassVar[Source] = SOURCE

    @classmethod
    def locate(cls, path: Path) -> list[Found]:
        """The one file."""
        (file,) = cls.source.files
        return [Found(one_file(cls.source, path, file), file)]

    @classmethod
    def read(cls, found: Sequence[Found]) -> Content:
        """Check keys, shapes and labels now; the images are read block by block."""
        source, path = cls.source, found[0].path
        with readable(source, path), _open(path) as file:
            _member(source, path, file, "images", (source.grid.size, *source.image_shape), "u1")
            labels = _member(
                source, path, file, "labels", (source.grid.size, len(source.factors)), "f8"
            )
            _check_labels(source, path, labels[()])
        return Content(_blocks(source, path), source.plane_shape, np.dtype("|u1"))


def _open(path: Path) -> Any:
    import h5py

    return h5py.File(path, "r")


def _member(
    source: Source, path: Path, file: h5py.File, key: str, shape: tuple[int, ...], dtype: str
) -> h5py.Dataset:
    """The array *key* of the file, stored in the file itself and of the right shape and type."""
    import h5py

    if key not in file:
        raise refused(
            source,
            path,
            f"must hold '{key}'",
            Shown(f"the keys {', '.join(sorted(file)) or 'none'}"),
        )
    member = file.get(key)
    if (
        not isinstance(member, h5py.Dataset)
        or member.external is not None
        or member.is_virtual
        or member.file.id != file.id
    ):
        raise refused(
            source,
            path,
            f"must hold '{key}' as an array of its own",
            Shown("something else, or a link to another file"),
        )
    if member.shape != shape:
        raise refused(source, path, f"must hold '{key}' of shape {shape}", Shown(str(member.shape)))
    if member.dtype != np.dtype(dtype):
        raise refused(
            source, path, f"must hold '{key}' as {np.dtype(dtype)}", Shown(str(member.dtype))
        )
    return member


def _check_labels(source: Source, path: Path, labels: NDArray[np.float64]) -> None:
    """Each row's label values, numbered by size, must be its place on the grid."""
    codes = np.empty(labels.shape, dtype=np.int64)
    for column, factor in enumerate(source.factors):
        values, codes[:, column] = np.unique(labels[:, column], return_inverse=True)
        if len(values) != factor.size:
            rule = f"must have {factor.size} values of {factor.name} in 'labels'"
            raise refused(source, path, rule, Shown(str(len(values))))
    expected = source.grid.to_factors(np.arange(source.grid.size))
    wrong = np.flatnonzero((codes != expected).any(axis=1))
    if len(wrong):
        row = int(wrong[0])
        rule = f"must have 'labels' in grid order, row {row} = {expected[row].tolist()}"
        raise refused(source, path, rule, codes[row].tolist())


def _blocks(source: Source, path: Path) -> Iterator[NDArray[np.uint8]]:
    with readable(source, path), _open(path) as file:
        images = file["images"]
        # A compressed chunk is unpacked whole; blocks that cut through chunks would unpack each
        # many times over.
        chunk = min(images.chunks[0] if images.chunks else 1, _MOST_IMAGES_PER_BLOCK)
        step = chunk * max(1, _IMAGES_PER_BLOCK // chunk)
        for start in range(0, source.grid.size, step):
            yield as_planes(images[start : start + step])
