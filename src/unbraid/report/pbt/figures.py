# SPDX-License-Identifier: Apache-2.0
"""Figures of a lineage: who came from whom, scores by epoch, and each hyperparameter by epoch.

All edges of a kind are one line with gaps, so that thousands of individuals stay light.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from unbraid.report.figure import ACCENT, BLUE, GREY, INK, MUTED, dots, figure, line, ring, short
from unbraid.report.pbt.lineage import (
    ancestry,
    changes,
    check_lineage,
    collapsed_rows,
    hyper_columns,
    value_shown,
)
from unbraid.report.train.settings import symbol
from unbraid.report.words import score_shown

if TYPE_CHECKING:
    import pandas as pd

WENT_ON, COPIED = "#b6bec8", BLUE
_MOST_DOTS = 4_000
"""Dots in one figure; of larger populations only some individuals have dots, since a browser is
slow with more.
"""
_ROOM = 0.25
"""Half the room that the individuals of one epoch take beside each other where their values may be
equal.
"""
_MOST_TICKS = 7
_TEXT = "%{text}<extra></extra>"


def dotted_every(lineage: pd.DataFrame) -> int:
    """1 where every individual has its dots; n where every nth has, to keep figures light."""
    return math.ceil(len(lineage) / _MOST_DOTS)


def lineage_figure(lineage: pd.DataFrame, winner: tuple[int, int], score_label: str) -> go.Figure:
    """Every individual at its epoch and score, a line from its parent, the winner's ancestry bold.

    Individuals without a score are crosses below the others; no line leads to or from them. Those
    that are collapsed are open circles.
    """
    epochs, individuals, place = _places(lineage)
    parents, copied = np.asarray(lineage["parent"]), np.asarray(lineage["copied"], dtype=bool)
    scores = np.asarray(lineage["score"], dtype=np.float64)
    scored = np.isfinite(scores)
    edges: dict[bool, tuple[list[Any], list[Any]]] = {False: ([], []), True: ([], [])}
    for at in np.flatnonzero(scored).tolist():
        before = place.get((int(epochs[at]) - 1, int(parents[at])))
        if before is not None and scored[before]:
            x, y = edges[bool(copied[at])]
            x += [int(epochs[before]) + 1, int(epochs[at]) + 1, None]
            y += [scores[before].item(), scores[at].item(), None]
    texts, size = np.array(_texts(lineage)), _dot_size(lineage)
    silent = {"hoverinfo": "skip", "line_width": 1}
    path = [place[key] for key in ancestry(lineage, *winner)]
    sunk = collapsed_rows(lineage)
    some = ~copied & ~sunk & (individuals % dotted_every(lineage) == 0)
    hollow = {"marker_size": size + 1, "marker_symbol": "circle-open"}
    traces = [
        line(*edges[False], "went on", WENT_ON, **silent),
        line(*edges[True], "copied from another", COPIED, opacity=0.7, **silent),
    ]
    floor = np.full(len(scores), _below(scores[scored]))
    for name, rows, heights, colour, look in (
        ("individuals that went on", scored & some, scores, GREY, {"marker_size": size}),
        ("individuals that copied", scored & copied & ~sunk, scores, COPIED, {"marker_size": size}),
        ("collapsed", sunk, scores, MUTED, hollow),
        ("no score", ~scored, floor, MUTED, {"marker_size": 6, "marker_symbol": "x"}),
    ):
        hover = {"text": texts[rows].tolist(), "hovertemplate": _TEXT}
        traces.append(dots(epochs[rows] + 1, heights[rows], name, colour, **hover, **look))
        # The line of the copied in the legend and their dots would be one word twice.
        traces[-1].showlegend = name in ("no score", "collapsed")
    traces.append(
        line(
            epochs[path] + 1,
            scores[path],
            "the winner's ancestry",
            ACCENT,
            mode="lines+markers",
            line_width=3,
            marker_size=6,
            text=texts[path].tolist(),
            hovertemplate=_TEXT,
        )
    )
    traces.append(_winner(int(epochs[path[-1]]) + 1, scores[path[-1]]))
    return _by_epoch(traces, epochs, y=html.escape(score_label), height=420, showlegend=True)


def spread_figure(
    lineage: pd.DataFrame, score_label: str, *, higher_is_better: bool = True
) -> go.Figure:
    """Best, median and worst score after each epoch; epochs without any score are gaps.

    Collapsed individuals are left out of epochs that have others.
    """
    check_lineage(lineage)
    at, scores = np.asarray(lineage["epoch"]), np.asarray(lineage["score"], dtype=np.float64)
    epochs, scored = np.unique(at), np.isfinite(scores)
    sound = scored & ~collapsed_rows(lineage)
    groups = [
        scores[one & sound] if (one & sound).any() else scores[one & scored]
        for one in (at == epoch for epoch in epochs)
    ]
    best, worst = (np.max, np.min) if higher_is_better else (np.min, np.max)
    traces = [
        line(
            epochs + 1,
            [float(of(group)) if len(group) else None for group in groups],
            name,
            colour,
            mode="lines+markers",
            marker_size=5,
            hovertemplate=f"{name} %{{y:.3f}} after epoch %{{x}}<extra></extra>",
        )
        for name, of, colour in (
            ("best", best, ACCENT),
            ("median", np.median, INK),
            ("worst", worst, GREY),
        )
    ]
    return _by_epoch(traces, epochs, y=html.escape(score_label), height=320, showlegend=True)


def hyper_figure(
    lineage: pd.DataFrame, name: str, winner: tuple[int, int], score_label: str
) -> go.Figure:
    """One hyperparameter of every individual by epoch, coloured by score, and the winner's line.

    Those that are collapsed are open circles without a colour: their score means nothing. The axis
    is logarithmic where all values are positive.
    """
    epochs, individuals, place = _places(lineage)
    values, scores = (np.asarray(lineage[column], dtype=np.float64) for column in (name, "score"))
    present, scored = np.isfinite(values), np.isfinite(scores)
    dotted = present & (individuals % dotted_every(lineage) == 0)
    sunk = collapsed_rows(lineage)
    sound = dotted & scored & ~sunk
    sideways = epochs + 1 + _ROOM * (2 * individuals / max(1, int(individuals.max())) - 1)
    sideways = sideways.round(3)
    hover = "epoch %{customdata[0]}, individual %{customdata[1]}<br>"
    hover += f"{html.escape(symbol(name))} %{{y:.4g}}<br>"
    label = html.escape(score_label)
    grey = {"marker_size": 5, "marker_symbol": "x"}
    hollow = {
        "text": [score_shown(score) for score in scores[dotted & sunk].tolist()],
        "marker_size": _dot_size(lineage) + 1,
        "marker_symbol": "circle-open",
    }
    coloured = {
        "marker_size": _dot_size(lineage),
        "marker_colorscale": "Viridis",
        "marker_showscale": bool(sound.any()),
        "marker_colorbar_title_text": label,
    }
    scored_label = f"{label} %{{marker.color:.3f}}"
    traces = [
        dots(
            sideways[rows],
            values[rows],
            title,
            colour,
            customdata=np.stack([epochs[rows] + 1, individuals[rows]], axis=1).tolist(),
            hovertemplate=f"{hover}{tail}<extra></extra>",
            **look,
        )
        for title, rows, colour, tail, look in (
            ("no score", dotted & ~scored, WENT_ON, "no score", grey),
            ("collapsed", dotted & sunk, MUTED, f"{label} %{{text}}, collapsed", hollow),
            ("individuals", sound, short(scores[sound]), scored_label, coloured),
        )
    ]
    path = [place[key] for key in ancestry(lineage, *winner)]
    traces += [
        line(  # through its own dots
            sideways[path],
            values[path],
            "the winner's ancestry",
            ACCENT,
            line_width=2.5,
            hoverinfo="skip",
        ),
        _winner(sideways[path[-1]], values[path[-1]]),
    ]
    made = _by_epoch(traces, epochs, height=320)
    if present.any() and (values[present] > 0).all():
        made.update_yaxes(log_axis(float(values[present].min()), float(values[present].max())))
    return made


def log_axis(low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis over *low* to *high* with a handful of round ticks.

    >>> log_axis(8, 1024)["ticktext"]
    ['10', '20', '50', '100', '200', '500', '1000']
    >>> log_axis(1e-5, 1.0)["ticktext"]
    ['1e-05', '0.0001', '0.001', '0.01', '0.1', '1']
    """
    room = max(0.1, 0.06 * math.log10(high / low))
    bottom, top = math.log10(low) - room, math.log10(high) + room
    for digits in ((1, 2, 3, 4, 5, 6, 8), (1, 2, 5), (1, 3), (1,)):
        ticks = [
            digit * 10.0**power
            for power in range(math.floor(bottom), math.ceil(top) + 1)
            for digit in digits
        ]
        ticks = [tick for tick in ticks if bottom <= math.log10(tick) <= top]
        if len(ticks) <= _MOST_TICKS + 1:
            break
    return {
        "type": "log",
        "range": [bottom, top],
        "tickvals": ticks,
        "ticktext": [value_shown(tick) for tick in ticks],
    }


