# SPDX-License-Identifier: Apache-2.0
"""Hyperparameters: fields of frozen dataclasses, checked, expanded into sweeps and stacked.

A field holds a value; a list is a sweep, which a plan expands into one object per member. In
training the members of one chunk are stacked: the same dataclass, whose numbers are tensors
`(members,)`. A number may also be a schedule (`objectives/schedule.py`): `at(step)` then gives the
object with the numbers of that step.

Four kinds of field, each with a type: `number` (`Number`), stacked; `count` (`Count`), a whole
number that shapes depend on; `choice` (`Choice`), a word; `vector` (`Vector`), numbers that belong
together. Members whose counts or choices differ are of different kinds.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
import re
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from unbraid.core.checks import plain
from unbraid.core.errors import Problem, Problems, Shown, invalid, unknown
from unbraid.core.registry import Registry, home
from unbraid.objectives.schedule import Schedule, ScheduledNumber, number_at, stacked_number

Read = TypeVar("Read", covariant=True)
Given = TypeVar("Given", contravariant=True)


class Hyper(Generic[Read, Given]):
    """The type of a field that is given as one value or a list of them, and read as one.

    Only for type checkers: `BetaVAE(beta=[1, 4])` and `self.beta * kl` both pass.
    """

    if TYPE_CHECKING:

        def __get__(self, instance: object, owner: Any = None) -> Read: ...

        def __set__(
            self, instance: object, value: Given | Sequence[Given] | NDArray[Any]
        ) -> None: ...


Number = Hyper[float | Tensor, float | str | Schedule | Tensor]
"""A float, or in training a tensor `(members,)`; given as numbers, schedules or their spelling."""
Count = Hyper[int, int]
Choice = Hyper[str, str]
Vector = Hyper[tuple[float, ...] | Tensor | str, float | str | Sequence[float]]

_LARGEST = 3.4e38
"""Of float32, to which numbers are stacked: what is beyond would be infinite there."""


def number(
    default: float,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    whole: bool = False,
    per_latent: bool = False,
) -> Any:
    """A numeric hyperparameter with its allowed range, from which checks and options derive.

    *per_latent* marks the weight of a sum over latents, which papers that average over latents and
    pixels state otherwise.
    """
    rules = {"at_least": at_least, "above": above, "at_most": at_most, "whole": whole}
    return field(
        default=default,
        metadata={"kind": "number", "help": help, "per_latent": per_latent, **rules},
    )


def count(default: int, help: str, *, at_least: int = 1, at_most: int | None = None) -> Any:
    """A whole number that shapes depend on: members that differ in it are of different kinds."""
    rules = {"at_least": at_least, "above": None, "at_most": at_most, "whole": True}
    return field(default=default, metadata={"kind": "count", "help": help, **rules})


def choice(default: str, help: str, options: Sequence[str]) -> Any:
    """One word of several."""
    return field(
        default=default, metadata={"kind": "choice", "help": help, "options": tuple(options)}
    )


def vector(
    help: str, *, default: Any = (), above: float | None = None, words: Sequence[str] = ()
) -> Any:
    """Numbers that belong together: a tuple, or text with slashes (`4/2/1`).

    *words* are names that may stand for the numbers until a plan, which knows the data, puts
    numbers in their place.
    """
    rules = {"at_least": None, "above": above, "at_most": None, "whole": False}
    return field(
        default=default, metadata={"kind": "vector", "help": help, "words": tuple(words), **rules}
    )


@dataclass(frozen=True)
class Configured(ABC):
    """Something chosen by a name and hyperparameters: an objective, a prior, a supervision."""

    registry: ClassVar[Registry]

    def __post_init__(self) -> None:
        """Check every field against its rules; a list is a sweep and stored as a tuple."""
        problems = Problems()
        for item in dataclasses.fields(self):
            if "kind" not in item.metadata:
                continue
            value = plain(getattr(self, item.name))
            several = _is_sweep(item, value)
            values = tuple(value) if several else (value,)
            if not values:
                problems.add(f"{self.key}: {item.name}", "needs at least one value", value)
            checked = [_checked(f"{self.key}: {item.name}", item, one, problems) for one in values]
            object.__setattr__(self, item.name, tuple(checked) if several else checked[0])
        problems.raise_if_any()

    @property
    def key(self) -> str:
        """The registered name; that of the file for a class that is not registered."""
        own = home(type(self))
        found = [
            name
            for table in (self.registry.built_in, self.registry)
            for name, target in table.items()
            if target == own
        ]
        return found[0] if found else type(self).__module__.rpartition(".")[2]

    def hyper(self) -> dict[str, Any]:
        """Names and values of the hyperparameters; schedules as they are spelled, in sweeps too."""
        return {item.name: _spelled(getattr(self, item.name)) for item in dataclasses.fields(self)}

    def remarks(self, steps: int) -> list[str]:
        """What a person should know of *steps* updates: schedules that do not come to an end."""
        found = []
        for name, value in vars(self).items():
            if isinstance(value, Schedule) and not value.ends_within(steps):
                reached = f"{name} is {value.value(steps):g} after {steps:,} steps"
                found.append(f"{self.key}: {reached}, where {value} would go on to {value.end:g}")
        return found

    def sweep(self) -> list[Self]:
        """One object for each combination of the lists among the fields, the last field fastest."""
        values = [_swept(item, getattr(self, item.name)) for item in dataclasses.fields(self)]
        names = [item.name for item in dataclasses.fields(self)]
        return [
            type(self)(**dict(zip(names, combination, strict=True)))
            for combination in itertools.product(*values)
        ]

    def at(self, step: Tensor) -> Self:
        """A stacked object with the numbers of *step*, a 0-d tensor; itself without schedules."""
        if not any(isinstance(value, ScheduledNumber) for value in vars(self).values()):
            return self
        now = object.__new__(type(self))
        for name, value in vars(self).items():
            object.__setattr__(now, name, number_at(value, step))
        return now


Kind = TypeVar("Kind", bound=Configured)


def stack(
    objects: Sequence[Kind], device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Kind:
    """One object for all members of a chunk: numbers become tensors, other fields must agree."""
    first = objects[0]
    stacked = object.__new__(type(first))
    for item in dataclasses.fields(first):
        values = [getattr(one, item.name) for one in objects]
        if is_number(item):
            object.__setattr__(stacked, item.name, stacked_number(values, device, dtype))
        elif item.metadata.get("kind") == "vector":
            if len({len(value) for value in values}) > 1:
                raise invalid(item.name, "must have one length within a kind", values)
            object.__setattr__(stacked, item.name, torch.tensor(values, dtype=dtype, device=device))
        elif any(value != values[0] for value in values):
            raise invalid(item.name, "must agree within a kind", values)
        else:
            object.__setattr__(stacked, item.name, values[0])
    return stacked


def structure(one: Configured) -> tuple[Any, ...]:
    """What must agree for objects to be stacked: class, fields but numbers, length of vectors."""
    fixed = []
    for item in dataclasses.fields(one):
        value = getattr(one, item.name)
        if not is_number(item):
            fixed.append(
                len(value)
                if item.metadata.get("kind") == "vector" and not isinstance(value, str)
                else value
            )
    return (type(one), *fixed)


def is_number(item: dataclasses.Field[Any]) -> bool:
    """Whether a field is stacked into a tensor `(members,)`."""
    return item.metadata.get("kind") == "number"


def _spelled(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_spelled(one) for one in value)
    return str(value) if isinstance(value, Schedule) else value


def _is_sweep(item: dataclasses.Field[Any], value: Any) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    # A flat list is one vector; a list of vectors, or of words for them, is a sweep.
    return item.metadata["kind"] != "vector" or any(
        isinstance(one, (list, tuple, str)) for one in value
    )


def _swept(item: dataclasses.Field[Any], value: Any) -> tuple[Any, ...]:
    return tuple(value) if "kind" in item.metadata and _is_sweep(item, value) else (value,)


def _checked(name: str, item: dataclasses.Field[Any], value: Any, problems: Problems) -> Any:
    """*value* as the field's kind of value, with what is wrong with it added to *problems*."""
    rules = item.metadata
    if rules["kind"] == "choice":
        return _checked_choice(name, rules["options"], value, problems)
    if rules["kind"] == "vector":
        return _checked_vector(name, rules, value, problems)
    if isinstance(value, str) and Schedule.looks_like(value):
        spelled = value
        value = problems.collect(lambda: Schedule.parse(spelled, name))
        if value is None:
            return spelled
    if not isinstance(value, Schedule):
        return _checked_number(name, rules, value, problems)
    if rules["whole"]:
        problems.add(name, "cannot be on a schedule", Shown(str(value)), "Give a whole number.")
        return value
    for end in (value.start, value.end):
        _checked_number(name, rules, end, problems)
    return value


