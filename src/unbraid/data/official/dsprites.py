# SPDX-License-Identifier: Apache-2.0
"""The published dSprites file, converted to packed rows; `load("dsprites")` draws the set.

`load("dsprites", file="added")` then uses the published images instead of the drawn ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unbraid.data.drawn.dsprites_drawing import SIDE
from unbraid.data.drawn.dsprites_grid import CITATION, GRID, MEANINGS
from unbraid.data.official.dsprites_file import read_file
from unbraid.data.official.reading import one_file
from unbraid.data.official.source import (
    Content,
    Found,
    Published,
    PublishedFile,
    Source,
    factors_of,
)
from unbraid.data.official.stored import check_once, not_here, open_array, read_record

SOURCE = Source(
    name="dsprites",
    # md5: quoted alike by several projects (ganmodokix/vaetc, data/dsprites.py, and others).
    # No published size is known to us.
    files=(
        PublishedFile(
            "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
            "https://github.com/google-deepmind/dsprites-dataset",
            md5="7da33b31b13a06f4b04a70402ce90c2e",
        ),
    ),
    page="https://github.com/google-deepmind/dsprites-dataset",
    get="dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
    typed="dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
    factors=factors_of(GRID, MEANINGS),
    image_shape=(SIDE, SIDE, 1),
    shown="all images of the file; its constant colour is no factor here",
    licence="Apache-2.0",
    citation=CITATION,
    instead="`dsprites` is drawn without it.",
)


class DSpritesFile(Published):
    """The published npz; the dataset itself is `unbraid.data.drawn.dsprites.DSprites`."""

    source: ClassVar[Source] = SOURCE

    @classmethod
    def locate(cls, path: Path) -> list[Found]:
        """The one file."""
        (file,) = cls.source.files
        return [Found(one_file(cls.source, path, file), file)]

    @classmethod
    def read(cls, found: Sequence[Found]) -> Content:
        """Read, check and pack the whole file: 360 MiB."""
        path = found[0].path
        packed = read_file.__wrapped__(path, cls.source.grid, 0)
        return Content(iter([packed]), packed.shape, np.dtype("<u8"), array="packed")


def added_rows() -> NDArray[np.uint64]:
    """Packed rows `(737280, 64)` of the added file, mapped; refused when it was not added."""
    source = DSpritesFile.source
    record = read_record(source.name)
    if record is None:
        raise not_here(source)
    rows = open_array(source, record, "packed", (source.grid.size, SIDE), "<u8")
    check_once(source, record)
    return rows
