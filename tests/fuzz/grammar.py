# SPDX-License-Identifier: Apache-2.0
"""Text in the small languages of the command line: right, nearly right and hostile.

`TEXTS` has a generator for each language. All chance comes from the generator of random numbers
that is given, so that a seed is an input.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from unbraid.core.folders import RECORDS
from unbraid.data import DATA
from unbraid.metrics import METRICS
from unbraid.networks import NETWORKS
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.supervision import SUPERVISIONS
from unbraid.studies import STUDIES

NUMBERS = (
    *("0", "1", "2", "3", "4", "7", "10", "28", "64", "0.5", "1e-3", "1e3", "2.0", "-1", "-0"),
    "+2",
    *("1e999", "-1e999", "nan", "-nan", "inf", "Infinity", "0x10", "0b1", "1_000", "1,000", "1e"),
    ".",
    *("１２", "٣", "²", "½", "१", "1.", ".5", " 5 ", "\u00a07", "1e-400", "1e308", "3.5e38", "1j"),
    *("2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e18"),
    *("9" * 40, "9" * 5000, "0." + "0" * 400 + "1", "true", "False", "null", "None", "1/2"),
    "4/2/1",
)
WORDS = (
    *("", " ", "x", "a b", "..", "../x", "/", "~", "~nobody", "-", "--", "-1x", "=", ":", ","),
    "%s",
    *("{latents=10}", "{}", "{0}", "'", '"', "\\", "\\N{DEGREE SIGN}", "\n", "\t", "\r", "\x00"),
    "\x1b[31m",
    *(
        "\ud800",
        "\udcff",
        "\u202e",
        "\ufeff",
        "é",
        "e\u0301",
        "ﬁ",
        "ß",
        "İ",
        "日本",
        "🦊",
        "a" * 300,
    ),
    "(" * 200,
    *("x" * 70_000, "__class__", "self", "kwargs", "options", "name", "all", "none", "published"),
)
FACTORS = ("x", "y", "scale", "shape", '"x"', "'y'", "z", "lambda", "True", "None", "__import__")
SCHEDULES = ("constant", "linear", "cosine", "cyclic", "step", "Linear", "quadratic")
VALUES = (
    "learned",
    "raw",
    "mi",
    "tripod",
    "linear(0, 4, 100)",
    "1..60",
    "1e-4..3e-3",
    "yes",
    "pca",
)
OPTIONS = (
    *("beta", "gamma", "delta", "steps", "x", "y", "scale", "image_size", "spacing", "resize"),
    *("hidden", "bins", "seed", "count", "loss", "weight", "pruning", "backend", "of", "indices"),
    *("source", "factors", "factor_names", "images", "of_options", "variances", "degrees", "file"),
)
DATASETS = (*DATA, "own", "perturbed", "subset", "codes.npy", "data.npz", "images", "gone.npy")

Random = random.Random


def number(chance: Random) -> str:
    """Something where a number belongs."""
    if chance.random() < 0.5:
        return chance.choice(NUMBERS)
    return str(chance.choice((chance.randint(-3, 70), chance.random(), chance.gauss(0, 1e3))))


def word(chance: Random) -> str:
    """Something where a name belongs."""
    return chance.choice((chance.choice(WORDS), chance.choice(OPTIONS), number(chance)))


def schedule(chance: Random) -> str:
    """A number that changes while a model trains."""
    inside = ", ".join(number(chance) for _ in range(chance.choice((0, 1, 2, 3, 3, 4, 4, 5))))
    return f"{chance.choice(SCHEDULES)}({inside})"


def span(chance: Random) -> str:
    """A range or a list of a search."""
    if chance.random() < 0.5:
        return "..".join(number(chance) for _ in range(chance.choice((1, 2, 2, 2, 3))))
    return chance.choice(("published", schedule(chance), many(chance, number)))


def many(chance: Random, one: Callable[[Random], str]) -> str:
    """A list with commas."""
    return chance.choice((",", ", ", ",,", ",")).join(
        one(chance) for _ in range(chance.choice((0, 1, 2, 3, 8)))
    )


def value(chance: Random) -> str:
    """What may stand behind `key=`."""
    made = (number, number, schedule, span, word, lambda c: many(c, number), _known_value)
    return chance.choice(made)(chance)


def _known_value(chance: Random) -> str:
    return chance.choice(VALUES)


def named(names: Sequence[str]) -> Callable[[Random], str]:
    """`name:key=value,...` with a name among *names*."""

    def make(chance: Random) -> str:
        name = chance.choice(names) if chance.random() < 0.9 else word(chance)
        pairs = [
            chance.choice(("=", "=", "=", " = ", "", "==")).join(
                (chance.choice(OPTIONS) if chance.random() < 0.9 else word(chance), value(chance))
            )
            for _ in range(chance.choice((0, 1, 1, 2, 3)))
        ]
        colon = (
            chance.choice((":", ":", ":", ": ", "::", "")) if pairs else chance.choice(("", ":"))
        )
        return f"{name}{colon}{','.join(pairs)}"

    return make


def where(chance: Random, depth: int = 0) -> str:
    """A rule on factors."""
    if depth > 4 or chance.random() < 0.3:
        return chance.choice((chance.choice(FACTORS), number(chance), chance.choice(FACTORS)))
    left, right = where(chance, depth + 1)[:900], where(chance, depth + 1)[:900]
    operator = chance.choice(
        (
            *("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in"),
            "not in",
            *("|", "&", "**", "//", "@", "is", ":=", "if", "<<", "^"),
        )
    )
    function = chance.choice(("abs", "correlated", "anticorrelated", "confounded", "eval", "exec"))
    return chance.choice(
        (
            f"{left} {operator} {right}",
            f"{left} {operator} {right}",
            f"({left})",
            f"not {left}",
            f"-{left}",
            f"{left} in ({right}, {number(chance)})",
            f"{function}({left}, {right}, {number(chance)})",
            f"{function}({left})",
            f"{left}.{chance.choice(OPTIONS)}",
            f"{left}[{right}]",
            f"[{left} for x in {right}]",
            f"f'{{{left}}}'",
            "not " * chance.choice((1, 1, 1, 450)) + left,
            "(" * 90 + left + ")" * 90,
            f"{left} + " * chance.choice((1, 1, 1, 40)) + right,
        )
    )


def likelihood(chance: Random) -> str:
    """A likelihood, perhaps with a blur."""
    base = chance.choice(("bernoulli", "gaussian", "laplace", "mse", "BCE", word(chance)))
    blur = chance.choice(("", "", "+box", "+gauss", "+Box", "+")) + chance.choice(
        ("", number(chance))
    )
    options = ",".join(
        f"{chance.choice(('scale', 'kappa', 'output', word(chance)))}={value(chance)}"
        for _ in range(chance.choice((0, 0, 1, 2, 3)))
    )
    return base + blur + (f":{options}" if options else "")


def indices(chance: Random) -> str:
    """Numbers and ranges with commas."""
    return many(
        chance,
        lambda c: c.choice((number(c), f"{number(c)}:{number(c)}", f"{c.randint(0, 50)}:60")),
    )


def flags(chance: Random) -> str:
    """Words of a command line, a line each: hyperparameters as flags."""
    words = []
    for _ in range(chance.choice((0, 1, 2, 3))):
        name = chance.choice((*OPTIONS, word(chance)))
        words.append(f"--{name}" + chance.choice(("", "", "=" + value(chance))))
        words += [value(chance)] * chance.choice((0, 1, 1, 2))
    return "\n".join(words)


METRIC_WORDS = (*METRICS, "usual", "all", "supervised")

TEXTS: dict[str, Callable[[Random], str]] = {
    "named": named((*DATASETS, *OBJECTIVES, *METRIC_WORDS)),
    "flags": flags,
    "schedule": schedule,
    "span": span,
    "where": where,
    "likelihood": likelihood,
    "loss": likelihood,
    "indices": indices,
    "objective": lambda c: many(c, named(tuple(OBJECTIVES))),
    "prior": lambda c: many(c, named((*PRIORS, "pca", "iso"))),
    "supervision": lambda c: many(c, named((*SUPERVISIONS, "none"))),
    "network": named(tuple(NETWORKS)),
    "metrics": lambda c: many(c, named(METRIC_WORDS)),
    "data": named(DATASETS),
    "study": named((*STUDIES, *RECORDS)),
}


def mutated(chance: Random, text: str, other: str = "") -> str:
    """*text* with a few characters changed, or joined with a part of *other*."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        at, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        text = chance.choice(
            (
                lambda t, a, e: t[:a] + t[e:],
                lambda t, a, e: t[:a] + t[a:e] * 2 + t[e:],
                lambda t, a, e: t[:a] + chance.choice(",:=()..+-*/ '\"\x00\udc80é\n") + t[a:],
                lambda t, a, e: t[:a] + number(chance) + t[e:],
                lambda t, a, e: t[:a] + word(chance) + t[a:],
                lambda t, a, e: t[:a] + t[a:e].swapcase() + t[e:],
                lambda t, a, e: t[:a] + other[min(a, len(other)) :],
            )
        )(text, at, end)
    return text
