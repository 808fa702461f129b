# SPDX-License-Identifier: Apache-2.0
"""Figures as plain Plotly dictionaries, pure functions of tables and settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.report.train.settings import Setting, symbol

if TYPE_CHECKING:
    import pandas as pd

INK, MUTED, RULE, ACCENT = "#1b2430", "#5a6675", "#e3e7ec", "#d55e00"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_SPREAD = 0.26
"""Half the room the seeds of one setting take on an axis where settings are 1 apart."""
_MOST_POINTS = 20_000
"""Points in one figure of curves; beyond, every curve is thinned alike."""
_EARLY = 0.05
"""Share of the training that may run out of the top of a figure of curves, so that the rest can be
read.
"""


def layout(**changes: Any) -> dict[str, Any]:
    """The look all figures share, with *changes* laid over it."""
    axis = {
        "gridcolor": RULE,
        "linecolor": "#c3cad3",
        "zeroline": False,
        "ticks": "",
        "automargin": True,
        "tickfont": {"color": MUTED, "size": 12},
        "title": {"font": {"color": MUTED, "size": 12.5}, "standoff": 8},
    }
    base: dict[str, Any] = {
        "font": {"family": _FONT, "size": 12.5, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 44, "r": 10, "t": 10, "b": 44},
        "height": 270,
        "showlegend": False,
        "hoverlabel": {
            "bgcolor": "#ffffff",
            "bordercolor": "#c3cad3",
            "font": {"family": _FONT, "color": INK},
        },
        "xaxis": {**axis, "showgrid": False, "showline": True},
        "yaxis": axis,
    }
    for name, value in changes.items():
        base[name] = (
            {**base[name], **value}
            if isinstance(base.get(name), dict) and isinstance(value, dict)
            else value
        )
    return base


def axis_title(text: str) -> dict[str, Any]:
    """An axis title in the shared look."""
    return {"text": text, "font": {"color": MUTED, "size": 12.5}, "standoff": 8}


def positions(settings: Sequence[Setting]) -> list[float]:
    """Where each setting stands on the axis: 1 apart, half as much more between objectives."""
    places: list[float] = []
    for number, setting in enumerate(settings):
        if number == 0:
            places.append(0.0)
        else:
            places.append(
                places[-1] + (1.0 if setting.objective == settings[number - 1].objective else 1.5)
            )
    return places


def seed_offsets(count: int) -> list[float]:
    """Places of *count* seeds around their setting, side by side in order, so that no dot hides
    another.
    """
    return (
        [0.0]
        if count == 1
        else [-_SPREAD + 2 * _SPREAD * number / (count - 1) for number in range(count)]
    )


def score_range(values: Sequence[float], bounds: tuple[float, float]) -> list[float] | None:
    """Axis from just below the metric's lowest value to a round number above the scores; None lets
    the figure choose.

    >>> score_range([0.1, 0.21], (0.0, 1.0))
    [-0.01, 0.25]
    """
    finite = [value for value in values if math.isfinite(value)]
    low, high = bounds
    if not finite or not (math.isfinite(low) and math.isfinite(high)) or min(finite) < low:
        return None
    shares = (0.1, 0.25, 0.5, 1.0)
    share = next(
        (share for share in shares if max(finite) <= low + (high - low) * share * 0.96), 1.04
    )
    top = (high - low) * share
    return [
        _rounded(low - 0.04 * top),
        _rounded(low + top),
    ]  # a dot at the lowest value is whole and clear of the labels


def scores_figure(
    scores: dict[int, float],
    settings: Sequence[Setting],
    names: dict[int, str],
    *,
    title: str,
    ticks: Sequence[str],
    axis: str,
    best: int | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> dict[str, Any]:
    """Every member a dot at its setting, the setting's median a bar, the best member ringed.

    *scores* and *names* are by member; members without a score are left out. *axis* is the title of the axis of settings.
    """
    dots: dict[str, list[Any]] = {"x": [], "y": [], "text": [], "colour": []}
    bars: dict[str, list[Any]] = {"x": [], "y": [], "text": []}
    ring: dict[str, list[Any]] = {"x": [], "y": []}
    lone, most = len(settings) == 1, max(len(setting.members) for setting in settings)
    places = positions(settings)
    for place, setting in zip(places, settings, strict=True):
        present = [
            member for member in setting.members if math.isfinite(scores.get(member, math.nan))
        ]
        offsets = dict(zip(setting.members, seed_offsets(len(setting.members)), strict=True))
        for member in present:
            dots["x"].append(round(place + offsets[member], 4))
            dots["y"].append(_rounded(scores[member]))
            dots["text"].append(names[member])
            dots["colour"].append(setting.colour)
            if member == best:
                ring = {"x": dots["x"][-1:], "y": dots["y"][-1:]}
        if len(present) > 1:
            middle = float(np.median([scores[member] for member in present]))
            bars["x"] += [place - 0.36, place + 0.36, None]
            bars["y"] += [_rounded(middle), _rounded(middle), None]
            bars["text"] += [f"median {middle:.3f}", f"median {middle:.3f}", ""]
    size = 10 if most <= 12 else 7 if most <= 30 else 5
    span = [-0.6, places[-1] + 0.6]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": bars["x"],
            "y": bars["y"],
            "text": bars["text"],
            "hovertemplate": "%{text}<extra></extra>",
            "line": {"color": INK, "width": 2},
            "name": "median",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "x": dots["x"],
            "y": dots["y"],
            "text": dots["text"],
            "hovertemplate": "%{text}<br>" + title + " %{y:.3f}<extra></extra>",
            "marker": {
                "size": size,
                "opacity": 0.92,
                "color": dots["colour"],
                "line": {"color": "#ffffff", "width": 1},
            },
            "cliponaxis": False,
            "name": "models",
        },
        {
            "type": "scatter",
            "mode": "markers",
            **ring,
            "hoverinfo": "skip",
            "marker": {
                "symbol": "circle-open",
                "size": size + 7,
                "color": ACCENT,
                "line": {"color": ACCENT, "width": 2},
            },
            "cliponaxis": False,
            "name": "best",
        },
    ]
    x = {
        "tickmode": "array",
        "tickvals": places,
        "ticktext": list(ticks),
        "range": span,
        "title": axis_title(axis),
    }
    x["autotickangles"] = [
        0,
        -30,
        -90,
    ]  # to the left, where there is room: past the right edge the last one is not drawn
    if lone:
        x["range"] = [-1.2, 1.2]
    y: dict[str, Any] = {}
    chosen = score_range(list(scores.values()), bounds)
    if chosen is not None:
        y["range"] = chosen
    return {"data": data, "layout": layout(xaxis=x, yaxis=y)}


def curves_figure(
    history: pd.DataFrame,
    quantity: str,
    settings: Sequence[Setting],
    names: dict[int, str],
    diverged: set[int],
) -> dict[str, Any]:
    """One line a member of *quantity* against the step, in its setting's colour; diverged members
    dotted.
    """
    members, steps = np.asarray(history["member"]), np.asarray(history["step"])
    values = np.asarray(history[quantity], dtype=np.float64)
    finite = np.isfinite(values)
    stride = max(1, math.ceil(finite.sum() / _MOST_POINTS))
    data = []
    for number, setting in enumerate(settings):
        for member in setting.members:
            rows = np.flatnonzero(finite & (members == member))[::-1][::stride][
                ::-1
            ]  # the last record always stays
            if len(rows) == 0:
                continue
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines" if len(rows) > 1 else "markers",
                    "x": steps[rows].tolist(),
                    "y": [_rounded(value) for value in values[rows]],
                    "name": names[member],
                    "meta": {"setting": number},
                    "hovertemplate": names[member] + "<br>step %{x:,}: %{y:.4g}<extra></extra>",
                    "line": {
                        "color": setting.colour,
                        "width": 1.4,
                        "dash": "dot" if member in diverged else "solid",
                    },
                    "marker": {"color": setting.colour, "size": 6},
                    "opacity": 0.85,
                }
            )
    y: dict[str, Any] = {}
    healthy = finite & ~np.isin(members, list(diverged))
    chosen = curve_range(steps[healthy], values[healthy])
    if chosen is not None:
        y["range"] = chosen
    return {
        "data": data,
        "layout": layout(
            xaxis={
                "title": axis_title("step"),
                "rangemode": "tozero",
                "tickformat": ",d",
                "nticks": 6,
            },
            yaxis=y,
        ),
    }


def curve_range(steps: NDArray[Any], values: NDArray[np.float64]) -> list[float] | None:
    """Axis that shows everything after the first steps, whose values may be far higher; None where
    that leaves nothing.
    """
    late = values[steps > _EARLY * steps.max(initial=0)]
    if len(late) == 0:
        return None
    low, high = float(late.min()), float(late.max())
    if low == high:
        return None
    room = 0.06 * (high - low)
    floor = 0.0 if 0 <= low < 0.4 * high else low - room
    return [_rounded(floor), _rounded(high + room)]


def latents_figure(
    nats: Sequence[float], latents: Sequence[int], colour: str, unit: str
) -> dict[str, Any]:
    """A bar for each latent, in the order given."""
    data = [
        {
            "type": "bar",
            "x": [f"latent {latent}" for latent in latents],
            "y": [_rounded(value) for value in nats],
            "marker": {"color": colour},
            "hovertemplate": "%{x}: %{y:.3f} " + unit + "<extra></extra>",
        }
    ]
    ticks = {
        "tickmode": "array",
        "tickvals": [f"latent {one}" for one in latents],
        "ticktext": [str(one) for one in latents],
    }
    return {
        "data": data,
        "layout": layout(
            xaxis={**ticks, "type": "category", "title": axis_title("latent")},
            yaxis={"title": axis_title(unit)},
            bargap=0.35,
        ),
    }


def quantity_label(name: str) -> str:
    """A recorded quantity as a heading.

    >>> quantity_label("kl"), quantity_label("total_correlation")
    ('KL divergence', 'Total correlation')
    """
    known = {"kl": "KL divergence", "loss": "Loss"}
    return known.get(name, symbol(name).capitalize())


def _rounded(value: float) -> float:
    """Five digits are more than a figure shows, and keep the page small."""
    return float(f"{value:.5g}")
