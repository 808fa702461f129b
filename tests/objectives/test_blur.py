# SPDX-License-Identifier: Apache-2.0
"""One blur, two ways: closed forms, scipy's filters, each other, gradients, and what must hold
while a step is captured.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter1d, uniform_filter
from scipy.signal import convolve2d

from unbraid.core.errors import InputError
from unbraid.objectives import blur as module
from unbraid.objectives.blur import LARGEST_RADIUS, WINDOWS, blur, window_weights

BOTH = pytest.mark.parametrize("method", ["products", "fft"])


def images(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


@BOTH
def test_one_white_pixel_becomes_the_window(method: str) -> None:
    x = torch.zeros(9, 9, dtype=torch.float64)
    x[4, 4] = 1.0
    found = blur(x, "box", 2, method)
    expected = torch.zeros_like(x)
    expected[2:7, 2:7] = 1 / 25
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-16)
    found = blur(x, "gauss", 4, method)  # standard deviation 1
    bell = torch.exp(-0.5 * torch.arange(-4.0, 5.0, dtype=torch.float64) ** 2)
    torch.testing.assert_close(found, torch.outer(bell, bell) / bell.sum() ** 2, rtol=0, atol=1e-16)


@BOTH
def test_what_the_window_reaches_outside_is_lost(method: str) -> None:
    white = torch.ones(1, 8, 8, dtype=torch.float64)
    found = blur(white, "box", 1, method)[0]
    corners_edges_middle = [found[0, 0].item(), found[0, 3].item(), found[4, 4].item()]
    assert corners_edges_middle == pytest.approx([4 / 9, 6 / 9, 1.0], rel=1e-14)
    # A window larger than the image sees all of it from everywhere.
    torch.testing.assert_close(
        blur(white, "box", 100, method), white * 64 / 201**2, rtol=1e-13, atol=0
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("radius", [1, 2, 31, LARGEST_RADIUS])
def test_weights_sum_to_one(window: str, radius: int) -> None:
    weights = window_weights(window, radius)
    assert len(weights) == 2 * radius + 1
    assert weights.sum().item() == pytest.approx(1.0, rel=1e-14)
    assert torch.equal(weights, weights.flip(0))


@BOTH
@pytest.mark.parametrize("radius", [1, 5, 31, 100])
def test_the_box_is_scipys(method: str, radius: int) -> None:
    x = images(2, 3, 28, 37)
    found = blur(x, "box", radius, method).numpy()
    theirs = uniform_filter(x.numpy(), size=2 * radius + 1, mode="constant", axes=(-2, -1))
    np.testing.assert_allclose(found, theirs, rtol=0, atol=1e-10)


@BOTH
@pytest.mark.parametrize("radius", [1, 8, 31, 70])
def test_the_gaussian_is_scipys(method: str, radius: int) -> None:
    x = images(2, 26, 20)
    theirs = x.numpy()
    for axis in (-2, -1):
        theirs = gaussian_filter1d(theirs, radius / 4, axis=axis, mode="constant", radius=radius)
    np.testing.assert_allclose(blur(x, "gauss", radius, method).numpy(), theirs, rtol=0, atol=1e-10)


@BOTH
@pytest.mark.parametrize("window", WINDOWS)
def test_it_is_the_convolution_written_out(method: str, window: str) -> None:
    x, weights = images(7, 11), window_weights(window, 3).numpy()
    direct = convolve2d(x.numpy(), np.outer(weights, weights), mode="same", boundary="fill")
    np.testing.assert_allclose(blur(x, window, 3, method).numpy(), direct, rtol=0, atol=1e-14)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    window=st.sampled_from(WINDOWS),
    radius=st.integers(1, 80),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    leading=st.lists(st.integers(1, 3), max_size=3),
)
def test_both_ways_agree(
    seed: int, window: str, radius: int, height: int, width: int, leading: list[int]
) -> None:
    x = images(*leading, height, width, seed=seed)
    by_products, by_fft = (blur(x, window, radius, method) for method in ("products", "fft"))
    torch.testing.assert_close(by_products, by_fft, rtol=0, atol=1e-10)
    # A linear map that is its own transpose, and moves no image farther from another.
    y = images(*leading, height, width, seed=seed + 1)
    torch.testing.assert_close(
        (by_products * y).sum(),
        (x * blur(y, window, radius, "products")).sum(),
        rtol=1e-9,
        atol=1e-12,
    )
    torch.testing.assert_close(
        blur(2.0 * x - y, window, radius),
        2.0 * by_products - blur(y, window, radius),
        rtol=0,
        atol=1e-10,
    )
    assert by_products.square().sum() <= x.square().sum() * (1 + 1e-12)


@BOTH
@pytest.mark.parametrize(("window", "radius"), [("box", 2), ("gauss", 3), ("box", 9)])
def test_gradients(method: str, window: str, radius: int) -> None:
    x = images(2, 1, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: blur(x, window, radius, method), (x,))


@BOTH
def test_members_are_blurred_one_by_one(method: str) -> None:
    x = images(3, 4, 2, 12, 10)
    whole = blur(x, "box", 3, method)
    for member in range(3):
        torch.testing.assert_close(
            whole[member], blur(x[member], "box", 3, method), rtol=0, atol=1e-15
        )


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_dtype_is_kept(method: str, dtype: torch.dtype) -> None:
    x = images(2, 64, 64, dtype=dtype)
    found = blur(x, "box", 31, method)
    assert found.dtype == dtype
    exact = blur(x.double(), "box", 31, "products")
    torch.testing.assert_close(
        found.double(), exact, rtol=0, atol=1e-7 if dtype == torch.float32 else 1e-14
    )


@pytest.mark.parametrize(
    ("shape", "radius", "taken"),
    [
        ((64, 64), 31, "products"),
        ((255, 255), 3, "products"),
        ((256, 256), 64, "fft"),
        ((256, 256), 65, "products"),
        ((512, 255), 31, "products"),
        ((300, 400), 31, "fft"),
    ],
)
def test_auto_takes_the_faster_way(shape: tuple[int, int], radius: int, taken: str) -> None:
    x = images(*shape, dtype=torch.float32)
    other = "fft" if taken == "products" else "products"
    found = blur(x, "box", radius)
    assert torch.equal(found, blur(x, "box", radius, taken))
    assert not torch.equal(found, blur(x, "box", radius, other))


def test_auto_gives_half_precision_to_products() -> None:
    x = images(256, 256).to(torch.bfloat16)
    assert blur(x, "box", 3).dtype == torch.bfloat16


@BOTH
def test_kernels_are_made_once_and_can_be_trained_through_when_first_made_in_inference_mode(
    method: str,
) -> None:
    """A step that is captured as a CUDA graph must find what it reads already made, and never
    thrown away.
    """
    with torch.inference_mode():
        blur(images(1, 17, 19), "gauss", 13, method)
    made = module._band if method == "products" else module._spectrum
    misses = made.cache_info().misses
    x = images(1, 17, 19).requires_grad_()
    blur(x, "gauss", 13, method).square().sum().backward()
    assert x.grad is not None
    assert made.cache_info().misses == misses
    assert made.cache_info().maxsize is None


def test_refusals() -> None:
    def message(*given, x: torch.Tensor | None = None) -> str:
        with pytest.raises(InputError) as told:
            blur(torch.zeros(2, 4, 4) if x is None else x, *given)
        return str(told.value)

    assert (
        message("boxes", 3) == "window 'boxes' is unknown; did you mean 'box'? Known: box, gauss."
    )
    for radius, shown in ((0, "0"), (1025, "1025"), (2.0, "2.0"), (True, "True")):
        assert (
            message("box", radius)
            == f"radius must be a whole number in 1..1024; got {shown}. The paper's is 31."
        )
    assert (
        message("box", 3, "ftt")
        == "method 'ftt' is unknown; did you mean 'fft'? Known: auto, fft, products."
    )
    rule = "x must be floats of the shape (..., height, width)"
    assert message("box", 3, x=torch.zeros(4)) == f"{rule}; got torch.float32 of shape (4,)."
    assert (
        message("box", 3, x=torch.zeros(2, 4, dtype=torch.uint8))
        == f"{rule}; got torch.uint8 of shape (2, 4)."
    )
    assert (
        message("box", 3, "fft", x=torch.zeros(2, 4, dtype=torch.bfloat16))
        == "x must be float32 or float64 for an FFT; got torch.bfloat16. Use the method products."
    )


@pytest.mark.gpu
@BOTH
def test_a_captured_blur_is_replayed(method: str) -> None:
    x = images(2, 3, 1, 64, 64, dtype=torch.float32).cuda().requires_grad_()

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        found = blur(x, "box", 31, method)
        return found, torch.autograd.grad(found.square().sum(), x)[0]

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found, slope = step()
    with torch.no_grad():
        x.copy_(images(2, 3, 1, 64, 64, seed=1, dtype=torch.float32))
    graph.replay()
    torch.cuda.synchronize()
    expected = blur(x.detach().double(), "box", 31, "products")
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(
        slope.double(), 2 * blur(expected, "box", 31, "products"), rtol=0, atol=1e-6
    )
