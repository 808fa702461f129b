# SPDX-License-Identifier: Apache-2.0
"""The page of a reduction: what is kept, the staircase of every latent and where it was cut,
candidates, and how to go on.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.registry import Citation
from unbraid.core.store import write_bytes
from unbraid.report.page import render_page
from unbraid.report.reduce.figures import MOST_POINTS, codes_figure, derivative_figure
from unbraid.search.reduce.reduction import (
    NO_PEAKS,
    TOO_FEW_IMAGES,
    Latent,
    Reduction,
    ReductionRule,
)

MOST_CANDIDATES = 20
"""Rows of the table; of ten latents there may be millions of cells."""
CITATION = Citation(
    "Estermann, Marks and Yanik",
    2020,
    "Robust Disentanglement of a Few Factors at a Time",
    "NeurIPS, arXiv:2010.13527",
)


@dataclass(frozen=True)
class Examples:
    """Some images that are kept and some that are left out, each `(n, height, width, channels)`."""

    kept: NDArray[np.uint8]
    left_out: NDArray[np.uint8]


def write_reduction(
    found: Reduction,
    path: Path,
    names: Sequence[str],
    *,
    source: str = "",
    examples: Examples | None = None,
    next_steps: Sequence[tuple[str, str]] = (),
    command: str = "",
) -> Path:
    """Write the page to *path*; *next_steps* are what a person can do next and the lines that do
    it.
    """
    context = page_context(found, names, source, examples, next_steps, command)
    write_bytes(path, render_page("reduction.html.j2", context, styles=("reduction.css",)).encode())
    return path


def page_context(
    found: Reduction,
    names: Sequence[str],
    source: str = "",
    examples: Examples | None = None,
    next_steps: Sequence[tuple[str, str]] = (),
    command: str = "",
) -> dict[str, Any]:
    """Everything the template shows."""
    count = len(found.cells)
    figures: dict[str, Any] = {}
    sections = []
    for at, (name, latent) in enumerate(zip(names, found.latents, strict=True)):
        figures[f"codes-{at}"], figures[f"rises-{at}"] = (
            codes_figure(latent),
            derivative_figure(latent),
        )
        sections.append(
            {
                "name": name,
                "sentence": latent_sentence(found, at),
                "codes": f"codes-{at}",
                "rises": f"rises-{at}",
            }
        )
    candidates = _candidates(found)
    return {
        "title": (
            "Nothing is kept"
            if found.stopped
            else f"{len(found.indices):,} of {count:,} images kept"
        ),
        "stopped": stopped_sentence(found, names),
        "facts": _facts(found, source),
        "rows": _rows(examples),
        "sections": sections,
        "shaded": found.chosen is not None,
        "ignored": any(one.ignored for one in found.latents),
        "thinned": count > MOST_POINTS,
        "names": list(names),
        "candidates": candidates,
        "unlisted": len(found.candidates) - len(candidates),
        "several": len(names) > 1,
        "rules": rule_sentences(found.rule, len(names) > 1),
        "next_steps": list(next_steps),
        "paper": str(CITATION),
        "figures": figures,
        "command": command,
    }


def stopped_sentence(found: Reduction, names: Sequence[str]) -> str:
    """Why nothing is kept, with the latents and numbers concerned; empty where something is."""
    if found.stopped is None:
        return ""
    if found.stopped == NO_PEAKS:
        flat = [names[at] for at in found.without_peaks]
        return f"{found.stopped} Without steps: {', '.join(flat)}."
    if found.stopped == TOO_FEW_IMAGES:
        assert found.chosen is not None
        return (
            f"{found.stopped} There are {found.chosen.size}, and {found.rule.fewest_images} are"
            " needed."
        )
    return f"{found.stopped} More than {found.rule.more_than} are needed in one of them."


def latent_sentence(found: Reduction, at: int) -> str:
    """What one latent's codes show, and what is kept of them."""
    latent = found.latents[at]
    low, high = latent.values[0], latent.values[-1]
    if low == high:
        return f"All its codes are {low:.4g}."
    said = (
        []
        if len(latent.peaks)
        else [f"Its codes rise from {low:.4g} to {high:.4g} without a step."]
    )
    if len(latent.peaks):
        steps, parts = len(latent.peaks), len(latent.intervals)
        inner = "two parts" if steps == 1 else f"{parts} interval{'s' if parts > 1 else ''}"
        ends = (
            "" if parts > steps else ", what lies before the first step and after the last left out"
        )
        said.append(
            f"{steps} step{'s' if steps > 1 else ''} cut{'s' if steps == 1 else ''} its codes into"
            f" {inner}{ends}."
        )
    if chance := len(latent.by_chance):
        which = "1 rise is" if chance == 1 else f"{chance} rises are"
        said.append(
            f"{which} higher than the least height, but no higher than chance makes among so many"
            " codes."
        )
    if latent.chosen is not None:
        kept = latent.intervals[latent.chosen]
        share = variance_left(latent, found.images(found.index))
        rank = f"number {latent.chosen + 1} of {len(latent.intervals)} by quality"
        said.append(
            f"Chosen: the codes {_span(latent, latent.chosen)} of {len(kept):,} images, {rank}."
        )
        among = (
            "these images"
            if len(found.latents) == 1
            else "the images that lie in the chosen intervals of all latents"
        )
        said.append(f"Among {among} it has {100 * share:.2g}% of its variance.")
    return " ".join(said)