def _checked_choice(name: str, options: tuple[str, ...], value: Any, problems: Problems) -> Any:
    word = value.replace("-", "_") if isinstance(value, str) else value
    if word not in options:
        problems.say(
            unknown(name, value, options)
            if isinstance(value, str)
            else Problem(name, f"must be one of {', '.join(options)}", value)
        )
    return word


def _checked_vector(name: str, rules: Any, value: Any, problems: Problems) -> Any:
    if isinstance(value, str) and value in rules["words"]:
        return value
    if isinstance(value, str):
        parts = [part for part in re.split(r"[/,\s]+", value.strip()) if part]
        try:
            value = tuple(float(part) for part in parts)
        except ValueError:
            words = f", or {', '.join(rules['words'])}" if rules["words"] else ""
            problems.add(name, f"must be numbers with slashes between them{words}", value)
            return value
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        value = (value,)
    if not isinstance(value, (tuple, list)):
        problems.add(name, "must be numbers", value)
        return value
    return tuple(_checked_number(name, rules, one, problems) for one in value)


def _checked_number(name: str, rules: Any, value: Any, problems: Problems) -> Any:
    # numbers.Real counts NumPy's scalars in, which are not Python's int or float.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        problems.add(name, "must be a number", value)
        return value
    try:
        plain = float(value)
    except OverflowError:  # a whole number beyond the largest float
        plain = math.inf
    if not math.isfinite(plain):
        problems.add(name, "must be a finite number", value)
    elif abs(plain) > _LARGEST:
        problems.add(
            name,
            "must be at most 3.4e+38 in size, the largest number of training's precision",
            value,
        )
    elif rules["at_least"] is not None and plain < rules["at_least"]:
        problems.add(name, f"must be at least {rules['at_least']:g}", value)
    elif rules["above"] is not None and plain <= rules["above"]:
        problems.add(name, f"must be above {rules['above']:g}", value)
    elif rules["at_most"] is not None and plain > rules["at_most"]:
        problems.add(name, f"must be at most {rules['at_most']:g}", value)
    elif rules["whole"] and not plain.is_integer():
        problems.add(name, "must be a whole number", value)
    else:
        return int(plain) if rules["whole"] else plain
    return value
