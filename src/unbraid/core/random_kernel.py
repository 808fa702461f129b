# SPDX-License-Identifier: Apache-2.0
"""The functions of `random` as single Triton kernels, bit for bit: one launch, not hundreds.

Fused multiply-adds are switched off at the launch, since they round once where the definition
rounds twice.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from unbraid.core.kernel_launch import launch_kernel

_NUMBERS = 256
WORDS, UNIFORM, NORMAL, INTEGERS = (
    tl.constexpr(0),
    tl.constexpr(1),
    tl.constexpr(2),
    tl.constexpr(3),
)
_LOG_2 = tl.constexpr(math.log(2.0))
_SQRT_2 = tl.constexpr(math.sqrt(2.0))
_TOP = tl.constexpr(33 * math.log(2.0))


@triton.jit
def _log(x):
    """Natural logarithm of float64 x >= 1, as `random._log`."""
    bits = x.to(tl.int64, bitcast=True)
    exponent = (bits >> 52) - 1023
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).to(tl.float64, bitcast=True)
    large = mantissa > _SQRT_2
    mantissa = tl.where(large, mantissa * 0.5, mantissa)
    exponent += large.to(tl.int64)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    total = tl.full(x.shape, 1.0 / 23.0, tl.float64)
    total = total * square + (1.0 / 21.0)
    total = total * square + (1.0 / 19.0)
    total = total * square + (1.0 / 17.0)
    total = total * square + (1.0 / 15.0)
    total = total * square + (1.0 / 13.0)
    total = total * square + (1.0 / 11.0)
    total = total * square + (1.0 / 9.0)
    total = total * square + (1.0 / 7.0)
    total = total * square + (1.0 / 5.0)
    total = total * square + (1.0 / 3.0)
    total = total * square + 1.0
    return exponent.to(tl.float64) * _LOG_2 + (2.0 * ratio) * total


@triton.jit
def _polynomial(x, A, B, C, D, E, F, G, H):
    """Horner's rule from A down to H."""
    total = tl.full(x.shape, A, tl.float64)
    total = total * x + B
    total = total * x + C
    total = total * x + D
    total = total * x + E
    total = total * x + F
    total = total * x + G
    return total * x + H


@triton.jit
def _normal_quantile(word):
    """As `random.normal_quantile`."""
    probability = (word.to(tl.float64) + 0.5) * 2.3283064365386963e-10
    offset = probability - 0.5
    near = 0.180625 - offset * offset
    top = _polynomial(
        near, 2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2,
        3.3871328727963666080e0,
    )  # fmt: skip
    bottom = _polynomial(
        near, 5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
    )  # fmt: skip
    centre = offset * (top / bottom)
    odd = 2 * tl.minimum(word, 0xFFFFFFFF - word) + 1
    far = tl.sqrt(-(_log(odd.to(tl.float64)) - _TOP)) - 1.6
    top = _polynomial(
        far, 7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0,
        1.42343711074968357734e0,
    )  # fmt: skip
    bottom = _polynomial(
        far, 1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
    )  # fmt: skip
    size = top / bottom
    tail = tl.where(offset < 0, -size, size)
    return tl.where(tl.abs(offset) <= 0.425, centre, tail)


@triton.jit
def _finish(word, KIND: tl.constexpr):
    word = word.to(tl.int64) & 0xFFFFFFFF
    if KIND == UNIFORM:
        return (word >> 8).to(tl.float32) * 5.9604644775390625e-08
    elif KIND == NORMAL:
        return _normal_quantile(word).to(tl.float32)
    else:
        return word


@triton.jit
def _multiply_shift(upper, lower, high, rest):
    tail = lower * high
    head = upper * high + (tail >> 32)
    return head >> 32, ((head & 0xFFFFFFFF) == 0) & ((tail & 0xFFFFFFFF) < rest)


# One compiled kernel for each kind of number, whatever is drawn.
@triton.jit(do_not_specialize=["steps", "blocks", "count", "purpose", "below", "rest"])
def _draw_kernel(
    seed_ptr, step_ptr, out_ptr, steps, blocks, count, purpose, below, rest,
    KIND: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """A program draws NUMBERS blocks of four words for one member and step."""
    # All in one axis of the grid: the others end at 65,535, and images of noise ask for a step
    # each.
    stretches = tl.cdiv(blocks, NUMBERS)
    program = tl.program_id(0)
    member, number = program // (stretches * steps), program // stretches % steps
    block = program % stretches * NUMBERS + tl.arange(0, NUMBERS)
    seed, step = tl.load(seed_ptr + member), tl.load(step_ptr + number)
    low = (block * 0 + (step & 0xFFFFFFFF)).to(tl.uint32)
    high = (block * 0 + ((step >> 32) & 0xFFFFFFFF)).to(tl.uint32)
    stream = (block * 0 + purpose).to(tl.uint32)
    a, b, c, d = tl.philox(seed.to(tl.uint64), block.to(tl.uint32), low, high, stream)
    row = (member.to(tl.int64) * steps + number) * count
    if KIND == INTEGERS:
        mask = 0xFFFFFFFF
        first, refused = _multiply_shift(a.to(tl.int64) & mask, b.to(tl.int64) & mask, below, rest)
        second, _ = _multiply_shift(c.to(tl.int64) & mask, d.to(tl.int64) & mask, below, rest)
        tl.store(out_ptr + row + block, tl.where(refused, second, first), mask=block < blocks)
    else:
        at = 4 * block
        tl.store(out_ptr + row + at, _finish(a, KIND), mask=at < count)
        tl.store(out_ptr + row + at + 1, _finish(b, KIND), mask=at + 1 < count)
        tl.store(out_ptr + row + at + 2, _finish(c, KIND), mask=at + 2 < count)
        tl.store(out_ptr + row + at + 3, _finish(d, KIND), mask=at + 3 < count)


def draw(
    seed: Tensor, step: Tensor, stream: int, shape: tuple[int, ...], kind: int, high: int = 1
) -> Tensor:
    """Numbers of one *kind* `(members, *step.shape, *shape)` for *seed* and *step*."""
    count = math.prod(shape)
    blocks = count if kind == INTEGERS.value else -(-count // 4)
    dtype = torch.int64 if kind in (WORDS.value, INTEGERS.value) else torch.float32
    out = torch.empty(len(seed), *step.shape, *shape, dtype=dtype, device=seed.device)
    if out.numel() == 0:
        return out
    launched = launch_kernel(
        _draw_kernel, (triton.cdiv(blocks, _NUMBERS) * len(seed) * step.numel(),),
        seed.contiguous(), step.contiguous(), out, step.numel(), blocks, count,
        int(stream), high, 2**64 % high, KIND=kind, NUMBERS=_NUMBERS,
        num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    return out if launched else out.zero_()  # drawn numbers may become indices, in a rehearsal too
