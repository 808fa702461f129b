# SPDX-License-Identifier: Apache-2.0
"""Scream-dSprites: pieces of a painting whose pixels tell where they were, the tint, the negative;
and the real painting.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

from unbraid.core.errors import InputError
from unbraid.data import load

INDICES = torch.from_numpy(np.random.default_rng(7).integers(0, 737_280, 400))


@pytest.fixture
def map_of_itself(tmp_path: Path) -> Path:
    """A painting of 200x100 whose red is the row and green the column of each pixel."""
    pixels = np.zeros((100, 200, 3), np.uint8)
    pixels[..., 0] = np.arange(100)[:, None]
    pixels[..., 1] = np.arange(200)
    Image.fromarray(pixels).save(tmp_path / "map.png")
    return tmp_path / "map.png"


def test_the_recipe_is_a_piece_averaged_with_a_tint_and_inverted_under_the_sprite(map_of_itself):
    samples = (
        load("scream_dsprites", painting=map_of_itself).sampler("cpu")(INDICES).double().numpy()
    )
    sprites = load("dsprites").sampler("cpu")(INDICES).expand(-1, 3, -1, -1).numpy() > 0
    doubled = 2.0 * np.where(sprites, 1.0 - samples, samples)
    within = np.arange(64) / 255.0
    corner = doubled - np.stack(
        [
            np.broadcast_to(within[:, None], (64, 64)),
            np.broadcast_to(within, (64, 64)),
            np.zeros((64, 64)),
        ]
    )
    # What is left is constant: the corner's own red and green, and the tint.
    assert np.ptp(corner, axis=(-2, -1)).max() < 1e-6
    tint = corner[:, 2, 0, 0]
    assert stats.kstest(tint, "uniform").pvalue > 1e-3
    assert corner.min() >= -1e-6
    assert corner[:, 0].max() <= 1 + 35 / 255 + 1e-6
    assert corner[:, 1].max() <= 1 + 135 / 255 + 1e-6
    # Both spread as a uniform tint plus a uniform place.
    for channel, places in ((0, 36), (1, 136)):
        expected = 0.5 + (places - 1) / 2 / 255
        assert corner[:, channel].mean() == pytest.approx(
            expected, abs=4 * np.sqrt(1 / 12 + (places / 255) ** 2 / 12) / 20
        )


def test_the_painting_is_scaled_to_fit(shared):
    dataset = load("scream_dsprites", painting=shared / "data" / "scream" / "scream.jpg")
    assert dataset._painting.shape == (274, 215, 3)
    assert dataset.options["painting"] == str((shared / "data" / "scream" / "scream.jpg").resolve())
    assert dataset.images([0, 5]).std() > 10


def test_without_a_painting_the_user_is_told_where_to_put_one(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path))
    place = tmp_path / "scream.jpg"
    told = (
        f"painting must be an existing image file; got {place}, which does not exist. Put an image"
        f" of Munch's The Scream at {place}, or give its path: scream_dsprites:painting=PATH."
    )
    with pytest.raises(InputError, match=f"^{re.escape(told)}$"):
        load("scream_dsprites")


def test_a_painting_in_the_data_folder_is_found(tmp_path, monkeypatch, map_of_itself):
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path))
    Image.open(map_of_itself).save(tmp_path / "scream.jpg")
    assert "painting" not in load("scream_dsprites").options


def test_a_file_that_is_no_image_or_too_small_is_refused(tmp_path):
    (tmp_path / "text.jpg").write_text("not an image")
    with pytest.raises(
        InputError, match=r"painting must be an image that can be read; got .*text\.jpg"
    ):
        load("scream_dsprites", painting=tmp_path / "text.jpg")
    Image.new("RGB", (64, 300)).save(tmp_path / "thin.png")
    with pytest.raises(
        InputError,
        match="painting must be larger than 64x64 pixels; got 58x274 after scaling to fit 350x274",
    ):
        load("scream_dsprites", painting=tmp_path / "thin.png")
