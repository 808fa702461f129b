# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for boosted trees of all members, factors and classes at once.

A column is one tree of a round: a class of a factor, or the second of two. Columns lie last and are
padded to whole blocks, so that a row `(columns,)` of residuals is one stretch of memory. To find
cuts, a program walks through the samples of one latent from the highest bin down, all columns of a
block side by side, and keeps what lies right of the cut in registers: no histogram is ever stored,
and nothing is added atomically, so results repeat bit by bit, whoever is fitted beside.

Residuals in single precision, their sums in double, the gain of a cut, its `EPSILON` included, and
which of equal ones is taken are LightGBM's; only the order of sums differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from unbraid.core.kernel_launch import launch_kernel
from unbraid.metrics import _tree_growth as trees
from unbraid.metrics._trees import SMALLEST_CURVATURE as _FLAT

if TYPE_CHECKING:
    from unbraid.metrics._trees_on_gpu import Boosting, Columns

BLOCK = 32
"""Columns that a program does side by side: a warp."""

EPSILON = tl.constexpr(1.0000000036274937e-15)
"""LightGBM's 1e-15f, which it adds to weights lest they be 0."""
SMALLEST_CURVATURE = tl.constexpr(_FLAT)
INNER_NODES = tl.constexpr(trees.INNER_NODES)
LEAVES = tl.constexpr(trees.LEAVES)

_NEVER = 2**15 - 1
"""A cut above every bin."""
_PART = 1024
"""Samples of a leaf that one program adds up."""


@triton.jit
def residual_kernel(
    score_ptr, level_ptr, first_ptr, width_ptr, probability_ptr, residual_ptr, samples,
    columns, factors, WIDEST: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """What the scores of a factor say of its values, and what is left to explain."""
    factor, member = tl.program_id(1), tl.program_id(2).to(tl.int64)
    first, width = tl.load(first_ptr + factor), tl.load(width_ptr + factor)
    row, place = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDEST)
    inside = (row < samples)[:, None] & (place < width)[None, :]
    at = (member * samples + row[:, None]) * columns + first + place[None, :]
    level = tl.load(level_ptr + row * factors + factor, mask=row < samples, other=0)
    score = tl.load(score_ptr + at, mask=inside, other=0.0)
    if width == 1:
        probability = 1.0 / (1.0 + tl.exp(-score))
        level = level - 1  # the column is that of the second of two
    else:
        score = tl.where((place < width)[None, :], score, float("-inf"))
        weight = tl.exp(score - tl.max(score, axis=1)[:, None])
        probability = weight / tl.sum(weight, axis=1)[:, None]
    residual = (level[:, None] == place[None, :]).to(tl.float64) - probability
    tl.store(probability_ptr + at, probability, mask=inside)
    tl.store(residual_ptr + at, residual.to(tl.float32), mask=inside)


