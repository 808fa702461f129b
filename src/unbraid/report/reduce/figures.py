# SPDX-License-Identifier: Apache-2.0
"""The two panels that show how a latent's codes were cut (Estermann et al. 2020, figure 3), as
plain Plotly dictionaries.

Departs: what chance may have made is marked beside the peaks, and the ends in which none is looked
for are grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.report.train.figures import ACCENT, INK, MUTED, axis_title, layout
from unbraid.search.reduce.reduction import Latent

MOST_POINTS = 1_800
"""Points of a curve; a longer one is thinned, but keeps every peak."""
_BLUE = "#0072b2"
_KEPT, _IGNORED = "rgba(213,94,0,0.16)", "rgba(138,148,160,0.16)"


def codes_figure(latent: Latent) -> dict[str, Any]:
    """The sorted codes, with the chosen interval shaded."""
    count = len(latent.values)
    sides = [
        latent.peaks,
        latent.peaks + 1,
        *([one.start, one.stop - 1] for one in latent.intervals),
    ]
    places = _places(count, sides)
    curve = _line(places, latent.values[places], "code", _BLUE, shape="linear")
    return _figure([curve], count, "place in the sorted order", "code", _shading(latent))


def derivative_figure(latent: Latent) -> dict[str, Any]:
    """The derivative with threshold, peaks and the chosen interval."""
    count = len(latent.values)
    entries = envelope(latent.derivative, np.concatenate([latent.peaks, latent.by_chance]))
    ends = [-0.5, count - 0.5]
    threshold = {
        **_line(ends, [latent.threshold] * 2, "least height", INK, dash="dash"),
        "showlegend": True,
    }
    traces = [_line(entries + 0.5, latent.derivative[entries], "rise", _BLUE), threshold]
    for name, found, symbol in (
        ("peak", latent.peaks, "circle-open"),
        ("maybe chance", latent.by_chance, "x-thin-open"),
    ):
        if len(found):
            traces.append(
                _dots(
                    found + 0.5,
                    latent.derivative[found],
                    name,
                    ACCENT if name == "peak" else MUTED,
                    symbol,
                )
            )
    grey = [
        _box(ends[0], latent.ignored, _IGNORED),
        _box(count - 1 - latent.ignored, ends[1], _IGNORED),
    ]
    shapes = [*(grey if latent.ignored else []), *_shading(latent)]
    made = _figure(
        traces, count, "place in the sorted order", "rise to the next code", shapes, legend=True
    )
    # The ends of most laws rise far more steeply than all that is looked at, and would leave it no
    # room.
    highest = max(
        float(latent.derivative[latent.ignored : len(latent.derivative) - latent.ignored].max()),
        latent.threshold,
    )
    made["layout"]["yaxis"]["range"] = [0.0, 1.12 * highest if highest > 0.0 else 1.0]
    return made


def envelope(derivative: NDArray[np.float64], always: ArrayLike) -> NDArray[np.int64]:
    """Ascending entries to draw: all of a short derivative, the largest of each of many equal parts
    of a long one, and *always*.
    """
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
    ends = {"x0": left, "x1": right, "y0": 0, "y1": 1}
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        **ends,
        "fillcolor": colour,
        "line": {"width": 0},
        "layer": "below",
    }


def _line(x: ArrayLike, y: ArrayLike, name: str, colour: str, **look: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": _short(x, 9),
        "y": _short(y, 6),
        "name": name,
        "showlegend": False,
        "line": {"color": colour, "width": 1.6, **look},
        "hovertemplate": f"place %{{x}}<br>{name} %{{y:.4g}}<extra></extra>",
    }


def _dots(x: ArrayLike, y: ArrayLike, name: str, colour: str, symbol: str) -> dict[str, Any]:
    line = {key: value for key, value in _line(x, y, name, colour).items() if key != "line"}
    marker = {"symbol": symbol, "size": 9, "color": colour, "line": {"color": colour, "width": 2}}
    return {**line, "mode": "markers", "marker": marker, "showlegend": True, "cliponaxis": False}


def _figure(
    data: Sequence[dict[str, Any]],
    count: int,
    x: str,
    y: str,
    shapes: Sequence[dict[str, Any]],
    *,
    legend: bool = False,
) -> dict[str, Any]:
    place = {
        "orientation": "h",
        "x": 0,
        "y": 1.02,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 12},
    }
    axes = {
        "xaxis": {
            "title": axis_title(x),
            "range": [-0.5, count - 0.5],
            "separatethousands": True,
            "exponentformat": "none",
        },
        "yaxis": {"title": axis_title(y)},
    }
    # One height and one margin for both panels, so that their places stand below each other on a
    # phone.
    look = layout(
        **axes,
        height=300,
        margin={"r": 22, "t": 34},
        legend=place,
        shapes=list(shapes),
        showlegend=legend,
    )
    return {"data": list(data), "layout": look}


def _short(values: ArrayLike, digits: int) -> list[float]:
    """As many digits as a figure can show; more only make the page larger."""
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, dtype=np.float64)]
