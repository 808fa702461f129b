# SPDX-License-Identifier: Apache-2.0
"""What the drawn and the published dSprites share: grid, meanings of the factors, citation."""

from __future__ import annotations

from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.data.drawn.dsprites_drawing import ORIENTATIONS, POSITIONS, SCALES, SHAPES

GRID = FactorGrid(
    ("shape", "scale", "orientation", "x", "y"),
    (SHAPES, SCALES, ORIENTATIONS, POSITIONS, POSITIONS),
)
MEANINGS = {
    "shape": "square, ellipse, heart",
    "scale": "0.5 to 1",
    "orientation": "0 to 360 degrees, both ends: 0 and 39 are the same",
    "x": "left to right",
    "y": "top to bottom",
}
CITATION = Citation(
    "L. Matthey, I. Higgins, D. Hassabis, A. Lerchner",
    2017,
    "dSprites: Disentanglement testing Sprites dataset",
    "https://github.com/google-deepmind/dsprites-dataset",
)