@triton.jit
def root_kernel(
    residual_ptr, slope_ptr, weight_ptr, samples,
    columns, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum of the residuals and number of the samples in the root of each column."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    member = tl.program_id(1).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, samples, ROWS):
        row = first + tl.arange(0, ROWS)
        at = (member * samples + row[:, None]) * columns + column[None, :]
        residual = tl.load(residual_ptr + at, mask=(row < samples)[:, None], other=0.0)
        total += tl.sum(residual.to(tl.float64), axis=0)
    tl.store(slope_ptr + member * columns + column, total)
    tl.store(weight_ptr + member * columns + column, tl.zeros((BLOCK,), tl.float64) + samples)


@triton.jit
def cut_kernel(
    residual_ptr, node_ptr, order_ptr, start_ptr, bins_ptr, slope_ptr, weight_ptr,
    gain_ptr, cut_ptr, left_slope_ptr, left_weight_ptr, samples, latents, starts,
    columns, NODES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The best cut of one latent in every node of a level, and what lies left of it.

    *order* `(members, latents, n)` lists samples by rising bin, *start* where each bin begins.
    """
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    latent, member = tl.program_id(1), tl.program_id(2).to(tl.int64)
    here = member * latents + latent
    node = tl.arange(0, NODES)
    known = (member * NODES + node[:, None]) * columns + column[None, :]
    slope = tl.load(slope_ptr + known)
    stored_weight = tl.load(weight_ptr + known)
    count = (stored_weight + 0.5).to(tl.int32)
    weight = stored_weight + 2 * EPSILON
    unsplit = slope * slope / weight
    best, best_cut = unsplit, tl.full((NODES, BLOCK), -1, tl.int32)
    best_slope, best_weight = tl.zeros_like(slope), tl.zeros_like(slope)
    right, right_count = tl.zeros_like(slope), tl.zeros((NODES, BLOCK), tl.int32)
    right_weight = tl.zeros_like(slope) + EPSILON
    bins = tl.load(bins_ptr + here)
    for down in range(1, bins):
        bin = bins - down
        begin = tl.load(start_ptr + here * starts + bin)
        end = tl.load(start_ptr + here * starts + bin + 1)
        bin_slope, bin_count = tl.zeros_like(slope), tl.zeros((NODES, BLOCK), tl.int32)
        for first in range(begin, end, ROWS):
            at = first + tl.arange(0, ROWS)
            row = tl.load(order_ptr + here * samples + at, mask=at < end, other=0)
            where = (member * samples + row[:, None]) * columns + column[None, :]
            inside = (at < end)[:, None] & (column < columns)[None, :]
            residual = tl.load(residual_ptr + where, mask=inside, other=0.0)
            if NODES == 1:
                bin_slope += tl.sum(residual.to(tl.float64), axis=0)[None, :]
                bin_count += tl.sum(inside.to(tl.int32), axis=0)[None, :]
            else:
                place = tl.load(node_ptr + where, mask=inside, other=NODES).to(tl.int32)
                mine = place[:, None, :] == node[None, :, None]
                bin_slope += tl.sum(
                    tl.where(mine, residual[:, None, :].to(tl.float64), 0.0), axis=0
                )
                bin_count += tl.sum(mine.to(tl.int32), axis=0)
        right += bin_slope
        right_count += bin_count
        right_weight += bin_count.to(tl.float64)
        left, left_weight = slope - right, weight - right_weight
        both = (right_count > 0) & (right_count < count)
        gain = left * left / tl.where(both, left_weight, 1.0) + right * right / right_weight
        better = both & (gain > best)
        best = tl.where(better, gain, best)
        best_cut = tl.where(better, bin - 1, best_cut)
        best_slope = tl.where(better, left, best_slope)
        best_weight = tl.where(better, left_weight, best_weight)
    found = ((member * latents + latent) * NODES + node[:, None]) * columns + column[None, :]
    tl.store(gain_ptr + found, tl.where(best_cut >= 0, best - unsplit, -1.0))
    tl.store(cut_ptr + found, best_cut)
    tl.store(left_slope_ptr + found, best_slope)
    tl.store(left_weight_ptr + found, best_weight)


@triton.jit
def split_kernel(
    gain_ptr, cut_ptr, left_slope_ptr, left_weight_ptr, slope_ptr, weight_ptr, turn_ptr,
    latent_ptr, tree_cut_ptr, child_slope_ptr, child_weight_ptr, removed_ptr, latents,
    columns, NODES: tl.constexpr, BLOCK: tl.constexpr, NEVER: tl.constexpr,
):  # fmt: skip
    """Split every node of a level by its best latent, of equal ones by the first in *turn*.

    What the splits remove is added to *removed* `(members, latents, columns)`; a node that stays
    whole sends its samples left.
    """
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    member = tl.program_id(1).to(tl.int64)
    node = tl.arange(0, NODES)
    known = (member * NODES + node[:, None]) * columns + column[None, :]
    slope, weight = tl.load(slope_ptr + known), tl.load(weight_ptr + known)
    best, best_cut = tl.zeros_like(slope), tl.full((NODES, BLOCK), NEVER, tl.int32)
    best_latent = tl.zeros((NODES, BLOCK), tl.int32)
    left, left_weight = slope, weight + EPSILON
    for place in range(0, latents):
        latent = tl.load(turn_ptr + member * latents + place)
        at = ((member * latents + latent) * NODES + node[:, None]) * columns + column[None, :]
        gain = tl.load(gain_ptr + at)
        better = gain > best
        best = tl.where(better, gain, best)
        best_cut = tl.where(better, tl.load(cut_ptr + at), best_cut)
        best_latent = tl.where(better, latent, best_latent)
        left = tl.where(better, tl.load(left_slope_ptr + at), left)
        left_weight = tl.where(better, tl.load(left_weight_ptr + at), left_weight)
    gain = best.to(tl.float32).to(tl.float64)  # as LightGBM keeps it
    for latent in range(0, latents):
        at = (member * latents + latent) * columns + column
        more = tl.sum(tl.where(best_latent == latent, gain, 0.0), axis=0)
        tl.store(removed_ptr + at, tl.load(removed_ptr + at) + more)
    tree = (member * INNER_NODES + NODES - 1 + node[:, None]) * columns + column[None, :]
    tl.store(latent_ptr + tree, best_latent)
    tl.store(tree_cut_ptr + tree, best_cut)
    split = best_cut < NEVER
    right = tl.where(split, slope - left, 0.0)
    right_weight = tl.where(split, weight + 2 * EPSILON - left_weight - EPSILON, 0.0)
    child = (member * 2 * NODES + 2 * node[:, None]) * columns + column[None, :]
    tl.store(child_slope_ptr + child, left)
    tl.store(child_weight_ptr + child, left_weight - EPSILON)
    tl.store(child_slope_ptr + child + columns, right)
    tl.store(child_weight_ptr + child + columns, right_weight)


@triton.jit
def _go_down(bin_ptr, latent_ptr, cut_ptr, node, row, column, inside, member, samples, latents,
             columns, NODES: tl.constexpr):  # fmt: skip
    """The node one level below of each sample and column."""
    tree = (member * INNER_NODES + NODES - 1 + node) * columns + column[None, :]
    latent = tl.load(latent_ptr + tree, mask=inside, other=0)
    cut = tl.load(cut_ptr + tree, mask=inside, other=0)
    at = (member * samples + row[:, None]) * latents + latent
    bin = tl.load(bin_ptr + at, mask=inside, other=0).to(tl.int32)
    return 2 * node + (bin > cut).to(tl.int32)


@triton.jit
def node_kernel(
    bin_ptr, latent_ptr, cut_ptr, node_ptr, samples, latents,
    columns, NODES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Send the samples of a level's nodes to the next level."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    member = tl.program_id(2).to(tl.int64)
    inside = (row < samples)[:, None] & (column < columns)[None, :]
    at = (member * samples + row[:, None]) * columns + column[None, :]
    node = tl.zeros((ROWS, BLOCK), tl.int32)
    if NODES > 1:
        node = tl.load(node_ptr + at, mask=inside, other=0).to(tl.int32)
    node = _go_down(
        bin_ptr, latent_ptr, cut_ptr, node, row, column, inside, member, samples, latents, columns,
        NODES,
    )  # fmt: skip
    tl.store(node_ptr + at, node.to(tl.uint8), mask=inside)


@triton.jit
def leaf_kernel(
    probability_ptr, level_ptr, node_ptr, factor_ptr, class_ptr, slope_ptr, curvature_ptr, samples,
    factors, columns, PART: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Residuals and curvature of the deviance summed over each leaf, in PART samples."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part, member = tl.program_id(1), tl.program_id(2).to(tl.int64)
    leaf = tl.arange(0, LEAVES)
    factor, level_of_column = tl.load(factor_ptr + column), tl.load(class_ptr + column)
    slope = tl.zeros((LEAVES, BLOCK), tl.float64)
    curvature = tl.zeros((LEAVES, BLOCK), tl.float64)
    for first in range(part * PART, min((part + 1) * PART, samples), ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < samples)[:, None] & (column < columns)[None, :]
        at = (member * samples + row[:, None]) * columns + column[None, :]
        probability = tl.load(probability_ptr + at, mask=inside, other=0.0)
        node = tl.load(node_ptr + at, mask=inside, other=LEAVES).to(tl.int32)
        level = tl.load(level_ptr + row[:, None] * factors + factor[None, :], mask=inside, other=0)
        residual = (level == level_of_column[None, :]).to(tl.float64) - probability
        mine = node[:, None, :] == leaf[None, :, None]
        slope += tl.sum(tl.where(mine, residual[:, None, :], 0.0), axis=0)
        bend = probability * (1.0 - probability)
        curvature += tl.sum(tl.where(mine, bend[:, None, :], 0.0), axis=0)
    parts = tl.num_programs(1)
    at = ((member * parts + part) * LEAVES + leaf[:, None]) * columns + column[None, :]
    tl.store(slope_ptr + at, slope)
    tl.store(curvature_ptr + at, curvature)


@triton.jit
def newton_kernel(
    slope_ptr, curvature_ptr, rate_ptr, step_ptr, parts,
    columns, BLOCK: tl.constexpr,
):  # fmt: skip
    """What each leaf adds to the scores: residuals over curvature, times the column's rate."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    member = tl.program_id(1).to(tl.int64)
    leaf = tl.arange(0, LEAVES)
    slope = tl.zeros((LEAVES, BLOCK), tl.float64)
    curvature = tl.zeros((LEAVES, BLOCK), tl.float64)
    for part in range(0, parts):
        at = ((member * parts + part) * LEAVES + leaf[:, None]) * columns + column[None, :]
        slope += tl.load(slope_ptr + at)
        curvature += tl.load(curvature_ptr + at)
    bent = curvature > SMALLEST_CURVATURE
    step = tl.where(bent, slope / tl.where(bent, curvature, 1.0), 0.0)
    step *= tl.load(rate_ptr + column)[None, :]
    tl.store(step_ptr + (member * LEAVES + leaf[:, None]) * columns + column[None, :], step)


@triton.jit
def score_kernel(
    bin_ptr, latent_ptr, cut_ptr, step_ptr, score_ptr, samples, latents,
    columns, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add to each score what its sample's leaf says."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    member = tl.program_id(2).to(tl.int64)
    inside = (row < samples)[:, None] & (column < columns)[None, :]
    node = tl.zeros((ROWS, BLOCK), tl.int32)
    node = _go_down(
        bin_ptr, latent_ptr, cut_ptr, node, row, column, inside, member, samples, latents, columns,
        1,
    )  # fmt: skip
    node = _go_down(
        bin_ptr, latent_ptr, cut_ptr, node, row, column, inside, member, samples, latents, columns,
        2,
    )  # fmt: skip
    node = _go_down(
        bin_ptr, latent_ptr, cut_ptr, node, row, column, inside, member, samples, latents, columns,
        4,
    )  # fmt: skip
    step = tl.load(
        step_ptr + (member * LEAVES + node) * columns + column[None, :], mask=inside, other=0.0
    )
    at = (member * samples + row[:, None]) * columns + column[None, :]
    tl.store(score_ptr + at, tl.load(score_ptr + at, mask=inside, other=0.0) + step, mask=inside)


def boost(
    data: Boosting, columns: Columns, turns: Sequence[Tensor], rounds: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Variance that each latent removes `(members, latents, columns)`, and the scores of both parts
    `(members, n, columns)`, after all rounds; *turns* take turns in settling ties.
    """
    members, samples, latents = data.bins.shape
    padded, block, device = columns.padded, BLOCK, data.bins.device
    blocks, parts = padded // block, triton.cdiv(samples, _PART)

    def empty(*shape: int, kind: torch.dtype = torch.float64) -> Tensor:
        return torch.empty(members, *shape, padded, dtype=kind, device=device)

    score, test_score = (
        columns.start.expand(members, count, padded).contiguous()
        for count in (samples, data.test_bins.shape[1])
    )
    probability = torch.zeros_like(score)
    residual = torch.zeros_like(score, dtype=torch.float32)
    node = empty(samples, kind=torch.uint8)
    removed = torch.zeros(members, latents, padded, dtype=torch.float64, device=device)
    tree_latent, tree_cut = (empty(trees.INNER_NODES, kind=torch.int32) for _ in range(2))
    slopes, weights = ([empty(2**level) for level in range(trees.DEPTH + 1)] for _ in range(2))
    gain, left_slope, left_weight = (empty(latents, trees.LEAVES // 2) for _ in range(3))
    cut = empty(latents, trees.LEAVES // 2, kind=torch.int32)
    leaf_slope, leaf_curvature = (empty(parts, trees.LEAVES) for _ in range(2))
    step = empty(trees.LEAVES)
    widest = 1 << (int(columns.width.max()) - 1).bit_length()
    rows = max(1, 1024 // widest)
    cover = triton.cdiv(samples, rows), len(columns.values), members

    def add_steps(bins: Tensor, to: Tensor) -> None:
        count = bins.shape[1]
        launch_kernel(
            score_kernel, (triton.cdiv(count, 32), blocks, members),
            bins, tree_latent, tree_cut, step, to, count, latents,
            padded, ROWS=32, BLOCK=block, num_warps=4,
        )  # fmt: skip

    for round in range(rounds):
        launch_kernel(
            residual_kernel, cover,
            score, columns.level, columns.first, columns.width, probability, residual,
            samples, padded, len(columns.values), WIDEST=widest, ROWS=rows,
            num_warps=4,
        )  # fmt: skip
        launch_kernel(
            root_kernel, (blocks, members),
            residual, slopes[0], weights[0], samples,
            padded, ROWS=64, BLOCK=block, num_warps=4,
        )  # fmt: skip
        for level in range(trees.DEPTH):
            nodes = 2**level
            launch_kernel(
                cut_kernel, (blocks, latents, members),
                residual, node, data.order, data.starts, data.counts, slopes[level],
                weights[level], gain, cut, left_slope, left_weight, samples, latents,
                data.starts.shape[2], padded, NODES=nodes, ROWS=16, BLOCK=block,
                num_warps=1,
            )  # fmt: skip
            launch_kernel(
                split_kernel, (blocks, members),
                gain, cut, left_slope, left_weight, slopes[level], weights[level],
                turns[round % len(turns)], tree_latent, tree_cut, slopes[level + 1],
                weights[level + 1], removed, latents,
                padded, NODES=nodes, BLOCK=block, NEVER=_NEVER, num_warps=1,
            )  # fmt: skip
            launch_kernel(
                node_kernel, (triton.cdiv(samples, 32), blocks, members),
                data.bins, tree_latent, tree_cut, node, samples, latents,
                padded, NODES=nodes, ROWS=32, BLOCK=block, num_warps=4,
            )  # fmt: skip
        launch_kernel(
            leaf_kernel, (blocks, parts, members),
            probability, columns.level, node, columns.factor, columns.value, leaf_slope,
            leaf_curvature, samples, len(columns.values), padded,
            PART=_PART, ROWS=8, BLOCK=block, num_warps=1,
        )  # fmt: skip
        launch_kernel(
            newton_kernel, (blocks, members),
            leaf_slope, leaf_curvature, columns.rate, step, parts,
            padded, BLOCK=block, num_warps=1,
        )  # fmt: skip
        add_steps(data.bins, score)
        add_steps(data.test_bins, test_score)
    return removed, score, test_score
