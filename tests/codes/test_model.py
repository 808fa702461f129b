# SPDX-License-Identifier: Apache-2.0
"""A trained model in a person's hands: images to codes and back, and what it does not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import unbraid as ub
from unbraid.commands.run import Run

from ..conftest import Refused


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return ub.train(
        "sprites",
        "ae",
        data_options={"x": 6, "y": 4, "scale": 1, "image_size": 28},
        network="mlp",
        network_options={"hidden": 64, "encoder_layers": 1, "decoder_layers": 1},
        seeds=2,
        latents=4,
        batch_size=16,
        steps=300,
        learning_rate=2e-3,
        out=tmp_path_factory.mktemp("model") / "run",
        quiet=True,
        device="cpu",
    )


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out: Path = tmp_path_factory.mktemp("points") / "run"
    settings: dict[str, Any] = {
        "network": "mlp",
        "network_options": {"hidden": 8},
        "latents": 2,
        "batch_size": 8,
        "steps": 5,
    }
    return ub.train("pinwheel", "vae", out=out, quiet=True, device="cpu", **settings)


def test_images_to_codes_and_back(run: Run):
    model, images = run.model(1), run.dataset.images(np.arange(24))
    assert repr(model) == "<Model 1: ae seed=1>"
    codes = model.encode(images)
    assert codes.shape == (24, 4)
    assert codes.dtype == np.float32
    decoded = model.decode(codes)
    assert decoded.shape == images.shape
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(model.reconstruct(images), decoded)
    # 300 steps suffice to be better than the mean image, which is what a model that ignores its
    # input gives
    mean_image = images.mean(axis=0)
    ours = np.square(decoded.astype(float) - images).mean()
    assert ours < 0.8 * np.square(mean_image - images).mean()


def test_bytes_floats_and_grey_images_without_channels_mean_the_same(run: Run):
    model, images = run.model(0), run.dataset.images(np.arange(5))
    codes = model.encode(images)
    np.testing.assert_allclose(model.encode(images / 255.0), codes, atol=1e-5)
    np.testing.assert_array_equal(model.encode(images[..., 0]), codes)
    np.testing.assert_allclose(
        model.encode(images > 127), model.encode((images > 127).astype(float)), atol=0
    )


def test_many_images_are_the_same_as_few(run: Run):
    images = np.repeat(run.dataset.images(np.arange(24)), 12, axis=0)
    np.testing.assert_allclose(
        run.model(0).encode(images)[::12], run.model(0).encode(images[::12]), atol=1e-5
    )


def test_what_a_model_does_not_take(run: Run, refused: Refused):
    model, images = run.model(0), run.dataset.images(np.arange(2))
    shape, floats = "must have the shape (n, 28, 28, 1)", "as floats must lie in [0, 1]"
    for given in (images[:, :20], images[0]):
        ((name, rule, _),) = refused(model.encode, given)
        assert (name, rule) == ("images", shape)
    whole = ("images", "must be uint8, or floats in [0, 1]", "dtype int64")
    assert refused(model.encode, images.astype(np.int64)) == [whole]
    loud = images.astype(np.float32)
    assert refused(model.encode, loud) == [("images", floats, f"values from 0 to {loud.max():g}")]
    loud[0, 0, 0] = np.nan
    assert refused(model.encode, loud)[0][:2] == ("images", floats)
    for codes in (np.zeros((3, 5)), np.zeros(4)):
        told = ("codes", "must have the shape (n, 4)", f"shape {codes.shape}")
        assert refused(model.decode, codes) == [told]
    hidden = np.ma.masked_array(images, mask=images > 7)
    assert refused(model.encode, hidden)[0][:2] == ("images", "must not have masked values")
    assert refused(run.model, 2) == [("member", "must be one of 0..1", "2")]


FINITE = "must be finite and at most 1e+06 in size"


@pytest.mark.parametrize(
    ("codes", "rule"),
    [
        ("abc", "must be numbers"),
        (None, "must be numbers"),
        ([[None] * 4], "must be numbers"),
        (np.zeros((1, 4), complex), "must be numbers"),
        ([[0.0] * 4, [0.0] * 3], "must be regular"),
        (np.full((2, 4), np.nan), FINITE),
        (np.array([[0, 0, -np.inf, 0]]), FINITE),
        (np.full((1, 4), 1e300), FINITE),
        (np.nan, "must have the shape (n, 4)"),
        (np.ma.masked_array(np.zeros((1, 4)), mask=[[0, 1, 0, 0]]), "must not have masked values"),
    ],
)
def test_codes_that_no_image_has_are_refused(run: Run, refused: Refused, codes: Any, rule: str):
    assert [found[:2] for found in refused(run.model(0).decode, codes)] == [("codes", rule)]


@pytest.mark.parametrize("make", [torch.tensor, pd.DataFrame, list])
def test_codes_of_any_kind_that_holds_numbers_are_decoded(run: Run, make: Any):
    codes = np.linspace(-1, 1, 8).reshape(2, 4)
    expected = run.model(0).decode(codes)
    assert np.array_equal(run.model(0).decode(make(codes)), expected)


def test_points_are_encoded_too(points: Run, refused: Refused):
    model = points.model(0)
    assert model.encode(np.zeros((3, 2))).shape == (3, 2)
    assert model.decode(np.zeros((3, 2))).shape == (3, *points.dataset.image_shape)
    told = ("samples", "must be numbers of the shape (n, 2)", "float64 of shape (3, 5)")
    assert refused(model.encode, np.zeros((3, 5))) == [told]
    endless = np.array([[0.0, np.inf]])
    assert refused(model.encode, endless) == [("samples", "must be finite", "some that are not")]
