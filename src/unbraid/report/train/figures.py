# SPDX-License-Identifier: Apache-2.0
"""Figures of a run, pure functions of tables and settings."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from unbraid.report.figure import ACCENT, INK, dots, figure, line, ring, short
from unbraid.report.train.settings import Setting, symbol

if TYPE_CHECKING:
    import pandas as pd

_SPREAD = 0.26
"""Half the room the seeds of one setting take on an axis where settings are 1 apart."""
_MOST_POINTS = 20_000
"""Points in one figure of curves; beyond, every curve is thinned alike."""
_MOST_BARS = 60
"""Dots with error bars in one figure of scores."""
_NOT_ACTIVE = "#c9d0d8"
_LEAST_TOP = 1.0
"""Of an axis of nats, or of standard deviations of the prior."""
_EARLY = 0.05
"""Share of the training that may run out of the top of a figure of curves, so that the rest can be
read.
"""


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
    """Places of *count* seeds around their setting, side by side, so that no dot hides another."""
    return (
        [0.0]
        if count == 1
        else [-_SPREAD + 2 * _SPREAD * number / (count - 1) for number in range(count)]
    )


def score_range(values: Sequence[float], bounds: tuple[float, float]) -> list[float] | None:
    """Axis from below the metric's least value to a round number above all; else None.

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
    # A dot at the lowest value is whole and clear of the labels.
    return short([low - 0.04 * top, low + top])


