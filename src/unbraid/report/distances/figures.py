# SPDX-License-Identifier: Apache-2.0
"""Distance matrices as heat maps: a figure each for the page, and all in one SVG for a paper."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from unbraid.analysis.distances.perceived_distances import RANDOM, LevelDistances
from unbraid.analysis.distances.tally import ground_truth
from unbraid.report.figure import INK, MUTED, figure, short

LIGHT, DARK, NO_VALUE = "#ffffff", "#0b4f8a", "#d9dee5"
_BAR, _RANDOM_BAR = "#31688e", "#a9b4c0"
_NAMES = {
    "ground_truth": "Ground truth",
    "inputs": "Inputs",
    "means": "Latent means",
    "posteriors": "Posteriors",
    "reconstructions": "Reconstructions",
}


def level_name(key: str) -> str:
    """A level as a heading.

    >>> level_name("means")
    'Latent means'
    """
    return _NAMES.get(key, key)


def matrix_rows(
    levels: Sequence[LevelDistances],
) -> list[tuple[str, str, list[NDArray[np.float64]]]]:
    """Level, measure and matrices by factor: a row of heat maps each, the ground truth on top."""
    truth = [ground_truth(one.values) for one in levels[0].factors]
    rows = [("ground_truth", "|i - j|", truth)]
    return rows + [
        (level.key, level.measure, [one.matrix for one in level.factors]) for level in levels
    ]


def largest(matrix: NDArray[np.float64]) -> float:
    """The top of a heat map's scale, which starts at 0."""
    return float(np.nanmax(matrix, initial=0.0))


def heat_map(matrix: NDArray[np.float64], values: NDArray[np.int64]) -> go.Figure:
    """A distance matrix from 0 (white) to its largest entry (blue); the first value runs down."""
    names = [str(value) for value in values]
    data = go.Heatmap(
        z=[short(row, 4) for row in matrix],
        x=names,
        y=names,
        zmin=0.0,
        zmax=largest(matrix) or 1.0,
        colorscale=[[0.0, LIGHT], [1.0, DARK]],
        showscale=False,
        hoverongaps=False,
        hovertemplate="value %{y} to %{x}: %{z:.4g}<extra></extra>",
    )
    axis = {
        "type": "category",
        "showticklabels": False,
        "showgrid": False,
        "fixedrange": True,
        "showline": True,
        "mirror": True,
    }
    return figure(
        [data],
        height=None,  # the page keeps it square
        xaxis=axis,
        yaxis={**axis, "autorange": "reversed"},
        plot_bgcolor=NO_VALUE,
        margin={"l": 1, "r": 1, "t": 1, "b": 1},
    )


def importance_figure(level: LevelDistances) -> go.Figure:
    """Mean distance of pairs that differ in one factor; random pairs are on top.

    A whisker is the deviation between pairs.
    """
    ranked = sorted(level.factors, key=lambda one: -one.importance.mean)
    rows = [(RANDOM, level.random), *((one.factor, one.importance) for one in ranked)]
    bars = go.Bar(
        orientation="h",
        y=[name for name, _ in rows],
        x=short([found.mean for _, found in rows]),
        error_x={
            "type": "data",
            "array": short([found.std for _, found in rows]),
            "color": MUTED,
            "thickness": 1.2,
            "width": 4,
        },
        marker_color=[_RANDOM_BAR, *([_BAR] * len(ranked))],
        hovertemplate="%{y}: %{x:.4g}<extra></extra>",
    )
    return figure(
        [bars],
        x=f"mean distance ({level.measure})",
        xaxis={"rangemode": "tozero", "showgrid": True},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        bargap=0.4,
        height=90 + 32 * len(rows),
    )


def grid_svg(levels: Sequence[LevelDistances], title: str) -> str:
    """All heat maps in one image: a column a factor, a row a level."""
    side, gap, left, top, line = 120, 16, 140, 62, 18
    factors = [one.factor for one in levels[0].factors]
    rows = matrix_rows(levels)
    width, height = (
        left + len(factors) * (side + gap),
        top + len(rows) * (side + gap + line) - gap + 8,
    )
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif"'
            f' font-size="13" fill="{INK}">'
        ),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for column, factor in enumerate(factors):
        middle = left + column * (side + gap) + side / 2
        parts.append(
            f'<text x="{middle}" y="{top - 8}" text-anchor="middle">{escape(factor)}</text>'
        )
    for number, (key, measure, matrices) in enumerate(rows):
        y = top + number * (side + gap + line)
        parts.append(f'<text x="12" y="{y + side / 2}">{escape(level_name(key))}</text>')
        parts.append(
            f'<text x="12" y="{y + side / 2 + 17}" fill="{MUTED}">{escape(measure)}</text>'
        )
        for column, matrix in enumerate(matrices):
            x = left + column * (side + gap)
            place = f'x="{x}" y="{y}" width="{side}" height="{side}"'
            parts.append(
                f'<image {place} preserveAspectRatio="none" style="image-rendering:pixelated"'
                f' href="{_matrix_uri(matrix)}"/>'
            )
            parts.append(f'<rect {place} fill="none" stroke="#c3cad3"/>')
            parts.append(
                f'<text x="{x + side / 2}" y="{y + side + 15}" text-anchor="middle" font-size="11"'
                f' fill="{MUTED}">0 to {largest(matrix):.3g}</text>'
            )
    return "\n".join([*parts, "</svg>\n"])


def _matrix_uri(matrix: NDArray[np.float64]) -> str:
    from PIL import Image

    share = np.clip(matrix / (largest(matrix) or 1.0), 0.0, 1.0)[..., None]
    light, dark, none = (
        np.array([int(text[at : at + 2], 16) for at in (1, 3, 5)])
        for text in (LIGHT, DARK, NO_VALUE)
    )
    colours = np.where(np.isnan(share), none, light + (dark - light) * np.nan_to_num(share))
    buffer = io.BytesIO()
    Image.fromarray(np.rint(colours).astype(np.uint8)).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
