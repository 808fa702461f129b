# SPDX-License-Identifier: Apache-2.0
"""A published dataset as `load` gives it: mapped from the data home, or read from a package."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import read_whole
from unbraid.core.errors import InputError, invalid, unknown
from unbraid.data.dataset import PixelDataset, as_planes
from unbraid.data.official.source import Published, Source
from unbraid.data.official.stored import check_once, not_here, open_array, read_record
from unbraid.data.official.verify import verify
from unbraid.data.own.image_arrays import LARGEST_SIDE, SMALLEST_SIDE, resized


class OfficialDataset(PixelDataset, Published):
    """A published dataset that was added with `unbraid data add`."""

    source: ClassVar[Source]
    splits: ClassVar[tuple[str, ...]] = ()
    """Names of the parts that were published apart; empty where there are none."""

    def __init_subclass__(cls) -> None:
        """Licence and citation are those of what was published."""
        if "source" in cls.__dict__:
            cls.citation, cls.licence = cls.source.citation, cls.source.licence

    def __init__(self, resize: int | None = None, split: str | None = None) -> None:
        """*resize* scales every image to that side. *split* names the part that models train on,
        and that they are scored on: but with `train` they are scored on `test`.
        """
        source = type(self).source
        side = None if resize is None else read_whole("resize", resize, SMALLEST_SIDE, LARGEST_SIDE)
        self._check_split(split)
        self.name = source.name
        record = read_record(source.name)
        self.published_as = source = type(self).edition(record)
        self.grid = source.grid
        self.image_shape = source.image_shape
        self.split = split
        given = {"resize": side, "split": split}
        self.options: dict[str, Any] = {key: one for key, one in given.items() if one is not None}
        self._rows: NDArray[np.uint8] | None = None
        self._record = record
        self._open(source, record)
        if side is not None and source.image_shape[:2] != (side, side):
            self.planes = as_planes(resized(self.pixels, side))
            self.image_shape = (side, side, source.image_shape[2])

    def _open(self, source: Source, record: dict[str, Any] | None) -> None:
        """Take images and factors from what was added, or from a package."""
        if record is None:
            self._read_package(source)
            return
        self.planes = open_array(source, record, "planes", source.plane_shape, "|u1")
        if source.samples is not None:
            self._rows = open_array(
                source, record, "factors", (source.samples, len(source.factors)), "|u1"
            )

    @classmethod
    def _check_split(cls, split: str | None) -> None:
        if split is None or split in cls.splits:
            return
        name = f"split of {cls.source.name}"
        if cls.splits:
            raise InputError(unknown(name, str(split), cls.splits))
        rule = "must be left out, since it was published in one part"
        raise invalid(name, rule, split, "Train on a part with a rule on its factors: {where=...}.")

    def indices_of(self, split: str) -> NDArray[np.int64]:
        """The images of one of `splits`."""
        raise NotImplementedError

    @property
    def training_indices(self) -> NDArray[np.int64] | None:
        """Those of the split that was chosen."""
        return None if self.split is None else self.indices_of(self.split)

    @property
    def scoring_indices(self) -> NDArray[np.int64] | None:
        """Those of the split that was chosen; of the test set where that is the training set."""
        if self.split is None:
            return None
        return self.indices_of("test" if self.split == "train" else self.split)

    @property
    def about(self) -> list[tuple[str, str]]:
        """What models train on and are scored on, where a split was chosen."""
        train, score = self.training_indices, self.scoring_indices
        if train is None or score is None:
            return []
        scored = "test" if self.split == "train" else self.split
        told = f"trains on the {len(train):,} of {self.split}, scores the {len(score):,} of"
        return [("Split", f"{told} {scored}")]

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
