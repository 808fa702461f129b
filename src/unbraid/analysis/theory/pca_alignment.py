# SPDX-License-Identifier: Apache-2.0
"""A linear VAE finds the principal axes of its data (Rolinek et al. 2019; Lucas et al. 2019).

Model: encoder mean `E x`, posterior variances of their own that do not depend on `x`, decoder `W
z`, Gaussian likelihood of variance `v`, prior `N(0, I)`. For centred data of covariance `S` the
loss has no noise left in it, in nats (constants dropped):

    [tr((I - W E) S (I - W E)^T) + sum over j of variance_j ||W_j||²] / (2 v)
      + β/2 [tr(E S E^T) + sum over j of (variance_j - log variance_j - 1)].

With eigenvalues `l_1 > l_2 > ...` of `S` the minimum has `||W_j||² = l_j - βv` along the j-th
principal axis, posterior variance `βv / l_j`, and the value `sum over l_j > βv of β/2 (1 + log(l_j
/ βv))  +  sum over the rest of l_j / (2 v)`. A latent whose eigenvalue is not above `βv` is
switched off. The diagonal posterior is what singles the axes out: a rotation of probabilistic PCA
would fit as well. Where eigenvalues are equal no axis is preferred, and every restart ends in
others.

Departs: the loss is its own expectation over noise and data, minimised by L-BFGS, where the papers
sample; `v` is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment, minimize
from scipy.stats import ortho_group

from unbraid.analysis.theory.matrices import covariance_matrix
from unbraid.core.checks import above_zero, read_whole

Array = NDArray[np.float64]

DISTINCT = (4.0, 2.0, 1.0, 0.3, 0.2, 0.1)
EQUAL = (3.0, 3.0, 0.3, 0.3, 0.2, 0.1)
NOISE_VARIANCE = 0.25
_SMALLEST_LENGTH = 1e-3
"""A decoder column shorter than this belongs to a latent that is switched off."""


@dataclass(frozen=True)
class LinearVAE:
    """A trained linear VAE beside the closed form, latents in the order of their axes."""

    decoder: Array
    """`(pixels, latents)`."""
    encoder: Array
    """`(latents, pixels)`."""
    variances: Array
    """Of the posterior, one a latent."""
    loss: float
    eigenvalues: Array
    """Of the covariance, largest first."""
    axes: Array
    """Principal axes, a column each, in the same order."""
    expected_variances: Array
    expected_lengths: Array
    """Of the decoder's columns."""
    expected_loss: float

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which latents carry anything."""
        return np.linalg.norm(self.decoder, axis=0) > _SMALLEST_LENGTH

    @property
    def cosines(self) -> Array:
        """Absolute cosine between the column of each active latent and its principal axis."""
        return np.abs(
            (self.directions * self.axes[:, : len(self.variances)][:, self.active]).sum(axis=0)
        )

    @property
    def directions(self) -> Array:
        """Columns of the active latents, of length 1."""
        columns = self.decoder[:, self.active]
        return columns / np.linalg.norm(columns, axis=0)

    @property
    def largest_overlap(self) -> float:
        """Largest |cosine| between two active columns; 0 where there are fewer than two."""
        between = np.abs(self.directions.T @ self.directions)
        return float((between - np.diag(np.diagonal(between))).max(initial=0.0))


def linear_vae(
    covariance: ArrayLike, *, latents: int, noise_variance: float, beta: float = 1.0, seed: int = 0
) -> LinearVAE:
    """Train a linear VAE on centred data of this *covariance* from random weights."""
    data = covariance_matrix("covariance", covariance)
    pixels = len(data)
    read_whole(
        "latents", latents, 1, pixels, "A linear decoder has no use for more latents than pixels."
    )
    noise, strength = above_zero("noise_variance", noise_variance), above_zero("beta", beta)
    draws = np.random.default_rng(read_whole("seed", seed, 0))
    begin = np.concatenate(
        [draws.normal(size=2 * pixels * latents) / np.sqrt(pixels), np.zeros(latents)]
    )
    found = minimize(
        _loss_and_slope, begin, args=(data, latents, noise, strength), jac=True, method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30},
    )  # fmt: skip
    decoder, encoder, log_variances = _unpacked(found.x, pixels, latents)
    eigenvalues, axes = np.linalg.eigh(data)
    eigenvalues, axes = eigenvalues[::-1], axes[:, ::-1]
    order = _matched(decoder, axes[:, :latents])
    top, scale = eigenvalues[:latents], strength * noise
    used = top > scale
    return LinearVAE(
        decoder[:, order],
        encoder[order],
        np.exp(log_variances)[order],
        float(found.fun),
        eigenvalues,
        axes,
        np.where(used, scale / top, 1.0),
        np.sqrt(np.where(used, top - scale, 0.0)),
        float(
            0.5 * strength * (1.0 + np.log(top[used] / scale)).sum()
            + 0.5 * (eigenvalues.sum() - top[used].sum()) / noise
        ),
    )


@dataclass(frozen=True)
class PcaAlignment:
    """Restarts of a linear VAE on data with distinct and with two equal eigenvalues."""

    distinct: tuple[LinearVAE, ...]
    equal: tuple[LinearVAE, ...]

    @property
    def smallest_cosine(self) -> float:
        """Between any column and its principal axis, over all restarts on distinct eigenvalues."""
        return float(min(one.cosines.min() for one in self.distinct))

    @property
    def equal_degrees(self) -> Array:
        """Direction of the first column in the plane of the two equal axes, in [0, 90)."""
        inside = [one.axes[:, :2].T @ one.decoder[:, 0] for one in self.equal]
        return np.array([np.degrees(np.arctan2(y, x)) % 90.0 for x, y in inside])

    @property
    def equal_spread(self) -> float:
        """Largest turn between the axes of two restarts on equal eigenvalues, in degrees.

        At most 45, past which latents swap.
        """
        apart = np.abs(self.equal_degrees[:, None] - self.equal_degrees)
        return float(np.minimum(apart, 90.0 - apart).max())

    @property
    def largest_loss_gap(self) -> float:
        """Between any trained loss and the closed form, nats."""
        return float(
            max(abs(one.loss - one.expected_loss) for one in (*self.distinct, *self.equal))
        )

    @property
    def largest_variance_gap(self) -> float:
        """Between any posterior variance and the closed form."""
        return float(
            max(
                np.abs(one.variances - one.expected_variances).max()
                for one in (*self.distinct, *self.equal)
            )
        )


def pca_alignment(*, restarts: int = 5, seed: int = 0) -> PcaAlignment:
    """Train on six pixels whose covariance has a random basis.

    Three latents for distinct eigenvalues, two for equal ones.
    """
    read_whole("restarts", restarts, 2)
    basis = ortho_group.rvs(
        len(DISTINCT), random_state=np.random.default_rng(read_whole("seed", seed, 0))
    )
    runs = []
    for eigenvalues, latents in ((DISTINCT, 3), (EQUAL, 2)):
        covariance = (basis * np.array(eigenvalues)) @ basis.T
        covariance = 0.5 * (covariance + covariance.T)
        runs.append(
            tuple(
                linear_vae(
                    covariance,
                    latents=latents,
                    noise_variance=NOISE_VARIANCE,
                    seed=restarts * seed + number,
                )
                for number in range(restarts)
            )
        )
    return PcaAlignment(*runs)


def _loss_and_slope(
    values: Array, data: Array, latents: int, noise: float, beta: float
) -> tuple[float, Array]:
    """The loss of the module's docstring, and its gradient."""
    decoder, encoder, log_variances = _unpacked(values, len(data), latents)
    variances = np.exp(log_variances)
    left = np.eye(len(data)) - decoder @ encoder
    lengths = (decoder**2).sum(axis=0)
    squared = float(np.trace(left @ data @ left.T) + variances @ lengths)
    kl = 0.5 * float(np.trace(encoder @ data @ encoder.T) + (variances - log_variances - 1.0).sum())
    to_decoder = (-left @ data @ encoder.T + decoder * variances) / noise
    to_encoder = -decoder.T @ left @ data / noise + beta * encoder @ data
    to_log_variances = 0.5 * variances * lengths / noise + 0.5 * beta * (variances - 1.0)
    slope = np.concatenate([to_decoder.ravel(), to_encoder.ravel(), to_log_variances])
    return 0.5 * squared / noise + beta * kl, slope


def _unpacked(values: Array, pixels: int, latents: int) -> tuple[Array, Array, Array]:
    decoder, encoder, log_variances = np.split(values, [pixels * latents, 2 * pixels * latents])
    return decoder.reshape(pixels, latents), encoder.reshape(latents, pixels), log_variances


def _matched(decoder: Array, axes: Array) -> NDArray[np.int64]:
    """For each axis the column that fits it best, each column once."""
    overlap = np.abs(axes.T @ decoder)
    return linear_sum_assignment(overlap, maximize=True)[1]
