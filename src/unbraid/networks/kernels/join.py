# SPDX-License-Identifier: Apache-2.0
"""Triton kernel that adds up what the splits of a weight gradient left, weight and bias in one."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["splits"])
def join_kernel(
    weight_parts_ptr, bias_parts_ptr, weight_ptr, bias_ptr, splits,
    WEIGHTS: tl.constexpr, BIASES: tl.constexpr, BIAS_ROW: tl.constexpr, BIAS_FROM: tl.constexpr,
    REPEATS: tl.constexpr, NUMBERS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Sums over rows: of `(members, splits, WEIGHTS)`, `(members, splits · REPEATS, BIAS_ROW)`.

    Of a row of the second, BIASES numbers count, from BIAS_FROM on. The last program of a member
    adds those, if any, the others NUMBERS weights each. The order never changes.
    """
    member = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    if part < tl.num_programs(0) - (BIASES > 0):
        at = part * NUMBERS + tl.arange(0, NUMBERS)
        _join(weight_parts_ptr + member * splits * WEIGHTS, weight_ptr + member * WEIGHTS, at,
              at < WEIGHTS, splits, WEIGHTS, NUMBERS, AT_ONCE)  # fmt: skip
    else:
        rows = splits * REPEATS
        bias_parts_ptr += member * rows * BIAS_ROW + BIAS_FROM
        for first in tl.static_range(0, BIASES, NUMBERS):
            at = first + tl.arange(0, NUMBERS)
            _join(bias_parts_ptr, bias_ptr + member * BIASES, at, at < BIASES, rows, BIAS_ROW,
                  NUMBERS, AT_ONCE)  # fmt: skip


@triton.jit
def _join(
    parts_ptr, out_ptr, at, wanted, rows, ROW: tl.constexpr, NUMBERS: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    total = tl.zeros((AT_ONCE, NUMBERS), tl.float32)
    for start in tl.range(0, rows, AT_ONCE):
        row = start + tl.arange(0, AT_ONCE)
        mask = (row < rows)[:, None] & wanted[None, :]
        total += tl.load(parts_ptr + row[:, None] * ROW + at[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + at, tl.sum(total, axis=0), mask=wanted)
