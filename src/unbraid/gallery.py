# SPDX-License-Identifier: Apache-2.0
"""The door to the gallery: compute every exhibit, write the page. The command line calls the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.data.checks import read_whole
from unbraid.errors import InputError, problem
from unbraid.progress import Progress

if TYPE_CHECKING:
    from unbraid.report.exhibits import Exhibit
    from unbraid.report.gallery_page import Hung

PAGE = "gallery.html"


@dataclass(frozen=True)
class Gallery:
    """Where the page is and what it shows."""

    page: Path
    hung: tuple[Hung, ...]

    def summary(self) -> str:
        """A line for each exhibit with its numbers, how many held, and where the page is."""
        from unbraid.report.gallery_page import held_sentence

        lines = [f"{'holds' if one.verdict.holds else 'FAILS'}  {one.exhibit.title}: {one.verdict.line}" for one in self.hung]
        return "\n".join([*lines, "", held_sentence(self.hung), f"Open in a browser: {self.page}"])


def make_gallery(
    out: str | Path | None = None,
    *,
    seed: int = 0,
    exhibits: Sequence[Exhibit] | None = None,
    command: str = "",
    quiet: bool = False,
) -> Gallery:
    """Compute the *exhibits*, all that there are unless told, and write `gallery.html` into the folder *out* (`gallery/`)."""
    page = _page_place(Path("gallery") if out is None else Path(out))
    seed = read_whole("seed", seed, 0, 2**31 - 1)

    from unbraid.report.exhibits import EXHIBITS
    from unbraid.report.gallery_page import Hung, write_gallery

    chosen = EXHIBITS if exhibits is None else exhibits
    hung = []
    with Progress("computing", "exhibits", len(chosen), quiet) as bar:
        for exhibit in chosen:
            began = time.perf_counter()
            found = exhibit.compute(seed)
            hung.append(Hung(exhibit, exhibit.panels(found), exhibit.verdict(found), time.perf_counter() - began))
            bar.advance(1)
    return Gallery(write_gallery(hung, page, seed, command), tuple(hung))


def _page_place(folder: Path) -> Path:
    """Where the page goes; a file that is not such a page is not written over."""
    from unbraid.report.gallery_page import MARK

    nearest = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    if not nearest.is_dir():
        raise InputError(problem("out", "must be a folder", str(folder), f"The page goes into it as {PAGE}."))
    page = folder / PAGE
    if page.is_dir() or (page.exists() and MARK not in page.read_bytes()):
        raise InputError(problem("out", f"must not hold a {PAGE} of another kind", str(folder), "Choose another folder."))
    return page
