# SPDX-License-Identifier: Apache-2.0
"""What is known of a published dataset before its files are here: facts, files, checksums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unbraid.core.grid import FactorGrid, samples_grid
from unbraid.core.registry import Citation


@dataclass(frozen=True)
class PublishedFile:
    """One file as it was given out. A size or checksum of None means that none is known to us."""

    name: str
    link: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    unpacked: bool = False
    """Size and checksums are those of the content; the file itself may be gzipped by whoever packed
    it last.
    """

    @property
    def checksum(self) -> tuple[str, str] | None:
        """The strongest known checksum with the name of its kind."""
        return ("sha256", self.sha256) if self.sha256 else ("md5", self.md5) if self.md5 else None


@dataclass(frozen=True)
class Factor:
    """A factor of variation: its name, how many values it takes, and what they mean."""

    name: str
    size: int
    meaning: str = ""


def factors_of(grid: FactorGrid, meanings: dict[str, str]) -> tuple[Factor, ...]:
    """The factors of a set that is drawn too, in the same order."""
    return tuple(
        Factor(name, size, meanings[name])
        for name, size in zip(grid.names, grid.sizes, strict=True)
    )


@dataclass(frozen=True)
class Source:
    """A published dataset."""

    name: str
    files: tuple[PublishedFile, ...]
    page: str
    """Where people read about it and get it."""
    get: str
    """What to get there, in words."""
    typed: str
    """What stands behind `unbraid data add NAME`, for example `3dshapes.h5`."""
    factors: tuple[Factor, ...]
    image_shape: tuple[int, int, int]
    shown: str
    """What exactly the images are: splits, cameras, crops, scaling."""
    licence: str
    citation: Citation
    samples: int | None = None
    """How many images there are where the factors do not form a grid."""
    places: tuple[str, ...] = ()
    """Folders where a system package puts the files; looked into when nothing was added."""
    instead: str = ""
    """A sentence on what can be had without any file."""

    @property
    def grid(self) -> FactorGrid:
        """The grid of the factors, or one axis `sample`."""
        if self.samples is not None:
            return samples_grid(self.samples)
        return FactorGrid(
            tuple(factor.name for factor in self.factors),
            tuple(factor.size for factor in self.factors),
        )

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the columns of the factors."""
        return tuple(factor.name for factor in self.factors)

    @property
    def plane_shape(self) -> tuple[int, int, int, int]:
        """Shape of all images as they are stored: n, channels, height, width."""
        height, width, channels = self.image_shape
        return (self.grid.size, channels, height, width)

    def how_to_add(self) -> str:
        """Where to get the files, what to type then, and what can be had without."""
        sentence = (
            f"Get {self.get} from {self.page} and type: unbraid data add {self.name} {self.typed}."
        )
        return f"{sentence} {self.instead}" if self.instead else sentence


@dataclass(frozen=True)
class Found:
    """A file here that plays the part of a published one.

    *published* is None where no checksum can exist.
    """

    path: Path
    published: PublishedFile | None = None
    label: str = ""

    @property
    def name(self) -> str:
        """What a record calls it."""
        return self.label or self.path.name


@dataclass(frozen=True)
class Content:
    """What was read: blocks of the main array, and the factors where they form no grid."""

    blocks: Iterator[NDArray[Any]]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    array: str = "planes"
    factors: NDArray[np.uint8] | None = None


class Published(ABC):
    """A published dataset whose files can be found under a path and read."""

    source: ClassVar[Source]

    @classmethod
    @abstractmethod
    def locate(cls, path: Path) -> Sequence[Found]:
        """The files under *path* that make up the dataset; other places are refused."""

    @classmethod
    @abstractmethod
    def read(cls, found: Sequence[Found]) -> Content:
        """Open the located files; a wrong structure is refused, now or while reading."""
