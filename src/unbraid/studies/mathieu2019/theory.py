# SPDX-License-Identifier: Apache-2.0
"""Claims that need no models: both theorems, the objective, information beside overlap."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import exactly

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEDS = range(2)
BETAS = (1.0, 8.0)
"""Of the second theorem."""
ANGLES = 19
SETTINGS = ((1.0, 0.0), (0.0, 1.0), (4.0, 8.0))
"""β and α of the objective."""


def annealed_prior(table: pd.DataFrame) -> Finding | None:
    """MAT-TH1: both sides of theorem 1."""
    return _annealed_prior()


@functools.cache
def _annealed_prior() -> Finding:
    from unbraid.analysis.theory.beta_vae_theorems import theorem_one

    found = [theorem_one(seed=seed) for seed in SEEDS]
    first = found[0]
    parts = [
        pd.DataFrame({"x": first.betas, "y": y, "group": name})
        for name, y in (("L of beta", first.left), ("its three parts", first.right))
    ]
    gap = max(one.largest_gap for one in found)
    return Finding(
        (exactly("largest difference of both sides, nats", gap, len(found)),),
        Exhibit("lines", pd.concat(parts, ignore_index=True), "beta", "nats",
                "Both sides of the theorem, which lie on each other.", logarithmic=("x",)),
    )  # fmt: skip


def rotations(table: pd.DataFrame) -> Finding | None:
    """MAT-TH2: turning the latents, with full and with diagonal covariances."""
    return _rotations()


@functools.cache
def _rotations() -> Finding:
    from threadpoolctl import threadpool_limits

    from unbraid.analysis.theory.beta_vae_theorems import theorem_two

    with threadpool_limits(1):  # of such small matrices each other thread only costs
        found = [
            theorem_two(beta=beta, angles=ANGLES, seed=seed) for beta in BETAS for seed in SEEDS
        ]
    first = found[0]
    parts = [
        pd.DataFrame({"x": first.degrees, "y": y, "group": name})
        for name, y in (("full covariance", first.full), ("diagonal", first.diagonal))
    ]
    count = len(found)
    return Finding(
        (
            exactly(
                "largest change with full covariance, nats",
                max(one.full_gap for one in found),
                count,
            ),
            exactly(
                "smallest loss with diagonal covariance, nats",
                min(one.diagonal_loss for one in found),
                count,
            ),
            exactly(
                "largest change of a diagonal one by swaps and flips, nats",
                max(one.permutation_gap for one in found),
                count,
            ),
        ),
        Exhibit("lines", pd.concat(parts, ignore_index=True), "angle, degrees", "L, nats",
                "The objective against the angle by which latents are turned."),
    )  # fmt: skip


def objective(table: pd.DataFrame) -> Finding | None:
    """MAT-OBJ: the loss that is minimised beside its formula, written with NumPy alone."""
    return _objective()


@functools.cache
def _objective() -> Finding:
    gaps = [_gap(beta, alpha, seed) for beta, alpha in SETTINGS for seed in SEEDS]
    return Finding((exactly("largest difference of the loss, nats", max(gaps), len(gaps)),))


def _gap(beta: float, alpha: float, seed: int) -> float:
    """How far our loss is from -E log p(x|z) + β KL(q || p) + α D, D the inclusive KL."""
    import torch

    from unbraid.objectives.decomposition import Decomposition
    from unbraid.objectives.objective import Forward, total_loss

    generator = np.random.default_rng(seed)
    mean, logvar, noise, points = generator.normal(size=(4, 12, 3))
    nats, z = generator.uniform(10, 20, 12), mean + np.exp(0.5 * logvar) * noise
    tensors = [torch.from_numpy(part)[None] for part in (nats, mean, logvar, z, points)]
    forward = Forward(*tensors[:4], step=torch.zeros(()), prior_points=tensors[4])
    ours = float(total_loss(Decomposition(beta=beta, alpha=alpha).terms(forward))[0])
    return abs(ours - _by_formula(nats, mean, logvar, points, beta, alpha))


def _by_formula(
    nats: NDArray[np.float64],
    mean: NDArray[np.float64],
    logvar: NDArray[np.float64],
    points: NDArray[np.float64],
    beta: float,
    alpha: float,
) -> float:
    from scipy import stats

    deviation = np.exp(0.5 * logvar)
    kl = 0.5 * (mean**2 + deviation**2 - 1 - logvar).sum(axis=1).mean()
    inclusive = [
        stats.norm.logpdf(point).sum()
        - np.log(np.mean([stats.norm.pdf(point, m, s).prod()
                          for m, s in zip(mean, deviation, strict=True)]))
        for point in points
    ]  # fmt: skip
    return float(nats.mean() + beta * kl + alpha * np.mean(inclusive))


def information(table: pd.DataFrame) -> Finding | None:
    """MAT-E5: encoders of any information whose informative parts never overlap."""
    return _information()


@functools.cache
def _information() -> Finding:
    from unbraid.analysis.theory.overlap_and_information import overlap_and_information

    found = [overlap_and_information(seed=seed, steps=5) for seed in SEEDS]
    first, count = found[0], len(found)
    reach = np.array([one.information / one.most for one in found])
    half = int(np.abs(reach[0] - 0.5).argmin())
    parts = [
        pd.DataFrame({"x": first.information, "y": y, "group": name})
        for name, y in (("balls", first.ball_overlap), ("normal", first.normal_overlap))
    ]
    return Finding(
        (
            exactly("least information, of log n", float(reach[:, 0].max()), count),
            exactly("most information, of log n", float(reach[:, -1].min()), count),
            exactly(
                "largest overlap of balls", max(float(one.ball_overlap.max()) for one in found),
                count,
            ),
            exactly(
                "overlap of normal posteriors with half of it",
                min(float(one.normal_overlap[half]) for one in found),
                count,
            ),
        ),
        Exhibit("lines", pd.concat(parts, ignore_index=True), "I(x; z), nats",
                "overlap with the neighbour",
                "Encoders with equal information: those with balls never overlap."),
    )  # fmt: skip
