# SPDX-License-Identifier: Apache-2.0
"""Exhibits of findings as SVG, in the six forms they have: `draw`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unbraid.report.study.matrix import draw_matrix
from unbraid.report.study.pictures import draw_images
from unbraid.report.study.svg import (
    INK,
    LINE,
    MUTED,
    RULE,
    SIZE,
    Scale,
    centred,
    document,
    element,
    group,
    names_below,
    spread,
    text_width,
    tick_shown,
    upright,
    wrapped,
)
from unbraid.studies.finding import Exhibit, Form

WIDE, NARROW = 720.0, 350.0
"""Pixels that a figure takes on a page, and on a phone."""
COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f4e9c", "#8c6d1f"),
)
"""Those of Okabe and Ito, which the colour-blind tell apart, and two more."""
PAPER = "#9aa4af"
DASHES = ("", "6 4", "2 3")
PLOT_HEIGHT = 270.0
DOT = 1.8
"""Radius of a value of a violin."""
MOST_DOTS = 60
"""A violin of more values shows its shape alone."""


def draw(exhibit: Exhibit, width: float = WIDE) -> str:
    """*exhibit* as a whole SVG of *width* pixels; a matrix with many columns is wider."""
    if exhibit.form == "matrix":
        return draw_matrix(exhibit, width)
    if exhibit.form == "images":
        return draw_images(exhibit, width)
    table = _finite(exhibit)
    if table.empty:
        words = element("text", "There is nothing to draw.", x=0, y=SIZE, fill=MUTED)
        return document(width, 2 * SIZE, [words], exhibit.caption)
    return _plot(exhibit, table, width)


def _finite(exhibit: Exhibit) -> pd.DataFrame:
    """The rows that can be drawn: finite numbers, above 0 along an axis that is logarithmic."""
    table = exhibit.table
    good = np.ones(len(table), dtype=bool)
    for axis in ("x", "y") if exhibit.form in ("lines", "points") else ("y",):
        values = table[axis].to_numpy(dtype=float)
        good &= np.isfinite(values)
        if axis in exhibit.logarithmic:
            good &= values > 0
    return table.loc[good].reset_index(drop=True)


@dataclass(frozen=True)
class Look:
    """How a group is drawn."""

    colour: str
    dash: str


def looks(groups: Sequence[str]) -> tuple[dict[str, Look], dict[str, Look]]:
    """A look for each group, and the keys of the legend.

    Names of two parts share a colour by the first and a dash by the other.

    >>> groups, keys = looks(["a, x", "a, y", "b, x"])
    >>> [(one.colour, one.dash) for one in groups.values()]
    [('#0072b2', ''), ('#0072b2', '6 4'), ('#d55e00', '')]
    >>> list(keys)
    ['a', 'b', 'x', 'y']
    """
    parts = [name.split(", ") for name in groups]
    if len(groups) > 1 and all(len(part) == 2 for part in parts):
        firsts, seconds = (list(dict.fromkeys(names)) for names in zip(*parts, strict=True))
        colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(firsts)}
        dashes = {name: DASHES[place % len(DASHES)] for place, name in enumerate(seconds)}
        keys = {name: Look(colour, "") for name, colour in colours.items()}
        keys |= {name: Look(MUTED, dash) for name, dash in dashes.items()}
        each = {", ".join(pair): Look(colours[pair[0]], dashes[pair[1]]) for pair in parts}
        return each, keys
    each = {}
    for place, name in enumerate(groups):
        turn, colour = divmod(place, len(COLOURS))
        each[name] = Look(PAPER if name == "paper" else COLOURS[colour], DASHES[turn % len(DASHES)])
    return each, each


@dataclass(frozen=True)
class Frame:
    """The place of a plot inside its figure, with scales of both axes."""

    left: float
    right: float
    top: float
    bottom: float
    y: Scale
    x: Scale | None
    """None where x has categories."""
    categories: tuple[str, ...]

    @property
    def slot(self) -> float:
        """Width of a category."""
        return (self.right - self.left) / len(self.categories)

    def middle(self, category: str) -> float:
        """Pixel of the middle of a category."""
        return self.left + (self.categories.index(category) + 0.5) * self.slot


def _plot(exhibit: Exhibit, table: pd.DataFrame, width: float) -> str:
    """Axes, legend and the marks of the exhibit's form."""
    names = list(dict.fromkeys(map(str, table["group"])))
    styles, keys = looks(names)
    legend, top = _legend(keys, width, exhibit.form) if len(names) > 1 else ([], 8.0)
    bottom = top + PLOT_HEIGHT
    log = "y" in exhibit.logarithmic
    y = spread(
        _reach(table, log),
        bottom,
        top,
        zero=exhibit.form == "bars" and not log,
        log=log,
    )
    ticks = y.ticks()
    y_title = wrapped(exhibit.y, PLOT_HEIGHT)
    left = LINE * len(y_title) + max(text_width(tick_shown(tick)) for tick in ticks) + 16
    right = width - 10
    if exhibit.form in ("bars", "violins"):
        x, categories = None, tuple(map(_category, _ordered(table["x"].tolist())))
    else:
        values = table["x"].to_numpy(dtype=float).tolist()
        x, categories = spread(values, left, right, log="x" in exhibit.logarithmic), ()
    frame = Frame(left, right, top, bottom, y, x, categories)
    labels, height = _x_labels(frame, exhibit.x)
    parts = [*legend, *_y_axis(frame, ticks, y_title), *labels]
    each = {name: table.loc[table["group"].map(str) == name] for name in names}
    parts += _MARKS[exhibit.form](frame, each, styles)
    parts.append(element("line", x1=left, x2=right, y1=bottom, y2=bottom, stroke="#c3cad3"))
    return document(width, bottom + height, parts, exhibit.caption)


