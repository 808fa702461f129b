# SPDX-License-Identifier: Apache-2.0
"""Tables of pictures: what is drawn is what was given, read back by another library."""

from __future__ import annotations

import base64
import io
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from unbraid.report.study.figures import NARROW, WIDE, draw
from unbraid.report.study.pictures import DARK, as_png
from unbraid.studies.finding import Exhibit


def read(address: str) -> np.ndarray:
    kind, _, content = address.partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


@pytest.mark.parametrize("shape", [(3, 5), (7, 4, 3), (300, 400), (2, 2, 1)])
def test_images_are_read_back_as_they_are(shape):
    pixels = np.random.default_rng(0).integers(256, size=shape).astype(np.uint8)
    found = read(as_png(pixels))
    assert np.array_equal(found, pixels[..., 0] if shape[-1] == 1 else pixels)


def test_densities_go_from_white_to_dark():
    found = read(as_png(np.array([[0.0, 2.0], [4.0, np.nan]])))
    assert found[0, 0].tolist() == found[1, 1].tolist() == [255] * 3
    assert found[1, 0].tolist() == list(DARK)
    assert found[0, 1].tolist() == [round((255 + one) / 2) for one in DARK]
    assert (read(as_png(np.zeros((2, 2)))) == 255).all()


def exhibit(table: pd.DataFrame) -> Exhibit:
    return Exhibit("images", table, "frames", "latents", "Something < else.")


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_cell_has_its_picture_and_every_row_and_column_its_name(width):
    cells = [[np.full((4, 4), 10 * i + j, np.uint8) for j in range(5)] for i in range(3)]
    cells[1][2] = None
    names = [f"alpha = {j}" for j in range(5)]
    table = pd.DataFrame(cells, index=["<a>", "b", "c"], columns=names, dtype=object)
    drawn = ET.fromstring(draw(exhibit(table), width))
    images = [one for one in drawn.iter() if one.tag.endswith("image")]
    assert len(images) == 14
    values = [int(read(one.attrib["href"])[0, 0]) for one in images]
    assert values == [10 * i + j for i in range(3) for j in range(5) if (i, j) != (1, 2)]
    places = [(float(one.attrib["y"]), float(one.attrib["x"])) for one in images]
    assert places == sorted(places)
    words = " ".join(one.text or "" for one in drawn.iter() if one.tag.endswith("text"))
    for name in ("<a>", "b", "c", "frames", "latents"):
        assert name in words
    right = max(float(one.attrib["x"]) + float(one.attrib["width"]) for one in images)
    assert right <= float(drawn.attrib["width"])


def test_an_empty_table_says_so():
    assert "There is nothing to draw." in draw(exhibit(pd.DataFrame()))
