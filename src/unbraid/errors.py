# SPDX-License-Identifier: Apache-2.0
"""What the user is told when something cannot be done: name, rule, value, remedy, all problems at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import TypeVar

_Made = TypeVar("_Made")


class UnbraidError(Exception):
    """Any failure that Unbraid foresees; the command line prints its text and nothing else."""


class StoppedError(UnbraidError):
    """Ctrl-C: what was done is kept, and the text says how to go on."""


class InputError(UnbraidError, ValueError):
    """The request cannot be carried out as written; nothing was written to disk. Exit code 2."""


class DamagedFileError(UnbraidError):
    """A file does not hold what its checksum promises. Exit code 1 when nothing can stand in for it."""


def problem(name: str, rule: str, value: object, remedy: str = "") -> str:
    """One line in the house form: *name* rule; got value. Remedy.

    >>> problem("beta", "must be at least 0", -1.0, "Use 0 for a plain autoencoder with noise.")
    'beta must be at least 0; got -1.0. Use 0 for a plain autoencoder with noise.'
    """
    shown = value if isinstance(value, Shown) else repr(value)
    line = f"{name} {rule}; got {shown}."
    return f"{line} {remedy}" if remedy else line


class Shown(str):
    """A value already worded for the reader, printed by `problem` without quotes."""

    __slots__ = ()


def unknown(kind: str, word: str, known: Iterable[str]) -> str:
    """Say that *word* is not one of *known*, with the nearest spelling.

    >>> unknown("dataset", "dsprite", ["dsprites", "pinwheel"])
    "dataset 'dsprite' is unknown; did you mean 'dsprites'? Known: dsprites, pinwheel."
    """
    names = sorted(known)
    lower = {name.lower(): name for name in names}
    near = [lower[match] for match in difflib.get_close_matches(str(word).lower(), lower, n=1, cutoff=0.5)]
    hint = f"; did you mean '{near[0]}'?" if near else "."
    return f"{kind} '{word}' is unknown{hint} Known: {', '.join(names)}."


class Problems:
    """Collects what is wrong with a request so that the user hears all of it at once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, name: str, rule: str, value: object, remedy: str = "") -> None:
        """Record one problem in the house form."""
        self.say(problem(name, rule, value, remedy))

    def say(self, line: str) -> None:
        """Record one problem already worded; the same line is kept once."""
        if line not in self.lines:
            self.lines.append(line)

    def collect(self, make: Callable[[], _Made]) -> _Made | None:
        """The result of *make*, or None with its complaint recorded."""
        try:
            return make()
        except InputError as error:
            for line in str(error).splitlines():
                self.say(line)
            return None

    def raise_if_any(self) -> None:
        """Raise one `InputError` holding every recorded line."""
        if self.lines:
            raise InputError("\n".join(self.lines))
