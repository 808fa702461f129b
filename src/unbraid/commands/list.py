# SPDX-License-Identifier: Apache-2.0
"""What there is to choose from, read off the registries: for `unbraid list` and for the README's
tables.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from unbraid.core.errors import InputError, unknown
from unbraid.core.registry import Registry, summary
from unbraid.data import DATA
from unbraid.metrics import METRICS
from unbraid.networks import NETWORKS
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS
from unbraid.studies import STUDIES

KINDS: dict[str, Registry] = {
    "objectives": OBJECTIVES,
    "priors": PRIORS,
    "metrics": METRICS,
    "data": DATA,
    "networks": NETWORKS,
    "studies": STUDIES,
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One registered thing, as a table shows it."""

    name: str
    summary: str
    options: str
    citation: Any
    file: str


def entries(kind: str) -> list[Entry]:
    """Everything registered under *kind*, in the order of its table."""
    found = []
    for name, target in KINDS[kind].items():
        thing = KINDS[kind].load(name)
        words = summary(thing) or "no description"
        file = "src/" + target.partition(":")[0].replace(".", "/") + ".py"
        found.append(Entry(name, words, _options(thing), getattr(thing, "citation", None), file))
    return found


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


def listing(kind: str = "") -> str:
    """The lists as plain text."""
    if kind and kind not in KINDS:
        raise InputError(unknown("list", kind, KINDS))
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
            if row.options:
                lines.append(f"  {'':<{width}}options: {row.options}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
