# SPDX-License-Identifier: Apache-2.0
"""The page of the gallery: statements of papers, each with figures, numbers and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbraid.report.gallery.figures import Panel
from unbraid.report.gallery.statements import Statement, Verdict
from unbraid.report.page import write_page


@dataclass(frozen=True)
class CheckedStatement:
    """A statement that was computed, with its verdict."""

    statement: Statement
    panels: list[Panel]
    verdict: Verdict
    seconds: float


def write_gallery(
    path: Path, checked: Sequence[CheckedStatement], seed: int, command: str = ""
) -> Path:
    """Write the page of the checked statements to *path* and return it."""
    return write_page(path, "gallery", page_context(checked, seed, command))


def page_context(
    checked: Sequence[CheckedStatement], seed: int, command: str = ""
) -> dict[str, Any]:
    """Everything the template shows."""
    figures: dict[str, Any] = {}
    sections = []
    for one in checked:
        panels = []
        for number, panel in enumerate(one.panels):
            name = f"{one.statement.key}-{number}"
            figures[name] = panel.figure
            panels.append({"figure": name, "heading": panel.heading, "caption": panel.caption})
        sections.append(
            {
                "key": one.statement.key,
                "title": one.statement.title,
                "text": one.statement.text,
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
        "summary": held_sentence(checked),
        "facts": [
            ("Statements", f"{len(checked)}"),
            ("Seed", f"{seed}"),
            ("Computed in", f"{sum(one.seconds for one in checked):.0f} s"),
        ],
        "sections": sections,
        "figures": figures,
        "command": command,
    }


def held_sentence(checked: Sequence[CheckedStatement]) -> str:
    """How many statements held, and which did not."""
    failed = [one.statement.title for one in checked if not one.verdict.holds]
    held = f"{len(checked) - len(failed)} of {len(checked)} statements hold in this computation."
    return held + (f" Not met: {'; '.join(failed)}." if failed else "")
