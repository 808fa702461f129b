# SPDX-License-Identifier: Apache-2.0
"""How far the latents of a batch are, taken together, from points of the prior: D(q(z), p(z)), each
member on its own.

- `inclusive_kl`: KL(p || q) with q(z) = mean_i q(z|x_i) over the batch, log p(z_j) − log mean_i
  q(z_j|x_i) at points z_j of the prior (Mathieu et al. 2019, `kld_inc` of the authors' code). A
  batch stands for the whole data, so the value is an upper bound in expectation: log is concave.
- `mmd`: the squared maximum mean discrepancy by its unbiased U-statistic (Gretton et al. 2012, eq.
  3), which is 0 on average where both samples have the same law and so is negative half of the
  time.
- `mmd_by_latent`: the same for each latent alone, summed over latents (`mmd_dim` of the authors'
  code). It sees the marginals and nothing else.

Kernels are sums of inverse multiquadratics, k(d²) = Σ_C C / (C + d²). Mathieu et al. take C = 2 s
with s in 0.1, 0.2, 0.5, 1, 2, 5 (`INVERSE_MULTIQUADRATIC`) for every number of latents; Tolstikhin
et al. 2018 multiply by latents and prior variance.

All pairs of a batch are compared at once: a few times batch² · latents numbers for each member.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unbraid.objectives.priors.prior import Prior

INVERSE_MULTIQUADRATIC = (0.2, 0.4, 1.0, 2.0, 4.0, 10.0)
"""The constants C of Mathieu et al. (2019)."""

Kernel = Callable[[Tensor], Tensor]
"""Squared distances to similarities, number by number."""


def log_aggregate_posterior(points: Tensor, mean: Tensor, logvar: Tensor) -> Tensor:
    """Log mean_i N(z_j; mean_i, exp logvar_i) in nats: `(members, n)` of points `(members, n,
    latents)`.
    """
    # Latents before pairs: a sum over the last axis, with its few numbers, takes several times as
    # long on a CPU.
    deviations = (points.mT.unsqueeze(3) - mean.mT.unsqueeze(2)) * torch.exp(
        -0.5 * logvar
    ).mT.unsqueeze(2)
    constant = (0.5 * (logvar + math.log(2.0 * math.pi))).sum(dim=-1) + math.log(mean.shape[1])
    return (-0.5 * deviations.square().sum(dim=1) - constant.unsqueeze(1)).logsumexp(dim=2)


def inclusive_kl(points: Tensor, prior: Prior, mean: Tensor, logvar: Tensor) -> Tensor:
    """Log p(z_j) − log mean_i q(z_j|x_i) at prior points `(members, n, latents)`: `(members, n)`,
    whose mean is KL(p || q).
    """
    return prior.log_density(points) - log_aggregate_posterior(points, mean, logvar)


def inverse_multiquadratic(constants: Sequence[float] = INVERSE_MULTIQUADRATIC) -> Kernel:
    """The kernel Σ_C C / (C + d²) as a function of squared distances; its gradient needs these
    alone.
    """
    chosen = tuple(float(constant) for constant in constants)
    return lambda squared: _InverseMultiquadratic.apply(squared, chosen)  # type: ignore[no-any-return]


def mmd(first: Tensor, second: Tensor, kernel: Kernel | None = None) -> Tensor:
    """Unbiased squared MMD between two samples `(members, n, latents)` and `(members, m, latents)`:
    `(members,)`.

    *kernel* is that of Mathieu et al. unless given. Each sample needs two points.
    """
    kernel = kernel or inverse_multiquadratic()
    return _u_statistic(
        *(
            kernel(_by_latent(a, b).sum(dim=1))
            for a, b in ((first, first), (second, second), (first, second))
        )
    )


def mmd_by_latent(first: Tensor, second: Tensor, kernel: Kernel | None = None) -> Tensor:
    """The same for each latent by itself, summed over latents: `(members,)`."""
    kernel = kernel or inverse_multiquadratic()
    pairs = ((first, first), (second, second), (first, second))
    return _u_statistic(*(kernel(_by_latent(a, b)) for a, b in pairs)).sum(dim=1)


def _by_latent(first: Tensor, second: Tensor) -> Tensor:
    """Squared distances of all pairs, latent by latent: `(members, latents, n, m)`."""
    return (first.mT.unsqueeze(3) - second.mT.unsqueeze(2)).square()


def _u_statistic(within_first: Tensor, within_second: Tensor, between: Tensor) -> Tensor:
    """Mean similarity within both samples, a point with itself left out, less twice that between
    them; over the last two axes.
    """

    def within(similarity: Tensor) -> Tensor:
        count = similarity.shape[-1]
        with_itself = similarity.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return (similarity.sum(dim=(-2, -1)) - with_itself) / (count * (count - 1))

    return within(within_first) + within(within_second) - 2.0 * between.mean(dim=(-2, -1))


class _InverseMultiquadratic(torch.autograd.Function):
    """Σ_C C / (C + d²): one tensor is kept for its gradient, −Σ_C C / (C + d²)², where autograd's
    own keeps two a constant.
    """

    @staticmethod
    def forward(context: Any, squared: Tensor, constants: tuple[float, ...]) -> Tensor:
        context.save_for_backward(squared)
        context.constants = constants
        similarity, share = torch.zeros_like(squared), torch.empty_like(squared)
        for constant in constants:
            torch.add(squared, constant, out=share).reciprocal_()
            similarity.add_(share, alpha=constant)
        return similarity

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (squared,) = context.saved_tensors
        slope, share = torch.zeros_like(squared), torch.empty_like(squared)
        for constant in context.constants:
            # The reciprocal is squared, and not divided by a square, which would overflow where d²
            # is large.
            torch.add(squared, constant, out=share).reciprocal_().square_()
            slope.sub_(share, alpha=constant)
        return slope.mul_(gradient), None
