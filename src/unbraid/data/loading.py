# SPDX-License-Identifier: Apache-2.0
"""`load`: one door to every dataset, by registered name, by path or from an array."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.checks import check_option_names
from unbraid.core.errors import InputError, Shown, invalid, unknown
from unbraid.data import DATA
from unbraid.data.dataset import Dataset

_MADE_FROM_OTHERS = ("own", "perturbed", "subset")
"""Names that need to be told of other data, and so stand in no list of datasets."""


def load(source: str | os.PathLike[str] | NDArray[Any], /, **options: Any) -> Dataset:
    """The dataset of *source*: a registered name, the path of a folder, .npy or .npz, or an array
    of images.

    A folder may hold images, or data that `unbraid perturb` wrote. The name "subset" with `of`,
    `of_options` and `indices`, the path of an .npy, gives part of another dataset.

    Options are those of the dataset's class; numbers may be written as text. `load(d.name,
    **d.options)` makes *d* again.

    >>> load("xysquares", spacing="3").options
    {'spacing': 3}
    """
    if isinstance(source, str) and not _is_path(source):
        return _registered(source, options)
    return _own(source, options)


def _is_path(source: str) -> bool:
    """A registered name wins over a file of the same name: write ./dsprites for that."""
    if source in DATA or source in _MADE_FROM_OTHERS:
        return False
    separators = {os.sep, os.altsep or os.sep, "/"}
    return (
        any(mark in source for mark in separators)
        or source.lower().endswith((".npz", ".npy"))
        or (source != "" and os.path.exists(source))
    )


def _registered(name: str, options: dict[str, Any]) -> Dataset:
    if name == "own":
        return _again(options)
    if name == "perturbed":
        rest = dict(options)
        return _perturbed(rest.pop("source", None), rest)
    if name == "subset":
        return _subset(options)
    if name not in DATA:
        first, colon, rest = name.partition(":")
        if colon and first in DATA:
            words = ", ".join(part.strip() for part in rest.split(",") if part.strip())
            remedy = f"In Python write load('{first}', {words}), or data_options={{...}}."
            raise invalid("data", "takes its options apart from its name", name, remedy)
        raise InputError(
            unknown("dataset", name, DATA, "A folder, an .npy or an .npz is given by its path.")
        )
    constructor = DATA.load(name)
    check_option_names(name, constructor, options)
    return constructor(**options)


def _own(source: Any, options: dict[str, Any]) -> Dataset:
    from unbraid.data.own.own_images import OwnImages
    from unbraid.data.perturbed.folder import is_perturbed

    if isinstance(source, (str, os.PathLike)) and not Path(source).expanduser().exists():
        raise invalid(
            "data", "must be an existing folder or file", Shown(f"'{source}', which does not exist")
        )
    if not isinstance(source, (str, os.PathLike, np.ndarray)):
        remedy = "Use numpy.asarray for other kinds of arrays."
        value = Shown(type(source).__name__)
        raise invalid("data", "must be a registered name, a path or a numpy array", value, remedy)
    if not isinstance(source, np.ndarray) and is_perturbed(Path(source).expanduser()):
        return _perturbed(source, options)
    check_option_names("image data", OwnImages, options, positional="source")
    return OwnImages(source, **options)


def _again(options: dict[str, Any]) -> Dataset:
    """Own data by the options it was saved with."""
    from unbraid.data.own.own_images import IN_MEMORY

    rest = dict(options)
    source = rest.pop("source", None)
    if source is None:
        raise invalid(
            "own data",
            "needs its source",
            Shown("none"),
            "Give the path or the array itself to load.",
        )
    if isinstance(source, str) and source == IN_MEMORY:
        rule = "was an array in memory and cannot be loaded again"
        raise invalid("own data", rule, IN_MEMORY, "Pass the array: load(array, ...).")
    return _own(source, rest)


def _perturbed(source: Any, options: dict[str, Any]) -> Dataset:
    """What `unbraid perturb` wrote to a folder."""
    from unbraid.data.perturbed.dataset import Perturbed

    if options:
        remedy = "Give them to `unbraid perturb`."
        raise invalid(
            "perturbed data", "takes no options but its folder", Shown(", ".join(options)), remedy
        )
    return Perturbed(source)


def _subset(options: dict[str, Any]) -> Dataset:
    """Part of another dataset."""
    from unbraid.data.subset import load_subset

    check_option_names("subset", load_subset, options)
    return load_subset(**options)
