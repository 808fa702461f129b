# SPDX-License-Identifier: Apache-2.0
"""Samples from stored images in one pass over memory (Triton): gather, unpack and scale."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from unbraid.core.kernel_launch import launch_kernel

_NUMBERS = 1024


@triton.jit
def _gather_kernel(
    stored_ptr,
    index_ptr,
    out_ptr,
    VALUES: tl.constexpr,
    BITS: tl.constexpr,
    SCALE: tl.constexpr,
    NUMBERS: tl.constexpr,
):
    """One stretch of one image: bytes divided by SCALE, or bits, the lowest of a byte first."""
    image = tl.program_id(0).to(tl.int64)
    index = tl.load(index_ptr + image)
    at = tl.program_id(1) * NUMBERS + tl.arange(0, NUMBERS)
    inside = at < VALUES
    if BITS:
        stored = tl.load(stored_ptr + index * (VALUES // 8) + at // 8, mask=inside, other=0)
        value = ((stored >> (at % 8).to(tl.uint8)) & 1).to(tl.float32)
    else:
        stored = tl.load(stored_ptr + index * VALUES + at, mask=inside, other=0)
        value = tl.div_rn(stored.to(tl.float32), SCALE)
    tl.store(out_ptr + image * VALUES + at, value, mask=inside)


def gather(
    stored: Tensor, indices: Tensor, sample_shape: tuple[int, ...], *, bits: bool = False
) -> Tensor:
    """Float32 samples `(*indices.shape, *sample_shape)` of *stored*, uint8 with a row an image:
    bytes / 255, or bits.
    """
    out = torch.empty(*indices.shape, *sample_shape, device=stored.device)
    values = math.prod(sample_shape)
    indices = indices.to(torch.int64).contiguous()
    if out.numel():
        launch_kernel(
            _gather_kernel, (indices.numel(), triton.cdiv(values, _NUMBERS)), stored, indices, out,
            VALUES=values, BITS=bits, SCALE=255.0, NUMBERS=_NUMBERS, num_warps=4,
        )  # fmt: skip
    return out
