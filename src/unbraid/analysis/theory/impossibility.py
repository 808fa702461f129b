# SPDX-License-Identifier: Apache-2.0
"""Why data alone cannot disentangle: a map that mixes factors and keeps every law.

Locatello et al. 2019.

Theorem 1 and its proof: for a prior `p(z)` that factorises over `d > 1` latents there is a
bijection `f` such that `f(z)` has the law of `z` and every latent of `f(z)` depends on every latent
of `z` (no entry of the Jacobian is 0, almost everywhere). With `g` the marginal CDFs, `h` the
quantiles of the standard normal law and `A` an orthogonal matrix without a zero entry,

    f = g^-1 o h^-1 o A o h o g.

`h o g` makes `z` standard normal, which no rotation changes; the way back restores the marginals. A
decoder composed with the inverse of `f` makes data of the same law from `f(z)`, so nothing in the
data tells `z` from `f(z)`.

`A = I - 2 v v^T` with `v_1 = sqrt(alpha)` and `v_i = sqrt((1 - alpha) / (d - 1))` else, as in the
proof, for alpha in (0, 1/2). The paper leaves alpha open. Here it is `(1 - 1/sqrt 2) / 2` for two
latents and `1 / d` for more: then for 2, 3 and 4 latents the two largest entries of each row are of
one size, so that two latents know the most about a factor and its gap is 0.

Departs: marginals are continuous laws of any support, as scipy.stats has them; the upper half of
each is computed through its survival function, which keeps the digits that a CDF near 1 loses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from unbraid.analysis.theory.matrices import finite_matrix, rotation_matrix
from unbraid.core.checks import is_real, read_whole
from unbraid.core.errors import Shown, invalid
from unbraid.metrics.mig import mig

Decoder = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_LEVELS = 10
"""Values that a factor is cut into for MIG; they nest in its 20 bins."""
_CELLS = 8
"""Cells along each side of the square that independence is tested on."""
_JACOBIANS = 200
"""Points at which the density and the Jacobian are checked."""
_STEP = 5e-4
"""Of the numerical derivative, measured where the law is standard normal."""


def mixing_reflection(latents: int, alpha: float | None = None) -> NDArray[np.float64]:
    """The orthogonal matrix of the proof, its own inverse, without a zero entry.

    >>> mixing_reflection(2).round(4).tolist()
    [[0.7071, -0.7071], [-0.7071, -0.7071]]
    """
    _check_latents(read_whole("latents", latents, 1))
    if alpha is None:
        alpha = (1.0 - math.sqrt(0.5)) / 2.0 if latents == 2 else 1.0 / latents
    if not is_real(alpha) or not 0.0 < alpha < 0.5:
        raise invalid("alpha", "must lie between 0 and 0.5, both left out", alpha)
    direction = np.full(latents, math.sqrt((1.0 - alpha) / (latents - 1)))
    direction[0] = math.sqrt(alpha)
    return np.eye(latents) - 2.0 * np.outer(direction, direction)


@dataclass(frozen=True)
class MixingMap:
    """The map f for given marginals and an orthogonal matrix without a zero entry.

    Marginals are frozen continuous laws of scipy.stats.
    """

    marginals: tuple[Any, ...]
    rotation: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse what the theorem does not hold for."""
        _check_latents(len(self.marginals))
        for number, law in enumerate(self.marginals):
            if not all(hasattr(law, name) for name in ("cdf", "ppf", "sf", "isf", "logpdf")):
                remedy = "For example scipy.stats.norm() or scipy.stats.uniform(-1, 2)."
                raise invalid(
                    f"marginals[{number}]",
                    "must be a frozen continuous law of scipy.stats",
                    law,
                    remedy,
                )
        matrix = rotation_matrix("rotation", self.rotation, len(self.marginals))
        if float(np.abs(matrix).min()) < 1e-12:
            shown = Shown(f"{int((np.abs(matrix) < 1e-12).sum())} of {matrix.size} entries 0")
            remedy = (
                "Such a matrix leaves some latent out of the mixture; mixing_reflection makes one"
                " that does not."
            )
            raise invalid("rotation", "must have no entry of 0", shown, remedy)
        object.__setattr__(self, "rotation", matrix)

    def __call__(self, z: ArrayLike) -> NDArray[np.float64]:
        """Mixed latents `(n, latents)` of the same law as *z*."""
        return self._from_normal(self._to_normal(self._read(z)) @ self.rotation.T)

    def inverse(self, mixed: ArrayLike) -> NDArray[np.float64]:
        """The latents that were mixed."""
        return self._from_normal(self._to_normal(self._read(mixed)) @ self.rotation)

    def log_density(self, z: ArrayLike) -> NDArray[np.float64]:
        """Log density of the prior at each row of *z*, nats."""
        return self._log_densities(self._read(z)).sum(axis=1)

    def uniform(self, z: ArrayLike) -> NDArray[np.float64]:
        """Each latent through its CDF, in [0, 1]: a warp of every latent alone."""
        points = self._read(z)
        return np.stack([law.cdf(points[:, at]) for at, law in enumerate(self.marginals)], axis=1)

    def jacobian(self, z: ArrayLike) -> NDArray[np.float64]:
        """Derivatives `(n, latents, latents)` of f in closed form: A between the warps' slopes."""
        points = self._read(z)
        normal = self._to_normal(points)
        turned = normal @ self.rotation.T
        into = self._log_densities(points) - stats.norm.logpdf(normal)
        back = self._log_densities(self._from_normal(turned)) - stats.norm.logpdf(turned)
        return self.rotation * np.exp(into[:, None, :] - back[:, :, None])

    def numerical_jacobian(self, z: ArrayLike) -> NDArray[np.float64]:
        """The same by differences of fourth order, with steps that suit the density.

        Differences across a kink of a density (the Laplace law's, at its middle) are good to three
        digits only.
        """
        points = self._read(z)
        normal = self._to_normal(points)
        columns = []
        for latent in range(len(self.marginals)):
            values = []
            places = []
            for steps in (-2, -1, 1, 2):
                moved = normal.copy()
                moved[:, latent] += steps * _STEP
                at = points.copy()
                at[:, latent] = self._from_normal(moved)[:, latent]
                places.append(at[:, latent] - points[:, latent])
                values.append(self(at))
            columns.append(_slope(np.stack(places), np.stack(values), self(points)))
        return np.stack(columns, axis=2)

    def _read(self, z: ArrayLike) -> NDArray[np.float64]:
        points = finite_matrix("z", z)
        if points.shape[1] != len(self.marginals):
            raise invalid(
                "z", f"must have {len(self.marginals)} columns, one a latent", points.shape[1]
            )
        for at, law in enumerate(self.marginals):
            low, high = law.support()
            outside = int(((points[:, at] <= low) | (points[:, at] >= high)).sum())
            if outside:
                rule = f"must lie inside the prior's support, ({low:g}, {high:g}) for latent {at}"
                raise invalid("z", rule, Shown(f"{outside} outside it"))
        return points

    def _to_normal(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = []
        for at, law in enumerate(self.marginals):
            below = law.cdf(z[:, at])
            columns.append(
                np.where(below < 0.5, stats.norm.ppf(below), stats.norm.isf(law.sf(z[:, at])))
            )
        return np.stack(columns, axis=1)

    def _from_normal(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = []
        for at, law in enumerate(self.marginals):
            column = y[:, at]
            columns.append(
                np.where(
                    column < 0, law.ppf(stats.norm.cdf(column)), law.isf(stats.norm.sf(column))
                )
            )
        return np.stack(columns, axis=1)

    def _log_densities(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([law.logpdf(z[:, at]) for at, law in enumerate(self.marginals)], axis=1)


@dataclass(frozen=True)
class Impossibility:
    """What was measured: the laws agree, every factor is mixed, the score of the codes falls."""

    mapping: MixingMap
    z: NDArray[np.float64]
    """Samples of the prior `(n, latents)`."""
    mixed: NDArray[np.float64]
    """f of them."""
    log_density_gap: float
    """Largest |log p(f(z)) + log |det J(z)| - log p(z)|, with J by differences; 0 where f keeps the
    law.
    """
    jacobian_gap: float
    """Largest difference of J by differences from the closed form, as a share of its entry."""
    smallest_slope: float
    """Smallest |entry| of the Jacobian that was met."""
    marginal_p: NDArray[np.float64]
    """Of a Kolmogorov-Smirnov test of each latent of f(z) against its prior."""
    independence_p: NDArray[np.float64]
    """Of a chi-squared test that two latents of f(z) are independent, one for each pair."""
    data_p: NDArray[np.float64]
    """Of Kolmogorov-Smirnov tests that the two models' data have one law, a value each."""
    data_gap: float
    """Largest difference between decoder(z) and the other model's decoder at f(z): the same images.
    """
    mig_before: float
    mig_after: float

    @property
    def smallest_p(self) -> float:
        """The smallest of all p values times their number (Bonferroni), at most 1."""
        everything = np.concatenate([self.marginal_p, self.independence_p, self.data_p])
        return float(min(1.0, everything.min() * len(everything)))


def impossibility(
    marginals: Sequence[Any] | None = None,
    *,
    rotation: ArrayLike | None = None,
    decoder: Decoder | None = None,
    samples: int = 20_000,
    seed: int = 0,
) -> Impossibility:
    """Build f for *marginals* and measure that the theorem holds.

    By default a normal and a uniform latent.

    *decoder* makes data `(n, pixels)` from latents `(n, latents)`; a small random one by default.
    Factors for MIG are the latents `z` cut into ten values of equal probability. Codes are `z` and
    `f(z)`, each latent through its CDF, since MIG's bins of equal width would punish long tails
    although nothing is mixed.
    """
    laws = (stats.norm(), stats.uniform(-1.0, 2.0)) if marginals is None else tuple(marginals)
    _check_latents(len(laws))
    mapping = MixingMap(
        laws, mixing_reflection(len(laws)) if rotation is None else np.asarray(rotation)
    )
    read_whole("samples", samples, 1000, remedy="Fewer tell nothing about a law.")
    draws = np.random.default_rng(read_whole("seed", seed, 0))
    if decoder is None:
        decoder = _random_decoder(len(laws), draws)
    z, fresh = (
        np.stack([law.rvs(samples, random_state=draws) for law in laws], axis=1) for _ in range(2)
    )
    mixed = mapping(z)
    image = decoder(z)
    few = z[:_JACOBIANS]
    slopes, closed = mapping.numerical_jacobian(few), mapping.jacobian(few)
    change = (
        mapping.log_density(mixed[:_JACOBIANS])
        + np.linalg.slogdet(slopes)[1]
        - mapping.log_density(few)
    )
    even = mapping.uniform(mixed)
    factors = np.minimum((mapping.uniform(z) * _LEVELS).astype(np.int64), _LEVELS - 1)
    other = decoder(mapping.inverse(fresh))
    return Impossibility(
        mapping,
        z,
        mixed,
        log_density_gap=float(np.abs(change).max()),
        jacobian_gap=float(np.abs(slopes / closed - 1.0).max()),
        smallest_slope=float(np.abs(slopes).min()),
        marginal_p=np.array(
            [stats.kstest(mixed[:, at], law.cdf).pvalue for at, law in enumerate(laws)]
        ),
        independence_p=np.array(
            [
                _independence_p(even[:, pair])
                for pair in map(list, combinations(range(len(laws)), 2))
            ]
        ),
        data_p=np.array([_same_law_p(image[:, at], other[:, at]) for at in range(image.shape[1])]),
        data_gap=float(np.abs(decoder(mapping.inverse(mixed)) - image).max()),
        mig_before=mig(mapping.uniform(z), factors).score,
        mig_after=mig(even, factors).score,
    )


def _check_latents(latents: int) -> None:
    if latents < 2:
        rule = "must be at least 2: the theorem mixes them"
        raise invalid("latents", rule, latents, "A single latent has nothing to be mixed with.")


def _slope(
    places: NDArray[np.float64], values: NDArray[np.float64], middle: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Derivative at 0 of the polynomial through four uneven *places* and 0.

    *places* is `(4, n)`, *values* `(4, n, outputs)`.
    """
    total = np.zeros_like(middle)
    for at, place in enumerate(places):
        others = np.delete(places, at, axis=0)
        weight = (others / (others - place)).prod(axis=0) / place
        total += weight[:, None] * (values[at] - middle)
    return total


def _independence_p(pair: NDArray[np.float64]) -> float:
    cells = np.minimum((pair * _CELLS).astype(np.int64), _CELLS - 1)
    counts = np.bincount(cells[:, 0] * _CELLS + cells[:, 1], minlength=_CELLS**2)
    return float(stats.chisquare(counts).pvalue)


def _same_law_p(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    tested: Any = stats.ks_2samp(first, second)
    return float(tested.pvalue)


def _random_decoder(latents: int, draws: np.random.Generator) -> Decoder:
    first, second = draws.normal(size=(latents, 8)), draws.normal(size=(8, 4))
    return lambda z: np.tanh(z @ first) @ second
