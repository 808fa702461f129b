# SPDX-License-Identifier: Apache-2.0
"""Who came from whom in population-based training: a table, the ancestry of one individual, and
figures of both.

The scheme is that of Jaderberg et al. (2017) and Estermann et al. (2020): after every epoch the
worst individuals take weights and hyperparameters of good ones and change the latter. A row of the
table is one individual after one epoch:

    epoch, individual   from 0; people read of epochs counted from 1
    parent              individual of the epoch before whose weights it started from; its own where it went on, -1 where it has none
    copied              whether it took them from another
    score, diverged     NaN where there is no score
    images              images seen so far
    any other number    an evolved hyperparameter, with the value that was trained with in this epoch

Figures are plain Plotly dictionaries. All edges of a kind are one line with gaps, so that thousands
of individuals stay light.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Problems, Shown, invalid
from unbraid.report.train.figures import ACCENT, INK, MUTED, axis_title, layout
from unbraid.report.train.settings import shown, symbol

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("epoch", "individual", "parent", "copied", "score", "diverged", "images")
WENT_ON, COPIED = "#b6bec8", "#0072b2"
_MOST_DOTS = 4_000
"""Dots in one figure; of larger populations only some individuals have dots, since a browser is
slow with more.
"""
_ROOM = 0.25
"""Half the room that the individuals of one epoch take beside each other where their values may be
equal.
"""
_MOST_TICKS = 7


def check_lineage(lineage: pd.DataFrame) -> None:
    """Refuse a table that lacks a column, has no row, or tells of one individual twice."""
    problems = Problems()
    missing = [name for name in COLUMNS if name not in lineage.columns]
    if missing:
        problems.add(
            "lineage",
            f"must have the columns {', '.join(COLUMNS)}",
            Shown(f"a table without {', '.join(missing)}"),
        )
    elif len(lineage) == 0:
        problems.add("lineage", "must have a row for each individual and epoch", Shown("no row"))
    else:
        twice = lineage[lineage.duplicated(["epoch", "individual"])]
        if len(twice):
            first = twice.iloc[0]
            rule = "must have one row for an individual and epoch"
            problems.add(
                "lineage",
                rule,
                Shown(
                    f"two for individual {int(first['individual'])} in epoch {int(first['epoch'])}"
                ),
            )
    problems.raise_if_any()


def hyper_columns(lineage: pd.DataFrame) -> list[str]:
    """The evolved hyperparameters: all numbers that are not part of the bookkeeping."""
    return [
        name
        for name in lineage.columns
        if name not in COLUMNS and lineage[name].dtype.kind in "iuf"
    ]


def ancestry(lineage: pd.DataFrame, epoch: int, individual: int) -> list[tuple[int, int]]:
    """The individual and all it came from as (epoch, individual), both as in the table, the oldest
    first.
    """
    check_lineage(lineage)
    keys = zip(lineage["epoch"].astype(int), lineage["individual"].astype(int), strict=True)
    parents = dict(zip(keys, lineage["parent"].astype(int), strict=True))
    if (epoch, individual) not in parents:
        epochs = lineage["epoch"].astype(int).tolist()
        remedy = f"The table's epochs are {min(epochs)} to {max(epochs)}."
        raise invalid(
            "individual", "must be in the lineage", Shown(f"{individual} of epoch {epoch}"), remedy
        )
    line = [(epoch, individual)]
    while (parent := parents[line[-1]]) >= 0:
        before = (line[-1][0] - 1, parent)
        if before not in parents:
            child = f"individual {line[-1][1]} of epoch {line[-1][0]}"
            told = Shown(f"individual {parent} of epoch {before[0]}")
            raise invalid(f"parent of {child}", "must be in the lineage", told)
        line.append(before)
    return line[::-1]


def changes(lineage: pd.DataFrame) -> list[str]:
    """For each row, what its individual does otherwise than its parent did: "β 4 → 4.8"; empty
    where nothing changed.
    """
    place = {
        key: at for at, key in enumerate(zip(lineage["epoch"], lineage["individual"], strict=True))
    }
    values = {name: lineage[name].astype(float).tolist() for name in hyper_columns(lineage)}
    told = []
    for at, (epoch, parent) in enumerate(zip(lineage["epoch"], lineage["parent"], strict=True)):
        before = place.get((epoch - 1, parent))
        pairs = (
            []
            if before is None
            else [(name, column[before], column[at]) for name, column in values.items()]
        )
        parts = [
            f"{symbol(name)} {_value(old)} → {_value(new)}"
            for name, old, new in pairs
            if old != new and (old == old or new == new)
        ]
        told.append(", ".join(parts))
    return told


def dotted_every(lineage: pd.DataFrame) -> int:
    """1 where every individual has its dots; n where every nth has, for the figures to stay light."""
    return math.ceil(len(lineage) / _MOST_DOTS)


def lineage_figure(
    lineage: pd.DataFrame, winner: tuple[int, int], score_label: str
) -> dict[str, Any]:
    """Every individual at its epoch and score, a line from its parent, the winner's ancestry bold.

    Individuals without a score are crosses below the others; no line leads to or from them.
    """
    line = ancestry(lineage, *winner)
    epochs, individuals, parents = (
        np.asarray(lineage[name], dtype=np.int64) for name in ("epoch", "individual", "parent")
    )
    counted = epochs + 1
    copied = np.asarray(lineage["copied"], dtype=bool)
    scores = np.asarray(lineage["score"], dtype=np.float64)
    scored = np.isfinite(scores)
    floor = _below(scores[scored])
    place = {
        key: at for at, key in enumerate(zip(epochs.tolist(), individuals.tolist(), strict=True))
    }
    edges: dict[bool, tuple[list[Any], list[Any]]] = {False: ([], []), True: ([], [])}
    for at in np.flatnonzero(scored).tolist():
        before = place.get((int(epochs[at]) - 1, int(parents[at])))
        if before is not None and scored[before]:
            x, y = edges[bool(copied[at])]
            x += [int(counted[before]), int(counted[at]), None]
            y += [_rounded(scores[before]), _rounded(scores[at]), None]
    texts = _texts(lineage)
    size = 6 if len(lineage) <= 1_000 else 4
    data = [
        _line(*edges[False], "went on", WENT_ON, 1.0),
        _line(*edges[True], "copied from another", COPIED, 1.0, opacity=0.7),
    ]
    some = ~copied & (individuals % dotted_every(lineage) == 0)
    for name, chosen, colour in (("went on", some, "#8a94a0"), ("copied", copied, COPIED)):
        rows = np.flatnonzero(scored & chosen)
        data.append(
            _dots(
                counted[rows],
                scores[rows],
                [texts[at] for at in rows],
                f"individuals that {name}",
                color=colour,
                size=size,
            )
        )
    lost = np.flatnonzero(~scored)
    data.append(
        _dots(
            counted[lost],
            np.full(len(lost), floor),
            [texts[at] for at in lost],
            "no score",
            color=MUTED,
            symbol="x",
            size=6,
        )
    )
    path = [place[key] for key in line]
    heights = [_rounded(scores[at]) if scored[at] else None for at in path]
    ancestors = _line(
        [int(counted[at]) for at in path], heights, "the winner's ancestry", ACCENT, 3.0
    )
    ancestors |= {"mode": "lines+markers", "marker": {"color": ACCENT, "size": 6}}
    ancestors |= {
        "text": [texts[at] for at in path],
        "hovertemplate": "%{text}<extra></extra>",
        "hoverinfo": "text",
    }
    data += [ancestors, _ring(line[-1][0] + 1, heights[-1])]
    drawn = [trace for trace in data if trace["x"]]
    # A copied edge in the legend and its dots would be one word twice.
    for trace in drawn:
        trace["showlegend"] = trace["name"] in (
            "went on",
            "copied from another",
            "the winner's ancestry",
            "no score",
        )
    return {
        "data": drawn,
        "layout": _look("epoch", score_label, legend=True, height=420, epochs=epochs),
    }


def spread_figure(lineage: pd.DataFrame, score_label: str) -> dict[str, Any]:
    """Best, median and worst score after each epoch; epochs without any score are gaps."""
    check_lineage(lineage)
    epochs = sorted({int(epoch) for epoch in lineage["epoch"]})
    at, scores = np.asarray(lineage["epoch"]), np.asarray(lineage["score"], dtype=np.float64)
    groups = [scores[(at == epoch) & np.isfinite(scores)] for epoch in epochs]
    lines = (("best", np.max, ACCENT), ("median", np.median, INK), ("worst", np.min, "#8a94a0"))
    data = []
    for name, of, colour in lines:
        y = [_rounded(float(of(group))) if len(group) else None for group in groups]
        one = _line([epoch + 1 for epoch in epochs], y, name, colour, 2.2)
        data.append(
            {
                **one,
                "mode": "lines+markers",
                "marker": {"color": colour, "size": 5},
                "hoverinfo": "all",
            }
        )
        data[-1]["hovertemplate"] = f"{name} %{{y:.3f}} after epoch %{{x}}<extra></extra>"
    return {
        "data": data,
        "layout": _look("epoch", score_label, legend=True, height=320, epochs=np.asarray(epochs)),
    }


def hyper_figure(
    lineage: pd.DataFrame, name: str, winner: tuple[int, int], score_label: str
) -> dict[str, Any]:
    """One hyperparameter of every individual by epoch, coloured by score, with the winner's
    ancestry as a line.

    The axis is logarithmic where all values are positive.
    """
    line = ancestry(lineage, *winner)
    epochs, individuals = (
        np.asarray(lineage[column], dtype=np.int64) for column in ("epoch", "individual")
    )
    values, scores = (np.asarray(lineage[column], dtype=np.float64) for column in (name, "score"))
    present, scored = np.isfinite(values), np.isfinite(scores)
    dotted = present & (individuals % dotted_every(lineage) == 0)
    sideways = epochs + 1 + _ROOM * (2 * individuals / max(1, int(individuals.max())) - 1)
    size = 6 if len(lineage) <= 1_000 else 4
    template = (
        f"epoch %{{customdata[0]}}, individual %{{customdata[1]}}<br>{html.escape(symbol(name))}"
        " %{y:.4g}"
    )
    data = []
    for label, rows, tail in (
        ("no score", dotted & ~scored, "<br>no score"),
        ("individuals", dotted & scored, ""),
    ):
        marker: dict[str, Any] = {"size": 5, "color": WENT_ON, "symbol": "x"}
        if label == "individuals":
            title = {
                "text": html.escape(score_label),
                "side": "right",
                "font": {"size": 12.5, "color": MUTED},
            }
            bar = {
                "title": title,
                "thickness": 10,
                "outlinewidth": 0,
                "tickfont": {"color": MUTED, "size": 12},
            }
            marker = {
                "size": size,
                "color": _short(scores[rows]),
                "colorscale": "Viridis",
                "showscale": True,
                "colorbar": bar,
            }
            tail = f"<br>{html.escape(score_label)} %{{marker.color:.3f}}"
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [round(value, 3) for value in sideways[rows].tolist()],
                "y": _short(values[rows]),
                "customdata": np.stack([epochs[rows] + 1, individuals[rows]], axis=1).tolist(),
                "name": label,
                "marker": marker,
                "hovertemplate": template + tail + "<extra></extra>",
            }
        )
    place = {
        key: at for at, key in enumerate(zip(epochs.tolist(), individuals.tolist(), strict=True))
    }
    path = [place[key] for key in line]
    heights = [_rounded(values[at]) if present[at] else None for at in path]
    across = [round(float(sideways[at]), 3) for at in path]  # through its own dots
    data += [
        _line(across, heights, "the winner's ancestry", ACCENT, 2.5),
        _ring(across[-1], heights[-1]),
    ]
    made = {
        "data": [trace for trace in data if trace["x"]],
        "layout": _look("epoch", "", legend=False, height=320, epochs=epochs),
    }
    if present.any() and (values[present] > 0).all():
        made["layout"]["yaxis"] |= log_axis(
            float(values[present].min()), float(values[present].max())
        )
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
        "ticktext": [_value(tick) for tick in ticks],
    }


def _texts(lineage: pd.DataFrame) -> list[str]:
    """What a point says when it is pointed at."""
    names = hyper_columns(lineage)
    columns = [
        lineage[name].tolist()
        for name in ("epoch", "individual", "parent", "copied", "score", "diverged", *names)
    ]
    texts = []
    for change, (epoch, individual, parent, copied, score, diverged, *values) in zip(
        changes(lineage), zip(*columns, strict=True), strict=True
    ):
        head = f"epoch {epoch + 1}, individual {individual}: " + (
            f"{score:.3f}" if math.isfinite(score) else "no score"
        )
        lines = [head + (", diverged" if diverged else "")]
        lines.append(
            ", ".join(
                f"{symbol(name)} {_value(value)}" for name, value in zip(names, values, strict=True)
            )
        )
        if copied:
            lines.append(f"copied from individual {parent}" + (f": {change}" if change else ""))
        elif change:
            lines.append(f"changed: {change}")
        texts.append("<br>".join(html.escape(part) for part in lines if part))
    return texts


def _below(scores: NDArray[np.float64]) -> float:
    """A place just under all scores, for those who have none."""
    if len(scores) == 0:
        return 0.0
    low, high = float(scores.min()), float(scores.max())
    return _rounded(low - 0.06 * ((high - low) or abs(high) or 1.0))


def _line(
    x: Sequence[Any], y: Sequence[Any], name: str, colour: str, width: float, **look: Any
) -> dict[str, Any]:
    made = {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "name": name,
        "hoverinfo": "skip",
    }
    return {**made, "line": {"color": colour, "width": width}, **look}


def _dots(
    x: NDArray[Any], y: NDArray[np.float64], texts: list[str], name: str, **marker: Any
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x.tolist(),
        "y": _short(y),
        "text": texts,
        "name": name,
        "marker": marker,
        "hovertemplate": "%{text}<extra></extra>",
    }


def _ring(epoch: float, height: float | None) -> dict[str, Any]:
    """Around the winner; nothing where it has no place."""
    marker = {
        "symbol": "circle-open",
        "size": 14,
        "color": ACCENT,
        "line": {"color": ACCENT, "width": 2.5},
    }
    made = {
        "type": "scatter",
        "mode": "markers",
        "x": [],
        "y": [],
        "name": "winner",
        "marker": marker,
        "hoverinfo": "skip",
    }
    return made if height is None else {**made, "x": [epoch], "y": [height], "cliponaxis": False}


def _look(x: str, y: str, *, legend: bool, height: int, epochs: NDArray[Any]) -> dict[str, Any]:
    place = {
        "orientation": "h",
        "x": 0,
        "y": 1.02,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 12},
    }
    whole = {"dtick": 1} if np.ptp(epochs) <= 12 else {"nticks": 12}  # there is no epoch 2.5
    # Plotly reads its texts as HTML.
    axis = {"title": axis_title(x), "tickformat": "d", **whole}
    shown_legend = {"showlegend": True, "legend": place} if legend else {}
    return layout(
        xaxis=axis,
        yaxis={"title": axis_title(html.escape(y))},
        height=height,
        margin={"r": 22},
        **shown_legend,
    )


def _value(value: float) -> str:
    return shown(float(f"{value:.4g}")) if math.isfinite(value) else "–"


def _short(values: NDArray[np.float64]) -> list[float]:
    return [_rounded(value) for value in values.tolist()]


def _rounded(value: float) -> float:
    """Five digits are more than a figure shows, and keep the page small."""
    return float(f"{value:.5g}")
