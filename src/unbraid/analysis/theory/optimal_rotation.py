# SPDX-License-Identifier: Apache-2.0
"""The rotation of the latents that a VAE prefers, from the decoder's Jacobian.

Closed form of Rolinek et al. 2019.

Convention: Gaussian likelihood of variance `v`, summed over pixels; prior `N(0, I)`; posterior
`N(mean, diag(variances))`; loss = reconstruction + β KL, in nats. Around a posterior's mean the
decoder is taken as linear, with Jacobian `J`. A rotation `V` of the latent space turns `J` into `J
V` and leaves the prior, the means' part of the KL and the reconstruction of the mean as they are.
What is left of the loss is

    sum over j of  variance_j ||(J V)_j||² / (2 v)  +  β/2 (variance_j - log variance_j - 1)

whose best variances are `1 / (1 + ||(J V)_j||² / (β v))`, which leaves

    β/2  sum over j of  log M'_jj,      M' = V^T M V,   M = I + J^T J / (β v).

By Hadamard's inequality the product of the diagonal is never below the determinant, and equals it
only where `M'` is diagonal. So with `J = U S W^T` the best rotation is `W`: the columns of `J W`
are orthogonal, the variances are `1 / (1 + s_j² / (β v))` and the loss is `β/2 sum log(1 + s_j² /
(β v))`. Latent axes become local principal directions.

Departs: the paper bounds the loss under an assumption of strong regularisation; here it is solved
exactly with free variances. Singular values of 0 are allowed: those latents carry nothing and their
posterior is the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from unbraid.analysis.theory.matrices import finite_matrix, rotation_matrix
from unbraid.core.checks import above_zero, read_whole
from unbraid.core.errors import Shown, invalid


@dataclass(frozen=True)
class OptimalRotation:
    """The best rotation, what it gains, and the posterior that goes with it."""

    rotation: NDArray[np.float64]
    """`(latents, latents)`, determinant 1; its columns are the new axes, the least noisy one first.
    """
    variances: NDArray[np.float64]
    """Posterior variances of the new latents, smallest first."""
    loss_before: float
    """Nats that depend on the rotation, in the latents as they were, with the variances that are
    best there.
    """
    loss_after: float
    """The same in the rotated latents: the least that any rotation reaches."""
    singular_values: NDArray[np.float64]
    """Of the Jacobian, one a latent; where two are equal any rotation between their axes is as
    good.
    """


def optimal_rotation(
    jacobian: ArrayLike, *, noise_variance: float, beta: float = 1.0
) -> OptimalRotation:
    """The rotation of the latents with the least loss at this *jacobian* `(pixels, latents)`.

    *noise_variance* is that of the Gaussian likelihood. The signs of the axes are a matter of
    taste: here the largest entry of each is positive, but for the last axis, whose sign makes the
    matrix a rotation rather than a reflection.

    >>> found = optimal_rotation([[2.0, 1.0], [1.0, 2.0]], noise_variance=1.0)
    >>> found.singular_values.round(6).tolist(), found.variances.round(6).tolist()
    ([3.0, 1.0], [0.1, 0.5])
    >>> round(found.loss_before - found.loss_after, 6)
    0.293893
    """
    matrix = _checked(jacobian)
    scale = above_zero("beta", beta) * above_zero("noise_variance", noise_variance)
    latents = matrix.shape[1]
    # All rows of the third factor, so that latents which carry nothing get axes too. With as many
    # pixels as latents the small form has them, and spares a matrix of pixels by pixels.
    _, found, axes = np.linalg.svd(matrix, full_matrices=len(matrix) < latents)
    singular_values = np.zeros(latents)
    singular_values[: len(found)] = found
    rotation = axes.T.copy()
    largest = rotation[np.abs(rotation).argmax(axis=0), np.arange(latents)]
    rotation *= np.where(largest < 0, -1.0, 1.0)
    if np.linalg.det(rotation) < 0:
        rotation[:, -1] *= -1.0
    return OptimalRotation(
        rotation,
        1.0 / (1.0 + singular_values**2 / scale),
        rotation_loss(matrix, np.eye(latents), noise_variance=noise_variance, beta=beta),
        float(0.5 * beta * np.log1p(singular_values**2 / scale).sum()),
        singular_values,
    )


@dataclass(frozen=True)
class RotationSweep:
    """The loss of two latents at every angle, beside the closed form."""

    jacobian: NDArray[np.float64]
    degrees: NDArray[np.float64]
    losses: NDArray[np.float64]
    closed: OptimalRotation
    closed_degrees: float
    """Angle of the closed form, in [0, 90): a quarter turn only swaps the axes."""
    searched_degrees: float
    """Where a numerical search over the angle ends."""
    searched_loss: float


def rotation_sweep(
    jacobian: ArrayLike | None = None,
    *,
    noise_variance: float = 0.5,
    beta: float = 1.0,
    angles: int = 181,
    seed: int = 0,
) -> RotationSweep:
    """Turn two latents through half a circle, beside the best angle and the closed form.

    The *jacobian* has two columns; without one, it is drawn from the *seed*.
    """
    read_whole("angles", angles, 3)
    draws = np.random.default_rng(read_whole("seed", seed, 0))
    if jacobian is None:
        jacobian = (
            np.linalg.qr(draws.normal(size=(6, 2)))[0]
            * (2.5, 0.8)
            @ _turn(draws.uniform(20.0, 70.0)).T
        )
    matrix = _checked(jacobian)
    if matrix.shape[1] != 2:
        raise invalid(
            "jacobian", "must have two columns to be turned by one angle", matrix.shape[1]
        )

    def loss(degrees: float) -> float:
        return rotation_loss(matrix, _turn(degrees), noise_variance=noise_variance, beta=beta)

    degrees = np.linspace(0.0, 180.0, angles)
    losses = np.array([loss(float(angle)) for angle in degrees])
    near = float(degrees[losses.argmin()])
    step = float(degrees[1])
    searched: Any = minimize_scalar(
        loss, bounds=(near - step, near + step), method="bounded", options={"xatol": 1e-9}
    )
    closed = optimal_rotation(matrix, noise_variance=noise_variance, beta=beta)
    first = closed.rotation[:, 0]
    return RotationSweep(
        matrix,
        degrees,
        losses,
        closed,
        float(np.degrees(np.arctan2(first[1], first[0])) % 90.0),
        float(searched.x % 90.0),
        float(searched.fun),
    )


def rotation_loss(
    jacobian: ArrayLike,
    rotation: ArrayLike,
    *,
    noise_variance: float,
    beta: float = 1.0,
    variances: ArrayLike | None = None,
) -> float:
    """The part of the loss that depends on the rotation, in nats.

    With the best variances or with the given ones.
    """
    matrix = _checked(jacobian)
    turned = matrix @ rotation_matrix("rotation", rotation, matrix.shape[1])
    noise = above_zero("noise_variance", noise_variance)
    strength = above_zero("beta", beta)
    lengths = (turned**2).sum(axis=0)
    if variances is None:
        return float(0.5 * strength * np.log1p(lengths / (strength * noise)).sum())
    given = np.asarray(variances, dtype=np.float64)
    if given.shape != lengths.shape or not bool(np.all((given > 0) & (given < np.inf))):
        rule = f"must be {len(lengths)} finite numbers above 0, one a latent"
        raise invalid("variances", rule, Shown(str(given.tolist())))
    return float(
        0.5 * (given * lengths).sum() / noise + 0.5 * strength * (given - np.log(given) - 1.0).sum()
    )


def _turn(degrees: float) -> NDArray[np.float64]:
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[cosine, -sine], [sine, cosine]])


def _checked(jacobian: ArrayLike) -> NDArray[np.float64]:
    matrix = finite_matrix(
        "jacobian", jacobian, "It is (pixels, latents): a column for each latent."
    )
    if not matrix.any():
        zeros = Shown("zeros alone")
        raise invalid(
            "jacobian",
            "must have an entry other than 0",
            zeros,
            "A constant decoder prefers no rotation.",
        )
    return matrix
