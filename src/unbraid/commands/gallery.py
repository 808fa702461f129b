# SPDX-License-Identifier: Apache-2.0
"""`gallery`: the theory of disentanglement, computed and drawn on one page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unbraid.commands import options as declared
from unbraid.commands.verb import Option, command
from unbraid.core.checks import read_whole
from unbraid.core.errors import invalid
from unbraid.core.folders import PAGES, check_writable
from unbraid.core.progress import Progress

if TYPE_CHECKING:
    from unbraid.report.gallery.context import CheckedStatement
    from unbraid.report.gallery.statements import Statement

_Statements = Annotated[
    "Sequence[Statement] | None", Option("Which statements; all by default.", cli=False)
]
PAGE = PAGES["gallery"]


@dataclass(frozen=True)
class GalleryResult:
    """Where the page is and what it shows."""

    page: Path
    checked: tuple[CheckedStatement, ...]

    def summary(self) -> str:
        """A line for each statement with its numbers, how many held, and where the page is."""
        from unbraid.report.gallery.context import held_sentence

        lines = [
            f"{'holds' if one.verdict.holds else 'FAILS'}  {one.statement.title}:"
            f" {one.verdict.line}"
            for one in self.checked
        ]
        return "\n".join(
            [*lines, "", held_sentence(self.checked), f"Open in a browser: {self.page}"]
        )


@command
def gallery(
    *,
    out: Annotated[
        str | Path | None, Option("Folder of the page, gallery.html; by default gallery/.")
    ] = None,
    seed: declared.Seed = 0,
    statements: _Statements = None,
    command: declared.Command = "",
    quiet: declared.Quiet = False,
) -> GalleryResult:
    """Compute and draw the theory of disentanglement on one HTML page, in two minutes on a CPU."""
    page = _page_place(Path("gallery") if out is None else Path(out))
    seed = read_whole("seed", seed, 0, 2**31 - 1)

    from unbraid.report.gallery.context import CheckedStatement, write_gallery
    from unbraid.report.gallery.statements import STATEMENTS

    chosen = STATEMENTS if statements is None else statements
    checked = []
    with Progress("computing", "statements", len(chosen), quiet) as bar:
        for statement in chosen:
            began = time.perf_counter()
            found = statement.compute(seed)
            checked.append(
                CheckedStatement(
                    statement,
                    statement.panels(found),
                    statement.verdict(found),
                    time.perf_counter() - began,
                )
            )
            bar.advance(1)
    return GalleryResult(write_gallery(page, checked, seed, command), tuple(checked))


def _page_place(folder: Path) -> Path:
    """Where the page goes; a file that is not such a page is not written over."""
    from unbraid.report.page import is_page

    check_writable("out", folder)
    page = folder / PAGE
    if page.is_dir() or (page.exists() and not is_page(page, "gallery")):
        raise invalid(
            "out", f"must not hold a {PAGE} of another kind", str(folder), "Choose another folder."
        )
    return page
