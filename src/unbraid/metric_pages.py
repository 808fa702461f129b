# SPDX-License-Identifier: Apache-2.0
"""The page about the metrics, made from what each metric's file says of itself and from what
standard codes score.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

from unbraid.metrics import METRICS
from unbraid.scoring.metric_names import FAMILIES
from unbraid.testing.standard_codes import KINDS

TRAPS = "Traps: "
DEPARTS = "Departs from disentanglement_lib: "
ABSENT = "Not in disentanglement_lib: "
NEEDS = {
    "codes": "codes alone",
    "sample": "codes and factors",
    "split": "codes and factors, to fit and to test",
    "grid": "codes of a factor grid, or of any rows with their factors",
    "posterior": "posterior means and log-variances",
    "elbo": "posterior means, log-variances and reconstruction losses",
    "population": "codes and KL divergences of several models",
}


@dataclass(frozen=True)
class About:
    """What a metric's file says at its top."""

    title: str
    definition: list[str]
    traps: str
    departs: str


def about(metric: Any) -> About:
    """The opening words of the metric's file, in parts; ValueError where one is missing."""
    text = inspect.cleandoc(sys.modules[metric.__module__].__doc__ or "")
    title, *rest = [_unwrapped(paragraph) for paragraph in text.split("\n\n")]
    traps = [line.removeprefix(TRAPS) for line in rest if line.startswith(TRAPS)]
    departs = [line for line in rest if line.startswith((DEPARTS, ABSENT))]
    definition = [line for line in rest if not line.startswith((TRAPS, DEPARTS, ABSENT))]
    if len(traps) != 1 or len(departs) != 1 or not definition:
        raise ValueError(
            f"{metric.__module__} must open with a title, a definition, one paragraph '{TRAPS}...'"
            f" and one '{DEPARTS}...' or '{ABSENT}...'"
        )
    return About(title, definition, traps[0], departs[0])


def _unwrapped(paragraph: str) -> str:
    """A paragraph in one line; items of a list in one line each."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        if lines and not line.startswith("- "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
    return "\n".join(lines)


def fields(result: type) -> list[tuple[str, str]]:
    """Name and description of everything a result holds, its score first, read off the source of
    its class.
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(result))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {"score": ""}
    for item, following in zip(body.body, [*body.body[1:], None], strict=True):
        if (
            isinstance(item, ast.AnnAssign)
            and isinstance(item.target, ast.Name)
            and "ClassVar" not in ast.unparse(item.annotation)
        ):
            told = following.value if isinstance(following, ast.Expr) else None
            text = (
                told.value if isinstance(told, ast.Constant) and isinstance(told.value, str) else ""
            )
            found[item.target.id] = " ".join(text.split())
        elif isinstance(item, ast.FunctionDef) and any(
            ast.unparse(name) == "property" for name in item.decorator_list
        ):
            found[item.name] = " ".join((ast.get_docstring(item) or "").split())
    return list(found.items())


def behaviour_table(scores: dict[str, dict[str, float]]) -> str:
    """One row a metric, one column a kind of code."""
    lines = ["| metric | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for name in METRICS.built_in:
        lines.append(
            f"| [`{name}`](#{name}) | "
            + " | ".join(_shown(scores[name][kind]) for kind in KINDS)
            + " |"
        )
    lines += ["", *(f"- **{kind}**: {what}." for kind, what in KINDS.items())]
    return "\n".join(lines)


def pages(scores: dict[str, dict[str, float]]) -> str:
    """A section for each metric, by family."""
    blocks = []
    for family in FAMILIES:
        blocks.append(f"## {family.capitalize()}")
        blocks += [
            _page(name, scores[name])
            for name in METRICS.built_in
            if METRICS.load(name).family == family
        ]
    return "\n\n".join(blocks)


def _page(name: str, scores: dict[str, float]) -> str:
    metric = METRICS.load(name)
    told = about(metric)
    low, high = metric.result.range
    better = "higher is better" if metric.result.higher_is_better else "lower is better"
    bounds = (
        "any number"
        if high == -low == float("inf")
        else f"from {low:g}" + ("" if high == float("inf") else f" to {high:g}")
    )
    heading, _, departures = told.departs.partition(": ")
    sample = " | ".join(_shown(scores[kind]) for kind in KINDS)
    lines = [
        f"### {name}",
        told.title,
        f"`{name}{_signature(metric)}`",
        f"Given {NEEDS[metric.needs]}; {bounds}, {better}. {metric.citation}",
        *told.definition,
        f"`{metric.result.__name__}` holds\n\n"
        + "\n".join(_item(name, text) for name, text in fields(metric.result)),
        "| " + " | ".join(KINDS) + " |\n" + "|---" * len(KINDS) + f"|\n| {sample} |",
        f"*Traps.* {_capital(told.traps)}",
        f"*{heading}.* {_capital(departures)}",
    ]
    return "\n\n".join(lines)


def _item(name: str, text: str) -> str:
    return f"- `{name}`: {text}" if text else f"- `{name}`"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _signature(metric: Any) -> str:
    parts, keyword = [], False
    for parameter in inspect.signature(metric).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            keyword = True
            parts.append("*")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parts.append(f"{parameter.name}{default}")
    return f"({', '.join(parts)})"


def _shown(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 100 else f"{value:.2f}"
