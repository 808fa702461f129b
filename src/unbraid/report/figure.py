# SPDX-License-Identifier: Apache-2.0
"""The look that all Plotly figures share, and the traces that most are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

Series = ArrayLike | Sequence[Any]
"""Numbers of an axis, or the names of its places; None is a gap."""
INK, MUTED, RULE, ACCENT = "#1b2430", "#5a6675", "#e3e7ec", "#d55e00"
BLUE, GREEN, GREY = "#0072b2", "#009e73", "#8a94a0"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_AXIS = {
    "gridcolor": RULE,
    "linecolor": "#c3cad3",
    "showline": True,
    "zeroline": False,
    "ticks": "",
    "automargin": True,
    "tickfont": {"color": MUTED, "size": 12},
    "title": {"font": {"color": MUTED, "size": 12.5}, "standoff": 8},
}
_COLOUR_BAR = {
    "title": {"side": "right", "font": {"size": 12.5, "color": MUTED}},
    "thickness": 10,
    "outlinewidth": 0,
    "tickfont": {"color": MUTED, "size": 12},
}
TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": _FONT, "size": 12.5, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 44, "r": 22, "t": 10, "b": 44},
        "showlegend": False,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom",
                   "font": {"size": 12}},
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": "#c3cad3",
                       "font": {"family": _FONT, "color": INK}},
        "xaxis": {**_AXIS, "showgrid": False},
        "yaxis": _AXIS,
    },
    data={"scatter": [{"marker": {"colorbar": _COLOUR_BAR}}]},
)  # fmt: skip


def figure(
    traces: Iterable[Any], *, x: str = "", y: str = "", height: int | None = 270, **layout: Any
) -> go.Figure:
    """*traces* in the shared look, with the titles *x* and *y* of the axes.

    *layout* is laid over the look. Without a *height* the box on the page decides.
    """
    made = go.Figure(list(traces), {"template": TEMPLATE, "height": height})
    made.update_xaxes(title_text=x or None).update_yaxes(title_text=y or None)
    return made.update_layout(**layout)


def line(x: Series, y: Series, name: str, colour: str, **look: Any) -> go.Scatter:
    """A line in one colour; NaN leaves a gap. Arguments of *look* are those of `go.Scatter`."""
    look = {"mode": "lines", "line_width": 2, "line_color": colour, **look}
    return go.Scatter(x=short(x, 9), y=short(y), name=name, **look)


def dots(x: Series, y: Series, name: str, colour: Any, **look: Any) -> go.Scatter:
    """Dots in one colour, or in one for each."""
    look = {"mode": "markers", "marker_color": colour, **look}
    return go.Scatter(x=short(x, 9), y=short(y), name=name, **look)


def ring(x: Series, y: Series, name: str, colour: str, size: float = 10, **look: Any) -> go.Scatter:
    """Open circles, which may stand out over the edge of the axes."""
    look = {"marker_symbol": "circle-open", "marker_size": size, "cliponaxis": False, **look}
    return dots(x, y, name, colour, marker_line={"color": colour, "width": 2.2}, **look)


def short(values: Series, digits: int = 6) -> list[Any]:
    """Numbers with as many digits as a figure shows, which keeps the page small; None for NaN.

    >>> short([1 / 3, float("nan"), 70_000]), short(["a", "b"])
    ([0.333333, None, 70000], ['a', 'b'])
    """
    listed = np.asarray(values).tolist() if not isinstance(values, list) else values
    return [_short(value, digits) for value in listed]


def _short(value: Any, digits: int) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