def _reach(table: pd.DataFrame, log: bool) -> list[float]:
    """All numbers that the y axis must hold."""
    columns = [name for name in ("y", "low", "high") if name in table]
    values = table[columns].to_numpy(dtype=float).ravel()
    if log:  # an interval may go below 0 and is then cut where the values end
        lowest = table["y"].to_numpy(dtype=float).min()
        values = values[values > lowest / 3]
    return values[np.isfinite(values)].tolist()


def _ordered(values: Sequence[Any]) -> list[Any]:
    """Categories: numbers by size, names as they come."""
    found = list(dict.fromkeys(values))
    return sorted(found) if all(isinstance(one, Real) for one in found) else found


def _category(value: Any) -> str:
    return tick_shown(float(value)) if isinstance(value, Real) else str(value)


def _legend(keys: Mapping[str, Look], width: float, form: Form) -> tuple[list[str], float]:
    """The keys in as many rows as they need, and where the plot begins."""
    parts, x, y = [], 2.0, 14.0
    for name, look in keys.items():
        needed = 26 + text_width(name) + 16
        if x > 2 and x + needed > width:
            x, y = 2.0, y + LINE + 3
        if form == "lines":
            line = {"stroke": look.colour, "stroke_width": 2.2, "stroke_dasharray": look.dash}
            line = {key: value for key, value in line.items() if value}
            parts.append(element("line", x1=x, x2=x + 20, y1=y - 4, y2=y - 4, **line))
        else:
            parts.append(element("circle", cx=x + 12, cy=y - 4, r=5, fill=look.colour))
        parts.append(element("text", name, x=x + 26, y=y))
        x += needed
    return parts, y + 16


def _y_axis(frame: Frame, ticks: Sequence[float], title: Sequence[str]) -> list[str]:
    parts = []
    for tick in ticks:
        y = frame.y.at(tick)
        ends = {"x1": frame.left, "x2": frame.right, "y1": y, "y2": y}
        parts.append(element("line", **ends, stroke=RULE))
        shown = tick_shown(tick)
        parts.append(
            element("text", shown, x=frame.left - 6, y=y + 4, text_anchor="end", fill=MUTED)
        )
    middle = (frame.top + frame.bottom) / 2
    for number, line in enumerate(title):
        parts.append(upright(line, LINE * (number + 0.8), middle))
    return parts


def _x_labels(frame: Frame, title: str) -> tuple[list[str], float]:
    """Numbers or names below the plot, the title below them, and the height of all."""
    if frame.x is None:
        middles = [(name, frame.middle(name)) for name in frame.categories]
        parts, height = names_below(middles, frame.slot, frame.bottom)
    else:
        parts, height = [], LINE
        for tick in frame.x.ticks(70):
            x = frame.x.at(tick)
            y = frame.bottom
            parts.append(element("line", x1=x, x2=x, y1=y, y2=y + 4, stroke="#c3cad3"))
            parts += centred([tick_shown(tick)], x, y + 17, MUTED)
    lines = wrapped(title, frame.right - frame.left)
    below = frame.bottom + height + LINE + 9
    parts += centred(lines, (frame.left + frame.right) / 2, below, MUTED)
    return parts, height + 17 + LINE * len(lines)


Groups = Mapping[str, pd.DataFrame]


def _lines(frame: Frame, each: Groups, styles: Mapping[str, Look]) -> list[str]:
    """A line for each group, with a band where there are intervals."""
    bands, lines = [], []
    for name, rows in each.items():
        look = styles[name]
        rows = rows.sort_values("x")
        xs = [_x(frame, value) for value in rows["x"]]
        if "low" in rows and len(rows) > 1:
            low, high = (
                [*zip(xs, map(frame.y.at, rows[side].fillna(rows["y"])), strict=True)]
                for side in ("low", "high")
            )
            bands.append(element("polygon", points=_path([*low, *high[::-1]]), fill=look.colour))
        points = [*zip(xs, map(frame.y.at, rows["y"]), strict=True)]
        dash = {"stroke_dasharray": look.dash} if look.dash else {}
        lines.append(
            element("polyline", points=_path(points), fill="none", stroke=look.colour, **dash)
        )
        lines += [element("circle", cx=x, cy=y, r=2.5, fill=look.colour) for x, y in points]
    return [group(bands, opacity="0.13"), group(lines, stroke_width=2)]


