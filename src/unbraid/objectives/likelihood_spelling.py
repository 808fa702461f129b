# SPDX-License-Identifier: Apache-2.0
"""How a likelihood is written in a plan: BASE[+WINDOWradius][:option=value,...], such as
`laplace+box7:scale=0.1,kappa=2`.

A blur after the plus adds the overlap term. Options: `scale` (a number, `learned`, or `decoded`:
one for each value, by the network's decoder) and `output=raw` of gaussian and laplace, `kappa` of a
blur. `mse` and `bce` are read as gaussian and bernoulli. Every likelihood has one canonical
spelling: lower case, options in the order output, scale, kappa, and nothing that is the default
anyway.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from unbraid.core.errors import InputError, Problems, Shown, unknown
from unbraid.objectives.blur import LARGEST_RADIUS, WINDOWS
from unbraid.objectives.overlap import usual_kappa

LIKELIHOODS = ("bernoulli", "gaussian", "laplace")
OTHER_SPELLINGS = {"mse": "gaussian", "bce": "bernoulli"}
OPTIONS = ("output", "scale", "kappa")
LEARNED, DECODED = "learned", "decoded"
SMALLEST_SCALE, LARGEST_SCALE = 1e-4, 1e4
LARGEST_KAPPA = 1e9
_BLUR = re.compile(rf"({'|'.join(WINDOWS)})([0-9]{{1,4}})")
_BLUR_AMONG_OPTIONS = re.compile(rf"\+({'|'.join(WINDOWS)})")


@dataclass(frozen=True)
class Spelling:
    """A likelihood as it is written.

    >>> read_likelihood("MSE+box31:kappa=3969").name
    'gaussian+box31'
    """

    base: str
    window: str = ""
    radius: int = 0
    scale: float | str | None = None
    """Of the density; `learned`, `decoded`, or None for the base's own meaning without one."""
    kappa: float | None = None
    """Weight of the blurred term; None for the pixels in the window."""
    raw_output: bool = False
    """The decoder's output is the mean as it is, also where samples lie in [0, 1]."""

    @property
    def blur(self) -> str:
        """Window and radius, or nothing."""
        return f"{self.window}{self.radius}" if self.window else ""

    @property
    def weight(self) -> float:
        """What the blurred term is multiplied by; 0 without one."""
        if not self.window:
            return 0.0
        return float(usual_kappa(self.radius) if self.kappa is None else self.kappa)

    @property
    def name(self) -> str:
        """The canonical spelling."""
        options = []
        if self.raw_output:
            options.append("output=raw")
        if self.scale is not None and not (self.base == "laplace" and self.scale == 1.0):
            options.append(f"scale={_shown(self.scale)}")
        if self.window and self.weight != usual_kappa(self.radius):
            options.append(f"kappa={_shown(self.weight)}")
        word = f"{self.base}+{self.blur}" if self.window else self.base
        return f"{word}:{','.join(options)}" if options else word


def read_likelihood(text: str) -> Spelling:
    """The likelihood written as *text*; all that is wrong with it is told at once."""
    problems = Problems()
    if not isinstance(text, str):
        problems.add("likelihood", "must be a word", Shown(repr(text)), _EXAMPLES)
        problems.raise_if_any()
    word, colon, options = text.strip().lower().partition(":")
    base, plus, blur = (part.strip() for part in word.partition("+"))
    base = OTHER_SPELLINGS.get(base, base)
    if base not in LIKELIHOODS:
        # What the options may be depends on the base, so nothing can be said about them.
        raise InputError(unknown("likelihood", base, LIKELIHOODS))
    window, radius = _read_blur(blur, problems) if plus else ("", 0)
    given: dict[str, str] = {}
    if colon and _BLUR_AMONG_OPTIONS.search(options):
        problems.add(
            "likelihood blur",
            "must stand before the options",
            text,
            "Write it as in gaussian+box31:scale=0.5.",
        )
    elif colon:
        given = _read_options(options, base, problems)
    scale = kappa = None
    if "scale" in given:
        word = given["scale"]
        scale = word if word in (LEARNED, DECODED) else _read_scale(word, problems)
        if scale == DECODED and plus:
            rule = "cannot be decoded with a blur, whose errors are of many values"
            problems.add("likelihood scale", rule, text, "Give a number, or learned.")
    if "kappa" in given and not plus:
        problems.add(
            "likelihood kappa",
            "weighs a blurred copy, and this likelihood has no blur",
            text,
            "Add one, such as +box31.",
        )
    elif "kappa" in given:
        kappa = _read_kappa(given["kappa"], problems)
    raw_output = given.get("output", "raw") == "raw"
    if not raw_output:
        remedy = "Leave it out for a sigmoid where samples lie between 0 and 1."
        problems.add("likelihood output", "must be raw", given["output"], remedy)
    problems.raise_if_any()
    return Spelling(base, window, radius, scale, kappa, raw_output and "output" in given)


_EXAMPLES = "Examples: bernoulli, laplace:scale=0.1, gaussian+box31."


def _read_blur(blur: str, problems: Problems) -> tuple[str, int]:
    found = _BLUR.fullmatch(blur)
    if found is None or not 1 <= int(found[2]) <= LARGEST_RADIUS:
        rule = f"must be boxR or gaussR with a radius R in 1..{LARGEST_RADIUS}"
        problems.add(
            "likelihood blur", rule, blur, "The overlap loss of Michlo et al. is gaussian+box31."
        )
        return "", 0
    return found[1], int(found[2])


def _read_options(options: str, base: str, problems: Problems) -> dict[str, str]:
    """The options by name, each given once and known to *base*."""
    given: dict[str, str] = {}
    for option in options.split(","):
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals:
            problems.add(
                "likelihood option",
                "must be written name=value",
                option.strip(),
                f"Known: {', '.join(sorted(OPTIONS))}.",
            )
        elif key not in OPTIONS:
            problems.say(unknown("likelihood option", key, OPTIONS))
        elif base == "bernoulli" and key != "kappa":
            found = Shown(f"{base} with {option.strip()}")
            problems.add(
                f"likelihood {key}",
                "is an option of gaussian and laplace only",
                found,
                "Leave it out.",
            )
        elif key in given:
            problems.add(f"likelihood {key}", "must be given once", options, "Leave one out.")
        else:
            given[key] = value
    return given


def _read_scale(value: str, problems: Problems) -> float | None:
    rule = f"must be learned, decoded or a number between {SMALLEST_SCALE:g} and {LARGEST_SCALE:g}"
    remedy = "Pixels between 0 and 1 are usually given 0.1 to 1."
    return _read_number(
        "likelihood scale",
        value,
        rule,
        remedy,
        lambda number: SMALLEST_SCALE <= number <= LARGEST_SCALE,
        problems,
    )


def _read_kappa(value: str, problems: Problems) -> float | None:
    rule = f"must be a number above 0 and at most {LARGEST_KAPPA:g}"
    remedy = "Leave it out for the pixels in the window."
    return _read_number(
        "likelihood kappa",
        value,
        rule,
        remedy,
        lambda number: 0.0 < number <= LARGEST_KAPPA,
        problems,
    )


def _read_number(
    name: str,
    value: str,
    rule: str,
    remedy: str,
    allowed: Callable[[float], bool],
    problems: Problems,
) -> float | None:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if allowed(number):
        return number
    problems.add(name, rule, value, remedy)
    return None


def _shown(value: float | str) -> str:
    """The shortest text that reads back as *value*."""
    return value if isinstance(value, str) else repr(float(value)).removesuffix(".0")
