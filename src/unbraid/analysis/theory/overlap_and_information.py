# SPDX-License-Identifier: Apache-2.0
"""The information of latents is no measure of overlap (Mathieu et al. 2019, equation 5).

Encoders q(z|x_i) = λ Uniform(|z − μ_i| < r) + (1 − λ) p(z), n points μ_i apart by more than 2 r. A
draw tells its sample where it falls into the ball, which happens with probability λ, and nothing
elsewhere. So I(x; z) takes any value between 0 and log n with λ, while the balls, all that tells
samples apart, never overlap: neighbouring latents mean unrelated samples, however little they tell.
Normal posteriors of the same information lie in each other.

With small balls the information is exact: inside a ball p is taken as constant, and I(x; z) = λ
log(q_in / q̄_in) + what the prior's part loses in the balls of others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from unbraid.core.checks import read_whole
from unbraid.metrics import posterior_overlap

Array = NDArray[np.float64]
RADIUS = 1e-3
SAMPLES = 64
_DRAWS = 6_400


@dataclass(frozen=True)
class OverlapAndInformation:
    """What λ does to information and overlap, beside normal posteriors of equal information."""

    shares: Array
    """λ."""
    information: Array
    """I(x; z) of the balls in nats, at each λ."""
    ball_overlap: Array
    """Share of a ball's probability that lies in another sample's ball."""
    widths: Array
    """Standard deviation of normal posteriors with the same information."""
    normal_information: Array
    """Theirs, by draws."""
    normal_overlap: Array
    """Their overlap with the neighbour (`metrics.posterior_overlap`)."""
    most: float
    """Log n, beyond which no information can be."""


def overlap_and_information(
    *, seed: int = 0, samples: int = SAMPLES, radius: float = RADIUS, steps: int = 9
) -> OverlapAndInformation:
    """Both families of encoders, λ from nearly 0 to nearly 1, means drawn from the prior."""
    generator = np.random.default_rng(read_whole("seed", seed, 0, 2**31 - 1))
    means = _apart(generator, read_whole("samples", samples, 2, 1_000), 4 * radius)
    shares = np.linspace(0.01, 0.99, read_whole("steps", steps, 2, 100))
    information = np.array([ball_information(share, means, radius) for share in shares])
    noise = generator.normal(size=(_DRAWS, 2))
    widths = np.array([_width_for(nats, means, noise) for nats in information])
    overlaps = [_normal_overlap(means, width) for width in widths]
    return OverlapAndInformation(
        shares=shares,
        information=information,
        ball_overlap=np.array([_ball_overlap(means, radius)] * len(shares)),
        widths=widths,
        normal_information=np.array([normal_information(means, one, noise) for one in widths]),
        normal_overlap=np.array(overlaps),
        most=math.log(len(means)),
    )


def ball_information(share: float, means: Array, radius: float) -> float:
    """I(x; z) in nats of encoders with a ball of *radius* around each of *means* `(n, 2)`."""
    count, area = len(means), math.pi * radius**2
    prior = (1 - share) * np.exp(-0.5 * np.square(means).sum(axis=1)) / (2 * math.pi)
    inside, every = share / area + prior, share / (count * area) + prior
    own = (inside * area * np.log(inside / every)).sum()
    others = ((count - 1) * prior * area * np.log(prior / every)).sum()
    return float((own + others) / count)


def normal_information(means: Array, width: float, noise: Array) -> float:
    """I(x; z) in nats of normal posteriors of one *width* around *means*, at draws with *noise*."""
    chosen = np.arange(len(noise)) % len(means)
    z = means[chosen] + width * noise
    away = np.square(z[:, None] - means).sum(axis=-1) / (2 * width**2)
    own = away[np.arange(len(z)), chosen]
    least = away.min(axis=1)
    joint = np.log(np.exp(least[:, None] - away).mean(axis=1)) - least
    return float((-own - joint).mean())


def _apart(generator: np.random.Generator, count: int, distance: float) -> Array:
    """Points of the standard normal, none nearer to another than *distance*."""
    points = generator.normal(size=(1, 2))
    while len(points) < count:
        new = generator.normal(size=(1, 2))
        if np.square(points - new).sum(axis=1).min() > distance**2:
            points = np.concatenate([points, new])
    return points


def _width_for(nats: float, means: Array, noise: Array) -> float:
    """The width at which normal posteriors have so many *nats*."""

    def gap(log_width: float) -> float:
        return normal_information(means, math.exp(log_width), noise) - nats

    return math.exp(brentq(gap, math.log(1e-3), math.log(1e3), xtol=1e-4))  # pyright: ignore


def _normal_overlap(means: Array, width: float) -> float:
    return posterior_overlap(means, np.full(means.shape, 2 * math.log(width))).score


def _ball_overlap(means: Array, radius: float) -> float:
    """Mean over balls of the largest share of one that lies in another: what two circles share."""
    distance = np.sqrt(np.square(means[:, None] - means).sum(axis=-1))
    half = np.clip(distance / (2 * radius), 0.0, 1.0)
    share = 2 / math.pi * (np.arccos(half) - half * np.sqrt(1 - half**2))
    np.fill_diagonal(share, 0.0)
    return float(share.max(axis=1).mean())
