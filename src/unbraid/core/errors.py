# SPDX-License-Identifier: Apache-2.0
"""Errors as objects: a `Problem` has a name, a rule, a value and a remedy; an error carries all.

One problem is rendered twice: for Python with parameters, for the command line with flags. A remedy
names an option as `{latents=10}`, which reads `latents=10` in Python and `--latents 10` on the
command line of a command that has it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

_Made = TypeVar("_Made")
_QUOTES = "'\""
_OPTION = re.compile(r"\{(\w+)=([^{}]*)\}")
_LONGEST_VALUE, _LONGEST_SENTENCE = 400, 4000


class Shown(str):
    """A value already worded for the reader, printed by `Problem` without quotes."""

    __slots__ = ()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a request.

    >>> print(Problem("beta", "must be at least 0", -1.0, "Use {beta=0} for no KL term."))
    beta must be at least 0; got -1.0. Use beta=0 for no KL term.
    """

    name: str
    rule: str
    value: object = None
    remedy: str = ""
    sentence: str = ""
    """The whole text before the remedy, where "name rule; got value." would not read well."""

    @classmethod
    def of(cls, given: Problem | str) -> Problem:
        """*given*, or a problem that is only a sentence."""
        return given if isinstance(given, Problem) else cls("", "", sentence=given)

    @property
    def text(self) -> str:
        """What is wrong, without the remedy."""
        return self.sentence or f"{self.name} {self.rule}; got {self.shown}."

    @property
    def shown(self) -> str:
        """The value as messages print it."""
        return shortened(self.value if isinstance(self.value, Shown) else repr(self.value))

    def render(self, flags: Collection[str] | None = None) -> str:
        """The text: for Python, or for a command line whose options are *flags*."""
        name = flag(self.name) if flags is not None and self.name in flags else self.name
        text = self.sentence or f"{shortened(name)} {self.rule}; got {self.shown}."
        remedy = _OPTION.sub(lambda found: _option(found[1], found[2], flags or ()), self.remedy)
        return " ".join(shortened(one, _LONGEST_SENTENCE) for one in (text, remedy) if one)

    def __str__(self) -> str:
        """The text for Python."""
        return self.render()


def shortened(text: str, most: int = _LONGEST_VALUE) -> str:
    """*text* as it is, or both its ends where it has more characters than a screen should."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def flag(name: str) -> str:
    """A parameter as a flag: `batch_size` is --batch-size, `from_` is --from."""
    return "--" + name.rstrip("_").replace("_", "-")


def _option(name: str, value: str, flags: Collection[str]) -> str:
    """An option of a remedy, as the caller would write it."""
    if name not in flags:
        return f"{name}={value}" if value else name
    return flag(name) if value in ("", "True") else f"{flag(name)} {value.strip(_QUOTES)}"


class UnbraidError(Exception):
    """Any failure that Unbraid foresees; the command line prints its text and exits with 1."""

    def render(self, flags: Collection[str] | None = None) -> str:
        """The text, for Python or, with *flags*, for the command line."""
        return shortened(str(self), _LONGEST_SENTENCE)


class StoppedError(UnbraidError, KeyboardInterrupt):
    """Ctrl-C: what was done is kept, and the text says how to go on. Exit code 130."""


class InputError(UnbraidError, ValueError):
    """The request cannot be carried out as written; nothing was written to disk. Exit code 2."""

    def __init__(self, *problems: Problem | str) -> None:
        super().__init__(*problems)
        self.problems = tuple(Problem.of(one) for one in problems)

    def render(self, flags: Collection[str] | None = None) -> str:
        """A line for each problem."""
        return "\n".join(one.render(flags) for one in self.problems)

    def __str__(self) -> str:
        """A line for each problem, for Python."""
        return self.render()


def invalid(name: str, rule: str, value: object, remedy: str = "") -> InputError:
    """The error for a single problem, to be raised."""
    return InputError(Problem(name, rule, value, remedy))


class HeldError(InputError):
    """Another process works at what was asked for; it can be waited for."""


class DamagedFileError(UnbraidError):
    """A file does not hold what its checksum promises. Exit code 1 if nothing can replace it."""


class UnreadableRecordError(InputError, DamagedFileError):
    """A whole file says what this version cannot read: its problem is that of a field."""


def nearest(word: str, known: Iterable[str], least: float = 0.5) -> str | None:
    """The one of *known* that is spelled most like *word*, if any is *least* as alike."""
    lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(str(word).lower(), lower, n=1, cutoff=least)
    return lower[found[0]] if found else None


def unknown(kind: str, word: str, known: Iterable[str], remedy: str = "") -> Problem:
    """*word* is not one of *known*; the nearest spelling is offered.

    >>> print(unknown("dataset", "dsprite", ["dsprites", "pinwheel"]))
    dataset 'dsprite' is unknown; did you mean 'dsprites'? Known: dsprites, pinwheel.
    """
    names = sorted(known)
    near = nearest(word, names)
    told = shortened(str(word))
    sentence = f"{kind} '{told}' is unknown" + (f"; did you mean '{near}'?" if near else ".")
    return Problem(
        kind, "is unknown", word, f"Known: {', '.join(names)}. {remedy}".rstrip(), sentence
    )


class Problems:
    """Collects what is wrong with a request so that the user hears all of it at once."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, name: str, rule: str, value: object, remedy: str = "") -> None:
        """Record one problem."""
        self.say(Problem(name, rule, value, remedy))

    def say(self, problem: Problem | str) -> None:
        """Record one problem, an object or a sentence; the same one is kept once."""
        one = Problem.of(problem)
        if str(one) not in map(str, self.found):
            self.found.append(one)

    def collect(self, make: Callable[[], _Made]) -> _Made | None:
        """The result of *make*, or None with its complaint recorded."""
        try:
            return make()
        except InputError as error:
            for problem in error.problems:
                self.say(problem)
            return None

    def raise_if_any(self) -> None:
        """Raise one `InputError` with every recorded problem."""
        if self.found:
            raise InputError(*self.found)
