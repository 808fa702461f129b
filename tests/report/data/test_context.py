# SPDX-License-Identifier: Apache-2.0
"""The page of a dataset: its statistics against plain sums, its rows, and what it says of
unlabelled and fresh data.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from unbraid.commands.perturb import perturb
from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.report.data.context import page_context, page_place, write_data
from unbraid.report.data.statistics import statistics

from ..pages import Page, assert_sound


def test_statistics_of_a_whole_set_are_plain_means():
    dataset = load("sprites", x=5, y=3, scale=2, channels=3, hue=4)
    pixels = dataset.pixels / 255.0
    found = statistics(dataset)
    assert found.whole_set
    assert found.images == len(dataset) == 120
    assert np.allclose(found.mean, pixels.mean(axis=(0, 1, 2)), atol=1e-8)
    assert np.allclose(found.std, pixels.std(axis=(0, 1, 2)), atol=1e-8)
    assert (found.least, found.most) == (pixels.min(), pixels.max())
    assert np.abs(found.mean_image - 255 * pixels.mean(axis=0)).max() <= 0.5 + 1e-4


def test_a_sample_is_spread_over_the_set_and_stated(tmp_path):
    dataset = load("xysquares")
    found = statistics(dataset, most=5000)
    assert not found.whole_set
    assert found.images == 5000
    assert found.mean == pytest.approx((1 / 64,) * 3, abs=1e-9)
    # Every square spends as long at every place, so the mean image of a fair sample is nearly even
    # over the 64 places.
    assert 2 <= found.mean_image.min() <= found.mean_image.max() <= 6
    text = write_data(tmp_path / "page.html", dataset, "xysquares").read_text()
    assert "over 10,000 images chosen at random" in text


def test_a_row_for_each_factor():
    rows = page_context(load("sprites", x=20, y=3, scale=2), "sprites", [])["traversals"]
    assert [(row["name"], row["size"], row["shown"]) for row in rows] == [
        ("scale", 2, "all of them"),
        ("x", 20, "16 of them"),
        ("y", 3, "all of them"),
    ]


def test_labels_off_a_grid_have_an_image_for_every_value(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (30, 16, 16), dtype=np.uint8)
    labels = np.stack([np.arange(30) % 3, np.arange(30) % 5], axis=1)
    dataset = load(images, factors=labels, factor_names=["shape", "size"])
    context = page_context(dataset, "array", [])
    assert not context["on_a_grid"]
    assert [row["images"] for row in context["traversals"]] == [3, 5]
    text = write_data(tmp_path / "page.html", dataset, "array").read_text()
    assert "the first with that value; the other factors vary" in text


def test_unlabelled_data_says_so(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    text = write_data(tmp_path / "page.html", load(images), "<my> images").read_text()
    assert "Nothing is known about how these images were made." in text
    assert "&lt;my&gt; images" in text
    assert "<my>" not in text
    assert "unbraid distances" not in text


def test_fresh_data_shows_one_index_several_times(tmp_path):
    text = write_data(tmp_path / "page.html", load("color_dsprites"), "color_dsprites").read_text()
    assert "One index, drawn anew" in text
    assert len(re.findall(r"<img ", text)) == 3 + 1 + 5 + 1


@pytest.mark.parametrize("name", ["pinwheel", "xcolumns", "dsprites"])
def test_pages_of_other_sets(tmp_path, name):
    page = Page(write_data(tmp_path / "page.html", load(name), name, [("Kept in", "nowhere")]))
    assert_sound(page, "data")
    assert "Kept in nowhere" in page.text


def test_a_page_is_written_over_and_nothing_else_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = page_place("sprites:x=4,y=3,scale=1", None)
    assert place == Path("data-sprites-x=4-y=3-scale=1.html")
    write_data(place, load("sprites", x=4, y=3, scale=1), "sprites:x=4,y=3,scale=1")
    assert page_place("sprites:x=4,y=3,scale=1", None) == place
    assert page_place("sprites", tmp_path) == tmp_path / "data-sprites.html"
    (tmp_path / "notes.html").write_text("mine")
    with pytest.raises(InputError) as caught:
        page_place("sprites", Path("notes.html"))
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("out", "notes.html")
    assert (tmp_path / "notes.html").read_text() == "mine"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError) as caught:
        page_place("sprites", None)
    assert caught.value.problems[0].rule == "must be a folder that can be written"


def test_a_sample_favours_no_value_of_a_factor():
    # Published: 0.5026, 0.5788, 0.6035; each of 10 hues of the floor alone moves these by several
    # hundredths.
    assert statistics(load("shapes3d_drawn"), most=4000).mean == pytest.approx(
        (0.5026, 0.5787, 0.6034), abs=0.006
    )


def test_values_beyond_0_and_1_are_stated_as_they_are(tmp_path):
    perturb(
        "sprites",
        data_options={"x": 8, "y": 4, "scale": 1},
        out=tmp_path / "p",
        noise="uniform",
        epsilon=0.5,
        clip=False,
    )
    dataset = load(tmp_path / "p")
    found = statistics(dataset)
    assert found.least < -0.4
    assert found.most > 1.4
    text = write_data(tmp_path / "page.html", dataset, "p").read_text()
    assert "uniform noise, the control, at most 0.5 in every value, not clipped" in text
    assert "sprites:image_size=32" in text


def test_perturbed_data_shows_what_was_changed(tmp_path):
    data = load("with_s", of="sprites", of_options={"image_size": 16, "x": 4}, epsilon=0.1)
    page = Page(write_data(tmp_path / "page.html", data, "with_s"))
    assert_sound(page, "data")
    assert "Peak signal-to-noise ratio 2" in page.text
    plain = write_data(tmp_path / "plain.html", data.base, "sprites").read_text()
    assert "signal-to-noise" not in plain
