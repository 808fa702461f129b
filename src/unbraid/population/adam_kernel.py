# SPDX-License-Identifier: Apache-2.0
"""Adam in one pass over memory (Triton): four arrays read, three written, and the weights' copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from unbraid.core.kernel_launch import launch_kernel

if TYPE_CHECKING:
    from unbraid.population.adam import Adam

_NUMBERS = 1024


@triton.jit
def _update_kernel(
    weight_ptr, mean_ptr, square_ptr, gradient_ptr, copy_ptr, healthy_ptr, step_size_ptr,
    shrink_ptr, start, size, count, take_first, take_second, epsilon,
    WRITE_COPY: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """*count* weights of a member's row, from *start* on, follow a gradient `(members, count)`."""
    member = tl.program_id(1).to(tl.int64)
    if tl.load(healthy_ptr + member) != 0:
        at = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
        inside = at < count
        where = member * size + start + at
        step_size, shrink = tl.load(step_size_ptr + member), tl.load(shrink_ptr + member)
        gradient = tl.load(gradient_ptr + member * count + at, mask=inside, other=0.0)
        weight = tl.load(weight_ptr + where, mask=inside, other=0.0)
        mean = tl.load(mean_ptr + where, mask=inside, other=0.0)
        square = tl.load(square_ptr + where, mask=inside, other=0.0)
        mean += take_first * (gradient - mean)
        square += take_second * (gradient * gradient - square)
        weight -= step_size * (mean / (tl.sqrt(square) * shrink + epsilon))
        tl.store(mean_ptr + where, mean, mask=inside)
        tl.store(square_ptr + where, square, mask=inside)
        tl.store(weight_ptr + where, weight, mask=inside)
        if WRITE_COPY:
            tl.store(copy_ptr + where, weight.to(copy_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _finite_kernel(gradient_ptr, broken_ptr, count, NUMBERS: tl.constexpr):
    """Mark members whose gradient is not finite; marks are all the same, so order is no matter."""
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    gradient = tl.load(gradient_ptr + member * count + at, mask=at < count, other=0.0)
    # x - x is 0 for every finite x and NaN else.
    broken = tl.max((gradient - gradient != 0.0).to(tl.int32), axis=0)
    if broken != 0:
        tl.store(broken_ptr + member, 1)


def all_finite(parts: Sequence[Tensor]) -> Tensor:
    """Which members have finite numbers only in *parts* `(members, ...)` each: `(members,)`."""
    members = parts[0].shape[0]
    broken = torch.zeros(members, dtype=torch.int32, device=parts[0].device)
    numbers = 4 * _NUMBERS
    for part in parts:
        count = part[0].numel()
        launch_kernel(
            _finite_kernel, (triton.cdiv(count, numbers), members), part, broken, count,
            NUMBERS=numbers, num_warps=4,
        )  # fmt: skip
    return broken == 0


def update(
    adam: Adam,
    start: int,
    gradient: Tensor,
    healthy: Tensor,
    step_size: Tensor,
    shrink: Tensor,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """One step of Adam in place, on the weights from *start* on that *gradient* has.

    *step_size* `(members,)` holds the rates, *shrink* `(members,)` the bias corrections of the
    square.
    """
    members, count = gradient.shape[0], gradient[0].numel()
    copy = adam.low_precision_copy
    launch_kernel(
        _update_kernel, (triton.cdiv(count, _NUMBERS), members),
        adam.weights, adam.gradient_mean, adam.gradient_square, gradient.contiguous(),
        adam.weights if copy is None else copy, healthy.to(torch.uint8), step_size, shrink,
        start, adam.weights.shape[1], count, 1.0 - betas[0], 1.0 - betas[1], epsilon,
        WRITE_COPY=copy is not None, NUMBERS=_NUMBERS, num_warps=4,
    )  # fmt: skip
