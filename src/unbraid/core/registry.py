# SPDX-License-Identifier: Apache-2.0
"""Lazy tables of what exists: a name, where it lives, nothing imported until it is asked for.

Other packages add to a table through entry points of the same name (`unbraid.objectives`,
`unbraid.networks`, `unbraid.priors`, `unbraid.metrics`, `unbraid.data`, `unbraid.studies`). A
script or notebook adds to it for as long as it runs:
`unbraid.networks.NETWORKS.register("my_network", MyNetwork)`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

from unbraid.core.errors import InputError, invalid, unknown


@dataclass(frozen=True)
class Citation:
    """Where a method was published."""

    authors: str
    year: int
    title: str
    where: str = ""

    def __str__(self) -> str:
        """Authors (year), title, place."""
        return f"{self.authors} ({self.year}). {self.title}." + (
            f" {self.where}." if self.where else ""
        )


class Registry(Mapping[str, str]):
    """A table `name -> "module:attribute"` with the entry points of outside packages behind it."""

    def __init__(
        self, kind: str, group: str, table: dict[str, str], base: str = "", *, objects: bool = False
    ) -> None:
        self.kind = kind
        self.group = group
        self.base = base
        """The class that every entry derives from, as "module:attribute"; anything callable where
        there is none.
        """
        self.objects = objects
        """Whether entries are objects of that class rather than classes."""
        self.built_in = dict(table)

    @cached_property
    def _outside(self) -> dict[str, str]:
        """What other packages offer; asked once, since asking reads many files."""
        return {point.name: point.value for point in entry_points(group=self.group)}

    @cached_property
    def _registered(self) -> dict[str, Any]:
        """What this process added, the objects themselves, since scripts cannot be imported."""
        return {}

    @cached_property
    def _all(self) -> dict[str, str]:
        own = {name: home(thing) for name, thing in self._registered.items()}
        return {**self._outside, **own, **self.built_in}

    def register(self, name: str, thing: Any) -> None:
        """Offer *thing*, a class, function or study of yours, as *name* until this process ends.

        Runs remember the name alone: whoever opens one in another process registers it there first.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise invalid(
                f"{self.kind} name", "must be a word of letters, digits and underscores", name
            )
        if name in self.built_in:
            rule = f"must not be that of a built-in {self.kind}"
            raise invalid(f"{self.kind} name", rule, name, "Choose another.")
        if name in self._outside:
            rule = f"must not be that of another package's {self.kind} ('{self._outside[name]}')"
            raise invalid(f"{self.kind} name", rule, name, "Choose another.")
        if self.objects:
            if not isinstance(thing, _load(self.base)):
                rule = f"must be an object of {self.base.replace(':', '.')}"
                raise invalid(f"{self.kind} '{name}'", rule, thing)
        elif not callable(thing) or not hasattr(thing, "__qualname__"):
            rule = "must be a class or a function"
            raise invalid(f"{self.kind} '{name}'", rule, thing, "Give the class itself.")
        elif self.base and not (isinstance(thing, type) and issubclass(thing, _load(self.base))):
            rule = f"must be a class derived from {self.base.replace(':', '.')}"
            raise invalid(f"{self.kind} '{name}'", rule, thing)
        self._registered[name] = thing
        self.__dict__.pop("_all", None)  # made again with the newcomer

    def registered_here(self, name: str) -> bool:
        """Whether this process added *name*, which other processes then do not know."""
        return name not in self.built_in and name in self._registered

    def __getitem__(self, name: str) -> str:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def load(self, name: str) -> Any:
        """Import and return the object behind *name*; an unknown name is refused."""
        if name in self.built_in:
            return _load(self.built_in[name])
        if name in self._registered:
            return self._registered[name]
        target = self._outside.get(name)
        if target is None:
            raise InputError(unknown(self.kind, name, self))
        try:
            return _load(target)
        except (ImportError, AttributeError) as error:
            message = (
                f"{self.kind} '{name}' is offered by another package as '{target}', which cannot be"
                f" loaded ({error})."
            )
            raise InputError(message) from error

    def recall(self, name: str) -> Any:
        """The same for a *name* that a run remembers, with a message of its own."""
        if name not in self:
            raise InputError(
                f"{self.kind} '{name}' of the run is unknown in this process; register it first, as"
                f" the program that trained it did: {self.kind.upper()}S.register('{name}', ...);"
                " or install the package that offers it."
            )
        return self.load(name)

    def attribute_home(self, attribute: str) -> str | None:
        """The name whose object is called *attribute* (`BetaVAE` -> `beta_vae`), if any."""
        for name, target in self.built_in.items():
            if target.partition(":")[2] == attribute:
                return name
        return None


def summary(thing: Any) -> str:
    """The first paragraph of a docstring in one line: what lists, docs and pages say of *thing*."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def home(thing: Any) -> str:
    """Where a class or function lives, as the tables write it: "module:attribute".

    Of any other object it is where its class lives.
    """
    known = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{known.__module__}:{known.__qualname__}"


def _load(target: str) -> Any:
    """The object behind "module:attribute"."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
