# SPDX-License-Identifier: Apache-2.0
"""The overlap loss by hand, by scipy, as a distance, and as one more likelihood."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter1d, uniform_filter
from scipy.special import expit, log_expit

from unbraid.objectives.likelihoods import LOG_SCALE, likelihood
from unbraid.objectives.overlap import usual_kappa


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def scipys_blur(x: np.ndarray, window: str, radius: int) -> np.ndarray:
    if window == "box":
        return uniform_filter(x, size=2 * radius + 1, mode="constant", axes=(-2, -1))
    for axis in (-2, -1):
        x = gaussian_filter1d(x, radius / 4, axis=axis, mode="constant", radius=radius)
    return x


def reference(
    base: str, raw: np.ndarray, x: np.ndarray, window: str, radius: int, kappa: float, scale: float
) -> np.ndarray:
    """The formula, term by term, for samples in [0, 1]."""
    mean = expit(raw)
    blurred_mean, blurred_x = scipys_blur(mean, window, radius), scipys_blur(x, window, radius)
    if base == "bernoulli":
        plain = -(x * log_expit(raw) + (1 - x) * log_expit(-raw))
        y = np.clip(blurred_mean, 1e-6, 1 - 1e-6)
        blurred = -(blurred_x * np.log(y) + (1 - blurred_x) * np.log(1 - y))
    elif base == "gaussian":
        plain, blurred = (x - mean) ** 2, (blurred_x - blurred_mean) ** 2
    elif base == "gaussian with scale":
        plain, blurred = (
            error**2 / (2 * scale**2) + math.log(scale) + 0.5 * math.log(2 * math.pi)
            for error in (x - mean, blurred_x - blurred_mean)
        )
    else:
        plain, blurred = (
            abs(error) / scale + math.log(2 * scale)
            for error in (x - mean, blurred_x - blurred_mean)
        )
    return (plain + kappa * blurred).sum(axis=(2, 3, 4))


@pytest.mark.parametrize(
    ("name", "base", "window", "radius", "kappa", "scale"),
    [
        ("gaussian+box31", "gaussian", "box", 31, 3969, 1.0),
        ("gaussian+gauss15", "gaussian", "gauss", 15, 961, 1.0),
        ("gaussian+box2:scale=0.5", "gaussian with scale", "box", 2, 25, 0.5),
        ("gaussian+box2:scale=0.5,kappa=3", "gaussian with scale", "box", 2, 3, 0.5),
        ("laplace+box7:scale=0.1,kappa=2", "laplace", "box", 7, 2, 0.1),
        ("laplace+gauss4", "laplace", "gauss", 4, 81, 1.0),
        ("bernoulli+box31:kappa=100", "bernoulli", "box", 31, 100, 1.0),
        ("bernoulli+gauss3", "bernoulli", "gauss", 3, 49, 1.0),
    ],
)
def test_the_formula_by_scipy(name, base, window, radius, kappa, scale):
    raw, x = 3.0 * draw(2, 3, 3, 16, 20), torch.sigmoid(2.0 * draw(2, 3, 3, 16, 20, seed=1))
    found = likelihood(name, bounded=True)
    assert found.name == name
    expected = reference(base, raw.numpy(), x.numpy(), window, radius, kappa, scale)
    np.testing.assert_allclose(found.negative_log(raw, x).numpy(), expected, rtol=1e-11)


def test_one_wrong_pixel_by_hand():
    """One white pixel under a box of radius 1 is nine of 1/9; in a corner four of them are left."""
    raw = torch.zeros(1, 2, 1, 8, 8, dtype=torch.float64)
    raw[0, 0, 0, 4, 4] = raw[0, 1, 0, 0, 0] = 1.0
    found = likelihood("gaussian+box1", bounded=False).negative_log(raw, torch.zeros_like(raw))
    assert found.flatten().tolist() == pytest.approx([1 + 9 * 9 / 81, 1 + 9 * 4 / 81], rel=1e-13)
    found = likelihood("laplace+box1:kappa=2", bounded=False).negative_log(
        raw, torch.zeros_like(raw)
    )
    assert found.flatten().tolist() == pytest.approx(
        [1 + 2 + 192 * math.log(2), 1 + 8 / 9 + 192 * math.log(2)], rel=1e-13
    )


def test_probabilities_are_kept_from_zero_and_one():
    """A black image where a white one was expected costs log(1e6) for every pixel under the window,
    and stays finite.
    """
    raw, x = (
        torch.full((1, 1, 1, 9, 9), -1e3, dtype=torch.float64),
        torch.zeros(1, 1, 1, 9, 9, dtype=torch.float64),
    )
    x[..., 4, 4] = 1.0
    found = likelihood("bernoulli+box1", bounded=True).negative_log(raw, x)
    blurred = -math.log(1e-6) - 80 * math.log1p(-1e-6)
    assert found.item() == pytest.approx(1e3 + 9 * blurred, rel=1e-12)


def test_squares_that_do_not_overlap_are_ordered_again():
    """Places 8, 16 and 24 pixels apart are equally far by pixels, and in order under the blur."""
    x = torch.zeros(1, 4, 1, 64, 64)
    for place in range(4):
        x[0, place, 0, 24:32, 16 + 8 * place : 24 + 8 * place] = 1.0
    start = x[:, :1].expand_as(x)
    plain = likelihood("gaussian", bounded=False).negative_log(x, start)[0]
    assert plain.tolist() == [0.0, 128.0, 128.0, 128.0]
    seen = likelihood("gaussian+box31", bounded=False).negative_log(x, start)[0]
    assert bool((seen.diff() > 1.0).all())


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    name=st.sampled_from(
        ["gaussian", "gaussian+box3", "gaussian+gauss5", "gaussian+box9:kappa=0.5"]
    ),
    sides=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_squared_error_is_a_distance(seed, name, sides):
    x, y = (draw(2, 3, 2, *sides, seed=seed + more) for more in (0, 1))
    measure = likelihood(name, bounded=False).negative_log
    assert bool((measure(x, x) == 0).all())
    torch.testing.assert_close(measure(x, y), measure(y, x), rtol=1e-12, atol=0)
    torch.testing.assert_close(measure(x + 0.5, y + 0.5), measure(x, y), rtol=1e-9, atol=0)
    torch.testing.assert_close(measure(3.0 * x, 3.0 * y), 9.0 * measure(x, y), rtol=1e-12, atol=0)
    assert bool((measure(x, y) >= likelihood("gaussian", bounded=False).negative_log(x, y)).all())


@pytest.mark.parametrize(
    "name",
    ["gaussian+box3", "bernoulli+gauss3", "laplace+box2:scale=0.1", "gaussian+box2:scale=learned"],
)
def test_gradients(name):
    raw, x = draw(2, 2, 1, 5, 4).requires_grad_(), torch.sigmoid(draw(2, 2, 1, 5, 4, seed=1))
    log_scale = torch.tensor([[0.3], [-1.0]], dtype=torch.float64, requires_grad=True)
    found = likelihood(name, bounded=True)
    inputs = (raw, log_scale) if found.weights else (raw,)
    assert torch.autograd.gradcheck(
        lambda *given: found.bound({LOG_SCALE: given[-1]}).negative_log(given[0], x), inputs
    )


@pytest.mark.parametrize("name", ["gaussian+box31", "bernoulli+box31", "laplace+gauss9:scale=0.1"])
def test_members_do_not_mix(name):
    raw, x = draw(3, 4, 1, 12, 12), torch.sigmoid(draw(3, 4, 1, 12, 12, seed=1))
    measure = likelihood(name, bounded=True).negative_log
    whole = measure(raw, x)
    raw[1] = torch.nan
    rest = measure(raw, x)
    assert torch.equal(rest[0], whole[0])
    assert torch.equal(rest[2], whole[2])
    assert bool(rest[1].isnan().all())


@pytest.mark.parametrize("name", ["gaussian+box31", "bernoulli+gauss15", "laplace+box7:scale=0.1"])
def test_single_precision_is_enough(name):
    raw, x = 3.0 * draw(1, 4, 3, 64, 64), torch.sigmoid(3.0 * draw(1, 4, 3, 64, 64, seed=1))
    measure = likelihood(name, bounded=True).negative_log
    exact = measure(raw, x)
    found = measure(raw.float(), x.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=2e-6, atol=0)


def test_only_images_can_be_blurred():
    (problem,) = likelihood("mse+box3", bounded=False).problems((2,))
    assert (problem.name, problem.value) == ("likelihood", "gaussian+box3")
    assert problem.rule == "can blur images only, and this dataset has points"
    assert problem.remedy == "Leave the blur out."
    assert likelihood("mse+box3", bounded=True).problems((1, 28, 28)) == []
    assert likelihood("laplace", bounded=False).problems((2,)) == []


def test_the_papers_weight():
    assert [usual_kappa(radius) for radius in (1, 15, 31)] == [9, 961, 3969]
