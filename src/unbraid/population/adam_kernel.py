# SPDX-License-Identifier: Apache-2.0
"""Adam in one pass over memory (Triton): four arrays read, three written, and the weights' copy.

A gradient comes in parts, as the derivative left them. One launch takes up to twelve: a program
finds its part by comparing its number with where the parts begin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from unbraid.core.kernel_launch import launch_kernel
from unbraid.networks.layout import ALIGNMENT as ROW_ALIGNMENT

if TYPE_CHECKING:
    from unbraid.population.adam import Adam

_NUMBERS = 1024
ALIGNMENT = tl.constexpr(ROW_ALIGNMENT)
_PARTS = 12
_SIZES = [f"{name}{part}" for part in range(_PARTS) for name in ("first", "start", "count")]


@triton.jit
def _pick(part, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11):
    """The one of twelve that *part* counts."""
    found = tl.where(part == 1, a1, a0)
    found = tl.where(part == 2, a2, found)
    found = tl.where(part == 3, a3, found)
    found = tl.where(part == 4, a4, found)
    found = tl.where(part == 5, a5, found)
    found = tl.where(part == 6, a6, found)
    found = tl.where(part == 7, a7, found)
    found = tl.where(part == 8, a8, found)
    found = tl.where(part == 9, a9, found)
    found = tl.where(part == 10, a10, found)
    return tl.where(part == 11, a11, found)


@triton.jit
def _find(
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11,
    first0, start0, count0, first1, start1, count1, first2, start2, count2, first3, start3, count3,
    first4, start4, count4, first5, start5, count5, first6, start6, count6, first7, start7, count7,
    first8, start8, count8, first9, start9, count9, first10, start10, count10,
    first11, start11, count11, UNIT: tl.constexpr,
):  # fmt: skip
    """The program's part: its gradient, its first program, where it starts in a row, its count.

    The last two come in units: the compiler sees that they are even, and loads 16 bytes at a time.
    """
    here = tl.program_id(0)
    part = (
        (here >= first1).to(tl.int32) + (here >= first2).to(tl.int32)
        + (here >= first3).to(tl.int32) + (here >= first4).to(tl.int32)
        + (here >= first5).to(tl.int32) + (here >= first6).to(tl.int32)
        + (here >= first7).to(tl.int32) + (here >= first8).to(tl.int32)
        + (here >= first9).to(tl.int32) + (here >= first10).to(tl.int32)
        + (here >= first11).to(tl.int32)
    )  # fmt: skip
    pointer = _pick(part, p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11)
    first = _pick(
        part, first0, first1, first2, first3, first4, first5, first6, first7, first8, first9,
        first10, first11,
    )  # fmt: skip
    start = _pick(
        part, start0, start1, start2, start3, start4, start5, start6, start7, start8, start9,
        start10, start11,
    )  # fmt: skip
    count = _pick(
        part, count0, count1, count2, count3, count4, count5, count6, count7, count8, count9,
        count10, count11,
    )  # fmt: skip
    return pointer, first, start * ALIGNMENT, count * UNIT


@triton.jit(do_not_specialize=["rate_stride", "before_stride", *_SIZES])
def _update_kernel(
    weight_ptr, mean_ptr, square_ptr, copy_ptr, healthy_ptr, rate_ptr, before_ptr,
    size, rate_stride, before_stride,
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11,
    first0, start0, count0, first1, start1, count1, first2, start2, count2, first3, start3, count3,
    first4, start4, count4, first5, start5, count5, first6, start6, count6, first7, start7, count7,
    first8, start8, count8, first9, start9, count9, first10, start10, count10,
    first11, start11, count11,
    TAKE_FIRST: tl.constexpr, TAKE_SECOND: tl.constexpr, LOG_FIRST: tl.constexpr,
    LOG_SECOND: tl.constexpr, EPSILON: tl.constexpr,
    UNIT: tl.constexpr, WRITE_COPY: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """NUMBERS weights of one part of a member's row follow the gradient `(members, count)`.

    Powers of the betas are by their logarithms, in float64.
    """
    member = tl.program_id(1).to(tl.int64)
    if tl.load(healthy_ptr + member) != 0:
        gradient_ptr, first, start, count = _find(
            p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11,
            first0, start0, count0, first1, start1, count1, first2, start2, count2,
            first3, start3, count3, first4, start4, count4, first5, start5, count5,
            first6, start6, count6, first7, start7, count7, first8, start8, count8,
            first9, start9, count9, first10, start10, count10, first11, start11, count11, UNIT,
        )  # fmt: skip
        updates = (tl.load(before_ptr + member * before_stride) + 1).to(tl.float64)
        rate = tl.load(rate_ptr + member * rate_stride).to(tl.float64)
        step_size = (rate / (1.0 - tl.exp(updates * LOG_FIRST))).to(tl.float32)
        shrink = (1.0 / tl.sqrt(1.0 - tl.exp(updates * LOG_SECOND))).to(tl.float32)
        at = (tl.program_id(0) - first) * NUMBERS + tl.arange(0, NUMBERS)
        inside = at < count
        where = member * size + start + at
        gradient = tl.load(gradient_ptr + member * count + at, mask=inside, other=0.0)
        weight = tl.load(weight_ptr + where, mask=inside, other=0.0)
        mean = tl.load(mean_ptr + where, mask=inside, other=0.0)
        square = tl.load(square_ptr + where, mask=inside, other=0.0)
        mean += TAKE_FIRST * (gradient - mean)
        square += TAKE_SECOND * (gradient * gradient - square)
        weight -= step_size * (mean / (tl.sqrt(square) * shrink + EPSILON))
        tl.store(mean_ptr + where, mean, mask=inside)
        tl.store(square_ptr + where, square, mask=inside)
        tl.store(weight_ptr + where, weight, mask=inside)
        if WRITE_COPY:
            tl.store(copy_ptr + where, weight.to(copy_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_SIZES)
def _finite_kernel(
    broken_ptr, p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11,
    first0, start0, count0, first1, start1, count1, first2, start2, count2, first3, start3, count3,
    first4, start4, count4, first5, start5, count5, first6, start6, count6, first7, start7, count7,
    first8, start8, count8, first9, start9, count9, first10, start10, count10,
    first11, start11, count11,
    UNIT: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """Mark members whose gradient is not finite; marks are all the same, so order is no matter."""
    member = tl.program_id(1).to(tl.int64)
    gradient_ptr, first, _, count = _find(
        p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11,
        first0, start0, count0, first1, start1, count1, first2, start2, count2,
        first3, start3, count3, first4, start4, count4, first5, start5, count5,
        first6, start6, count6, first7, start7, count7, first8, start8, count8,
        first9, start9, count9, first10, start10, count10, first11, start11, count11, UNIT,
    )  # fmt: skip
    at = (tl.program_id(0) - first) * NUMBERS + tl.arange(0, NUMBERS)
    gradient = tl.load(gradient_ptr + member * count + at, mask=at < count, other=0.0)
    # x - x is 0 for every finite x and NaN else.
    broken = tl.max((gradient - gradient != 0.0).to(tl.int32), axis=0)
    if broken != 0:
        tl.store(broken_ptr + member, 1)


def _launches(
    parts: Sequence[tuple[int, Tensor]], numbers: int
) -> Iterator[tuple[int, list[Tensor], list[int], int]]:
    """For up to twelve *parts* at a time: programs, gradients, their sizes, the unit of counts."""
    for begin in range(0, len(parts), _PARTS):
        some = parts[begin : begin + _PARTS]
        even = all(part[0].numel() % ROW_ALIGNMENT == 0 for _, part in some)
        programs, sizes, unit = 0, [], ROW_ALIGNMENT if even else 1
        for start, part in some:
            count = part[0].numel()
            sizes += [programs, start // ROW_ALIGNMENT, count // unit]
            programs += triton.cdiv(count, numbers)
        missing = _PARTS - len(some)
        gradients = [part for _, part in some] + [some[0][1]] * missing
        yield programs, gradients, sizes + [programs, 0, 0] * missing, unit


def all_finite(parts: Sequence[tuple[int, Tensor]]) -> Tensor:
    """Which members have finite numbers only in *parts* `(members, ...)` each: `(members,)`."""
    members, numbers = parts[0][1].shape[0], 4 * _NUMBERS
    broken = torch.zeros(members, dtype=torch.int32, device=parts[0][1].device)
    for programs, gradients, sizes, unit in _launches(parts, numbers):
        launch_kernel(
            _finite_kernel, (programs, members), broken, *gradients, *sizes,
            UNIT=unit, NUMBERS=numbers, num_warps=4,
        )  # fmt: skip
    return broken == 0


def update(
    adam: Adam,
    parts: Sequence[tuple[int, Tensor]],
    healthy: Tensor,
    rate: Tensor,
    betas: tuple[float, float],
    epsilon: float,
    updates_before: Tensor,
) -> None:
    """One step of Adam in place, by the *parts* of a gradient with where they start in a row.

    *rate* and *updates_before* are `(members,)`, or one number for all.
    """
    members, copy = len(healthy), adam.low_precision_copy
    rate, updates_before = rate.expand(members), updates_before.expand(members)
    for programs, gradients, sizes, unit in _launches(parts, _NUMBERS):
        launch_kernel(
            _update_kernel, (programs, members), adam.weights, adam.gradient_mean,
            adam.gradient_square, adam.weights if copy is None else copy,
            healthy.view(torch.uint8), rate, updates_before, adam.weights.shape[1],
            rate.stride(0), updates_before.stride(0), *gradients, *sizes,
            TAKE_FIRST=1.0 - betas[0], TAKE_SECOND=1.0 - betas[1], LOG_FIRST=math.log(betas[0]),
            LOG_SECOND=math.log(betas[1]), EPSILON=epsilon, UNIT=unit,
            WRITE_COPY=copy is not None, NUMBERS=_NUMBERS, num_warps=4,
        )  # fmt: skip
