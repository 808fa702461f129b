# SPDX-License-Identifier: Apache-2.0
"""From words on a command line to values: numbers, lists, `name:key=value` and options that belong to an objective."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from unbraid.errors import InputError, Shown, problem


def split_list(text: str) -> list[str]:
    """`"a,b"` -> `["a", "b"]`; empty parts are dropped."""
    return [part.strip() for part in text.split(",") if part.strip()]


def as_number(text: str) -> Any:
    """An int where the text is one, else a float, else the text itself, for whoever checks it to refuse by name."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def as_numbers(text: str, *, always_list: bool = False) -> Any:
    """A number, or a list of numbers where there are commas."""
    values = [as_number(part) for part in split_list(text)]
    return values if always_list or len(values) != 1 else values[0]


def as_source(text: str) -> tuple[str, dict[str, str]]:
    """`"sprites:x=16,y=8"` -> `("sprites", {"x": "16", "y": "8"})`; a path that exists is taken whole."""
    if os.path.exists(text) or ":" not in text:
        return text, {}
    name, _, rest = text.rpartition(":")
    options = {}
    for part in split_list(rest):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InputError(problem(f"option of {name}", "must be written key=value", part, f"For example {name}:key=3."))
        options[key.strip()] = value.strip()
    return name, options


def parse_extra_options(words: Sequence[str], objectives: Sequence[str]) -> dict[str, Any]:
    """`["--beta", "1,4"]` or `["--beta=1,4"]` -> `{"beta": [1, 4]}`: the options that the objectives define."""
    options: dict[str, Any] = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--") or word == "--":
            raise InputError(
                problem("command line", "has a word too many", word, "Lists are written with commas and no blanks: --beta 1,4.")
            )
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not waiting:
                known = f"Options of {', '.join(objectives)}: unbraid list objectives."
                raise InputError(problem(f"option --{name}", "needs a value", Shown("nothing"), known))
            value = waiting.pop(0)
        options[name.replace("-", "_")] = as_numbers(value)
    return options
