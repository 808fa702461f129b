# SPDX-License-Identifier: Apache-2.0
"""Strips hold the images bit for bit."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from unbraid.report.images import row_uri, strip


def decoded(uri: str) -> np.ndarray:
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


@pytest.mark.parametrize("channels", [1, 3])
def test_small_images_are_enlarged_by_whole_pixels_with_clear_gaps(channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28, channels), dtype=np.uint8)
    sheet = strip(images)
    factor, gap = 4, 7  # 28 * 4 = 112 is the first multiple of at least 96; 6 % of it, rounded
    assert sheet.shape == (112, 3 * 112 + 2 * gap, channels + 1)
    for number in range(3):
        left = number * (112 + gap)
        assert (sheet[::factor, left : left + 112 : factor, :channels] == images[number]).all()
        assert (sheet[:, left : left + 112, channels] == 255).all()
    assert (sheet[:, 112 : 112 + gap] == 0).all()


def test_large_images_keep_their_size_and_gaps_can_be_left_out() -> None:
    images = np.full((2, 128, 100, 1), 9, dtype=np.uint8)
    sheet = strip(images, gap=False)
    assert sheet.shape == (128, 200, 2)
    assert (sheet[..., 0] == 9).all()
    assert (sheet[..., 1] == 255).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_png_is_the_strip(channels: int) -> None:
    images = np.random.default_rng(1).integers(0, 256, (2, 30, 20, channels), dtype=np.uint8)
    assert (decoded(row_uri(images)) == strip(images)).all()
