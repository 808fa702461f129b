# SPDX-License-Identifier: Apache-2.0
"""One data point, a nonlinear decoder, a Gaussian posterior: a β-VAE known to rounding.

`L_β = E_q[log p(x|z)] - β KL(q || p)` in nats, summed over pixels and latents, with `x = decoder(z)
+ noise` and `p = N(0, s I)`. `beta_objective` is one Gauss-Hermite sum of `log p(x|z) - β (log q(z)
- log p(z))`; `reconstruction`, `Posterior.kl` and `Posterior.entropy` are the same parts by other
means (the trapezoidal rule and closed forms), so that one can test the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from unbraid.analysis.theory.matrices import covariance_matrix, rotation_matrix
from unbraid.core.checks import above_zero, read_whole

Array = NDArray[np.float64]
_NODES = {1: 96, 2: 96, 3: 40}
"""Of a Gauss-Hermite sum along each latent, by the number of latents."""
_NODES_OF_A_FIT = 24
"""Fewer do while climbing: only where a fit ends is measured."""
_REACH, _POINTS = 9.0, 121
"""The trapezoidal rule covers so many deviations either side with so many points; its error is that
of rounding.
"""


@dataclass(frozen=True)
class Toy:
    """One data point with its decoder: `x` is `decoder(z)` plus noise.

    `z` is `N(0, prior_variance I)`.
    """

    decoder: Callable[[Array], Array]
    """`(n, latents)` to `(n, pixels)`."""
    x: Array
    noise_variance: float = 0.1
    prior_variance: float = 1.0

    def __post_init__(self) -> None:
        """Refuse variances that are none."""
        above_zero("noise_variance", self.noise_variance)
        above_zero("prior_variance", self.prior_variance)

    def log_likelihood(self, z: Array) -> Array:
        """Of the data point given each row of *z*."""
        squared = ((self.decoder(z) - self.x) ** 2).sum(axis=1)
        return -0.5 * squared / self.noise_variance - 0.5 * self.x.size * math.log(
            2.0 * math.pi * self.noise_variance
        )

    def rotated(self, rotation: ArrayLike) -> Toy:
        """The same model with its latents turned: the decoder undoes *rotation* first."""
        turn = rotation_matrix("rotation", rotation)
        inner = self.decoder
        return replace(self, decoder=lambda z: inner(z @ turn))


@dataclass(frozen=True)
class Posterior:
    """A Gaussian q(z|x)."""

    mean: Array
    covariance: Array

    def __post_init__(self) -> None:
        """Refuse a covariance that is none."""
        covariance_matrix("covariance", self.covariance, len(self.mean))

    def rotated(self, rotation: ArrayLike) -> Posterior:
        """The law of the turned latents."""
        turn = rotation_matrix("rotation", rotation, len(self.mean))
        turned = turn @ self.covariance @ turn.T
        return Posterior(turn @ self.mean, 0.5 * (turned + turned.T))

    @property
    def is_diagonal(self) -> bool:
        """Whether the latents are independent given x, up to rounding."""
        outside = self.covariance - np.diag(np.diagonal(self.covariance))
        return float(np.abs(outside).max()) <= 1e-12 * float(np.diagonal(self.covariance).max())

    @property
    def entropy(self) -> float:
        """Nats."""
        return 0.5 * (
            len(self.mean) * (1.0 + math.log(2.0 * math.pi))
            + float(np.linalg.slogdet(self.covariance)[1])
        )

    def kl(self, variance: float) -> float:
        """KL divergence from `N(0, variance I)`, nats."""
        size = len(self.mean)
        spread = (float(np.trace(self.covariance)) + float(self.mean @ self.mean)) / variance
        return 0.5 * (
            spread - size + size * math.log(variance) - float(np.linalg.slogdet(self.covariance)[1])
        )


def beta_objective(toy: Toy, posterior: Posterior, beta: float, nodes: int | None = None) -> float:
    """`L_β` as one Gauss-Hermite sum, of at most three latents."""
    above_zero("beta", beta)
    size = read_whole("latents", len(posterior.mean), 1, 3)
    standard, weights = _hermite(nodes or _NODES[size], size)
    root = np.linalg.cholesky(posterior.covariance)
    z = posterior.mean + standard @ root.T
    log_q = (
        -0.5 * ((standard**2).sum(axis=1) + size * math.log(2.0 * math.pi))
        - np.log(np.diagonal(root)).sum()
    )
    log_p = -0.5 * (
        (z**2).sum(axis=1) / toy.prior_variance
        + size * math.log(2.0 * math.pi * toy.prior_variance)
    )
    return float(weights @ (toy.log_likelihood(z) - beta * (log_q - log_p)) / weights.sum())


def reconstruction(toy: Toy, posterior: Posterior) -> float:
    """`E_q[log p(x|z)]` by the trapezoidal rule."""
    line = np.linspace(-_REACH, _REACH, _POINTS)
    standard, weights = _tensor(line, np.exp(-0.5 * line**2), len(posterior.mean))
    z = posterior.mean + standard @ np.linalg.cholesky(posterior.covariance).T
    return float(weights @ toy.log_likelihood(z) / weights.sum())


def best_posterior(toy: Toy, beta: float, start: Posterior, *, diagonal: bool = False) -> Posterior:
    """The Gaussian posterior that maximises `L_β`, climbing from *start*.

    One with independent latents where *diagonal*.
    """
    size = len(start.mean)
    rows, columns = (np.arange(size),) * 2 if diagonal else np.tril_indices(size)
    on_diagonal = rows == columns

    def unpacked(values: Array) -> Posterior:
        root = np.zeros((size, size))
        root[rows, columns] = np.where(
            on_diagonal, np.exp(values[size:] * on_diagonal), values[size:]
        )
        return Posterior(values[:size], root @ root.T)

    # Of all diagonal Gaussians the nearest in KL to a given one keeps the diagonal of its
    # precision.
    covariance = (
        np.diag(1.0 / np.diagonal(np.linalg.inv(start.covariance)))
        if diagonal
        else start.covariance
    )
    root = np.linalg.cholesky(covariance)[rows, columns]
    begin = np.concatenate(
        [start.mean, np.where(on_diagonal, np.log(np.where(on_diagonal, root, 1.0)), root)]
    )
    found = minimize(
        lambda values: -beta_objective(toy, unpacked(values), beta, _NODES_OF_A_FIT), begin,
        method="L-BFGS-B", jac="3-point",
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500},
    )  # fmt: skip
    return unpacked(found.x)


def random_toy(latents: int, draws: np.random.Generator, pixels: int = 5) -> Toy:
    """A nonlinear decoder of sines with random weights, and a data point that it makes.

    Quadrature sums sines to rounding.
    """
    first, second = (
        draws.normal(size=(latents, 8)) / math.sqrt(latents),
        draws.normal(size=(8, pixels)) / 2.0,
    )
    shift = draws.normal(size=8)

    def decoder(z: Array) -> Array:
        return np.sin(0.5 * (z @ first + shift)) @ second

    x = decoder(draws.normal(size=(1, latents)))[0] + math.sqrt(0.1) * draws.normal(size=pixels)
    return Toy(decoder, x)


@lru_cache(maxsize=8)
def _hermite(nodes: int, size: int) -> tuple[Array, Array]:
    return _tensor(*hermegauss(nodes), size)


def _tensor(nodes: Array, weights: Array, size: int) -> tuple[Array, Array]:
    """A rule on the line as a rule in *size* dimensions: points `(n, size)` and weights `(n,)`."""
    points = np.stack(np.meshgrid(*[nodes] * size, indexing="ij"), axis=-1).reshape(-1, size)
    together = (
        np.stack(np.meshgrid(*[weights] * size, indexing="ij"), axis=-1)
        .reshape(-1, size)
        .prod(axis=1)
    )
    return points, together
