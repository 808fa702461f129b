# SPDX-License-Identifier: Apache-2.0
"""A published dataset as `load` gives it: mapped from the data home, or read from a package."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.data.dataset import PixelDataset
from unbraid.data.official.source import Published, Source
from unbraid.data.official.stored import check_once, not_here, open_array, read_record
from unbraid.data.official.verify import verify


class OfficialDataset(PixelDataset, Published):
    """A published dataset that was added with `unbraid data add`."""

    source: ClassVar[Source]

    def __init_subclass__(cls) -> None:
        """Licence and citation are those of what was published."""
        if "source" in cls.__dict__:
            cls.citation, cls.licence = cls.source.citation, cls.source.licence

    def __init__(self) -> None:
        source = type(self).source
        self.name = source.name
        record = read_record(source.name)
        self.published_as = source = type(self).edition(record)
        self.grid = source.grid
        self.image_shape = source.image_shape
        self.options: dict[str, Any] = {}
        self._rows: NDArray[np.uint8] | None = None
        self._record = record
        if record is None:
            self._read_package(source)
            return
        self.planes = open_array(source, record, "planes", source.plane_shape, "|u1")
        if source.samples is not None:
            self._rows = open_array(
                source, record, "factors", (source.samples, len(source.factors)), "|u1"
            )

    @classmethod
    def edition(cls, record: dict[str, Any] | None) -> Source:
        """What was published, in the edition that *record* holds where there were several."""
        return cls.source

    def _read_package(self, source: Source) -> None:
        """Read what a system package installed, if there is one."""
        place = next((Path(place) for place in source.places if Path(place).is_dir()), None)
        if place is None:
            raise not_here(source)
        found = type(self).locate(place)
        verify(source, found, quiet=True)
        content = type(self).read(found)
        self.planes = np.concatenate(list(content.blocks))
        self._rows = content.factors

    def check_files(self) -> None:
        """Compare every stored byte with the record, once in a process."""
        if self._record is not None:
            check_once(self.published_as, self._record)

    def fingerprint(self) -> str:
        """As of any dataset; files that were written after their record are checked before."""
        if self._record is not None:
            check_once(self.published_as, self._record, if_newer=True)
        return super().fingerprint()

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the published factors."""
        return self.published_as.factor_names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """How many values each takes."""
        return tuple(factor.size for factor in self.published_as.factors)

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Factor values of *indices*, from the grid or as published."""
        if self._rows is None:
            return super().factors(indices)
        return self._rows[self.grid.check_index(indices)].astype(np.int64)
