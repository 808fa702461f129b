# SPDX-License-Identifier: Apache-2.0
"""Adam (Kingma and Ba 2015, algorithm 1) on rows of weights, one a member. Departs: members may be
held still.

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


@dataclass
class Adam:
    """Weights of one optimiser group with Adam's two running means, each `(members, size)`."""

    weights: Tensor
    gradient_mean: Tensor
    gradient_square: Tensor
    low_precision_copy: Tensor | None = field(default=None, metadata={"derived": True})
    """A copy of the weights in the precision of the products, where layers take one."""

    @classmethod
    def start(cls, weights: Tensor) -> Adam:
        """Fresh running means."""
        return cls(weights, torch.zeros_like(weights), torch.zeros_like(weights))

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
        if gradient.rows is None:
            from unbraid.population.adam_kernel import update

            update(self, gradient.parts, healthy, rate, betas, EPSILON, updates_before)
            return
        first, second = betas
        count = (updates_before + 1).to(torch.float64).expand(len(healthy))
        step_size = torch.where(healthy, rate / (1.0 - first**count), 0.0).to(torch.float32)
        shrink = (1.0 - second**count).rsqrt().to(torch.float32)
        take_first = torch.where(healthy, 1.0 - first, 0.0).unsqueeze(1)
        take_second = torch.where(healthy, 1.0 - second, 0.0).unsqueeze(1)
        rows = torch.where(healthy.unsqueeze(1), gradient.rows, 0.0)
        self.gradient_mean.lerp_(rows, take_first)
        self.gradient_square.lerp_(rows.square_(), take_second)
        size = self.gradient_square.sqrt().mul_(shrink.unsqueeze(1)).add_(EPSILON)
        self.weights.sub_(
            torch.div(self.gradient_mean, size, out=size).mul_(step_size.unsqueeze(1))
        )
