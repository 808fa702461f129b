# SPDX-License-Identifier: Apache-2.0
"""The two panels that show how a latent's codes were cut (Estermann et al. 2020, figure 3).

Departs: what chance may have made is marked beside the peaks, and the ends in which none is looked
for are grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from unbraid.report.figure import ACCENT, BLUE, INK, MUTED, figure, line, ring
from unbraid.search.reduce.reduction import Latent

MOST_POINTS = 1_800
"""Points of a curve; a longer one is thinned, but keeps every peak."""
_KEPT, _IGNORED = "rgba(213,94,0,0.16)", "rgba(138,148,160,0.16)"


def codes_figure(latent: Latent) -> go.Figure:
    """The sorted codes, with the chosen interval shaded."""
    count = len(latent.values)
    sides = [
        latent.peaks,
        latent.peaks + 1,
        *([one.start, one.stop - 1] for one in latent.intervals),
    ]
    places = _places(count, sides)
    curve = _curve(places, latent.values[places], "code", line_shape="linear")
    return _figure([curve], count, "code", _shading(latent))


def derivative_figure(latent: Latent) -> go.Figure:
    """The derivative with threshold, peaks and the chosen interval."""
    count = len(latent.values)
    entries = envelope(latent.derivative, np.concatenate([latent.peaks, latent.by_chance]))
    ends = [-0.5, count - 0.5]
    threshold = {"line_color": INK, "line_dash": "dash", "showlegend": True}
    traces = [
        _curve(entries + 0.5, latent.derivative[entries], "rise"),
        _curve(ends, [latent.threshold] * 2, "least height", **threshold),
    ]
    for name, found, colour, symbol in (
        ("peak", latent.peaks, ACCENT, "circle-open"),
        ("maybe chance", latent.by_chance, MUTED, "x-thin-open"),
    ):
        if len(found):
            look = {"marker_symbol": symbol, "hovertemplate": _hover(name)}
            traces.append(ring(found + 0.5, latent.derivative[found], name, colour, 9, **look))
    grey = [
        _box(ends[0], latent.ignored, _IGNORED),
        _box(count - 1 - latent.ignored, ends[1], _IGNORED),
    ]
    shapes = [*(grey if latent.ignored else []), *_shading(latent)]
    # The ends of most laws rise far more steeply than all that is looked at, and would leave it no
    # room.
    highest = max(
        float(latent.derivative[latent.ignored : len(latent.derivative) - latent.ignored].max()),
        latent.threshold,
    )
    made = _figure(traces, count, "rise to the next code", shapes)
    return made.update_layout(
        showlegend=True, yaxis_range=[0.0, 1.12 * highest if highest > 0.0 else 1.0]
    )


def envelope(derivative: NDArray[np.float64], always: ArrayLike) -> NDArray[np.int64]:
    """Entries to draw: *always*, and the largest of each part; all of a short derivative."""
    count = len(derivative)
    if count <= MOST_POINTS:
        return np.arange(count)
    edges = np.linspace(0, count, MOST_POINTS + 1).astype(np.int64)
    largest = [
        start + int(np.argmax(derivative[start:stop])) for start, stop in pairwise(edges.tolist())
    ]
    return np.unique(
        np.concatenate([largest, np.asarray(always, dtype=np.int64), [0, count - 1]])
    ).astype(np.int64)


def _places(count: int, always: Sequence[ArrayLike]) -> NDArray[np.int64]:
    """Ascending places to draw: evenly spread, both sides of every step among them."""
    if count <= MOST_POINTS:
        return np.arange(count)
    even = np.linspace(0, count - 1, MOST_POINTS).astype(np.int64)
    return np.unique(
        np.concatenate([even, *(np.asarray(one, dtype=np.int64) for one in always)])
    ).astype(np.int64)


def _shading(latent: Latent) -> list[dict[str, Any]]:
    if latent.chosen is None:
        return []
    kept = latent.intervals[latent.chosen]
    return [_box(kept.start - 0.5, kept.stop - 0.5, _KEPT)]


def _box(left: float, right: float, colour: str) -> dict[str, Any]:
    place = {"x0": left, "x1": right, "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
    return {**place, "fillcolor": colour, "line_width": 0}


def _curve(x: ArrayLike, y: ArrayLike, name: str, **look: Any) -> go.Scatter:
    look = {"line_width": 1.6, "showlegend": False, "hovertemplate": _hover(name), **look}
    return line(x, y, name, look.pop("line_color", BLUE), **look)


def _hover(name: str) -> str:
    return f"place %{{x}}<br>{name} %{{y:.4g}}<extra></extra>"


def _figure(
    traces: Sequence[go.Scatter], count: int, y: str, shapes: Sequence[dict[str, Any]]
) -> go.Figure:
    # One height and one margin for both panels, so that their places stand below each other on a
    # phone.
    return figure(
        traces,
        x="place in the sorted order",
        y=y,
        height=300,
        margin_t=34,
        shapes=list(shapes),
        xaxis={
            "range": [-0.5, count - 0.5],
            "separatethousands": True,
            "exponentformat": "none",
        },
    )
