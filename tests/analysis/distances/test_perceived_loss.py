# SPDX-License-Identifier: Apache-2.0
"""Losses as distances: closed forms, scipy's convolution, torch's cross-entropy, and rules that
hold for any image.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter1d
from scipy.signal import convolve2d, fftconvolve

import unbraid as ub
from unbraid.analysis.distances.perceived_loss import PerceivedLoss, loss_of, parse_loss
from unbraid.core.errors import InputError
from unbraid.objectives.likelihoods import likelihood

LOSSES = ["mse", "bce", "mse+box3", "bce+box2", "mse+gauss4", "bce+gauss5"]


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape, dtype=np.float32))


def test_mse_is_the_mean_over_pixels_and_channels() -> None:
    x, y = torch.zeros(1, 3, 4, 4), torch.zeros(1, 3, 4, 4)
    y[0, 1, 2, 3] = 0.5
    assert parse_loss("mse").pairs(x, y).item() == 0.25 / 48


def test_bce_of_one_wrong_pixel() -> None:
    x, y = torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4)
    x[0, 0, 1, 1] = 1.0
    right, wrong = -np.log1p(-1e-6), -np.log(1e-6)
    assert parse_loss("bce").pairs(x, y).item() == pytest.approx(
        (15 * right + wrong) / 16, rel=1e-12
    )


def test_a_blurred_square_has_a_closed_form() -> None:
    """One white pixel under a box of radius 1 is nine pixels of 1/9, and four in a corner."""
    black, middle, corner = (
        torch.zeros(1, 1, 8, 8),
        torch.zeros(1, 1, 8, 8),
        torch.zeros(1, 1, 8, 8),
    )
    middle[0, 0, 4, 4], corner[0, 0, 0, 0] = 1.0, 1.0
    loss = parse_loss("mse+box1")
    assert loss.weight == 9
    assert loss.pairs(middle, black).item() == pytest.approx((1 + 9 * 9 / 81) / 64, rel=1e-14)
    assert loss.pairs(corner, black).item() == pytest.approx((1 + 9 * 4 / 81) / 64, rel=1e-14)


@pytest.mark.parametrize("radius", [1, 5, 31, 40])
def test_the_box_is_scipys_convolution(radius: int) -> None:
    x = images(2, 3, 20, 26).double()
    kernel = np.full((2 * radius + 1, 2 * radius + 1), 1.0 / (2 * radius + 1) ** 2)
    ours = PerceivedLoss("mse", "box", radius).blurred(x).numpy()
    for image, channel in np.ndindex(2, 3):
        direct = convolve2d(x[image, channel].numpy(), kernel, mode="full", boundary="fill")
        middle = direct[radius : radius + 20, radius : radius + 26]
        np.testing.assert_allclose(ours[image, channel], middle, rtol=0, atol=1e-14)
        by_fft = fftconvolve(x[image, channel].numpy(), kernel, mode="full")[
            radius : radius + 20, radius : radius + 26
        ]
        np.testing.assert_allclose(ours[image, channel], by_fft, rtol=0, atol=1e-13)


@pytest.mark.parametrize("radius", [2, 8, 31])
def test_the_gaussian_is_scipys_filter(radius: int) -> None:
    x = images(1, 1, 24, 24).double()
    ours = PerceivedLoss("mse", "gauss", radius).blurred(x).numpy()[0, 0]
    theirs = x.numpy()[0, 0]
    for axis in (0, 1):
        theirs = gaussian_filter1d(theirs, radius / 4, axis=axis, mode="constant", radius=radius)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)


def test_bce_is_torchs_where_nothing_is_clipped() -> None:
    x, y = images(5, 2, 6, 6, seed=1).double(), images(5, 2, 6, 6, seed=2).double() * 0.9 + 0.05
    theirs = torch.nn.functional.binary_cross_entropy(y, x, reduction="none").flatten(1).mean(dim=1)
    torch.testing.assert_close(parse_loss("bce").pairs(x, y), theirs, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_a_matrix_holds_its_pairs(name: str) -> None:
    loss, x = parse_loss(name), images(3, 5, 2, 9, 7)
    first, second = np.meshgrid(np.arange(5), np.arange(5), indexing="ij")
    whole = loss.matrix(x)
    assert whole.dtype == torch.float64
    for group in range(3):
        pairs = loss.pairs(x[group][first.ravel()], x[group][second.ravel()]).reshape(5, 5)
        torch.testing.assert_close(whole[group], pairs, rtol=1e-11, atol=1e-15)


def test_a_matrix_leaves_its_images_alone() -> None:
    x = images(1, 3, 1, 4, 4).double()
    before = x.clone()
    parse_loss("mse").matrix(x)
    assert torch.equal(x, before)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**31),
    name=st.sampled_from(["mse", "mse+box3", "mse+gauss4"]),
    channels=st.integers(1, 3),
)
def test_mse_is_symmetric_zero_on_itself_and_moves_with_nothing(
    seed: int, name: str, channels: int
) -> None:
    x = images(2, 4, channels, 6, 5, seed=seed).double()
    found = parse_loss(name).matrix(x)
    torch.testing.assert_close(found, found.transpose(1, 2))
    assert bool((found.diagonal(dim1=1, dim2=2) == 0).all())
    assert bool((found >= 0).all())
    torch.testing.assert_close(parse_loss(name).matrix(x + 0.25), found, rtol=1e-10, atol=1e-15)
    torch.testing.assert_close(
        parse_loss(name).matrix(0.5 * x), 0.25 * found, rtol=1e-10, atol=1e-15
    )
    # No blur makes two images nearer.
    assert bool((found >= parse_loss("mse").matrix(x) - 1e-15).all())


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**31))
def test_bce_is_least_for_the_image_itself(seed: int) -> None:
    found = parse_loss("bce").matrix(images(1, 4, 1, 5, 5, seed=seed))[0]
    assert bool((found >= found.diagonal()[:, None] - 1e-9).all())


@pytest.mark.parametrize("name", LOSSES)
def test_names_are_read_back(name: str) -> None:
    assert parse_loss(name).name == name
    assert parse_loss(f" {name.upper()} ") == parse_loss(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "mae",
        "mse+",
        "mse+box",
        "mse+box0",
        "mse+box1025",
        "mse+box31+box3",
        "box31",
        "mse-box31",
    ],
)
def test_other_spellings_are_refused(name: str) -> None:
    rule = (
        "loss must be mse or bce, alone or with +boxR or +gaussR for a blur of radius R in 1..1024"
    )
    message = f"{rule}; got '{name}'. The overlap loss of Michlo et al. is mse+box31."
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        parse_loss(name)


@pytest.mark.parametrize("name", ["mse", "mse+box31", "mse+gauss5"])
def test_it_is_what_training_minimises_divided_by_the_values(name: str) -> None:
    x, y = images(5, 3, 24, 20, seed=1).double(), images(5, 3, 24, 20, seed=2).double()
    nats = likelihood(name, bounded=False).negative_log(y[None], x[None])[0]
    torch.testing.assert_close(
        parse_loss(name).pairs(x, y), nats / (3 * 24 * 20), rtol=1e-12, atol=0
    )


def test_so_is_the_cross_entropy_of_probabilities() -> None:
    x, y = images(5, 3, 24, 20, seed=1).double(), images(5, 3, 24, 20, seed=2).double() * 0.9 + 0.05
    nats = likelihood("bce+box7", bounded=True).negative_log(torch.logit(y)[None], x[None])[0]
    torch.testing.assert_close(
        parse_loss("bce+box7").pairs(x, y), nats / (3 * 24 * 20), rtol=1e-10, atol=0
    )


def test_points_have_no_blur_and_no_cross_entropy() -> None:
    points = ub.load("pinwheel")
    assert parse_loss("mse").problems(points) == []
    bounded, blurred = parse_loss("bce+box3").problems(points)
    assert {one.name for one in (bounded, blurred)} == {"loss"}
    assert bounded.rule == "needs samples between 0 and 1, and this dataset has real-valued ones"
    assert blurred.rule == "can blur images only, and this dataset has points"
    assert (bounded.remedy, blurred.remedy) == ("Use the loss mse.", "Leave the blur out.")


@pytest.mark.parametrize("name", ["mse", "bce", "mse+box3", "bce+gauss3"])
def test_each_with_each_is_pair_by_pair(name: str) -> None:
    loss, draws = parse_loss(name), torch.Generator().manual_seed(0)
    x, y = (torch.rand((2, n, 1, 8, 8), generator=draws) for n in (3, 4))
    found = loss.between(x, y)
    assert found.shape == (2, 3, 4)
    for group, first, second in itertools.product(range(2), range(3), range(4)):
        (own,) = loss.pairs(x[group, first][None], y[group, second][None])
        assert found[group, first, second].item() == pytest.approx(own.item(), rel=1e-9)


def test_the_loss_of_a_likelihood() -> None:
    for spelled, name in (("laplace+gauss7:scale=0.1", "mse+gauss7"), ("bce", "mse")):
        assert loss_of(spelled).name == name
