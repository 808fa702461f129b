# SPDX-License-Identifier: Apache-2.0
"""How a command declares its parameters.

A command is a function of `commands/<verb>.py` whose parameters are `Annotated` with an `Option`:
its type, its default and its help text are written once. From them `command` makes the docstring,
`commands/command_line.py` the command line, and `tools/` the docs. Parameters before the `*` are
arguments of the command line, the others are flags.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from unbraid.core.errors import InputError, flag, unknown
from unbraid.core.folders import given_path
from unbraid.core.spelling import as_number, as_numbers

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """What a parameter means, for Python, the command line and the docs."""

    help: str
    kind: str = ""
    """How its value is written on the command line; by default as its type says."""
    cli: bool = True
    """False for what only Python can give."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a command."""

    name: str
    option: Option
    kind: str
    default: Any
    argument: bool

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def cli(self) -> bool:
        """Whether the command line has it."""
        return self.option.cli

    @property
    def many(self) -> bool:
        """Whether it is an argument that may be given several times."""
        return self.argument and self.kind == "LIST"

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        if self.argument:
            shown = self.name.upper() + "..." * self.many
            return shown if self.required else f"[{shown}]"
        shown = flag(self.name)
        if self.kind:
            return f"{shown} {self.kind}"
        return f"{shown} / --no-{shown[2:]}" if self.default is True else shown

    @property
    def usual(self) -> str:
        """The default as it would be typed; empty where there is none to show."""
        if self.required or not self.kind or self.default in (None, "", ()):
            return ""
        if isinstance(self.default, (list, tuple)):
            return ",".join(map(str, self.default))
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    @property
    def text(self) -> str:
        """The help text and the default."""
        return self.option.help + (f" [default: {self.usual}]" if self.usual else "")

    def as_given(self, value: Any) -> Any:
        """A *value* from Python as the function takes it: of a path ~ is the home."""
        # Where something else may be given, an array or a run, the kind is written out.
        other = self.option.kind and not isinstance(value, (str, os.PathLike))
        if self.kind != "PATH" or other or (value is None and not self.required):
            return value
        return given_path(self.name, value)

    def read(self, text: Any) -> Any:
        """The value that *text* on a command line stands for.

        What is not of the kind stays text, for whoever checks it to refuse by name.
        """
        if self.many:
            return list(text)
        if self.kind == "PATH":
            return given_path(self.name, text)
        return _READERS[self.kind](text)


_READERS: dict[str, Callable[[Any], Any]] = {
    "": lambda flag: flag,
    "TEXT": lambda text: text,
    "RANGE": lambda text: text,
    "NAMES": lambda text: text,
    "INTEGER": as_number,
    "FLOAT": as_number,
    "LIST": lambda text: as_numbers(text, always_list=text.endswith(",")),
}
"""Kinds of value by the word that a help text shows for them."""


@dataclass(frozen=True)
class Verb:
    """A command as its function declares it."""

    name: str
    function: Callable[..., Any] = field(repr=False)
    summary: str
    details: str
    parameters: tuple[Parameter, ...] = field(repr=False)

    @property
    def options(self) -> tuple[Parameter, ...]:
        """What the command line takes."""
        return tuple(one for one in self.parameters if one.cli)

    @property
    def objective(self) -> bool:
        """Whether hyperparameters of an objective are flags too."""
        return any(one.name == "hyper" for one in self.parameters)

    @property
    def search(self) -> bool:
        """Whether hyperparameters are ranges that evolve."""
        return any(one.kind == "RANGE" for one in self.parameters)


def command(function: _Function) -> _Function:
    """Make *function* a command: its parameters are described in its docstring."""
    summary, _, details = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
    verb = Verb(
        function.__name__,
        function,
        " ".join(summary.split()),
        details,
        tuple(_parameters(function)),
    )
    function.__doc__ = "\n\n".join(
        part for part in (verb.summary, details, _parameter_section(verb)) if part
    )
    known = {one.name: one for one in verb.parameters}

    @functools.wraps(function)
    def checked(*given: Any, **options: Any) -> Any:
        for name in options.keys() - known.keys():
            remedy = "Hyperparameters go into the objective, as in BetaVAE(beta=[1, 4])."
            told = remedy if verb.objective else ""
            raise InputError(unknown(f"parameter of {verb.name}", name, known, told))
        first = [one.as_given(value) for one, value in zip(verb.parameters, given, strict=False)]
        named = {name: known[name].as_given(value) for name, value in options.items()}
        return function(*first, *given[len(first) :], **named)

    setattr(checked, "verb", verb)  # noqa: B010
    return cast(_Function, checked)


def verb_of(function: Callable[..., Any]) -> Verb:
    """The declaration of a command."""
    return getattr(function, "verb")  # noqa: B009


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    names = vars(sys.modules[function.__module__])
    found = []
    for one in inspect.signature(function).parameters.values():
        # Not `get_type_hints`: types that would import torch are names in quotes, and stay so.
        given, option = typing.get_args(eval(one.annotation, dict(names)))
        kind = option.kind or _kind(given)
        argument = one.kind is one.POSITIONAL_OR_KEYWORD
        found.append(Parameter(one.name, option, kind, one.default, argument))
    return found


def _kind(hint: Any) -> str:
    """How values of a type are written: "" for a flag."""
    parts = typing.get_args(hint) if _is_union(hint) else (hint,)
    lists = [part for part in parts if typing.get_origin(part) is Sequence]
    if lists:
        return "NAMES" if typing.get_args(lists[0]) == (str,) else "LIST"
    for part, kind in ((bool, ""), (Path, "PATH"), (int, "INTEGER"), (float, "FLOAT")):
        if part in parts:
            return kind
    return "TEXT"


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _parameter_section(verb: Verb) -> str:
    """The parameters for `help`, each with its meaning and its default."""
    lines = ["Parameters:"]
    for one in verb.parameters:
        usual = "" if one.required or one.default is None else f" [default: {one.default!r}]"
        lines += textwrap.wrap(
            f"{one.name}: {one.option.help}{usual}",
            96,
            initial_indent="    ",
            subsequent_indent="        ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)
