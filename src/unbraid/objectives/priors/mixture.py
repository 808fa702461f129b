# SPDX-License-Identifier: Apache-2.0
"""A mixture of normal clusters on a circle (Mathieu et al. 2019, section 6): the prior of their
pinwheel experiment.

p(z) = (1/K) Σ_k N(z; radius · (cos 2πk/K, sin 2πk/K, 0, ...), variance · I): the centres lie in the
plane of the first two latents, at (1, 0), (0, 1), (−1, 0), (0, −1) for four of radius 1; in further
latents all clusters are centred at 0.

Departs: in the authors' code an axis of size 1 counts log p(z) once for each latent in the KL
divergence; here it counts once.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.core.errors import Problem
from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Count, Number, count, number
from unbraid.objectives.priors.prior import Prior, normal_from_uniform, per_member


@dataclass(frozen=True)
class Mixture(Prior):
    """Equal normal clusters around points of a circle in the first two latents."""

    components: Count = count(4, "number of clusters", at_least=2, at_most=1000)
    radius: Number = number(1.0, "distance of the clusters' centres from 0", above=0)
    variance: Number = number(0.03, "variance of a cluster in every latent", above=0)

    label = "mixture"
    factorised = False
    citation = Citation(
        "Mathieu et al.", 2019, "Disentangling disentanglement in variational autoencoders", "ICML"
    )

    def problems(self, latents: int) -> list[Problem]:
        """The circle needs a plane."""
        if latents >= 2:
            return []
        rule = "needs at least 2 latents, the plane of its clusters"
        return [
            Problem(self.key, rule, latents, "Train with more latents, or use the prior isotropic.")
        ]

    def centres(self, like: Tensor) -> Tensor:
        """Centres in the plane of the first two latents: `(components, 2)`, or `(members, 1,
        components, 2)` of stacked priors.
        """
        circle = _circle(self.components, like.device, like.dtype)
        return per_member(self.radius, circle.expand(1, 1, *circle.shape)) * circle

    def log_density(self, z: Tensor) -> Tensor:
        """Log mean_k N(z; centre_k, variance)."""
        variance = per_member(self.variance, z)
        in_plane = (z[..., None, :2] - self.centres(z)).square().sum(dim=-1)
        off_plane = z[..., 2:].square().sum(dim=-1, keepdim=True)
        nearness = (-0.5 * (in_plane + off_plane) / variance).logsumexp(dim=-1)
        constant = (
            0.5 * z.shape[-1] * torch.log(2.0 * math.pi * per_member(self.variance, nearness))
        )
        return nearness - constant - math.log(self.components)

    def sample(self, uniform: Tensor) -> Tensor:
        """A centre by the first latent's third number, and normal numbers around it."""
        normal = normal_from_uniform(uniform)
        chosen = (
            (uniform[..., 0, 2] * self.components).to(torch.int64).clamp(0, self.components - 1)
        )
        centre = (
            per_member(self.radius, normal)
            * _circle(self.components, normal.device, normal.dtype)[chosen]
        )
        spread = per_member(self.variance, normal).sqrt() * normal
        return torch.cat([spread[..., :2] + centre, spread[..., 2:]], dim=-1)


@functools.cache
def _circle(components: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Points evenly on the unit circle `(components, 2)`, copied to *device* once: a captured step
    cannot ask the host.
    """
    angles = [2.0 * math.pi * number / components for number in range(components)]
    # Rounded so that the points of four lie exactly on the axes.
    points = [(round(math.cos(angle), 15), round(math.sin(angle), 15)) for angle in angles]
    with torch.inference_mode(False):
        return torch.tensor(points, dtype=dtype, device=device)
