# SPDX-License-Identifier: Apache-2.0
"""Random numbers as pure functions of (seed, step, stream): the same bits on every device.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"), in
64-bit integer tensor operations. The key is the member's seed; the counter is (block, step, step's
high word, stream). A number therefore depends on nothing but its member, its step and its purpose:
not on the neighbours, the chunk or the device.

Everything after the integers uses only operations that IEEE 754 rounds exactly (add, multiply,
divide, square root), one tensor operation each, so that uniform and normal numbers have the same
bits on CPU and CUDA as well. The logarithm of the normal quantile is for that reason our own: a
library's `log` differs between devices in the last bit.

Every function takes `seed`, an int64 tensor `(members,)`, and `step`, an int or an int64 tensor of
any shape `(...)`, and returns `(members, ..., *shape)`: asking for many steps at once gives the
same numbers as asking one by one.
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from unbraid.core import triton_support
from unbraid.core.errors import invalid


class Stream(IntEnum):
    """What a number is for; streams are independent. Values are part of the file format."""

    INITIAL_WEIGHTS = 0
    IMAGE_INDICES = 1
    LATENT_NOISE = 2
    LATENT_PERMUTATION = 3
    AUXILIARY_WEIGHTS = 4
    CODE_SAMPLE = 5
    CODE_NOISE = 6
    IMAGE_NOISE = 7
    """Chance inside an image; the step is the image's index and, in its upper half, which of the
    index's images.
    """
    FRESH_IMAGES = 8
    PAIR_FACTORS = 9
    PAIR_COUNTS = 10
    PAIR_VALUES = 11
    PRIOR_POINTS = 12
    LABELLED_INDICES = 13
    LABEL_NOISE = 14
    POPULATION = 15
    """Chance between the epochs of population-based training; the step is the epoch."""
    IMPORTANCE_NOISE = 16


_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(
    counter: tuple[Tensor, ...], key: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Philox4x32-10 of four counter words and two key words, as int64 tensors."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        # Products of two 32-bit words wrap around in int64 without losing bits; masking the shift
        # undoes the sign.
        left, right = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((right >> 32) & _MASK) ^ c1 ^ k0,
            right & _MASK,
            ((left >> 32) & _MASK) ^ c3 ^ k1,
            left & _MASK,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return c0, c1, c2, c3


def _check(seed: Tensor) -> None:
    if seed.dtype != torch.int64 or seed.dim() != 1:
        raise invalid(
            "seed",
            "must be an int64 tensor with one entry per member",
            (seed.dtype, tuple(seed.shape)),
        )


def _blocks(
    seed: Tensor, step: int | Tensor, stream: int, count: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words for each of *count* blocks: each `(members, *step.shape, count)`."""
    _check(seed)
    steps = torch.as_tensor(step, dtype=torch.int64, device=seed.device)
    members = seed.reshape(-1, *([1] * (steps.dim() + 1)))
    steps = steps.unsqueeze(-1)
    block = torch.arange(count, dtype=torch.int64, device=seed.device)
    low, high = steps & _MASK, (steps >> 32) & _MASK
    purpose = torch.full((), int(stream), dtype=torch.int64, device=seed.device)
    counter = torch.broadcast_tensors(block, low, high, purpose)
    return philox(counter, (members & _MASK, (members >> 32) & _MASK))


def _by_kernel(
    kind: str, seed: Tensor, step: int | Tensor, stream: int, shape: tuple[int, ...], high: int = 1
) -> Tensor | None:
    """The same bits from one kernel on CUDA, with hundreds of launches fewer; else None."""
    _check(seed)
    if not triton_support.usable(seed.device):
        return None
    from unbraid.core import random_kernel

    device = seed.device
    steps = (
        torch.full((), step, dtype=torch.int64, device=device)
        if isinstance(step, int)
        else step.to(device, torch.int64)
    )
    return random_kernel.draw(seed, steps, stream, shape, getattr(random_kernel, kind).value, high)


