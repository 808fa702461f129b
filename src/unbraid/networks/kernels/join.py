# SPDX-License-Identifier: Apache-2.0
"""Triton kernel that adds up what the splits of a weight gradient left, weight and bias in one."""

from __future__ import annotations

import triton
import triton.language as tl


# One compiled kernel for all layers.
@triton.jit(do_not_specialize=["splits", "biases", "bias_from", "repeats"])
def join_kernel(
    weight_parts_ptr, bias_parts_ptr, weight_ptr, bias_ptr,
    splits, weights, biases, bias_row, bias_from, repeats,
    NUMBERS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Sums over rows: of `(members, splits, weights)`, `(members, splits · repeats, bias_row)`.

    Of a row of the second, *biases* numbers count, from *bias_from* on. The last program of a
    member adds those, if any, the others NUMBERS weights each. The order never changes.
    """
    member = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    if part < tl.num_programs(0) - (biases > 0).to(tl.int32):
        at = part * NUMBERS + tl.arange(0, NUMBERS)
        _join(
            weight_parts_ptr + member * splits * weights, weight_ptr + member * weights, at,
            at < weights, splits, weights, NUMBERS, AT_ONCE,
        )  # fmt: skip
    else:
        rows = splits * repeats
        bias_parts_ptr += member * rows * bias_row + bias_from
        for first in tl.range(0, biases, NUMBERS):
            at = first + tl.arange(0, NUMBERS)
            _join(
                bias_parts_ptr, bias_ptr + member * biases, at, at < biases, rows, bias_row,
                NUMBERS, AT_ONCE,
            )  # fmt: skip


@triton.jit
def _join(
    parts_ptr, out_ptr, at, wanted, rows, row_stride, NUMBERS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    total = tl.zeros((AT_ONCE, NUMBERS), tl.float32)
    for start in tl.range(0, rows, AT_ONCE):
        row = start + tl.arange(0, AT_ONCE)
        mask = (row < rows)[:, None] & wanted[None, :]
        total += tl.load(parts_ptr + row[:, None] * row_stride + at[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + at, tl.sum(total, axis=0), mask=wanted)
