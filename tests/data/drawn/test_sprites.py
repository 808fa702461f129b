# SPDX-License-Identifier: Apache-2.0
"""Sprites: areas and places in closed form, distinct images, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.drawn.sprites import FACTORS
from unbraid.testing.data_contract import check_dataset


def message(**options):
    with pytest.raises(InputError) as caught:
        load("sprites", **options)
    return str(caught.value)


def test_areas_are_those_of_disc_square_and_triangle():
    dataset = load(
        "sprites", image_size=128, shape=3, scale=2, x=5, y=3, scale_min=0.1, scale_max=0.2
    )
    area = (dataset.pixels / 255.0).sum(axis=(1, 2, 3)).reshape(3, 2, 15)
    for scale, half in enumerate((12.8, 25.6)):
        assert area[0, scale] == pytest.approx(math.pi * half**2, rel=0.004)
        assert area[1, scale] == pytest.approx(4 * half**2, rel=0.004)
        assert area[2, scale] == pytest.approx(2 * half**2, rel=0.02)


def test_elongated_ellipse_area_when_turned():
    dataset = load(
        "sprites", image_size=128, x=1, y=1, scale=1, orientation=12, scale_min=0.2, scale_max=0.2
    )
    area = (dataset.pixels / 255.0).sum(axis=(1, 2, 3))
    assert area == pytest.approx(math.pi * 25.6**2 / 1.6, rel=0.01)


def test_centres_move_evenly_over_the_stated_part_of_the_play():
    dataset = load("sprites", image_size=64, x=9, y=5, scale=1, scale_min=0.15, scale_max=0.15)
    weight = dataset.pixels[..., 0] / dataset.pixels.sum(axis=(1, 2, 3))[:, None, None]
    pixel = np.arange(64) + 0.5
    x, y = ((weight.sum(axis) @ pixel).reshape(9, 5) for axis in (1, 2))
    play = 32 - 1.25 - 0.15 * 64
    assert x == pytest.approx(
        np.repeat(32 + play * np.linspace(-1, 1, 9)[:, None], 5, axis=1), abs=0.02
    )
    assert y == pytest.approx(
        np.repeat(32 + 0.6 * play * np.linspace(-1, 1, 5)[None], 9, axis=0), abs=0.02
    )


def test_every_image_of_every_factor_is_different():
    dataset = load("sprites", channels=3, x=2, y=2, scale=2, shape=3, orientation=5, shade=2, hue=5)
    assert dataset.grid.names == FACTORS
    assert dataset.grid.sizes == (3, 5, 2, 2, 5, 2, 2)
    assert len(np.unique(dataset.pixels.reshape(len(dataset), -1), axis=0)) == len(dataset)
    check_dataset(dataset)


def test_hues_and_shades_have_the_stated_colours():
    dataset = load("sprites", channels=3, x=1, y=1, scale=1, hue=6, shade=2)
    middle = dataset.pixels[:, 16, 16].reshape(6, 2, 3)
    assert (
        middle[:, 1]
        == np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]]) * 255
    ).all()
    assert (middle[:, 0] == middle[:, 1] // 255 * 102).all()
    white = load("sprites", channels=3, x=2, y=1, scale=1).pixels
    assert (white == white[..., :1]).all()


@given(
    image_size=st.integers(16, 128),
    shape=st.integers(1, 3),
    orientation=st.integers(1, 4),
    scale_max=st.floats(0.1, 0.3),
    y_range=st.floats(0.1, 1.0),
)
@settings(max_examples=25, deadline=None)
def test_shapes_stay_inside_and_mirrored_positions_are_mirrored_images(
    image_size, shape, orientation, scale_max, y_range
):
    dataset = load(
        "sprites", image_size=image_size, x=3, y=2, scale=1, shape=shape, orientation=orientation,
        scale_min=scale_max, scale_max=scale_max, y_range=y_range,
    )  # fmt: skip
    pixels = dataset.pixels[..., 0].reshape(shape, orientation, 3, 2, image_size, image_size)
    assert (
        pixels[..., 0, :].max()
        == pixels[..., -1, :].max()
        == pixels[..., 0].max()
        == pixels[..., -1].max()
        == 0
    )
    upright = pixels[:, 0].astype(int)
    assert np.abs(upright[:, :, 0] - upright[:, :, 1, ::-1]).max() <= 1


def test_drawing_twenty_thousand_takes_at_most_a_few_seconds(pace):
    # 2 units of about 0.2 s here.
    assert pace(lambda: load("sprites", x=20, y=20, scale=5, shape=3, orientation=4), 15) < 15


def test_fixed_factors_are_not_on_the_grid():
    dataset = load("sprites")
    assert (dataset.grid.names, dataset.grid.sizes, dataset.image_shape) == (
        ("scale", "x", "y"),
        (6, 16, 8),
        (32, 32, 1),
    )


def test_what_cannot_be_drawn_is_refused():
    assert message(image_size=8) == "image_size must be a whole number in 16..128; got 8."
    assert message(hue=4) == "hue above 1 needs colour; got hue=4 with channels=1. Set channels=3."
    assert message(channels=2) == "channels must be 1 or 3; got 2."
    assert (
        message(shape=4)
        == "shape must be a whole number in 1..3; got 4. The shapes are ellipse, box, triangle."
    )
    expected = (
        "sprites needs at least one factor with 2 values; got every factor at 1. Set x=16, for"
        " instance."
    )
    assert message(x=1, y=1, scale=1) == expected
    assert (
        message(scale_min=0.3)
        == "scale_min must be below scale_max; got scale_min=0.3 and scale_max=0.2."
    )
    assert message(x_range=0) == "x_range must be above 0 when x has 16 values; got 0.0. Set x=1."
    remedy = "Give factors fewer values or use a smaller image_size."
    expected = (
        f"sprites may hold at most 200000 images and 1024 MiB; got 221184 images, 216 MiB. {remedy}"
    )
    assert message(x=48, y=48, scale=32, shape=3) == expected
    expected = (
        f"sprites may hold at most 200000 images and 1024 MiB; got 73728 images, 1152 MiB. {remedy}"
    )
    assert message(image_size=128, x=48, y=48, scale=32) == expected


@pytest.mark.parametrize(
    ("options", "name"), [({"x_range": float("inf")}, "x_range"), ({"scale_max": 0}, "scale_max")]
)
def test_a_refused_option_is_not_blamed_for_another(options, name):
    with pytest.raises(InputError) as caught:
        load("sprites", **options)
    assert [one.name for one in caught.value.problems] == [name]
