# SPDX-License-Identifier: Apache-2.0
"""The aggregate posterior q(z) beside the prior it is meant to follow (Mathieu et al. 2019).

All functions take the posterior means and log-variances `(n, latents)` of one member over the data,
as its codes hold them, and compute in float64 with bounded memory. With n posteriors the density is
exact: no estimate of q(z) is involved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unbraid.core import random
from unbraid.core.checks import read_whole
from unbraid.core.errors import Shown, invalid
from unbraid.core.random import Stream
from unbraid.objectives.divergences import log_aggregate_posterior
from unbraid.objectives.priors.prior import UNIFORMS, Prior

_PAIRS_AT_ONCE = 2**21
"""Pairs of a point and a posterior, times latents, that are held together: 16 MB each."""
_STEP = 2**40
"""Numbers of this step are drawn here, one that no training reaches."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class InclusiveKL:
    """KL(p || q) of the prior from the aggregate posterior, from draws of the prior."""

    nats: float
    standard_error: float


def log_density(points: ArrayLike, mean: ArrayLike, logvar: ArrayLike) -> Array:
    """Log q(z) in nats at *points* `(m, latents)`: `(m,)`."""
    centre, spread = _posteriors(mean, logvar)
    z = np.asarray(points, dtype=np.float64)
    if z.ndim != 2 or z.shape[1] != centre.shape[2]:
        raise invalid(
            "points", f"must have the shape (m, {centre.shape[2]})", Shown(f"shape {z.shape}")
        )
    size = max(1, _PAIRS_AT_ONCE // (centre.shape[1] * centre.shape[2]))
    parts = torch.from_numpy(np.ascontiguousarray(z)).unsqueeze(0).split(size, dim=1)
    return torch.cat([log_aggregate_posterior(part, centre, spread)[0] for part in parts]).numpy()


def density_on_grid(mean: ArrayLike, logvar: ArrayLike, line: ArrayLike) -> Array:
    """q(z) on the square grid over *line* of two latents: `(cells, cells)`.

    Rows run along the second latent.
    """
    values = np.asarray(line, dtype=np.float64)
    second, first = np.meshgrid(values, values, indexing="ij")
    points = np.stack([first.ravel(), second.ravel()], axis=1)
    return np.exp(log_density(points, mean, logvar)).reshape(len(values), len(values))


def prior_points(prior: Prior, count: int, latents: int, seed: int = 0) -> Array:
    """Draws `(count, latents)` from *prior*, the same for the same seed."""
    uniform = random.uniform(
        torch.tensor([seed]), _STEP, Stream.PRIOR_POINTS, (count, latents, UNIFORMS)
    ).double()
    with torch.no_grad():
        return prior.sample(uniform + 2.0**-25)[0].numpy()


def inclusive_kl(
    prior: Prior, mean: ArrayLike, logvar: ArrayLike, *, points: int = 4_000, seed: int = 0
) -> InclusiveKL:
    """KL(p || q) by *points* draws of *prior*, with the standard error that they leave."""
    count = read_whole("points", points, 2, 10_000_000)
    centre, _ = _posteriors(mean, logvar)
    z = prior_points(prior, count, centre.shape[2], seed)
    with torch.no_grad():
        log_p = prior.log_density(torch.from_numpy(z).unsqueeze(0))[0].numpy()
    values = log_p - log_density(z, mean, logvar)
    return InclusiveKL(float(values.mean()), float(values.std(ddof=1) / math.sqrt(count)))


def nearest_centre(z: ArrayLike, centres: ArrayLike) -> NDArray[np.int64]:
    """Which of the *centres* `(k, latents)` each of the latents z `(n, latents)` is nearest to:
    `(n,)`.
    """
    points, places = np.asarray(z, dtype=np.float64), np.asarray(centres, dtype=np.float64)
    if points.ndim != 2 or places.ndim != 2 or points.shape[1] != places.shape[1]:
        found = Shown(f"shapes {points.shape} and {places.shape}")
        raise invalid(
            "latents and centres", "must have the shapes (n, latents) and (k, latents)", found
        )
    return np.stack([np.square(points - place).sum(axis=1) for place in places]).argmin(axis=0)


def centre_shares(z: ArrayLike, centres: ArrayLike) -> Array:
    """Share of the latents that is nearest to each of the *centres*: `(k,)`, adding up to 1."""
    nearest = nearest_centre(z, centres)
    return np.bincount(nearest, minlength=len(np.asarray(centres))) / len(nearest)


def groups_kept(z: ArrayLike, groups: ArrayLike, centres: ArrayLike) -> float:
    """Share of the latents nearest to the centre of their own group.

    Each group gets the centre that suits best.

    *groups* `(n,)` numbers them from 0. 1 where every group has a centre for itself; groups beyond
    the number of centres have none.
    """
    from scipy.optimize import linear_sum_assignment

    group = np.asarray(groups).ravel()
    nearest = nearest_centre(z, centres)
    if group.shape != nearest.shape:
        raise invalid(
            "groups", "must have one number for each latent vector", Shown(f"shape {group.shape}")
        )
    counts = np.zeros((int(group.max()) + 1, len(np.asarray(centres))))
    np.add.at(counts, (group, nearest), 1)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(group))


def _posteriors(mean: ArrayLike, logvar: ArrayLike) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as float64 tensors `(1, n, latents)`."""
    arrays = [np.ascontiguousarray(np.asarray(part, dtype=np.float64)) for part in (mean, logvar)]
    if arrays[0].ndim != 2 or arrays[0].shape != arrays[1].shape or not arrays[0].size:
        found = Shown(f"shapes {arrays[0].shape} and {arrays[1].shape}")
        raise invalid("mean and logvar", "must both have the shape (n, latents)", found)
    centre, spread = (torch.from_numpy(array).unsqueeze(0) for array in arrays)
    return centre, spread
