# SPDX-License-Identifier: Apache-2.0
"""The gallery as one HTML page that opens offline: each statement with its figures, numbers and
verdict.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbraid.core.store import write_bytes
from unbraid.report.gallery.figures import Panel
from unbraid.report.gallery.statements import Statement, Verdict
from unbraid.report.page import render_page

MARK = b'<p class="kicker">Unbraid gallery</p>'
"""By which a page of ours is known from another file of its name."""


@dataclass(frozen=True)
class Result:
    """An statement that was computed."""

    statement: Statement
    panels: list[Panel]
    verdict: Verdict
    seconds: float


def write_gallery(hung: Sequence[Result], path: Path, seed: int, command: str = "") -> Path:
    """Write the page of the computed statements to *path*."""
    write_bytes(
        path,
        render_page(
            "gallery.html.j2", page_context(hung, seed, command), styles=("gallery.css",)
        ).encode(),
    )
    return path


def page_context(hung: Sequence[Result], seed: int, command: str = "") -> dict[str, Any]:
    """Everything the template shows."""
    figures: dict[str, Any] = {}
    sections = []
    for one in hung:
        panels = []
        for number, panel in enumerate(one.panels):
            name = f"{one.statement.key}-{number}"
            figures[name] = panel.figure
            panels.append({"figure": name, "heading": panel.heading, "caption": panel.caption})
        sections.append(
            {
                "key": one.statement.key,
                "title": one.statement.title,
                "statement": one.statement.statement,
                "papers": [str(paper) for paper in one.statement.papers],
                "panels": panels,
                "holds": one.verdict.holds,
                "numbers": one.verdict.numbers,
                "call": one.statement.call.format(seed=seed),
                "seconds": f"{one.seconds:.1f}",
            }
        )
    return {
        "title": "Theory you can run",
        "summary": held_sentence(hung),
        "facts": [
            ("Exhibits", f"{len(hung)}"),
            ("Seed", f"{seed}"),
            ("Computed in", f"{sum(one.seconds for one in hung):.0f} s"),
            ("Page made", datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ],
        "sections": sections,
        "figures": figures,
        "command": command,
    }


def held_sentence(hung: Sequence[Result]) -> str:
    """How many statements held, and which did not."""
    failed = [one.statement.title for one in hung if not one.verdict.holds]
    held = f"{len(hung) - len(failed)} of {len(hung)} statements hold in this computation."
    return held + (f" Not met: {'; '.join(failed)}." if failed else "")
