# SPDX-License-Identifier: Apache-2.0
"""Records become objects here: every field is there, of its type and in its range, or is named.

A file can be whole and still be of another version, or written by hand. What is wrong with it is
found when it is opened, so that nothing behind need ask again.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from unbraid.core.errors import (
    DamagedFileError,
    InputError,
    Problem,
    Shown,
    UnreadableRecordError,
    invalid,
)
from unbraid.core.store import read_json

_Made = TypeVar("_Made")
_DEEPEST = 20
_SHOWN = 60


def read_object(
    path: Path, what: str, build: Callable[[dict[str, Any]], _Made], remedy: str
) -> _Made:
    """What *build* makes of the record at *path*; *remedy* is what to do where it is damaged, or is
    not *what* this version can read.
    """
    try:
        record = read_json(path)
    except DamagedFileError as error:
        raise DamagedFileError(f"{error} {remedy}") from error
    return build_object(path, what, lambda: build(record), remedy)


def build_object(path: Path, what: str, build: Callable[[], _Made], remedy: str) -> _Made:
    """What *build* makes of what the file at *path* says."""
    try:
        return build()
    except InputError as error:
        problem = error.problems[0]
        sentence = f"{path} is not {what} this version can read: {problem.text}"
        raise UnreadableRecordError(
            dataclasses.replace(problem, sentence=sentence, remedy=problem.remedy or remedy)
        ) from error


def from_record(cls: type[_Made], record: object, name: str = "", /, **made: Any) -> _Made:
    """*record* as a dataclass *cls*, field by field; *made* are fields that are objects already.

    *name* is that of the record in a larger one. A field that has a default may be left out.
    """
    if not isinstance(record, Mapping):
        raise _wrong(name or "the record", "must be a record of fields", record)
    hints, values = _hints(cls), dict(made)
    for field in dataclasses.fields(cls):  # pyright: ignore[reportArgumentType]
        if field.name in made:
            continue
        place = f"{name}.{field.name}" if name else field.name
        if field.name in record:
            values[field.name] = checked(hints[field.name], record[field.name], place)
        elif (field.default, field.default_factory) == (dataclasses.MISSING,) * 2:
            raise invalid(place, "must be there", Shown("a record without it"))
    if more := sorted(record.keys() - values.keys()):
        place = f"{name}.{more[0]}" if name else more[0]
        raise invalid(place, "must be a field that is known", Shown("another"))
    return cls(**values)


@functools.cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def checked(hint: Any, value: Any, name: str) -> Any:
    """*value* as what *hint* says: JSON's lists become tuples, its objects dataclasses."""
    if hint is Any:
        _check_depth(value, name)
        return value
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_record(hint, value, name)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return _one_of(typing.get_args(hint), value, name)
    if typing.get_origin(hint) in (tuple, list, dict):
        return _several(hint, value, name)
    if hint is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not abs(value) < math.inf:
            raise _wrong(name, "must be a finite number", value)
        return value
    if (hint is int and isinstance(value, bool)) or not isinstance(value, hint):
        raise _wrong(name, f"must be {_WORDS[hint]}", value)
    return value


_WORDS: dict[Any, str] = {
    int: "a whole number",
    str: "text",
    bool: "true or false",
    type(None): "nothing",
}


def _one_of(hints: tuple[Any, ...], value: Any, name: str) -> Any:
    """*value* as the first of *hints* that it can be."""
    if value is None and type(None) in hints:
        return None
    kinds = [hint for hint in hints if hint is not type(None)]
    for hint in kinds[:-1]:
        try:
            return checked(hint, value, name)
        except InputError:
            continue
    return checked(kinds[-1], value, name)


def _several(hint: Any, value: Any, name: str) -> Any:
    """A list or a dictionary, each of its values checked."""
    kind, arguments = typing.get_origin(hint), typing.get_args(hint)
    if kind is dict:
        if not isinstance(value, Mapping):
            raise _wrong(name, "must be a record of fields", value)
        return {key: checked(arguments[1], one, f"{name}.{key}") for key, one in value.items()}
    if not isinstance(value, (list, tuple)):
        raise _wrong(name, "must be a list", value)
    if kind is tuple and arguments[-1] is not ...:
        if len(value) != len(arguments):
            raise _wrong(name, f"must be a list of {len(arguments)}", value)
        hints = arguments
    else:
        hints = arguments[:1] * len(value)
    found = (
        checked(one, part, f"{name}[{at}]")
        for at, (one, part) in enumerate(zip(hints, value, strict=True))
    )
    return kind(found)


def _check_depth(value: Any, name: str, depth: int = 0) -> None:
    """Refuse what is nested deeper than anything of ours, before something recurses into it."""
    if depth > _DEEPEST:
        raise invalid(name, f"must be nested at most {_DEEPEST} deep", Shown("more"))
    inside = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, (Mapping, list, tuple)):
        for one in inside:
            _check_depth(one, name, depth + 1)


def _wrong(name: str, rule: str, value: object) -> InputError:
    text = repr(value)
    return InputError(
        Problem(name, rule, Shown(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."))
    )


def in_range(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Refuse a number of a record that lies outside what was ever written."""
    if not least <= value <= most:
        span = f"at least {least:g}" if most == math.inf else f"in {least:g}..{most:g}"
        raise invalid(name, f"must be {span}", value)