def words(seed: Tensor, step: int | Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """Uniform 32-bit words as int64 in 0..2^32-1: `(members, ..., *shape)`."""
    if (drawn := _by_kernel("WORDS", seed, step, stream, shape)) is not None:
        return drawn
    count = math.prod(shape)
    parts = torch.stack(_blocks(seed, step, stream, -(-count // 4)), dim=-1)
    flat = parts.flatten(-2)[..., :count]
    return flat.reshape(*flat.shape[:-1], *shape)


def uniform(seed: Tensor, step: int | Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """Uniform numbers in [0, 1): float32 with 24 random bits, `(members, ..., *shape)`."""
    if (drawn := _by_kernel("UNIFORM", seed, step, stream, shape)) is not None:
        return drawn
    return (words(seed, step, stream, shape) >> 8).to(torch.float32) * 2.0**-24


def normal(seed: Tensor, step: int | Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """Standard normal numbers, float32 `(members, ..., *shape)`, at most 6.34 in size.

    By inversion of 32-bit uniforms.
    """
    if (drawn := _by_kernel("NORMAL", seed, step, stream, shape)) is not None:
        return drawn
    return normal_quantile(words(seed, step, stream, shape)).to(torch.float32)


def integers(
    seed: Tensor, step: int | Tensor, stream: int, shape: tuple[int, ...], high: int
) -> Tensor:
    """Whole numbers uniform on 0..high-1: int64 `(members, ..., *shape)`.

    Multiply-shift with rejection (Lemire 2019) on 64-bit words, each number with two tries of its
    own, so that no loop waits for the device. Both tries are refused with probability below 2^-66;
    only then is the second kept as it is.
    """
    if not 1 <= high <= 2**31:
        raise invalid("high", "must lie in 1..2^31", high)
    if (drawn := _by_kernel("INTEGERS", seed, step, stream, shape, high)) is not None:
        return drawn
    count = math.prod(shape)
    w0, w1, w2, w3 = _blocks(seed, step, stream, count)
    first, refused = _multiply_shift(w0, w1, high)
    second, _ = _multiply_shift(w2, w3, high)
    flat = torch.where(refused, second, first)
    return flat.reshape(*flat.shape[:-1], *shape)


def _multiply_shift(upper: Tensor, lower: Tensor, high: int) -> tuple[Tensor, Tensor]:
    """`floor(x * high / 2^64)` of a 64-bit word x, and whether x is in the last stretch.

    The last stretch is incomplete.
    """
    tail = lower * high
    head = upper * high + (tail >> 32)
    refused = ((head & _MASK) == 0) & ((tail & _MASK) < (2**64 % high))
    return head >> 32, refused


def permutations(seed: Tensor, step: int | Tensor, stream: int, rows: int, length: int) -> Tensor:
    """Independent uniform permutations of 0..length-1: int64 `(members, ..., rows, length)`."""
    pairs = words(seed, step, stream, (rows, length, 2))
    # 63-bit keys: two equal ones among 1,000 have probability below 1e-13, and the stable sort
    # keeps even that repeatable.
    keys = ((pairs[..., 0] & 0x7FFFFFFF) << 32) | pairs[..., 1]
    return torch.argsort(keys, dim=-1, stable=True)


_CENTRE_TOP = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
    4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2,
    3.3871328727963666080e0,
)  # fmt: skip
_CENTRE_BOTTOM = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
    2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
)  # fmt: skip
_TAIL_TOP = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
    1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0,
    1.42343711074968357734e0,
)  # fmt: skip
_TAIL_BOTTOM = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
    1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
)  # fmt: skip


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Horner's rule without fused multiply-add, which rounds differently on some devices."""
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x
        total = total + coefficient
    return total


def normal_quantile(word: Tensor) -> Tensor:
    """Standard normal quantile of (word + 1/2) / 2^32, float64 (Wichura 1988, AS 241).

    AS 241's third branch is for probabilities below e^-25; the smallest here is 2^-33 > e^-25, so
    two branches suffice.
    """
    probability = (word.to(torch.float64) + 0.5) * 2.0**-32
    offset = probability - 0.5
    near = 0.180625 - offset * offset
    centre = offset * (_polynomial(_CENTRE_TOP, near) / _polynomial(_CENTRE_BOTTOM, near))
    # min(p, 1 - p) = (2 v + 1) / 2^33 with a whole v: its logarithm needs only that of an odd
    # integer below 2^32.
    odd = 2 * torch.minimum(word, _MASK - word) + 1
    far = _square_root(33 * math.log(2.0) - _log(odd.to(torch.float64))) - 1.6
    size = _polynomial(_TAIL_TOP, far) / _polynomial(_TAIL_BOTTOM, far)
    tail = torch.where(offset < 0, -size, size)
    return torch.where(offset.abs() <= 0.425, centre, tail)


def _square_root(x: Tensor) -> Tensor:
    """Exactly rounded square root: on a CPU by NumPy, as torch's own errs in the last bit."""
    return torch.from_numpy(np.sqrt(x.numpy())) if x.device.type == "cpu" else torch.sqrt(x)


_LOG_SERIES = tuple(1.0 / (2 * k + 1) for k in range(11, -1, -1))


def _log(x: Tensor) -> Tensor:
    """Natural logarithm of float64 x >= 1 from exactly rounded operations only, to about 1e-15."""
    bits = x.contiguous().view(torch.int64)
    exponent = (bits >> 52) - 1023
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(torch.float64)
    large = mantissa > math.sqrt(2.0)
    mantissa = torch.where(large, mantissa * 0.5, mantissa)
    exponent = exponent + large.to(torch.int64)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    # log m = 2 artanh((m - 1) / (m + 1)), an odd series in a ratio of at most 0.172
    series = 2.0 * ratio * _polynomial(_LOG_SERIES, ratio * ratio)
    return exponent.to(torch.float64) * math.log(2.0) + series
