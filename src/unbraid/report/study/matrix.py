# SPDX-License-Identifier: Apache-2.0
"""A matrix as a heatmap in SVG, with its numbers and those of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unbraid.report.study.svg import (
    INK,
    LINE,
    MUTED,
    centred,
    document,
    element,
    names_below,
    text_width,
    upright,
    wrapped,
)
from unbraid.studies.finding import Exhibit

LOW, MIDDLE, HIGH = (236, 153, 108), (255, 255, 255), (112, 174, 217)
"""Ends and middle of the colours, on all of which ink can be read."""
TOP = 6.0


def draw_matrix(exhibit: Exhibit, width: float) -> str:
    """A heatmap with its numbers, and below them the paper's where it prints some."""
    table = exhibit.table
    rows, columns = (list(map(str, names)) for names in (table.index, table.columns))
    left = LINE + 18 + max(map(text_width, rows), default=0.0)
    wide = min(max((width - left - 8) / max(len(columns), 1), 50.0), 92.0)
    tall = 30.0 if exhibit.paper is None else 42.0
    right, bottom = left + wide * len(columns), TOP + tall * len(rows)
    parts = [upright(exhibit.y, LINE * 0.8, (TOP + bottom) / 2)]
    for place, name in enumerate(rows):
        y = TOP + tall * (place + 0.5) + 4
        parts.append(element("text", name, x=left - 8, y=y, text_anchor="end"))
    parts += _cells(exhibit, left, wide, tall)
    middles = [(name, left + wide * (place + 0.5)) for place, name in enumerate(columns)]
    labels, labels_tall = names_below(middles, wide, bottom)
    titles = wrapped(exhibit.x, right - left)
    titles += [] if exhibit.paper is None else ["in brackets: the paper"]
    below = bottom + labels_tall + LINE + 9
    parts += [*labels, *centred(titles, (left + right) / 2, below, MUTED)]
    return document(right + 8, below + LINE * (len(titles) - 1) + 8, parts, exhibit.caption)


def _cells(exhibit: Exhibit, left: float, wide: float, tall: float) -> list[str]:
    """The boxes with their numbers."""
    table = exhibit.table
    cells = table.to_numpy(dtype=float)
    paper = np.full(cells.shape, np.nan)
    if exhibit.paper is not None:
        own = exhibit.paper.reindex(index=table.index, columns=table.columns)
        paper = own.to_numpy(dtype=float)
    colour, shown, printed = _colours(cells), _digits(cells), _digits(paper)
    parts = []
    for i, j in np.ndindex(cells.shape):
        x, y, value = left + wide * j, TOP + tall * i, float(cells[i, j])
        box = {"x": x, "y": y, "width": wide, "height": tall, "fill": colour(value)}
        parts.append(element("rect", **box, stroke="#ffffff"))
        number = float(paper[i, j])
        told = math.isfinite(number)
        x, y = x + wide / 2, y + tall / 2 + (-3 if told else 4)
        parts += centred([shown(value)], x, y, INK)
        if told:
            small = {"text_anchor": "middle", "fill": "#3d4854", "font_size": "10.5"}
            parts.append(element("text", f"({printed(number)})", x=x, y=y + 14, **small))
    return parts


def _colours(cells: NDArray[np.float64]) -> Callable[[float], str]:
    """From 0 to the highest in one colour; with negative numbers in two, from -1 to 1 at least."""
    known = np.abs(cells[np.isfinite(cells)])
    most = float(known.max(initial=0.0))
    most = 1.0 if most <= 1 else most

    def colour(value: float) -> str:
        if not math.isfinite(value):
            return "#f5f7f9"
        end, share = (HIGH if value >= 0 else LOW), min(abs(value) / most, 1.0)
        mixed = (
            round(middle + share * (own - middle)) for middle, own in zip(MIDDLE, end, strict=True)
        )
        return "#" + "".join(f"{one:02x}" for one in mixed)

    return colour


def _digits(cells: NDArray[np.float64]) -> Callable[[float], str]:
    """How numbers of a matrix are written: whole where all are, else to about a thousandth."""
    known = cells[np.isfinite(cells)]
    most = np.abs(known).max(initial=0.0)
    whole = most > 1 and np.allclose(known, known.round(), atol=1e-6)
    decimals = 0 if whole or most >= 1000 else 2 if most < 10 else 1

    def shown(value: float) -> str:
        text = f"{value:,.{decimals}f}" if math.isfinite(value) else "–"
        return (text.lstrip("-") if not text.strip("-0.") else text).replace("-", "−")

    return shown
