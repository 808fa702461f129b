# SPDX-License-Identifier: Apache-2.0
"""XYObject: sizes, places and colours of the square against a plain loop, and disent's grid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.data import load

RAINBOW = [(255, 0, 0), (255, 255, 0), (0, 255, 0), (0, 255, 255), (0, 0, 255), (255, 0, 255)]


def plain_image(x: int, y: int, scale: int, color: int) -> np.ndarray:
    """The square by assignment: sides of 7 to 15 pixels, centred in a cell of 15; shades of a
    quarter, rounded down.
    """
    side = 7 + 2 * scale
    left, top = 2 * x + (15 - side) // 2, 2 * y + (15 - side) // 2
    image = np.zeros((64, 64, 3), np.uint8)
    image[top : top + side, left : left + side] = [
        value * (color // 6 + 1) // 4 for value in RAINBOW[color % 6]
    ]
    return image


def test_the_grid_is_disents():
    dataset = load("xyobject")
    assert dataset.factor_names == ("x", "y", "scale", "color")
    assert dataset.factor_sizes == (25, 25, 5, 24)
    assert len(dataset) == 75_000


@given(st.integers(0, 24), st.integers(0, 24), st.integers(0, 4), st.integers(0, 23))
def test_images_are_those_of_a_plain_loop(x, y, scale, color):
    dataset = load("xyobject")
    index = dataset.grid.to_index([[x, y, scale, color]])
    assert np.array_equal(dataset.images(index)[0], plain_image(x, y, scale, color))


def test_samples_are_the_images():
    dataset = load(
        "xyobject", spacing=3, smallest=4, largest=12, size_step=4, palette="colors", shades=3
    )
    assert dataset.factor_sizes == (18, 18, 3, 21)
    indices = np.arange(0, len(dataset), 37)
    samples = dataset.sampler("cpu")(torch.from_numpy(indices)).numpy()
    assert np.array_equal(dataset.as_images(samples), dataset.images(indices))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"smallest": 9, "largest": 7}, "smallest must be at most largest, 7; got 9."),
        ({"palette": "rainbwo"},
        "palette 'rainbwo' is unknown; did you mean 'rainbow'? Known: colors, greys, rainbow, "
            "rgb."),
        (
            {"spacing": 0, "shades": "x"},
            "spacing must be a whole number in 1..64; got 0.\nshades must be a whole number in "
                "1..255; got 'x'.",
        ),
    ],
)  # fmt: skip
def test_bad_options_are_refused(options, told):
    with pytest.raises(InputError) as caught:
        load("xyobject", **options)
    assert str(caught.value) == told
