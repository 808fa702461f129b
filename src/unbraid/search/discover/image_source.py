# SPDX-License-Identifier: Apache-2.0
"""The images of a discovery: from a folder, file, array or dataset, at the size models see."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.codes import recorded_sample
from unbraid.core.errors import invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.store import write_npy
from unbraid.data import DATA, load
from unbraid.data.dataset import Dataset
from unbraid.data.own.image_depth import ABOUT
from unbraid.data.own.image_folder import image_files
from unbraid.data.own.image_sizes import SHAPE, folder_size, sizes_of
from unbraid.search.discover.plan import MOST_IMAGES, seen_side

IMAGES = "images.npy"
"""The images as models see them, where they came from no file."""
INDICES = "indices.npy"
"""Which images of a large dataset were drawn, where not all were."""


@dataclass(frozen=True)
class ImageSource:
    """Images as they will be trained on."""

    name: str
    source: str
    """As a person would name it again; empty for what had no name."""
    dataset: Dataset
    data: str | None
    """The path they are loaded from; None where they are to be stored first."""
    options: dict[str, Any]
    resized_from: tuple[int, int] | None
    drawn_from: int
    drawn: NDArray[np.int64] | None = None
    """Their numbers in the source, where not all were drawn."""
    depth: str = ""
    """How images of 16 bits were brought to 8, in a sentence; empty for others."""
    stretched: str = ""
    """That images of several sizes were scaled to one, in a sentence; empty for others."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files in which they are stored, where they are to be."""
        if self.data is not None:
            return ()
        return (IMAGES,) if self.drawn is None else (INDICES, IMAGES)

    @property
    def bytes_stored(self) -> int:
        """About what those files will take."""
        own = len(self.dataset) * (math.prod(self.dataset.image_shape) + 8)
        return own if self.files else 0

    def stored(self, folder: Path) -> tuple[str, dict[str, Any]]:
        """Where they can be loaded from again, with which options."""
        if self.data is not None:
            return self.data, self.options
        if self.drawn is not None:
            write_npy(folder / INDICES, self.drawn)
        path = (folder / IMAGES).absolute()
        write_npy(path, self.dataset.images(np.arange(len(self.dataset))))
        failpoint("images.stored")
        return str(path), {}


def take_images(
    images: Any, options: dict[str, Any], resize: int | None, device: torch.device
) -> ImageSource:
    """Load *images* at the size at which models see them.

    A size among the *options* of the data counts as *resize*.
    """
    rest = {name: value for name, value in options.items() if name != "resize"}
    if isinstance(images, Dataset) or (isinstance(images, str) and images in DATA):
        return _of_dataset(
            images if isinstance(images, Dataset) else load(images, **options), resize, device
        )
    wanted = resize if resize is not None else options.get("resize")
    if isinstance(images, np.ndarray):
        return _of_array(images, rest, wanted, device)
    if not isinstance(images, (str, Path)):
        rule = "must be a folder, a .npy or .npz file, an array, or the name of a dataset"
        raise invalid("images", rule, type(images).__name__)
    given, path = str(images), Path(images).expanduser()
    text = (
        str(path.absolute()) if path.exists() else given
    )  # what is stored must be found from any folder
    if path.is_dir() and wanted is None:
        height, width = folder_size(path)
        side = seen_side(height, width, device, None)
        dataset = load(text, **rest, **({"resize": side} if side else {}))
        before = (height, width) if side else None
    else:
        dataset, side, before = _scaled(text, rest, wanted, device)
    stretched = _stretched(dataset)
    if path.is_dir() and wanted is not None:
        sizes = set(sizes_of(image_files(path)))
        before = sizes.pop() if len(sizes) == 1 else None
        before = None if before == dataset.image_shape[:2] else before
        if sizes:
            scaled = (
                f"All were scaled to {side} × {side} pixels, which changes the shape of what they"
                " show."
            )
            stretched = f"Your images have {len(sizes):,} different sizes. {scaled}"
    used = rest | ({"resize": side} if side else {})
    return ImageSource(
        path.stem,
        given,
        dataset,
        text,
        used,
        before,
        len(dataset),
        depth=_depth(dataset),
        stretched=stretched,
    )


def drawn_images(size: int, count: int, data: str) -> NDArray[np.int64] | None:
    """Which *count* images of a dataset of *size* were drawn; None where all were."""
    if Path(data).name != IMAGES or count == size:
        return None
    return np.sort(recorded_sample(size, count))


def image_names(data: str, drawn: NDArray[np.int64] | None) -> tuple[str, ...]:
    """File names of the images, or their numbers in a larger dataset; empty where only counted."""
    if Path(data).is_dir():
        return tuple(path.name for path in image_files(Path(data)))
    return () if drawn is None else tuple(map(str, drawn.tolist()))


def _of_array(
    images: NDArray[Any], options: dict[str, Any], wanted: Any, device: torch.device
) -> ImageSource:
    dataset, _, before = _scaled(images, options, wanted, device)
    depth, told = _depth(dataset), _stretched(dataset)
    return ImageSource(
        "array", "", dataset, None, {}, before, len(dataset), depth=depth, stretched=told
    )


def _scaled(
    source: Any, options: dict[str, Any], wanted: Any, device: torch.device
) -> tuple[Dataset, int | None, tuple[int, int] | None]:
    """The images, the side they were scaled to if any, and the size they had if it is known."""
    if wanted is not None:
        dataset = load(source, **options, resize=wanted)
        return dataset, dataset.image_shape[0], _size_of(source, dataset.image_shape[0])
    dataset = load(source, **options)
    height, width, _ = dataset.image_shape
    side = seen_side(height, width, device, None)
    return (
        (load(source, **options, resize=side), side, (height, width))
        if side
        else (dataset, None, None)
    )


def _size_of(source: Any, side: int) -> tuple[int, int] | None:
    """Height and width of an array of images that are not *side* already; unknown for files."""
    if not isinstance(source, np.ndarray) or source.shape[1:3] == (side, side):
        return None
    return int(source.shape[1]), int(source.shape[2])


def _of_dataset(dataset: Dataset, resize: int | None, device: torch.device) -> ImageSource:
    """Images of a dataset, a fair sample of a large one."""
    if len(dataset.sample_shape) != 3:
        raise invalid(
            "images", "must be images", dataset.name, "Points have no factors that could be shown."
        )
    dataset.check_files()
    count = min(len(dataset), MOST_IMAGES)
    drawn = drawn_images(len(dataset), count, IMAGES)
    kept = np.sort(recorded_sample(len(dataset), count))
    height, width, _ = dataset.image_shape
    side = seen_side(height, width, device, resize)
    own = load(dataset.images(kept), **({"resize": side} if side else {}))
    before = (height, width) if side else None
    return ImageSource(
        dataset.name,
        dataset.name,
        own,
        None,
        {},
        before,
        len(dataset),
        drawn,
        _depth(dataset),
        _stretched(own),
    )


def _depth(dataset: Dataset) -> str:
    return dict(dataset.about).get(ABOUT, "")


def _stretched(dataset: Dataset) -> str:
    return dict(dataset.about).get(SHAPE, "")