def _points(frame: Frame, each: Groups, styles: Mapping[str, Look]) -> list[str]:
    """A dot for each row; what is called `paper` is a line."""
    clouds = []
    for name, rows in each.items():
        if name == "paper":
            ends = zip(map(partial(_x, frame), rows["x"]), map(frame.y.at, rows["y"]), strict=True)
            path = {"points": _path([*ends]), "fill": "none", "stroke": styles[name].colour}
            clouds.append(element("polyline", **path, stroke_width=1.5))
            continue
        dots = [
            element("circle", cx=_x(frame, x), cy=frame.y.at(y), r=3)
            for x, y in zip(rows["x"], rows["y"], strict=True)
        ]
        clouds.append(group(dots, fill=styles[name].colour, fill_opacity="0.6"))
    return clouds


def _bars(frame: Frame, each: Groups, styles: Mapping[str, Look]) -> list[str]:
    """A bar for each row, with a whisker where there is an interval, side by side in a slot."""
    parts, whiskers = [], []
    wide = min(frame.slot * 0.72 / len(each), 64.0)
    base = frame.y.at(max(0.0, frame.y.low))
    for number, (name, rows) in enumerate(each.items()):
        for row in rows.to_dict("records"):
            x = frame.middle(_category(row["x"])) + (number - (len(each) - 1) / 2) * wide
            y = frame.y.at(row["y"])
            parts.append(
                element("rect", x=x - 0.46 * wide, y=min(y, base), width=0.92 * wide,
                        height=abs(base - y), fill=styles[name].colour, fill_opacity="0.8")
            )  # fmt: skip
            if "low" in row and row["low"] < row["high"]:
                low, high = frame.y.at(row["low"]), frame.y.at(row["high"])
                whiskers.append(element("line", x1=x, x2=x, y1=low, y2=high))
    return [*parts, group(whiskers, stroke=INK, stroke_width="1.5")]


def _violins(frame: Frame, each: Groups, styles: Mapping[str, Look]) -> list[str]:
    """The density of each group in each slot, its median, and its values where they are few."""
    parts = []
    wide = min(frame.slot * 0.86 / len(each), 110.0)
    for number, (name, rows) in enumerate(each.items()):
        colour = styles[name].colour
        for category, part in rows.groupby(rows["x"].map(_category), sort=False):
            values = part["y"].to_numpy(dtype=float)
            x = frame.middle(str(category)) + (number - (len(each) - 1) / 2) * wide
            shape = _outline(values)
            if shape is not None:
                heights, widths = shape
                half = [*zip(x + 0.46 * wide * widths, map(frame.y.at, heights), strict=True)]
                other = [(2 * x - across, y) for across, y in half[::-1]]
                parts.append(element("polygon", points=_path([*half, *other]), fill=colour,
                                     fill_opacity="0.25", stroke=colour))  # fmt: skip
            if len(values) <= MOST_DOTS:
                ys = [frame.y.at(value) for value in values]
                places = zip(_side_by_side(ys, 0.92 * wide), ys, strict=True)
                dots = [element("circle", cx=x + aside, cy=y, r=DOT) for aside, y in places]
                parts.append(group(dots, fill=colour))
            y = frame.y.at(float(np.median(values)))
            ends = {"x1": x - 0.25 * wide, "x2": x + 0.25 * wide, "y1": y, "y2": y}
            parts.append(element("line", **ends, stroke=INK, stroke_width=2))
    return parts


def _side_by_side(ys: Sequence[float], most: float) -> list[float]:
    """How far aside each dot goes, so that none of as good as the same height hides another and no
    row of them is wider than *most*.
    """
    rows = [round(y / (2 * DOT)) for y in ys]
    seen, aside = Counter[int](), []
    for row in rows:
        last = rows.count(row) - 1
        apart = min(2.5 * DOT, most / max(1, last))
        aside.append(apart * (seen[row] - last / 2))
        seen[row] += 1
    return aside


def _outline(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Heights and widths (1 at most) of a density by Gaussian kernels, Silverman's bandwidth, from
    the least value to the largest: scores have bounds. None where nothing varies.
    """
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    if not deviation > 1e-9 * np.abs(values).max():
        return None
    bandwidth = 0.9 * deviation * len(values) ** -0.2
    heights = np.linspace(values.min(), values.max(), 31)
    density = np.exp(-0.5 * ((heights[:, None] - values) / bandwidth) ** 2).sum(axis=1)
    return heights, density / density.max()


def _x(frame: Frame, value: float) -> float:
    assert frame.x is not None
    return frame.x.at(value)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


_MARKS: dict[Form, Callable[[Frame, Groups, Mapping[str, Look]], list[str]]] = {
    "lines": _lines,
    "points": _points,
    "bars": _bars,
    "violins": _violins,
}
