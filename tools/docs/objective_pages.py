# SPDX-License-Identifier: Apache-2.0
"""A page for each objective, sections on priors, and which goes with which."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from tools.docs.tables import cell, source_file, table
from tools.docs.templates import render
from unbraid.core.registry import Registry, summary
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS


def names() -> list[str]:
    """The objectives in the order of their table."""
    return list(OBJECTIVES.built_in)


def page(name: str) -> str:
    """The whole page of an objective."""
    by_reason: dict[str, list[str]] = {"": []}
    for prior, reason in _refusals(name).items():
        by_reason.setdefault(reason, []).append(f"`{prior}`")
    accepted = by_reason.pop("")
    return render("objective", **_about(OBJECTIVES, name), accepted=accepted, refused=by_reason)


def sections(registry: Registry) -> str:
    """A section for each prior, or for each kind of supervision."""
    return "\n\n".join(
        render("section", **_about(registry, name)).strip() for name in registry.built_in
    )


def _about(registry: Registry, name: str) -> dict[str, Any]:
    """What a file says of what is minimised, paper and departures, and the options."""
    kind = registry.load(name)
    return {
        "name": name,
        "summary": summary(kind),
        "about": inspect.cleandoc(inspect.getmodule(kind).__doc__ or ""),  # type: ignore[union-attr]
        "options": options(kind),
        "citation": kind.citation,
        "file": source_file(registry, name),
    }


def options(kind: type) -> str:
    """The fields of a dataclass as a table; empty where there are none."""
    rows = [
        (f"`{item.name}`", _default(item), _values(item), cell(item.metadata["help"]))
        for item in dataclasses.fields(kind)
    ]
    return table("option | default | values | meaning", rows) if rows else ""


def _default(item: dataclasses.Field[Any]) -> str:
    value = item.default
    return f"{value:g}" if isinstance(value, float) else "none" if value == () else str(value)


def _values(item: dataclasses.Field[Any]) -> str:
    rules = item.metadata
    if rules["kind"] == "choice":
        return ", ".join(rules["options"])
    bounds = [
        f"{word.replace('_', ' ')} {rules[word]:g}"
        for word in ("at_least", "above", "at_most")
        if rules[word] is not None
    ]
    kind = "whole" if rules["whole"] else "numbers" if rules["kind"] == "vector" else ""
    words = [f"or {word}" for word in rules.get("words", ())]
    return ", ".join(part for part in (kind, *bounds, *words) if part) or "any number"


def _refusals(name: str) -> dict[str, str]:
    """Why an objective refuses each prior; empty where it takes it."""
    objective = OBJECTIVES.load(name)()
    return {prior: objective.refuses(PRIORS.load(prior)()) for prior in PRIORS.built_in}


def compositions() -> str:
    """Which objective goes with which prior; where it does not, the reason is a note below."""
    notes: list[str] = []
    rows = []
    for name in names():
        refusals = _refusals(name).values()
        notes += dict.fromkeys(reason for reason in refusals if reason and reason not in notes)
        cells = (f"no ({notes.index(reason) + 1})" if reason else "yes" for reason in refusals)
        rows.append((f"[`{name}`]({name}.md)", *cells))
    header = " | ".join(("", *(f"`{name}`" for name in PRIORS.built_in)))
    numbered = "; ".join(f"({number}) {note}" for number, note in enumerate(notes, start=1))
    return table(header, rows, f"{numbered}.")
