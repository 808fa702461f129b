# SPDX-License-Identifier: Apache-2.0
"""A page for each metric, from what its file says of itself and what standard codes score."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

from tools.docs import DocsError
from tools.docs.tables import source_file, table
from tools.docs.templates import render
from unbraid.metrics import METRICS
from unbraid.scoring.collapse import dead_codes_remark
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


def names() -> list[str]:
    """The metrics, by family and then in the order of their table."""
    return [
        name
        for family in FAMILIES
        for name in METRICS.built_in
        if METRICS.load(name).family == family
    ]


def about(metric: Any) -> About:
    """The opening words of the metric's file, in parts; `DocsError` where one is missing."""
    text = inspect.cleandoc(sys.modules[metric.__module__].__doc__ or "")
    title, *rest = [unwrapped(paragraph) for paragraph in text.split("\n\n")]
    traps = [line.removeprefix(TRAPS) for line in rest if line.startswith(TRAPS)]
    departs = [line for line in rest if line.startswith((DEPARTS, ABSENT))]
    definition = [line for line in rest if not line.startswith((TRAPS, DEPARTS, ABSENT))]
    for found, part in (
        (definition[:1], "a definition"),
        (traps, f"one paragraph '{TRAPS}...'"),
        (departs, f"one paragraph '{DEPARTS}...' or '{ABSENT}...'"),
    ):
        if len(found) != 1:
            raise DocsError(
                f"{metric.__module__} must open with {part} after its title; has {len(found)}"
            )
    return About(title, definition, traps[0], departs[0])


def unwrapped(paragraph: str) -> str:
    """A paragraph in one line; items of a list in one line each."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        if lines and not line.startswith("- "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
    return "\n".join(lines)


def fields(result: type) -> dict[str, str]:
    """Description of everything a result holds, its score first, read off its class's source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(result))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {"score": ""}
    for item, following in zip(body.body, [*body.body[1:], None], strict=True):
        match item, following:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind), after:
                if "ClassVar" in ast.unparse(kind):
                    continue
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = " ".join(text.split())
                    case _:
                        found[name] = ""
            case ast.FunctionDef(name=name, decorator_list=[ast.Name(id="property")]), _:
                found[name] = " ".join((ast.get_docstring(item) or "").split())
            case _:
                pass
    return found


def behaviour_table(record: dict[str, Any]) -> str:
    """One row per metric, one column per kind of code."""
    scores = record["scores"]
    kinds = "\n".join(f"- **{kind}**: {what}." for kind, what in KINDS.items())
    return (
        table(
            f"metric | {' | '.join(KINDS)}",
            (
                (f"[`{name}`]({name}.md)", *(_shown(scores[name][kind]) for kind in KINDS))
                for name in METRICS.built_in
            ),
        )
        + f"\n\n{kinds}"
    )


def page(name: str, scores: dict[str, float]) -> str:
    """The whole page of a metric."""
    metric = METRICS.load(name)
    words = about(metric)
    heading, _, departs = words.departs.partition(": ")
    return render(
        "metric",
        name=name,
        metric=metric,
        file=source_file(METRICS, name),
        about=words,
        remark=dead_codes_remark(name),
        signature=_signature(metric),
        samples=_samples(metric),
        needs=NEEDS[metric.needs],
        bounds=_bounds(*metric.result.range),
        fields=fields(metric.result),
        scores=table(" | ".join(KINDS), [[_shown(scores[kind]) for kind in KINDS]]),
        heading=heading,
        traps=_capital(words.traps),
        departs=_capital(departs),
    )


ERROR = {
    "cheap": "Its standard error over samples comes with the score.",
    "dear": "Its standard error over samples is computed on request (`--errors all`).",
}


def _samples(metric: Any) -> str:
    """What it wants of samples and of the codes' scale."""
    how = metric.error
    said = [ERROR[how.cost] if how else "It has no standard error over samples."]
    if metric.scale:
        said.append(f"It depends on the scale of codes, since {metric.scale.why}.")
    return " ".join(said)


def _bounds(low: float, high: float) -> str:
    if high == -low == float("inf"):
        return "any number"
    return f"from {low:g}" + ("" if high == float("inf") else f" to {high:g}")


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _signature(metric: Any) -> str:
    """The parameters with their defaults, without annotations."""
    signature = inspect.signature(metric)
    bare = [
        parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def _shown(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 100 else f"{value:.2f}"
