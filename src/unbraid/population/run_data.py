# SPDX-License-Identifier: Apache-2.0
"""The data of a run, made again from its plan wherever they lie now, and checked to be the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from unbraid.core.errors import InputError, Shown, invalid
from unbraid.data import load
from unbraid.data.dataset import IN_MEMORY, Dataset
from unbraid.population.plan import Plan

_PLACES = ("source", "factors", "indices")
"""Options of data that say where it was read from."""
_ABOVE = 4
"""A search of a leaf-run lies so deep in a discovery."""
MOVED = (
    "Put it back; or, where it was moved, give its new place with {data=NEW_PLACE}: options that it"
    " had, such as resize, need not be repeated."
)
"""What to do where data is not found, or is other data."""


@contextmanager
def data_of(folder: Path, source: str = "") -> Iterator[None]:
    """Data that cannot be opened in this block is that of *folder*, which nobody named now: say
    whose it is, where it lay, in words, and what to do if it was moved.
    """
    try:
        yield
    except InputError as error:
        told = f"the data of {folder} cannot be opened{source}: "
        found = [replace(one, sentence=told + one.text, remedy=MOVED) for one in error.problems]
        raise InputError(*found) from error


def data_again(plan: Plan, folder: Path) -> Dataset:
    """The data of the run in *folder*, checked against the fingerprint in its *plan*."""
    if plan.data_options.get("source") == IN_MEMORY:
        raise InputError(
            f"{folder} was trained on an array in memory; pass it again, loaded as it"
            f" was: unbraid.open_run('{folder}', data=unbraid.load(array, ...))."
        )
    with data_of(folder, _read_from(plan)):
        found = load(plan.data, **_as_they_lie(plan.data_options, folder))
    return same_data(found, plan, folder)


def same_data(dataset: Dataset, plan: Plan, folder: Path) -> Dataset:
    """*dataset*, refused where it is not what the run in *folder* began with."""
    if dataset.fingerprint() != plan.data_fingerprint:
        rule = f"must be what {folder} began with, to the last pixel and label"
        where = dataset.options.get("source", dataset.name)
        raise invalid("data", rule, Shown(f"other data in '{where}'"), MOVED)
    return dataset


def _as_they_lie(options: dict[str, Any], run: Path) -> dict[str, Any]:
    """Options of data with the places of files that were moved along with the run's folder or one
    of those above it, as all of a discovery is; whether it is the same data is checked.
    """
    found = dict(options)
    for name in _PLACES:
        path = Path(str(options.get(name, "")))
        if path.is_absolute() and not path.exists():
            above = (folder / path.name for folder in run.absolute().parents[:_ABOVE])
            found[name] = str(next((one for one in above if one.is_file()), path))
    if isinstance(inner := options.get("of_options"), dict):
        found["of_options"] = _as_they_lie(inner, run)
    return found


def _read_from(plan: Plan) -> str:
    """Where the data lay when the run began, for messages."""
    files = [str(plan.data_options[name]) for name in _PLACES if name in plan.data_options]
    return f", from {' and '.join(files)}" if files else ""
