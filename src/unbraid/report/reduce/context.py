# SPDX-License-Identifier: Apache-2.0
"""The page of a reduction: what is kept, how every latent was cut, candidates, how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.report.images import row_uri
from unbraid.report.page import write_page
from unbraid.report.reduce.figures import MOST_POINTS, codes_figure, derivative_figure
from unbraid.report.reduce.words import CITATION, latent_sentence, span, stopped_sentence
from unbraid.search.reduce.reduction import Reduction

MOST_CANDIDATES = 20
"""Rows of the table; of ten latents there may be millions of cells."""


@dataclass(frozen=True)
class Examples:
    """Some images that are kept and some that are left out, each `(n, height, width, channels)`."""

    kept: NDArray[np.uint8]
    left_out: NDArray[np.uint8]


def write_reduce(path: Path, found: Reduction, names: Sequence[str], **shown: Any) -> Path:
    """Write the page to *path* and return it; arguments are those of `page_context`."""
    return write_page(path, "reduce", page_context(found, names, **shown))


def page_context(
    found: Reduction,
    names: Sequence[str],
    *,
    source: str = "",
    examples: Examples | None = None,
    next_steps: Sequence[tuple[str, str]] = (),
    command: str = "",
) -> dict[str, Any]:
    """Everything the template shows.

    *names* are those of the latents; *next_steps* are what a person can do next and the lines that
    do it.
    """
    figures: dict[str, Any] = {}
    sections = []
    for at, (name, latent) in enumerate(zip(names, found.latents, strict=True)):
        codes, rises = f"codes-{at}", f"rises-{at}"
        figures[codes], figures[rises] = codes_figure(latent), derivative_figure(latent)
        sections.append(
            {"name": name, "sentence": latent_sentence(found, at), "codes": codes, "rises": rises}
        )
    total, kept = len(found.cells), len(found.indices)
    candidates = _candidates(found)
    return {
        "title": "Nothing is kept" if found.stopped else f"{kept:,} of {total:,} images kept",
        "stopped": stopped_sentence(found, names),
        "facts": _facts(found, source),
        "rows": _rows(examples),
        "sections": sections,
        "shaded": found.chosen is not None,
        "ignored": any(one.ignored for one in found.latents),
        "thinned": total > MOST_POINTS,
        "names": list(names),
        "candidates": candidates,
        "unlisted": len(found.candidates) - len(candidates),
        "several": len(names) > 1,
        "rule": found.rule,
        "next_steps": list(next_steps),
        "paper": str(CITATION),
        "figures": figures,
        "command": command,
    }


def _facts(found: Reduction, source: str) -> list[tuple[str, str]]:
    total, kept = len(found.cells), len(found.indices)
    facts = [
        ("Labels", source),
        ("Images", f"{total:,}"),
        ("Latents", f"{len(found.latents)}"),
        ("Candidates", f"{len(found.candidates):,}"),
        ("Candidate taken", "" if found.chosen is None else f"number {found.index}"),
        ("Kept", "" if found.stopped else f"{kept:,} ({100 * kept / total:.2g}%)"),
    ]
    return [(name, value) for name, value in facts if value]


def _rows(examples: Examples | None) -> list[dict[str, Any]]:
    if examples is None:
        return []
    both = (
        ("Kept", "images that are kept", examples.kept),
        ("Left out", "images that are left out", examples.left_out),
    )
    return [
        {"name": name, "alt": f"{len(some)} {alt}", "uri": row_uri(some), "width": 84 * len(some)}
        for name, alt, some in both
        if len(some)
    ]


def _candidates(found: Reduction) -> list[dict[str, Any]]:
    rows = []
    for number, one in enumerate(found.candidates):
        if number < MOST_CANDIDATES or number == found.index:
            cuts = list(zip(found.latents, one.ranks, strict=True))
            qualities = [latent.intervals[rank].quality for latent, rank in cuts]
            rows.append(
                {
                    "number": number,
                    "size": f"{one.size:,}",
                    "spans": [span(latent, rank) for latent, rank in cuts],
                    "qualities": [f"{q:,.0f}" if np.isfinite(q) else "∞" for q in qualities],
                    "taken": number == found.index,
                }
            )
    return rows
