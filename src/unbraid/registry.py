# SPDX-License-Identifier: Apache-2.0
"""Lazy tables of what exists: a name, where it lives, nothing imported until it is asked for.

Other packages add to a table through entry points of the same name (`unbraid.objectives`, `unbraid.metrics`,
`unbraid.data`, `unbraid.studies`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

from unbraid.errors import InputError, unknown


@dataclass(frozen=True)
class Citation:
    """Where a method was published."""

    authors: str
    year: int
    title: str
    where: str = ""

    def __str__(self) -> str:
        """Authors (year), title, place."""
        return f"{self.authors} ({self.year}). {self.title}." + (f" {self.where}." if self.where else "")


class Registry(Mapping[str, str]):
    """A table `name -> "module:attribute"` with the entry points of outside packages behind it."""

    def __init__(self, kind: str, group: str, table: dict[str, str]) -> None:
        self.kind = kind
        self.group = group
        self.built_in = dict(table)

    @cached_property
    def _outside(self) -> dict[str, str]:
        """What other packages offer; asked once, since asking reads a file of every package installed."""
        return {point.name: point.value for point in entry_points(group=self.group)}

    @cached_property
    def _all(self) -> dict[str, str]:
        return {**self._outside, **self.built_in}

    def __getitem__(self, name: str) -> str:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def load(self, name: str) -> Any:
        """Import and return the object behind *name*; an unknown name is an `InputError` with a suggestion."""
        if name in self.built_in:
            return _load(self.built_in[name])
        target = self._outside.get(name)
        if target is None:
            raise InputError(unknown(self.kind, name, self))
        try:
            return _load(target)
        except (ImportError, AttributeError) as error:
            message = f"{self.kind} '{name}' is offered by another package as '{target}', which cannot be loaded ({error})."
            raise InputError(message) from error

    def attribute_home(self, attribute: str) -> str | None:
        """The registered name whose object is called *attribute* (`BetaVAE` -> `beta_vae`), if any."""
        for name, target in self.built_in.items():
            if target.partition(":")[2] == attribute:
                return name
        return None


def _load(target: str) -> Any:
    """The object behind "module:attribute"."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
