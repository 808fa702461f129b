# SPDX-License-Identifier: Apache-2.0
"""`load`: one door to every dataset, by registered name, by path or from an array."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.arrays import to_numpy
from unbraid.core.checks import check_option_names
from unbraid.core.errors import InputError, Shown, invalid, unknown
from unbraid.core.files import cannot_be_read
from unbraid.core.folders import given_path, whole_path
from unbraid.data import DATA
from unbraid.data.dataset import IN_MEMORY, Dataset

_MADE_FROM_OTHERS = ("own", "perturbed", "subset", "with_s")
"""Names that need other data, and so stand in no list of datasets."""


def load(source: str | os.PathLike[str] | NDArray[Any], /, **options: Any) -> Dataset:
    """The dataset of *source*: a registered name, the path of a folder or file, or an array, which
    may be a torch tensor.

    A folder may hold images, or data that `unbraid perturb` wrote. The name "subset" with `of`,
    `of_options` and `indices`, the path of an .npy, gives part of another dataset; "with_s" with
    `of` and `epsilon` gives another one an independent factor s, seen in a faint pattern alone.

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
        check_option_names("subset", _subset, options)
        return _subset(**options)
    if name == "with_s":
        from unbraid.data.perturbed.with_s import WithS

        check_option_names("with_s", WithS, options)
        return WithS(**options)
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

    perturbed = isinstance(source, (str, os.PathLike)) and _is_perturbed(source)
    if isinstance(source, np.ndarray) or hasattr(source, "detach"):  # tensors of torch too
        array: Any = source
        source = to_numpy(array, "data")
    elif not isinstance(source, (str, os.PathLike)):
        remedy = "Use numpy.asarray for other kinds of arrays."
        rule = "must be a registered name, a path, a numpy array or a torch tensor"
        raise invalid("data", rule, Shown(type(source).__name__), remedy)
    if perturbed:
        return _perturbed(source, options)
    check_option_names("image data", OwnImages, options, positional="source")
    return OwnImages(source, **options)


def _is_perturbed(source: str | os.PathLike[str]) -> bool:
    """Whether a path that must exist, and that can be looked into, holds perturbed data."""
    from unbraid.data.perturbed.folder import is_perturbed

    path = given_path("data", source)
    try:
        if path.exists():
            return is_perturbed(path)
    except OSError as error:
        raise InputError(cannot_be_read(path, error)) from error
    rule, value = "must be an existing folder or file", Shown(f"'{source}', which does not exist")
    raise invalid("data", rule, value, "Put it there, or correct the path.")


def _again(options: dict[str, Any]) -> Dataset:
    """Own data by the options it was saved with."""
    rest = dict(options)
    source = rest.pop("source", None)
    if source is None:
        remedy = "Give the path or the array itself to load."
        raise invalid("own data", "needs its source", Shown("none"), remedy)
    if isinstance(source, str) and source == IN_MEMORY:
        rule = "was an array in memory and cannot be loaded again"
        raise invalid("own data", rule, IN_MEMORY, "Pass the array: load(array, ...).")
    return _own(source, rest)


def _perturbed(source: Any, options: dict[str, Any]) -> Dataset:
    """What `unbraid perturb` wrote to a folder."""
    from unbraid.data.perturbed.dataset import Perturbed
    from unbraid.data.perturbed.folder import read_record

    if options:
        rule, remedy = "takes no options but its folder", "Give them to `unbraid perturb`."
        raise invalid("perturbed data", rule, Shown(", ".join(options)), remedy)
    if not isinstance(source, (str, os.PathLike)) or not str(source):
        raise invalid("source", "must be a folder made by `unbraid perturb`", source)
    folder = whole_path("data", source)
    original = read_record(folder)["base"]
    try:
        base = load(original["name"], **original["options"])
    except InputError as error:
        raise InputError(f"the original data of {folder} cannot be opened: {error}") from error
    return Perturbed(folder, base)


def _subset(
    of: str | os.PathLike[str] | None = None,
    of_options: dict[str, Any] | None = None,
    indices: str | os.PathLike[str] | ArrayLike | None = None,
) -> Dataset:
    """Part of another dataset."""
    from unbraid.data.subset import Subset

    if of is None:
        remedy = (
            "Name the dataset it is part of, as in load('subset', of='dsprites',"
            " indices='some.npy')."
        )
        raise invalid("subset", "needs of=", Shown("none"), remedy)
    if indices is None:
        remedy = "Give the path of an .npy of whole numbers."
        raise invalid("subset", "needs indices=", Shown("none"), remedy)
    if of_options is not None and not isinstance(of_options, dict):
        rule = "must be a dictionary of the other dataset's options"
        raise invalid("of_options", rule, of_options, "For example of_options={'spacing': 3}.")
    if isinstance(indices, str) and indices == IN_MEMORY:
        rule = "were an array in memory and cannot be loaded again"
        remedy = (
            "Pass the dataset itself, data=Subset(base, indices), or save the indices with"
            " numpy.save."
        )
        raise invalid("subset indices", rule, indices, remedy)
    return Subset(load(of, **(of_options or {})), indices)
