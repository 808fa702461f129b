# SPDX-License-Identifier: Apache-2.0
"""`list`: what there is to choose from, read off the registries; the docs' tables read it too."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Sequence
from typing import Annotated, Any

from unbraid.commands.verb import Option, command
from unbraid.core.errors import InputError, unknown
from unbraid.core.registry import Registry, summary

KINDS = {
    "objectives": "unbraid.objectives:OBJECTIVES",
    "priors": "unbraid.objectives.priors:PRIORS",
    "supervisions": "unbraid.objectives.supervision:SUPERVISIONS",
    "metrics": "unbraid.metrics:METRICS",
    "data": "unbraid.data:DATA",
    "networks": "unbraid.networks:NETWORKS",
    "studies": "unbraid.studies:STUDIES",
}
"""Where each registry is."""


def registry(kind: str) -> Registry:
    """The registry of *kind*."""
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module(module), name)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One registered thing, as a table shows it."""

    name: str
    summary: str
    options: str
    citation: Any
    file: str
    remark: str = ""
    """What must be known to read it."""


def entries(kind: str) -> Sequence[Entry]:
    """Everything registered under *kind*, in the order of its table."""
    from unbraid.scoring.collapse import dead_codes_remark

    found = []
    for name, target in registry(kind).items():
        thing = registry(kind).load(name)
        words = (thing.title if kind == "studies" else summary(thing)) or "no description"
        options = "" if kind == "studies" else _options(thing)
        remark = dead_codes_remark(name) if kind == "metrics" else ""
        cited = getattr(thing, "citation", None)
        found.append(Entry(name, words, options, cited, _file(target), remark))
    return found


def _file(target: str) -> str:
    """The source file of "module:attribute", from the root; a study is a folder of files."""
    module = target.partition(":")[0]
    study = module.startswith("unbraid.studies.") and module != "unbraid.studies.study"
    return "src/" + module.replace(".", "/") + ("/__init__.py" if study else ".py")


def _options(thing: Any) -> str:
    """The options with their defaults, as they would be typed."""
    if dataclasses.is_dataclass(thing):
        return ", ".join(
            f"{item.name}={_short(item.default)}" for item in dataclasses.fields(thing)
        )
    parameters = inspect.signature(thing).parameters.values()
    return ", ".join(
        f"{p.name}={_short(p.default)}" for p in parameters if p.default is not p.empty
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value == () else str(value)


@command
def list(
    kind: Annotated[
        str,
        Option(
            "objectives, priors, supervisions, metrics, data, networks or studies; by default all."
        ),
    ] = "",
) -> str:
    """List what there is to choose from, with options and citations."""
    if kind and kind not in KINDS:
        raise InputError(unknown("kind", kind, KINDS))
    blocks = []
    for one in [kind] if kind else KINDS:
        lines = [one]
        rows = entries(one)
        if not rows:
            lines.append("  none yet")
        width = max([16, *(len(row.name) for row in rows)]) + 2
        for row in rows:
            lines.append(f"  {row.name:<{width}}{row.summary}")
            if row.citation:
                lines.append(f"  {'':<{width}}{row.citation}")
            if row.remark:
                lines.append(f"  {'':<{width}}{row.remark}")
            if row.options:
                lines.append(f"  {'':<{width}}options: {row.options}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
