# SPDX-License-Identifier: Apache-2.0
"""Markdown tables, and those of what is registered."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from tools.docs.wrap import wrap

from unbraid.commands.list import Entry, entries
from unbraid.data.official import OFFICIAL
from unbraid.networks import NETWORKS

VERDICTS = ("reproduced", "not", "undecided")


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


def registered(kind: str) -> str:
    """Everything of a *kind*, with a link to its page or, without one, its file."""
    page = {"objectives": "{name}.md", "metrics": "{name}.md", "priors": "#{name}"}[kind]
    return table(
        "name | what it is | paper",
        (
            (f"[`{one.name}`]({page.format(name=one.name)})", cell(one.summary), _paper(one))
            for one in entries(kind)
        ),
    )


def networks() -> str:
    """The networks, with the sides of the square images that each takes."""
    return table(
        "name | what it is | sides of images | paper",
        (
            (_source(one), cell(one.summary), _sides(NETWORKS.load(one.name)), _paper(one))
            for one in entries("networks")
        ),
    )


def data(*, drawn: bool) -> str:
    """The datasets that are drawn from code, or those read from published files."""
    published = set(OFFICIAL) - {"dsprites"}
    return table(
        "name | what it is | paper",
        (
            (_source(one), cell(one.summary), _paper(one))
            for one in entries("data")
            if (one.name in published) is not drawn
        ),
    )


def studies(root: Path) -> str:
    """How many claims of each paper were reproduced."""
    with (root / "docs" / "studies.toml").open("rb") as file:
        rows = tomllib.load(file)["study"]
    return table(
        "study | claims | reproduced | not | undecided | not run",
        (
            (
                f"{row['paper']}, {row['about']}",
                row["claims"],
                *(row[verdict] for verdict in VERDICTS),
                row["claims"] - sum(row[verdict] for verdict in VERDICTS),
            )
            for row in rows
        ),
    )


def _source(one: Entry) -> str:
    return f"[`{one.name}`](../{one.file})"


def _paper(one: Entry) -> str:
    return f"{one.citation.authors} {one.citation.year}" if one.citation else ""


def _sides(network: type) -> str:
    sides = getattr(network, "sides", None)
    return ", ".join(map(str, sides)) if sides else "samples of any shape"