def _error_bars(errors: Sequence[float]) -> dict[str, Any] | None:
    if len(errors) > _MOST_BARS or not any(map(math.isfinite, errors)):
        return None
    return {"array": short(list(errors)), "thickness": 1.2, "width": 0, "color": "#7b8794"}


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
    collapsed: Collection[int] = (),
    errors: Mapping[int, float] | None = None,
) -> go.Figure:
    """Every member a dot at its setting, the setting's median a bar, the best member ringed.

    Those that *collapsed* are crosses, and no part of a median. Standard *errors* are bars where
    dots are few enough. *scores* and *names* are by member; members without a score are left out.
    *axis* is the title of the axis of settings.
    """
    rows: list[tuple[float, float, str, str, str]] = []
    bars_of: list[float] = []
    bars: dict[str, list[Any]] = {"x": [], "y": [], "text": []}
    ringed: list[float] = []
    places = positions(settings)
    for place, setting in zip(places, settings, strict=True):
        offsets = seed_offsets(len(setting.members))
        present = {
            member: round(place + offset, 4)
            for member, offset in zip(setting.members, offsets, strict=True)
            if math.isfinite(scores.get(member, math.nan))
        }
        rows += [
            (at, scores[one], f"{names[one]}, collapsed", setting.colour, "x-thin-open")
            if one in collapsed
            else (at, scores[one], names[one], setting.colour, "circle")
            for one, at in present.items()
        ]
        bars_of += [(errors or {}).get(one, math.nan) for one in present]
        if best in present:
            ringed = [present[best], scores[best]]
        sound = [member for member in present if member not in collapsed]
        if len(sound) > 1:
            middle = float(np.median([scores[member] for member in sound]))
            bars["x"] += [place - 0.36, place + 0.36, None]
            bars["y"] += [middle, middle, None]
            bars["text"] += [f"median {middle:.3f}", f"median {middle:.3f}", ""]
    x, y, texts, colours, symbols = (
        (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
    )
    most = max(len(setting.members) for setting in settings)
    size = 10 if most <= 12 else 7 if most <= 30 else 5
    hover = "%{text}<extra></extra>"
    return figure(
        [
            line(bars["x"], bars["y"], "median", INK, text=bars["text"], hovertemplate=hover),
            dots(
                x,
                y,
                "models",
                colours,
                text=texts,
                hovertemplate=f"%{{text}}<br>{title} %{{y:.3f}}<extra></extra>",
                marker_size=size,
                marker_symbol=symbols,
                marker_opacity=0.92,
                marker_line={
                    "color": ["#ffffff" if one == "circle" else INK for one in symbols],
                    "width": [1 if one == "circle" else 1.6 for one in symbols],
                },
                cliponaxis=False,
                error_y=_error_bars(bars_of),
            ),
            ring(ringed[:1], ringed[1:], "best", ACCENT, size + 7, hoverinfo="skip"),
        ],
        x=axis,
        xaxis={
            "tickvals": places,
            "ticktext": list(ticks),
            "range": [-0.6, places[-1] + 0.6] if len(settings) > 1 else [-1.2, 1.2],
            # To the left, where there is room: past the right edge the last one is not drawn.
            "autotickangles": [0, -30, -90],
        },
        yaxis_range=score_range(list(scores.values()), bounds),
    )


def curves_figure(
    history: pd.DataFrame,
    quantity: str,
    settings: Sequence[Setting],
    names: dict[int, str],
    diverged: set[int],
) -> go.Figure:
    """*quantity* against the training step, one line per member in its setting's colour.

    Members that diverged are dotted.
    """
    members, steps = np.asarray(history["member"]), np.asarray(history["step"])
    values = np.asarray(history[quantity], dtype=np.float64)
    finite = np.isfinite(values)
    stride = max(1, math.ceil(finite.sum() / _MOST_POINTS))
    lines = []
    for number, setting in enumerate(settings):
        for member in setting.members:
            rows = np.flatnonzero(finite & (members == member))
            rows = rows[::-1][::stride][::-1]  # the last record always stays
            if len(rows) == 0:
                continue
            lines.append(
                line(
                    steps[rows],
                    values[rows],
                    names[member],
                    setting.colour,
                    mode="lines" if len(rows) > 1 else "markers",
                    line_width=1.4,
                    line_dash="dot" if member in diverged else "solid",
                    marker={"color": setting.colour, "size": 6},
                    opacity=0.85,
                    meta={"setting": number},
                    hovertemplate=f"{names[member]}<br>step %{{x:,}}: %{{y:.4g}}<extra></extra>",
                )
            )
    healthy = finite & ~np.isin(members, list(diverged))
    return figure(
        lines,
        x="training step",
        # Between the steps of a short training there is nothing to tick.
        xaxis={"rangemode": "tozero", "tickformat": ",d"}
        | ({"nticks": 6} if steps.max(initial=0) > 6 else {"dtick": 1}),
        yaxis_range=curve_range(steps[healthy], values[healthy]),
    )


def curve_range(steps: NDArray[Any], values: NDArray[np.float64]) -> list[float] | None:
    """Axis for all but the first steps, whose values may be far higher; None without others."""
    late = values[steps > _EARLY * steps.max(initial=0)]
    if len(late) == 0:
        return None
    low, high = float(late.min()), float(late.max())
    if low == high:
        return None
    room = 0.06 * (high - low)
    floor = 0.0 if 0 <= low < 0.4 * high else low - room
    return short([floor, high + room])


def latents_figure(
    sizes: Sequence[float],
    latents: Sequence[int],
    colour: str,
    unit: str,
    *,
    active: Collection[int],
    top: float,
) -> go.Figure:
    """A bar for each latent, in the order given; those that are not *active* are grey.

    The axis ends at *top*, the same for all models of a page, and never so low that what says next
    to nothing looks like much.
    """
    names = [f"latent {latent}" for latent in latents]
    bars = go.Bar(
        x=names,
        y=short(sizes),
        marker_color=[colour if latent in active else _NOT_ACTIVE for latent in latents],
        hovertemplate=f"%{{x}}: %{{y:.3f}} {unit}<extra></extra>",
    )
    axis = {"type": "category", "tickvals": names, "ticktext": [str(one) for one in latents]}
    ends = short([0.0, 1.04 * max(top, _LEAST_TOP)])
    return figure([bars], x="latent", y=unit, xaxis=axis, bargap=0.35, yaxis_range=ends)


def quantity_label(name: str) -> str:
    """A recorded quantity as a heading.

    >>> quantity_label("kl"), quantity_label("total_correlation")
    ('KL divergence', 'Total correlation')
    """
    known = {"kl": "KL divergence", "loss": "Loss"}
    return known.get(name, symbol(name).capitalize())
