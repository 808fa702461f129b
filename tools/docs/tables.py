# SPDX-License-Identifier: Apache-2.0
"""Markdown tables, and those of what is registered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tools.docs.wrap import wrap
from unbraid.core.registry import Registry, summary
from unbraid.data import DATA
from unbraid.data.official import OFFICIAL
from unbraid.networks import NETWORKS


def table(header: str, rows: Iterable[Iterable[object]], note: str = "") -> str:
    """A table; *header* names its columns with bars between, *note* follows it.

    >>> print(table("a | b", [(1, 2)]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [f"| {header} |", "|---" * (header.count("|") + 1) + "|"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([*lines, *(["", wrap(note)] if note else [])])


def cell(text: str) -> str:
    """*text* with its bars escaped, for a cell."""
    return text.replace("|", "\\|")


def registered(registry: Registry, link: str) -> str:
    """Everything of a kind; *link* says where `{name}` is described."""
    rows = (
        (f"[`{name}`]({link.format(name=name)})", cell(summary(thing)), paper(thing))
        for name, thing in built_in(registry).items()
    )
    return table("name | what it is | paper", rows)


def networks() -> str:
    """The networks, with the sides of the square images that each takes."""
    rows = (
        (_source(NETWORKS, name), cell(summary(network)), _sides(network), paper(network))
        for name, network in built_in(NETWORKS).items()
    )
    return table("name | what it is | sides of images | paper", rows)


def data(*, drawn: bool) -> str:
    """The datasets that are drawn from code, or those read from published files."""
    published = set(OFFICIAL.built_in) - {"dsprites"}
    rows = (
        (_source(DATA, name), cell(summary(dataset)), paper(dataset))
        for name, dataset in built_in(DATA).items()
        if (name in published) is not drawn
    )
    return table("name | what it is | paper", rows)


def built_in(registry: Registry) -> dict[str, Any]:
    """What Unbraid itself registers, by name."""
    return {name: registry.load(name) for name in registry.built_in}


def source_file(registry: Registry, name: str) -> str:
    """The file of something registered, from src."""
    return registry[name].partition(":")[0].replace(".", "/") + ".py"


def paper(thing: Any) -> str:
    """Authors and year of what *thing* cites, if it does."""
    cited = getattr(thing, "citation", None)
    return f"{cited.authors} {cited.year}" if cited else ""


def _source(registry: Registry, name: str) -> str:
    return f"[`{name}`](../src/{source_file(registry, name)})"


def _sides(network: type) -> str:
    sides = getattr(network, "sides", None)
    return ", ".join(map(str, sides)) if sides else "samples of any shape"