def _texts(lineage: pd.DataFrame) -> list[str]:
    """What a point says under the pointer. Plotly reads its texts as HTML."""
    names = hyper_columns(lineage)
    columns = ("epoch", "individual", "parent", "copied", "score", "diverged", *names)
    rows = zip(*(lineage[name].tolist() for name in columns), strict=True)
    texts, sunk = [], collapsed_rows(lineage).tolist()
    for change, low, (epoch, individual, parent, copied, score, diverged, *values) in zip(
        changes(lineage), sunk, rows, strict=True
    ):
        head = score_shown(score) if math.isfinite(score) else "no score"
        pairs = zip(names, values, strict=True)
        state = ", diverged" if diverged else ", collapsed" if low else ""
        lines = [
            f"epoch {epoch + 1}, individual {individual}: {head}{state}",
            ", ".join(f"{symbol(name)} {value_shown(value)}" for name, value in pairs),
        ]
        if copied:
            lines.append(f"copied from individual {parent}" + (f": {change}" if change else ""))
        elif change:
            lines.append(f"changed: {change}")
        texts.append("<br>".join(html.escape(part) for part in lines if part))
    return texts


def _places(
    lineage: pd.DataFrame,
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[tuple[int, int], int]]:
    """Epochs, individuals, and the row of each of their pairs."""
    check_lineage(lineage)
    epochs, individuals = (
        np.asarray(lineage[name], dtype=np.int64) for name in ("epoch", "individual")
    )
    keys = zip(epochs.tolist(), individuals.tolist(), strict=True)
    return epochs, individuals, {key: at for at, key in enumerate(keys)}


def _dot_size(lineage: pd.DataFrame) -> int:
    return 6 if len(lineage) <= 1_000 else 4


def _below(scores: NDArray[np.float64]) -> float:
    """A place just under all scores, for those who have none."""
    if len(scores) == 0:
        return 0.0
    low, high = float(scores.min()), float(scores.max())
    return low - 0.06 * ((high - low) or abs(high) or 1.0)


def _winner(x: float, y: float) -> go.Scatter:
    """A ring around the winner; nothing where it has no place."""
    points = ([x], [float(y)]) if math.isfinite(y) else ([], [])
    return ring(*points, "winner", ACCENT, 14, hoverinfo="skip", showlegend=False)


def _by_epoch(traces: list[go.Scatter], epochs: NDArray[np.int64], **look: Any) -> go.Figure:
    whole = {"dtick": 1} if np.ptp(epochs) <= 12 else {"nticks": 12}  # there is no epoch 2.5
    drawn = [trace for trace in traces if trace.x]
    return figure(drawn, x="epoch", xaxis={"tickformat": "d", **whole}, **look)
