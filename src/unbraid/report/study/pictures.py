# SPDX-License-Identifier: Apache-2.0
"""An exhibit of images as SVG: a row for each kind, its name above, images side by side."""

from __future__ import annotations

from unbraid.report.images import row_uri
from unbraid.report.study.svg import LINE, MUTED, document, element
from unbraid.studies.finding import Exhibit

_GAP = 6.0
_LARGEST = 110.0


def draw_images(exhibit: Exhibit, width: float) -> str:
    """The images of *exhibit* in a figure of *width* pixels."""
    table = exhibit.table
    columns = list(dict.fromkeys(table["x"]))
    side = min(_LARGEST, (width - _GAP * (len(columns) - 1)) / max(1, len(columns)))
    parts, top = [], 0.0
    for name, row in table.groupby("y", sort=False):
        parts.append(element("text", str(name), x=0, y=top + LINE, fill=MUTED))
        top += LINE + _GAP
        tallest = 0.0
        for place, image in zip(row["x"], row["image"], strict=True):
            height = side * image.shape[0] / image.shape[1]
            x = columns.index(place) * (side + _GAP)
            uri = row_uri(image[None])
            parts.append(element("image", href=uri, x=x, y=top, width=side, height=height))
            tallest = max(tallest, height)
        top += tallest + _GAP
    return document(width, top, parts, exhibit.caption)
