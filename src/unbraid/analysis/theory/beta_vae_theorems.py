# SPDX-License-Identifier: Apache-2.0
"""Both theorems of Mathieu et al. (2019, section 4) on the β-VAE, both sides computed.

For one data point `x`, `L_β = E_q[log p(x|z)] - β KL(q || p)`, in nats, with a nonlinear decoder, a
Gaussian likelihood, the prior `p = N(0, s I)` and a Gaussian posterior `q`.

Theorem 1: with `f_β = p^β / F_β` and `F_β` the integral of `p^β`,

    L_β = E_q[log p(x|z)] - KL(q || f_β)  +  (β - 1) H[q]  +  log F_β,

an ELBO whose prior is sharper, plus a reward for spread posteriors. Here `f_β = N(0, s/β I)`, and
`log F_β = d/2 ((1 - β) log(2 π s) - log β)`. So β scales the prior and the overlap of posteriors;
it does not ask for axes.

Theorem 2: for an isotropic Gaussian prior, an orthogonal `R` applied to the posterior (`R mean`, `R
covariance R^T`) and undone in front of the decoder (`decoder(R^T z)`) leaves `L_β` as it is. With
full covariances nothing therefore prefers an axis. A diagonal covariance stays diagonal, when its
variances differ, only if `R` is a signed permutation.

How it is computed, so that the two sides share nothing: the left side is one Gauss-Hermite sum of
`log p(x|z) - β (log q(z) - log p(z))`; the right side takes the KL, the entropy and `log F_β` in
closed form and the reconstruction by the trapezoidal rule. Departs: the paper gives proofs, no
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from unbraid.analysis.theory.gaussian_toy import (
    Posterior,
    best_posterior,
    beta_objective,
    random_toy,
    reconstruction,
)
from unbraid.core.checks import above_zero, read_whole
from unbraid.core.errors import Shown, invalid

Array = NDArray[np.float64]


def log_normaliser(beta: float, latents: int, prior_variance: float = 1.0) -> float:
    """`log F_β`, of the integral of the prior to the power β.

    >>> log_normaliser(1.0, 3)
    0.0
    """
    above_zero("beta", beta)
    above_zero("prior_variance", prior_variance)
    return (
        0.5
        * read_whole("latents", latents, 1)
        * ((1.0 - beta) * math.log(2.0 * math.pi * prior_variance) - math.log(beta))
    )


@dataclass(frozen=True)
class TheoremOne:
    """Both sides of the first theorem, one entry for each β."""

    betas: Array
    left: Array
    """`L_β`."""
    elbo: Array
    """With the sharper prior `f_β`."""
    entropy_reward: Array
    """`(β - 1) H[q]`."""
    log_normaliser: Array
    prior_variance: float

    @property
    def right(self) -> Array:
        """The sum of the three parts."""
        return self.elbo + self.entropy_reward + self.log_normaliser

    @property
    def largest_gap(self) -> float:
        """Between the two sides, nats."""
        return float(np.abs(self.left - self.right).max())


def theorem_one(
    betas: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    *,
    latents: int = 2,
    prior_variance: float = 1.0,
    seed: int = 0,
) -> TheoremOne:
    """Both sides for a random nonlinear decoder and a random full-covariance posterior."""
    read_whole(
        "latents", latents, 1, 3, "The sums run over a grid, which is too large beyond three."
    )
    strengths = [above_zero("betas", beta) for beta in betas]
    if not strengths:
        raise invalid("betas", "must hold at least one value", Shown("none"))
    draws = np.random.default_rng(read_whole("seed", seed, 0))
    toy = replace(
        random_toy(latents, draws), prior_variance=above_zero("prior_variance", prior_variance)
    )
    square = draws.normal(size=(latents, latents))
    posterior = Posterior(
        draws.normal(size=latents), 0.1 * (square @ square.T) + 0.1 * np.eye(latents)
    )
    fit = reconstruction(toy, posterior)
    return TheoremOne(
        np.array(strengths),
        np.array([beta_objective(toy, posterior, beta) for beta in strengths]),
        np.array([fit - posterior.kl(prior_variance / beta) for beta in strengths]),
        np.array([(beta - 1.0) * posterior.entropy for beta in strengths]),
        np.array([log_normaliser(beta, latents, prior_variance) for beta in strengths]),
        prior_variance,
    )


@dataclass(frozen=True)
class TheoremTwo:
    """`L_β` of one model at each angle of its latents, with full and diagonal posteriors."""

    beta: float
    degrees: Array
    full: Array
    """The best posterior of full covariance, turned along."""
    diagonal: Array
    """The best diagonal posterior at each angle, fitted anew."""
    aligned_degrees: float
    """The angle in [0, 90) that makes the best full covariance diagonal: there the two agree."""
    aligned_gap: float
    """Between the two at that angle, nats."""
    permutation_gap: float
    """Largest change of `L_β` over all signed permutations of the diagonal posterior found there.
    """

    @property
    def full_gap(self) -> float:
        """Largest difference between two angles with full covariances, nats; the theorem says 0."""
        return float(np.ptp(self.full))

    @property
    def diagonal_loss(self) -> float:
        """The most that the best diagonal posterior falls short of the full one, nats."""
        return float((self.full - self.diagonal).max())


def theorem_two(*, beta: float = 1.0, angles: int = 61, seed: int = 0) -> TheoremTwo:
    """Turn a model of two latents through half a circle in equal steps and measure `L_β`."""
    above_zero("beta", beta)
    read_whole("angles", angles, 3)
    draws = np.random.default_rng(read_whole("seed", seed, 0))
    toy = random_toy(2, draws).rotated(plane_rotation(draws.uniform(0.0, 180.0)))
    best = best_posterior(toy, beta, Posterior(np.zeros(2), np.eye(2)))
    degrees = np.linspace(0.0, 180.0, angles)
    full, diagonal = [], []
    for angle in degrees:
        turn = plane_rotation(float(angle))
        model, posterior = toy.rotated(turn), best.rotated(turn)
        full.append(beta_objective(model, posterior, beta))
        diagonal.append(
            beta_objective(model, best_posterior(model, beta, posterior, diagonal=True), beta)
        )
    first = np.linalg.eigh(best.covariance)[1][:, 0]
    aligned = -math.degrees(math.atan2(first[1], first[0])) % 90.0
    turn = plane_rotation(aligned)
    model = toy.rotated(turn)
    there = best_posterior(model, beta, best.rotated(turn), diagonal=True)
    reached = beta_objective(model, there, beta)
    moved = [
        beta_objective(model.rotated(one), there.rotated(one), beta)
        for one in signed_permutations(2)
    ]
    return TheoremTwo(
        float(beta),
        degrees,
        np.array(full),
        np.array(diagonal),
        aligned,
        abs(reached - full[0]),
        float(np.abs(np.array(moved) - reached).max()),
    )


def plane_rotation(degrees: float) -> Array:
    """The rotation of the plane by an angle, counter-clockwise."""
    angle = math.radians(degrees)
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def signed_permutations(latents: int) -> list[Array]:
    """All matrices that only swap latents and flip their signs: `2^latents latents!` of them.

    >>> [len(signed_permutations(latents)) for latents in (1, 2, 3)]
    [2, 8, 48]
    """
    size = read_whole("latents", latents, 1, 6)
    return [
        np.diag(np.array(signs)) @ np.eye(size)[list(order)]
        for order in permutations(range(size))
        for signs in product((1.0, -1.0), repeat=size)
    ]
