# SPDX-License-Identifier: Apache-2.0
"""Checks of options, by name: whole numbers, numbers in a range, names that a function takes.

Options come from Python or, as text, from a command line or a saved plan.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import numpy as np

from unbraid.core.errors import Problem, Problems, Shown, invalid, unknown

MOST_PROBLEMS_SHOWN = 10


def is_whole(value: object) -> TypeGuard[int]:
    """Whether *value* is a whole number, Python's or NumPy's; True and False are none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """Whether *value* is a number, Python's or NumPy's; True and False are none."""
    return is_whole(value) or isinstance(value, (float, np.floating))


def is_finite(value: Any) -> bool:
    """Whether *value* is a number that float32 can hold."""
    return is_real(value) and bool(abs(value) < 3e38)


def plain(value: Any) -> Any:
    """NumPy numbers and arrays as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def whole(
    problems: Problems,
    name: str,
    value: object,
    low: int,
    high: int | None = None,
    remedy: str = "",
) -> int:
    """*value* as an int in *low*..*high*, else *low* with the problem recorded.

    Digits written as text count as a number.
    """
    number = None
    if is_whole(value) or (
        isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", value)
    ):
        number = int(value)
    if number is not None and number >= low and (high is None or number <= high):
        return number
    span = f"in {low}..{high}" if high is not None else f"of at least {low}"
    problems.add(name, f"must be a whole number {span}", value, remedy)
    return low


def read_whole(
    name: str, value: object, low: int, high: int | None = None, remedy: str = ""
) -> int:
    """`whole` for a single option: raises at once.

    >>> read_whole("spacing", "3", 1, 8)
    3
    """
    problems = Problems()
    number = whole(problems, name, value, low, high, remedy)
    problems.raise_if_any()
    return number


def read_whole_number(
    problems: Problems, name: str, value: Any, least: int, most: int | None = None
) -> int:
    """*value* where it is an int in range, else *least* with the problem recorded.

    Stricter than `whole`: text is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        problems.add(name, f"must be a whole number of at least {least}", Shown(repr(value)))
    elif most is not None and value > most:
        problems.add(name, f"must be at most {most}", value)
    else:
        return value
    return least


def real(
    problems: Problems, name: str, value: object, low: float, high: float, remedy: str = ""
) -> float:
    """*value* as a float in [*low*, *high*], else *low* with the problem recorded.

    A number written as text counts.
    """
    number = math.nan
    if is_real(value) or isinstance(value, str):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if low <= number <= high:
        return number
    problems.add(name, f"must be a number from {low:g} to {high:g}", value, remedy)
    return low


def above_zero(name: str, value: object, remedy: str = "") -> float:
    """*value* as a finite number above 0; anything else is refused."""
    number = float(value) if is_real(value) else math.nan
    if not 0.0 < number < math.inf:
        raise invalid(name, "must be a finite number above 0", value, remedy)
    return number


def check_option_names(
    owner: str, constructor: Callable[..., Any], given: Iterable[str], positional: str = ""
) -> None:
    """Refuse options that *constructor* does not take, all at once, each with the nearest one.

    Its *positional* argument is no option.
    """
    parameters = [
        p for p in inspect.signature(constructor).parameters.values() if p.name != positional
    ]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    problems = Problems()
    for word in given:
        if word not in known:
            problems.say(unknown(f"{owner} option", word, known))
    problems.raise_if_any()


def raise_shortened(problems: Problems) -> None:
    """Raise at most ten of the problems and the number left out.

    A folder may have thousands of bad files.
    """
    left_out = len(problems.found) - MOST_PROBLEMS_SHOWN
    if left_out > 0:
        problems.found[MOST_PROBLEMS_SHOWN:] = [
            Problem.of(f"And {left_out} more such problem{'s' if left_out > 1 else ''}.")
        ]
    problems.raise_if_any()