def variance_left(latent: Latent, images: NDArray[np.int64]) -> float:
    """Variance of the codes of *images* as a share of that of all."""
    chosen = np.zeros(len(latent.order), dtype=bool)
    chosen[images] = True
    return float(latent.values[chosen[latent.order]].var() / latent.values.var())


def rule_sentences(rule: ReductionRule, several: bool) -> list[str]:
    """The rule in words, with the numbers that were used."""
    said = [
        (
            f"A rise is a step when it is at least the median rise plus {rule.peak_deviations:g}"
            " standard deviations, taken of the rises below the median plus"
            f" {rule.usual_deviations:g} standard deviations of all. The first and last"
            f" 1/{rule.ignored_ends} of the rises are not looked at. Steps are at least"
            f" 1/{rule.separation} of them apart."
        ),
        (
            "The quality of an interval is the lower of the two steps beside it, divided by the"
            " mean rise inside: flat between high steps is good."
        ),
    ]
    if rule.chance is not None:
        said.append(
            "A step must also be so high above the median of its surroundings that codes without"
            f" any steps show one with a chance of {100 * rule.chance:g}% at most. This bound is"
            " not in the paper; ReductionRule(chance=None) leaves it out."
        )
    if several:
        said.append(
            f"With {rule.few_peaks} steps or fewer the parts before the first and after the last"
            f" count too, their outer side as a step of height {rule.end_height:g}. The"
            f" {rule.best_intervals} best intervals of every latent are combined with those of the"
            f" others; combinations of more than {rule.more_than} images are candidates, the"
            " nearest to their median size first."
        )
    trim = f"{100 * rule.trim:g}% of an interval are left out at either side. " if rule.trim else ""
    return [*said, f"{trim}Fewer than {rule.fewest_images} images are not kept."]


def _facts(found: Reduction, source: str) -> list[tuple[str, str]]:
    facts = [("Labels", source)] if source else []
    count = len(found.cells)
    facts += [
        ("Images", f"{count:,}"),
        ("Latents", f"{len(found.latents)}"),
        ("Candidates", f"{len(found.candidates):,}"),
    ]
    if found.chosen is not None:
        facts.append(("Candidate taken", f"number {found.index}"))
    if found.stopped is None:
        facts.append(("Kept", f"{len(found.indices):,} ({100 * len(found.indices) / count:.2g}%)"))
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [*facts, ("Page made", made)]


def _rows(examples: Examples | None) -> list[dict[str, Any]]:
    from unbraid.report.images import row_uri

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
    return [
        {
            "number": number,
            "size": f"{one.size:,}",
            "spans": [
                _span(latent, rank) for latent, rank in zip(found.latents, one.ranks, strict=True)
            ],
            "qualities": [
                _quality(latent.intervals[rank].quality)
                for latent, rank in zip(found.latents, one.ranks, strict=True)
            ],
            "taken": number == found.index,
        }
        for number, one in enumerate(found.candidates)
        if number < MOST_CANDIDATES or number == found.index
    ]


def _quality(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else "∞"


def _span(latent: Latent, rank: int) -> str:
    one = latent.intervals[rank]
    return f"{latent.values[one.start]:.3g} to {latent.values[one.stop - 1]:.3g}"
