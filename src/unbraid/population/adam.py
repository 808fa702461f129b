# SPDX-License-Identifier: Apache-2.0
"""Adam (Kingma and Ba 2015, algorithm 1) on rows of weights, one a member. Departs: members may be
held still.

With `largest_square` it is AMSGrad (Reddi et al. 2018) as torch has it: the square's running mean
is replaced by the largest it has been, before its correction. No kernel knows that; a GPU does it
by torch's operations, which take longer.

The numbers of updates done are a tensor, so that a captured step counts for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unbraid.networks.layers import uses_kernels
from unbraid.networks.layout import Layout

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Gradient:
    """Gradients of a group's weights: joined to rows, or in parts where a kernel takes those."""

    def __init__(self, layout: Layout, parts: Sequence[Tensor]) -> None:
        in_parts = uses_kernels(parts[0].device)
        self.rows = None if in_parts else layout.rows(parts)
        self.parts = (
            [(start, part.contiguous()) for start, part in layout.parts(parts)] if in_parts else []
        )

    def finite(self) -> Tensor:
        """Which members' gradients are finite: `(members,)`."""
        if self.rows is not None:
            # In float64 no sum of finite float32 numbers overflows.
            return torch.isfinite(self.rows.sum(dim=1, dtype=torch.float64))
        from unbraid.population.adam_kernel import all_finite

        return all_finite(self.parts)

    def joined(self, like: Tensor) -> Tensor:
        """As rows of the shape of *like*."""
        if self.rows is not None:
            return self.rows
        rows = torch.zeros_like(like)
        for start, part in self.parts:
            flat = part.flatten(1)
            rows[:, start : start + flat.shape[1]] = flat
        return rows


@dataclass
class Adam:
    """Weights of one optimiser group with Adam's two running means, each `(members, size)`."""

    weights: Tensor
    gradient_mean: Tensor
    gradient_square: Tensor
    low_precision_copy: Tensor | None = field(default=None, metadata={"derived": True})
    """A copy of the weights in the precision of the products, where layers take one."""
    largest_square: Tensor | None = field(default=None, metadata={"optional": True})
    """The largest that `gradient_square` has been, for AMSGrad."""

    @classmethod
    def start(cls, weights: Tensor, *, amsgrad: bool = False) -> Adam:
        """Fresh running means."""
        adam = cls(weights, torch.zeros_like(weights), torch.zeros_like(weights))
        if amsgrad:
            adam.largest_square = torch.zeros_like(weights)
        return adam

    def keep_low_precision_copy(self, precision: torch.dtype) -> None:
        """Keep a copy of the weights in *precision* from now on, where kernels use it."""
        if precision != self.weights.dtype and uses_kernels(self.weights.device):
            self.low_precision_copy = self.weights.to(precision)

    def update(
        self,
        gradient: Gradient,
        healthy: Tensor,
        rate: Tensor,
        betas: tuple[float, float],
        updates_before: Tensor,
    ) -> None:
        """One step, in place; members that are not *healthy* keep every bit.

        *updates_before* counts the updates of each member, or is one number for all.
        """
        if gradient.rows is None and self.largest_square is None:
            from unbraid.population.adam_kernel import update

            update(self, gradient.parts, healthy, rate, betas, EPSILON, updates_before)
            return
        first, second = betas
        count = (updates_before + 1).to(torch.float64).expand(len(healthy))
        step_size = torch.where(healthy, rate / (1.0 - first**count), 0.0).to(torch.float32)
        shrink = (1.0 - second**count).rsqrt().to(torch.float32)
        take_first = torch.where(healthy, 1.0 - first, 0.0).unsqueeze(1)
        take_second = torch.where(healthy, 1.0 - second, 0.0).unsqueeze(1)
        rows = torch.where(healthy.unsqueeze(1), gradient.joined(self.weights), 0.0)
        self.gradient_mean.lerp_(rows, take_first)
        self.gradient_square.lerp_(rows.square_(), take_second)
        square = self.gradient_square
        if self.largest_square is not None:
            square = torch.maximum(self.largest_square, square, out=self.largest_square)
        size = square.sqrt().mul_(shrink.unsqueeze(1)).add_(EPSILON)
        self.weights.sub_(
            torch.div(self.gradient_mean, size, out=size).mul_(step_size.unsqueeze(1))
        )
        if self.low_precision_copy is not None:
            self.low_precision_copy.copy_(self.weights)
