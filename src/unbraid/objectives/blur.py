# SPDX-License-Identifier: Apache-2.0
"""Blurred images, as the overlap loss sees them (Michlo et al. 2023): each channel under a window
of weights that sum to 1.

`box` is the paper's window, (2R + 1)^2 equal weights. `gauss` is a Gaussian of standard deviation
R/4 cut off at R, as in the authors' code. Beyond an image's edge everything counts as zero, so what
the window reaches outside is lost.

Departs: the paper blurs by FFT. Both windows are products of one over rows and one over columns, so
two products with banded matrices give the same numbers, at 64x64 three to four times faster. Both
ways are here. An FFT needs an image padded by R, or by less where R is larger than the image, since
weights that reach no pixel do nothing.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from unbraid.core.errors import InputError, Shown, invalid, unknown

WINDOWS = ("box", "gauss")
LARGEST_RADIUS = 1024
METHODS = ("auto", "products", "fft")
_FFT_FROM_SIDE = 256
_FFT_UP_TO_PART = 4
"""`auto` takes the FFT for images of at least this side under windows of at most this part of it.

Forward and backward of 1.5 million pixels on one core in float32, products against FFT: 13 and 49
ms at side 64 with R = 31, 20 and 32 at 128, 28 and 50 at 192, 38 and 28 at 256, 67 and 33 at 512.
At R = side/4 the two meet at 256 (39 and 39), and at R = side/2 products win throughout (73 and 78
at 512).
"""


def blur(x: Tensor, window: str, radius: int, method: str = "auto") -> Tensor:
    """*x* `(..., height, width)` under the window of *radius*, in its own dtype; any leading axes.

    *method* is `products`, `fft`, or `auto` for whichever is faster at this size. They agree to
    rounding.

    >>> blur(torch.eye(3), "box", 1)[1]
    tensor([0.2222, 0.3333, 0.2222])
    """
    _check(x, window, radius, method)
    height, width = x.shape[-2:]
    if method == "fft" or (method == "auto" and _fft_is_faster(x, radius)):
        spectrum, padded = _spectrum(window, radius, height, width, x.device, x.dtype)
        return torch.fft.irfft2(torch.fft.rfft2(x, s=padded) * spectrum, s=padded)[
            ..., :height, :width
        ]
    rows, columns = (_band(window, radius, side, x.device, x.dtype) for side in (height, width))
    return rows @ x @ columns


def window_weights(window: str, radius: int) -> Tensor:
    """The window along one axis, `(2 radius + 1,)` float64 weights that sum to 1; the square one is
    their outer product.
    """
    reach = torch.arange(-radius, radius + 1, dtype=torch.float64, device="cpu")
    weights = (
        torch.ones_like(reach) if window == "box" else torch.exp(-0.5 * (reach / (radius / 4)) ** 2)
    )
    return weights / weights.sum()


def _check(x: Tensor, window: str, radius: int, method: str) -> None:
    """Refuse what cannot be blurred, before a tensor operation fails with a message about something
    else.
    """
    if window not in WINDOWS:
        raise InputError(unknown("window", window, WINDOWS))
    if not isinstance(radius, int) or isinstance(radius, bool) or not 1 <= radius <= LARGEST_RADIUS:
        raise invalid(
            "radius", f"must be a whole number in 1..{LARGEST_RADIUS}", radius, "The paper's is 31."
        )
    if method not in METHODS:
        raise InputError(unknown("method", method, METHODS))
    if x.dim() < 2 or not x.is_floating_point():
        found = Shown(f"{x.dtype} of shape {tuple(x.shape)}")
        raise invalid("x", "must be floats of the shape (..., height, width)", found)
    if method == "fft" and not _has_fft(x):
        raise invalid(
            "x", "must be float32 or float64 for an FFT", x.dtype, "Use the method products."
        )


def _has_fft(x: Tensor) -> bool:
    return x.dtype in (torch.float32, torch.float64)


def _fft_is_faster(x: Tensor, radius: int) -> bool:
    side = min(x.shape[-2:])
    return side >= _FFT_FROM_SIDE and _FFT_UP_TO_PART * radius <= side and _has_fft(x)


# The caches never forget: a captured CUDA graph goes on reading tensors made before it, and a run
# has one or two of them.


@cache
def _band(window: str, radius: int, side: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The blur along one axis as a symmetric matrix `(side, side)`."""
    # A tensor made in inference mode could not be used in training later.
    with torch.inference_mode(False):
        weights = window_weights(window, radius)
        place = torch.arange(side, device="cpu")
        apart = (place[:, None] - place[None, :]).abs()
        return torch.where(
            apart <= radius, weights[(apart + radius).clamp(max=2 * radius)], 0.0
        ).to(device, dtype)


@cache
def _spectrum(
    window: str, radius: int, height: int, width: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, tuple[int, int]]:
    """The window's spectrum, real since it is symmetric, and the padded sides at which nothing
    comes round the edge.
    """
    with torch.inference_mode(False):
        weights = window_weights(window, radius)
        padded, transforms = [], []
        for side, transform in ((height, torch.fft.fft), (width, torch.fft.rfft)):
            reach = min(radius, side - 1)
            length = _fast_length(side + reach)
            around = torch.zeros(length, dtype=torch.float64, device="cpu")
            around[torch.arange(-reach, reach + 1, device="cpu") % length] = weights[
                radius - reach : radius + reach + 1
            ]
            padded.append(length)
            transforms.append(transform(around).real)
        return torch.outer(*transforms).to(device, dtype), (padded[0], padded[1])


def _fast_length(least: int) -> int:
    """The first length from *least* on with no prime factor above 5, which FFTs are fast at."""
    length = least
    while True:
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length += 1
