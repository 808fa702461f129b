# SPDX-License-Identifier: Apache-2.0
"""Names of latents: measurements in closed form, the right words for known factors, and never a
confident wrong name.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from unbraid.data import load
from unbraid.search.discover import naming
from unbraid.search.discover.findings import Name
from unbraid.search.discover.measurements import (
    CELLS,
    blocks,
    cell_of,
    cell_slices,
    hue,
    is_circular,
    measurements,
)
from unbraid.search.discover.naming import (
    MOST_IMAGES,
    NAMED,
    name_factor,
    name_factors,
    naming_rows,
)
from unbraid.search.discover.naming_words import part_words

from ...conftest import Refused

SPRITES = {"channels": 3, "hue": 6, "shade": 3, "scale": 4, "orientation": 6, "x": 5, "y": 5}


def named(
    name: str, noise: float = 0.2, count: int = 1_000, **options
) -> tuple[dict[str, Name], np.ndarray, np.ndarray]:
    """The names given to the true factors of a drawn set with noise, by factor, and codes and
    images.
    """
    data = load(name, **options)
    chance = np.random.default_rng(0)
    rows = chance.permutation(len(data))[:count]
    factors = data.factors(rows).astype(float)
    codes = factors / factors.std(axis=0) + noise * chance.normal(size=factors.shape)
    images = data.images(rows)
    return dict(zip(data.factor_names, name_factors(codes, images), strict=True)), codes, images


def squares(
    places: list[tuple[int, int, int, int]], side: int = 16, channels: int = 1
) -> np.ndarray:
    """White boxes on black from (top, left, height, width)."""
    images = np.zeros((len(places), side, side, channels), np.uint8)
    for image, (top, left, height, width) in zip(images, places, strict=True):
        image[top : top + height, left : left + width] = 255
    return images


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.integers(1, 6)] * 4), min_size=4, max_size=12, unique=True))
def test_a_box_has_the_moments_of_a_box(places):
    # The median of a pixel that half of the boxes cover is not black; such sets have another
    # background.
    assume(not np.median(squares(places), axis=0).any())
    found = measurements(squares(places))
    top, left, height, width = np.array(places, dtype=float).T
    assert found["centre_x"] == pytest.approx((left + width / 2) / 16)
    assert found["centre_y"] == pytest.approx((top + height / 2) / 16)
    assert found["area"] == pytest.approx(height * width / 256)
    assert found["brightness"] == pytest.approx(height * width / 256)
    assert found["contrast"] == pytest.approx(
        np.sqrt(height * width / 256 * (1 - height * width / 256))
    )
    assert found["extent"] == pytest.approx(np.sqrt((height**2 + width**2 - 2) / 12) / 16)
    assert found["shade"] == pytest.approx(1.0)
    lying, upright = width > height, width < height
    assert found["orientation"][lying] == pytest.approx(0.0)
    assert found["orientation"][upright] == pytest.approx(math.pi)
    assert np.isnan(found["orientation"][~lying & ~upright]).all()


def test_angles_turn_clockwise_and_double():
    y, x = np.mgrid[:64, :64] - 31.5
    degrees = np.array([10.0, 30.0, 45.0, 80.0, 120.0, 170.0])
    turns = np.radians(degrees)[:, None, None]
    along, across = np.cos(turns) * x + np.sin(turns) * y, np.cos(turns) * y - np.sin(turns) * x
    images = (255 * ((np.abs(along) < 14) & (np.abs(across) < 5))).astype(np.uint8)[..., None]
    places = np.linspace(-16, 16, 18).astype(
        int
    )  # moved about, so that no place is white in most images
    moved = np.stack(
        [np.roll(images[at % 6], place, axis=at % 2) for at, place in enumerate(places)]
    )
    found = measurements(np.concatenate([images, moved]))["orientation"][:6]
    assert np.degrees(found) / 2 == pytest.approx(degrees, abs=2.0)


def test_hues_are_angles_around_grey():
    colours = np.array(
        [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1], [0.4, 0.4, 0.41]]
    )
    assert np.degrees(hue(colours)) == pytest.approx(
        [0, 60, 120, 180, 240, 300, np.nan], nan_ok=True
    )
    images = np.zeros((40, 12, 12, 3), np.uint8)
    images[:, :6] = np.array([255, 0, 0])
    images[:, 6:] = np.array([0, 0, 255])
    found = measurements(images)
    assert np.degrees(found["hue_upper_left_0"]) == pytest.approx(0.0)
    assert np.degrees(found["hue_lower_right_3"]) == pytest.approx(240.0)
    assert np.degrees(found["hue_whole"]) == pytest.approx(300.0)
    assert found["brightness_upper_middle"] == pytest.approx(1 / 3)
    assert "centre_x" not in found, "nothing stands out of images that are all the same"


def test_nothing_stands_out_where_most_of_the_scene_changes():
    rooms = load("shapes3d_drawn")
    found = measurements(rooms.images(np.random.default_rng(0).permutation(len(rooms))[:200]))
    assert not {"centre_x", "centre_y", "extent", "area", "shade", "orientation", "hue"} & set(
        found
    )
    assert {name for name in found if name.startswith("hue")} >= {
        "hue_whole",
        "hue_border",
        "hue_middle_middle_2",
    }


@pytest.mark.parametrize("shape", [(8, 8), (5, 9), (64, 64), (130, 70), (1, 3)])
def test_cells_cover_the_image_and_large_images_are_means(shape):
    covered = np.zeros(shape, int)
    for place in cell_slices(*shape).values():
        covered[place] += 1
    assert covered.min() >= 1
    assert shape == (1, 3) or covered.max() == 1
    assert [cell_of(f"hue_{name}") for name in cell_slices(*shape, 2)] == [
        cell for cell in CELLS for _ in range(4)
    ]
    images = np.random.default_rng(0).integers(0, 256, (7, *shape, 3), dtype=np.uint8)
    small = np.concatenate(list(blocks(images, 64)))
    assert max(small.shape[1:3]) <= 64
    if max(shape) <= 64:
        assert np.array_equal(small, images.astype(np.float32) / np.float32(255))
    else:
        expected = images[:, : 3 * small.shape[1], : 3 * small.shape[2]].reshape(
            7, small.shape[1], 3, small.shape[2], 3, 3
        )
        assert small == pytest.approx(expected.mean(axis=(2, 4)) / 255, abs=1e-6)
    assert all(values.shape == (7,) for values in measurements(images).values())


def test_blocks_do_not_matter(monkeypatch):
    images = load("sprites", **SPRITES).images(np.arange(0, 10_800, 97))
    whole = measurements(images)
    monkeypatch.setattr("unbraid.search.discover.measurements._VALUES_AT_ONCE", 7 * images[0].size)
    for name, values in measurements(images).items():
        assert np.array_equal(values, whole[name], equal_nan=True), name


def test_sprites_get_the_names_a_person_would_give():
    names, codes, images = named("sprites", **SPRITES)
    titles = {factor: (name.title, name.statistic) for factor, name in names.items()}
    assert titles == {
        "hue": ("colour", "hue"),
        "shade": ("brightness", "shade"),
        "scale": ("size", "extent"),
        "orientation": ("orientation", "orientation"),
        "x": ("horizontal position", "centre_x"),
        "y": ("vertical position", "centre_y"),
    }
    assert all(name.correlation >= NAMED for name in names.values())
    up = {
        "hue": "what stands out goes from red through green and ",
        "shade": "what stands out gets brighter",
        "scale": "what stands out grows",
        "orientation": "what stands out turns clockwise",
        "x": "what stands out moves from left to right",
        "y": "what stands out moves from top to bottom",
    }
    down = {
        "hue": "what stands out goes from purple through ",
        "shade": "what stands out gets darker",
        "scale": "what stands out shrinks",
        "orientation": "what stands out turns anticlockwise",
        "x": "what stands out moves from right to left",
        "y": "what stands out moves from bottom to top",
    }
    backwards = dict(zip(names, name_factors(-(codes**3), images), strict=True))
    for factor, name in names.items():
        assert name.sentence.startswith(f"From low to high, {up[factor]}")
        assert backwards[factor].sentence.startswith(f"From low to high, {down[factor]}")
        assert f" (rank correlation {name.correlation:.2f} with its " in name.sentence
        assert backwards[factor].correlation == pytest.approx(-name.correlation, abs=1e-9)
        assert backwards[factor].statistic == name.statistic
    assert " to purple (rank" in names["hue"].sentence
    assert " to red (rank" in backwards["hue"].sentence
    told_x = names["x"]
    assert (
        told_x.sentence
        == "From low to high, what stands out moves from left to right (rank correlation"
        f" {told_x.correlation:.2f} with its horizontal centre)."
    )


def test_white_shapes_that_grow_may_be_getting_brighter():
    names, _, _ = named("sprites")
    assert names["scale"].title == "size (or brightness)"
    size = names["scale"]
    assert size.sentence.startswith(
        f"From low to high, what stands out grows (rank correlation {size.correlation:.2f} with its"
        " extent). "
    )
    assert size.sentence.endswith("so it may be either.")
    assert "In these images its brightness goes along with that (0." in size.sentence
    assert (names["x"].title, names["y"].title) == ("horizontal position", "vertical position")


def test_a_mirror_turns_left_and_right_round_and_a_flip_top_and_bottom():
    _, codes, images = named("sprites", scale_max=0.3)
    x, y = codes[:, 1], codes[:, 2]
    assert name_factor(x, images[:, :, ::-1]).correlation == pytest.approx(
        -name_factor(x, images).correlation, abs=1e-6
    )
    assert "from right to left" in name_factor(x, images[:, :, ::-1]).sentence
    assert "from bottom to top" in name_factor(y, images[:, ::-1]).sentence
    assert name_factor(x, images.swapaxes(1, 2)).statistic == "centre_y"
    assert name_factor(x, 255 - images) == name_factor(x, images), (
        "black on white moves like white on black"
    )


def test_what_moves_into_a_cell_is_not_said_to_brighten_it():
    left = np.repeat(np.arange(4, 11), 20)
    images = squares(
        [(4 + 3 * (at % 6), int(place), 5, 8) for at, place in enumerate(left)], side=30
    )
    found = measurements(images)
    assert (
        np.corrcoef(left, found["brightness_middle_middle"] + found["brightness_upper_middle"])[
            0, 1
        ]
        > 0.5
    )
    assert name_factor(left, images).title == "horizontal position"
    still = squares([(12, int(place), 5, 8) for place in left], side=30)
    assert np.corrcoef(left, measurements(still)["brightness_middle_middle"])[0, 1] > 0.99
    assert name_factor(left, still).title == "horizontal position"


def test_a_slanted_code_is_called_a_diagonal():
    _, codes, images = named("sprites", x=8, y=8, scale=2, x_range=0.9, y_range=0.9)
    slanted = [codes[:, 1] + codes[:, 2], codes[:, 1] - codes[:, 2], -codes[:, 1] - codes[:, 2]]
    falling, rising, back = name_factors(np.stack(slanted, axis=1), images)
    assert falling.title == back.title == "position along the falling diagonal"
    assert rising.title == "position along the rising diagonal"
    assert "from the upper left to the lower right" in falling.sentence
    assert "from the lower left to the upper right" in rising.sentence
    assert "from the lower right to the upper left" in back.sentence


def test_a_code_that_goes_there_and_back_among_colours_is_a_colour():
    data = load("sprites", **{**SPRITES, "hue": 12, "scale": 1, "orientation": 1})
    rows = np.random.default_rng(0).permutation(len(data))[:800]
    angle = 2 * math.pi * data.factors(rows)[:, 0] / 12
    images = data.images(rows)
    name = name_factor(np.cos(angle - math.pi / 3), images)
    assert (name.title, name.statistic) == ("colour", "hue")
    assert name.correlation > 0.95
    assert name.sentence.startswith(
        "From low to high, what stands out goes from blue to yellow (rank correlation 0.99 with its"
        " hue)"
    )
    across = name_factor(-np.cos(angle - math.pi / 3), images)
    assert "goes from yellow to blue" in across.sentence
    assert across.correlation > 0.95, "the sentence tells the direction; there is no sign"


def test_lying_and_upright():
    data = load("sprites", **{**SPRITES, "orientation": 8, "hue": 1, "shade": 1, "channels": 1})
    rows = np.random.default_rng(0).permutation(len(data))[:800]
    doubled = 2 * math.pi * data.factors(rows)[:, data.factor_names.index("orientation")] / 8
    name = name_factor(np.cos(doubled), data.images(rows))
    assert name.title == "orientation"
    assert "what stands out goes from upright to lying" in name.sentence


def test_dsprites_has_places_and_size_and_nothing_wrong():
    names, _, _ = named("dsprites")
    assert {factor: name.statistic for factor, name in names.items()} == {
        "shape": "",
        "scale": "extent",
        "orientation": "",
        "x": "centre_x",
        "y": "centre_y",
    }
    assert names["scale"].title.startswith("size")
    assert names["orientation"] == Name(
        "something without a simple name",
        "From low to high, nothing changes in the images that a simple measurement shows.",
        "",
        0.0,
    )


def test_rooms_have_colours_of_their_parts():
    names, _, _ = named("shapes3d_drawn")
    assert names["floor_hue"].title == "colour of the lower part"
    assert names["wall_hue"].title == "colour of the left and right side"
    assert names["object_hue"].title == "colour of the lower middle"
    assert names["floor_hue"].sentence.startswith(
        "From low to high, the lower part of the image goes from red through green and blue to pink"
        " (rank correlation 0."
    )
    assert [names[factor].statistic for factor in ("scale", "shape", "orientation")] == ["", "", ""]


@pytest.mark.parametrize(
    ("spacing", "title", "sentence"),
    [
        (
            8,
            "something spread over the whole image",
            "the whole image changes; no simple measurement follows it closely.",
        ),
        (
            3,
            "something in the middle of the image",
            "mostly the middle of the image changes; no simple measurement follows it closely.",
        ),
    ],
)
def test_one_of_three_squares_is_not_what_stands_out(spacing, title, sentence):
    names, codes, images = named("xysquares", spacing=spacing)
    assert set(names.values()) == {Name(title, f"From low to high, {sentence}", "", 0.0)}
    # All three together are.
    name = name_factor(codes[:, [0, 2, 4]].sum(axis=1), images)
    assert (name.title, name.statistic) == ("horizontal position", "centre_x")


def test_parts_that_move_apart_do_not_grow():
    chance = np.random.default_rng(0)
    gaps, middles = chance.integers(0, 12, 500), chance.integers(14, 19, 500)
    images = np.zeros((500, 32, 32, 1), np.uint8)
    for image, gap, middle in zip(images, gaps, middles, strict=True):
        image[14:18, middle - gap - 2 : middle - gap] = image[
            14:18, middle + gap : middle + gap + 2
        ] = 255
    name = name_factor(gaps, images)
    assert (name.title, name.statistic) == ("distance between the parts", "extent")
    assert name.sentence.startswith(
        "From low to high, what stands out spreads further apart (rank correlation 1.00 with its"
        " extent)"
    )


def test_a_place_that_lights_up_is_named_by_where_it_is():
    chance = np.random.default_rng(0)
    images = chance.integers(100, 140, (600, 30, 30, 1)).astype(np.uint8)
    codes = chance.normal(size=600)
    # Light and dark in turns along the code: no measurement follows it, but the place changes with
    # it.
    images[:, 20:, :10] = (120 + 60 * np.sin(4 * codes))[:, None, None, None]
    name = name_factor(codes, images)
    assert name == Name(
        "something in the lower left of the image",
        "From low to high, mostly the lower left of the image changes; no simple measurement"
        " follows it closely.",
        "",
        0.0,
    )
    images[:, 20:, :10] = np.clip(120 + 40 * codes, 0, 255)[:, None, None, None]
    assert name_factor(codes, images).title == "brightness of the lower left"
    assert name_factor(-codes, images).sentence.startswith(
        "From low to high, the lower left of the image gets darker (rank"
    )
    lit = np.clip(images[:1] + (30 * codes)[:, None, None, None], 0, 255).astype(np.uint8)
    everywhere = name_factor(codes, lit)
    assert everywhere.title == "brightness"
    assert everywhere.sentence.startswith(
        "From low to high, the whole image gets brighter (rank correlation 1.00 with its mean"
        " brightness)."
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 400))
def test_noise_is_never_named_by_a_measurement(seed, count):
    chance = np.random.default_rng(seed)
    images = load("sprites", x=8, y=4, scale=2).images(chance.integers(0, 64, count))
    for name in name_factors(chance.normal(size=(count, 4)), images):
        assert (name.statistic, name.correlation) == ("", 0.0)


@pytest.mark.slow
def test_no_factor_of_the_drawn_sets_gets_a_wrong_name():
    """Every name, if any, is one of these; from 300 images and from noise as large as the factor
    itself.
    """
    right = {
        "x": "centre_x",
        "y": "centre_y",
        "scale": "extent",
        "hue": "hue",
        "shade": "shade",
        "orientation": "orientation",
    }
    right |= {"floor_hue": "hue_lower", "wall_hue": "hue_middle", "object_hue": "hue_lower_middle"}
    sets = [
        ("sprites", SPRITES),
        ("sprites", {}),
        ("dsprites", {}),
        ("shapes3d_drawn", {}),
        ("xysquares", {}),
        ("color_dsprites", {}),
    ]
    asked = named_rightly = 0
    for name, options in sets:
        for noise, count in ((0.0, 300), (0.3, 300), (0.5, 600), (1.0, 600)):
            for factor, found in named(name, noise, count, **options)[0].items():
                asked += 1
                named_rightly += bool(found.statistic)
                assert found.statistic == "" or found.statistic.startswith(
                    right.get(factor, "none")
                ), (name, noise, factor, found)
    assert asked == 124
    assert named_rightly >= 48


def test_constant_codes_and_constant_images():
    images = load("sprites").images(np.arange(100))
    nothing = Name("nothing that varies", "Its codes are the same for every image.", "", 0.0)
    assert name_factor(np.full(100, 0.1), images) == nothing
    codes = np.arange(100.0)
    for value in (0, 128, 255):
        for channels in (1, 3):
            name = name_factor(codes, np.full((100, 8, 8, channels), value, np.uint8))
            assert name.title == "something without a simple name"
    assert name_factor([1.0, 2.0], images[:2]).statistic == "", "two images prove nothing"


def test_many_images_are_sampled_the_same_way_each_time(monkeypatch):
    rows = naming_rows(20_000)
    assert len(rows) == MOST_IMAGES == len(np.unique(rows))
    assert np.array_equal(rows, np.sort(rows))
    assert np.array_equal(naming_rows(300), np.arange(300))
    monkeypatch.setattr(naming, "MOST_IMAGES", 250)
    data = load("sprites")
    images, x = data.images(np.arange(len(data))), data.factors(np.arange(len(data)))[:, 1]
    shared, rows = measurements(images), naming_rows(len(data))
    found = name_factor(x, images, shared)
    assert found.statistic == "centre_x"
    assert found == name_factor(
        x[rows], images[rows], {name: values[rows] for name, values in shared.items()}
    )
    assert name_factor(x, images).correlation == pytest.approx(found.correlation, abs=1e-3)


def test_words_for_parts_of_the_image():
    def words(*cells: str) -> str:
        return part_words(
            [
                [f"{row}_{column}" in cells for column in ("left", "middle", "right")]
                for row in ("upper", "middle", "lower")
            ]
        )

    assert words("middle_middle") == "middle"
    assert words("upper_left", "upper_middle", "upper_right", "middle_middle") == "upper part"
    assert words("upper_right", "middle_right", "lower_right") == "right side"
    assert words("lower_middle") == "lower middle"
    assert words("lower_right", "middle_right", "lower_middle") == "lower right"
    assert words("middle_left", "middle_right") == "left and right side"
    assert words("upper_middle", "lower_middle") == "top and bottom"
    assert words(*(cell for cell in CELLS if cell != "middle_middle")) == "rim"
    assert words(*CELLS) == "whole image"
    assert is_circular("orientation")


def test_bad_input_is_refused_by_name(refused: Refused):
    images = np.zeros((4, 8, 8, 1), np.uint8)
    codes = np.zeros(4)
    rule = "must be at least two images (n, height, width, channels) of 1 or 3 channels"
    assert refused(name_factor, codes, images[..., 0]) == [("images", rule, "shape (4, 8, 8)")]
    assert refused(measurements, images[:1]) == [("images", rule, "shape (1, 8, 8, 1)")]
    told = ("images", "must be uint8, 0..255", "dtype float64")
    assert refused(measurements, images / 255.0) == [told]
    told = ("codes", "must be those of one latent, (n,)", "shape (4, 1)")
    assert refused(name_factor, codes[:, None], images) == [told]
    told = ("codes", "must be one row for each of the 4 images, (n, latents)", "shape (3, 1)")
    assert refused(name_factor, codes[:3], images) == [told]
    told = ("codes", "must be finite numbers", "nan at row 0, latent 0")
    assert refused(name_factor, codes * np.nan, images) == [told]
    told = ("measured['centre_x']", "must have a value for each of the 4 images", "shape (2,)")
    assert refused(name_factor, codes, images, {"centre_x": codes[:2]}) == [told]
