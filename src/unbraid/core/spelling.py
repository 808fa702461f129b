# SPDX-License-Identifier: Apache-2.0
"""From words on a command line to values: numbers, lists, `name:key=value` and options that belong
to an objective.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from unbraid.core.errors import Shown, invalid

_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}


def split_list(text: str) -> list[str]:
    """`"a,b"` -> `["a", "b"]`; empty parts are dropped, and commas in parentheses do not split.

    >>> split_list("1, linear(0, 4, 1000)")
    ['1', 'linear(0, 4, 1000)']
    """
    parts = re.split(r",(?![^()]*\))", text)
    return [part.strip() for part in parts if part.strip()]


def split_names(text: str) -> list[str]:
    """Like `split_list`, but options stay with their name: `"mig,dci:backend=sklearn,seed=1,sap"`
    has three parts.

    >>> split_names("mig,dci:backend=sklearn,seed=1,sap")
    ['mig', 'dci:backend=sklearn,seed=1', 'sap']
    >>> split_names("isotropic,anisotropic:variances=4,2,1")
    ['isotropic', 'anisotropic:variances=4,2,1']
    """
    names: list[str] = []
    for part in split_list(text):
        option = "=" in part and ":" not in part
        # A bare number goes on with the list before it: no metric and no prior is called 0.5.
        if names and ":" in names[-1] and (option or isinstance(as_number(part), (int, float))):
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def as_number(text: str) -> Any:
    """An int where the text is one, else a float, else the text itself, for whoever checks it to
    refuse by name.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if "e" in text.lower() and number.is_integer() else number


def as_numbers(text: str, *, always_list: bool = False) -> Any:
    """A number, or a list of numbers where there are commas."""
    values = [as_number(part) for part in split_list(text)]
    return values if always_list or len(values) != 1 else values[0]


def as_value(text: str) -> Any:
    """A number, true, false or null, a list of them where there are commas, or the text itself.

    >>> as_value("5"), as_value("True"), as_value("tripod"), as_value("10,100")
    (5, True, 'tripod', [10, 100])
    """
    values = [_CONSTANTS.get(part.lower(), as_number(part)) for part in split_list(text)]
    return values if len(values) > 1 else values[0] if values else text


def as_source(text: str) -> tuple[str, dict[str, str]]:
    """`name_and_options` of a dataset, where a path that exists is taken whole."""
    return (text, {}) if os.path.exists(text) else name_and_options(text)


def name_and_options(text: str) -> tuple[str, dict[str, str]]:
    """`"sprites:x=16,y=8"` -> `("sprites", {"x": "16", "y": "8"})`.

    Options begin at the first colon with a `key=` behind it; a part without `=` belongs to the
    value before it, so that values may be lists: `own.npz:factor_names=shape,size`.
    """
    begin = re.search(r":(?=\s*[A-Za-z_]\w*\s*=)", text)
    if begin is None:
        name, _, rest = text.rpartition(":")
        if name and "/" not in rest and "\\" not in rest:
            return _without_options(name, rest)
        return text, {}
    options: dict[str, str] = {}
    for part in split_list(text[begin.end() :]):
        key, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", key.strip()):
            last = key.strip()
            options[last] = value.strip()
        else:
            options[last] += f",{part}"
    return text[: begin.start()], options


def _without_options(name: str, rest: str) -> tuple[str, dict[str, str]]:
    """What follows a colon without being `key=value`: nothing, or a mistake."""
    if rest.strip(" ,"):
        raise invalid(
            f"option of {name}", "must be written key=value", rest, f"For example {name}:key=3."
        )
    return name, {}


def parse_extra_options(words: Sequence[str], objectives: Sequence[str]) -> dict[str, Any]:
    """`["--beta", "1,4"]` or `["--beta=1,4"]` -> `{"beta": [1, 4]}`: the options that the
    objectives define.
    """
    options: dict[str, Any] = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--") or word == "--":
            raise invalid(
                "command line",
                "has a word too many",
                word,
                "Lists are written with commas and no blanks: --beta 1,4.",
            )
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not waiting:
                known = f"Options of {', '.join(objectives)}: unbraid list objectives."
                raise invalid(f"option --{name}", "needs a value", Shown("nothing"), known)
            value = waiting.pop(0)
        key = name.replace("-", "_")
        if key in options:
            raise invalid(
                f"option --{name}",
                "may be given once",
                Shown("twice"),
                f"For a sweep write --{name} 1,4.",
            )
        options[key] = as_numbers(value)
    return options
