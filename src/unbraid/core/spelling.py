# SPDX-License-Identifier: Apache-2.0
"""From words to values: numbers, lists, and `name:key=value`, wherever something is named so.

Datasets, objectives, priors, networks and metrics are all spelled this way, in Python as on the
command line: `sprites:x=16,y=8`, `factor_vae:gamma=10,20`, `infomec:pruning=tripod`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Sequence
from typing import Any

from unbraid.core.errors import Shown, invalid

_WORDS = {"true": True, "false": False, "null": None}


def split_list(text: str) -> list[str]:
    """`"a,b"` -> `["a", "b"]`; empty parts are dropped, and commas in parentheses do not split.

    >>> split_list("1, linear(0, 4, 1000)")
    ['1', 'linear(0, 4, 1000)']
    """
    parts = re.split(r",(?![^()]*\))", text)
    return [part.strip() for part in parts if part.strip()]


def split_names(text: str, known: Container[str] = ()) -> list[str]:
    """Like `split_list`, but options stay with their name; so do words that are not *known*.

    >>> split_names("mig,dci:backend=sklearn,seed=1,sap")
    ['mig', 'dci:backend=sklearn,seed=1', 'sap']
    >>> split_names("vae,beta_vae:beta=1,linear(0, 4, 1000),factor_vae:gamma=10,20")
    ['vae', 'beta_vae:beta=1,linear(0, 4, 1000)', 'factor_vae:gamma=10,20']
    >>> split_names("labels:loss=xent,l2,pairs", known=("labels", "pairs"))
    ['labels:loss=xent,l2', 'pairs']
    """
    names: list[str] = []
    for part in split_list(text):
        option = "=" in part and ":" not in part
        # Numbers and schedules go on with the list before them: nothing is called 0.5.
        value = isinstance(as_number(part), (int, float)) or (part[-1] == ")" and ":" not in part)
        word = bool(known) and part.partition(":")[0] not in known
        if names and ":" in names[-1] and (option or value or word):
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def as_number(text: str) -> Any:
    """An int where the text is one, else a float, else the text itself.

    What is no number is left for whoever checks it to refuse by name.
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
    """The value of an option: numbers, true, false, null or words; a list where there are commas.

    >>> as_value("10,20"), as_value("linear(0, 4, 1000)"), as_value("true"), as_value("tripod")
    ([10, 20], 'linear(0, 4, 1000)', True, 'tripod')
    """
    values = [_WORDS.get(part.lower(), as_number(part)) for part in split_list(text)]
    return values[0] if len(values) == 1 else values


def as_source(text: str) -> tuple[str, dict[str, str]]:
    """`"sprites:x=16,y=8"` -> `("sprites", {"x": "16", "y": "8"})`; an existing path is kept whole.

    Options begin at the first colon with a `key=` behind it; a part without `=` belongs to the
    value before it, so that values may be lists: `own.npz:factor_names=shape,size`.
    """
    begin = re.search(r":(?=\s*[A-Za-z_]\w*\s*=)", text)
    if os.path.exists(text) or begin is None:
        name, _, rest = text.rpartition(":")
        if name and not os.path.exists(text) and "/" not in rest and "\\" not in rest:
            return _without_options(name, rest)
        return text, {}
    options: dict[str, str] = {}
    for part in split_list(text[begin.end() :]):
        key, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", key.strip()):
            last = key.strip()
            if last in options:
                listed = f"{last}={options[last]},{value.strip()}"
                remedy = f"Write it once; where a list is a sweep, {listed}."
                raise invalid(f"option {last}", "may be given once", Shown("twice"), remedy)
            options[last] = value.strip()
        else:
            options[last] += f",{part}"
    return text[: begin.start()], options


def as_named(text: str) -> tuple[str, dict[str, Any]]:
    """`as_source` with the options as values.

    >>> as_named("factor_vae:gamma=10,20")
    ('factor_vae', {'gamma': [10, 20]})
    """
    name, options = as_source(text)
    return name, {key: as_value(value) for key, value in options.items()}


def _without_options(name: str, rest: str) -> tuple[str, dict[str, str]]:
    """What follows a colon without being `key=value`: nothing, or a mistake."""
    if rest.strip(" ,"):
        remedy = f"For example {name}:key=3."
        raise invalid(f"option of {name}", "must be written key=value", rest, remedy)
    return name, {}


def parse_extra_options(words: Sequence[str]) -> dict[str, Any]:
    """Hyperparameters given as flags: `["--beta", "1,4"]` -> `{"beta": [1, 4]}`.

    One without a value has an empty list, for whoever knows the names to refuse.
    """
    options: dict[str, Any] = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--") or word == "--":
            remedy = "Lists are written with commas and no blanks: --beta 1,4."
            raise invalid("command line", "has a word too many", word, remedy)
        name, equals, value = word[2:].partition("=")
        if not equals and waiting and not waiting[0].startswith("--"):
            value = waiting.pop(0)
        key = name.replace("-", "_")
        if key in options:
            remedy = f"For a sweep write --{name} 1,4."
            raise invalid(f"option --{name}", "may be given once", Shown("twice"), remedy)
        options[key] = as_numbers(value)
    return options
