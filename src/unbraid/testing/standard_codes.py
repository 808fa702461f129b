# SPDX-License-Identifier: Apache-2.0
"""Eight kinds of code that everybody has an opinion about, and what a metric says of them.

They are drawn over one small grid, so that scores can be compared: what perfect, rotated,
duplicated, missing, noisy and warped codes get, perfect codes with dead latents beside them, and
codes that have nothing to do with the factors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.grid import FactorGrid
from unbraid.metrics import METRICS

GRID = FactorGrid(("shape", "size", "angle", "place"), (3, 5, 6, 8))
KINDS = {
    "perfect": "each factor in a latent of its own, at its own scale",
    "rotated": "the same, turned by a random rotation: nothing is lost, nothing is aligned",
    "duplicated": "each factor in two latents of different scale",
    "missing": "perfect, but nothing knows the third factor",
    "noisy": "perfect with noise of half a factor's deviation",
    "warped": "perfect, each latent bent by another monotone function",
    "dead": "perfect, beside three latents that hardly vary",
    "unrelated": "noise: what chance scores",
}
TRAIN, TEST = 1_000, 500
POSTERIOR_DEVIATION = 0.1
MODELS = 3


def standard_codes(
    kind: str, factors: NDArray[np.int64], seed: int = 0, rotation: int = 0
) -> NDArray[np.float64]:
    """Codes of *kind* for factor values `(n, 4)` of `GRID`, with noise and rotation by number."""
    sizes = np.array(GRID.sizes)
    # Mean 0 and variance 1 over the grid.
    unit = (factors - (sizes - 1) / 2) / np.sqrt((sizes**2 - 1) / 12)
    noise = np.random.default_rng(seed).normal(size=(len(factors), 7))
    scaled = unit * [1.0, 0.5, 2.0, 1.5]
    match kind:
        case "perfect":
            return scaled
        case "rotated":
            return unit @ _rotation(rotation).T
        case "duplicated":
            return np.concatenate([scaled, -0.7 * unit], axis=1)
        case "missing":
            return np.delete(scaled, 2, axis=1)
        case "noisy":
            return scaled + 0.5 * scaled.std(axis=0) * noise[:, :4]
        case "warped":
            bent = (
                np.sinh(1.5 * unit[:, 0]),
                np.exp(unit[:, 1]),
                unit[:, 2] ** 3,
                np.tanh(2 * unit[:, 3]),
            )
            return np.stack(bent, axis=1)
        case "dead":
            return np.concatenate([scaled, 1e-3 * noise[:, 4:]], axis=1)
        case _:
            return noise[:, :4]


def _rotation(number: int) -> NDArray[np.float64]:
    return np.linalg.qr(np.random.default_rng([5, number]).normal(size=(4, 4)))[0]


def arguments(needs: str, kind: str) -> tuple[Any, ...]:
    """What a metric of the kind *needs* is called with.

    Posteriors have a deviation of 0.1 where a latent lives and are the prior where it is dead;
    three models that are compared order their latents differently and have rotations and noise of
    their own; reconstructions are taken to be perfect (0 nats).
    """
    generator = np.random.default_rng(11)
    factors, test_factors = (
        GRID.to_factors(generator.integers(GRID.size, size=rows)) for rows in (TRAIN, TEST)
    )
    codes = standard_codes(kind, factors)
    match needs:
        case "codes":
            return (codes,)
        case "sample":
            return codes, factors
        case "split":
            return codes, factors, standard_codes(kind, test_factors, 1), test_factors
        case "grid":
            return standard_codes(kind, GRID.to_factors(np.arange(GRID.size))), GRID
        case "population":
            models = [standard_codes(kind, factors, seed, rotation=seed) for seed in range(MODELS)]
            orders = [generator.permutation(codes.shape[1]) for _ in models]
            kl = 0.5 * (
                codes.var(axis=0)
                + _posterior_variance(codes)
                - np.log(_posterior_variance(codes))
                - 1.0
            )
            turned = [
                model[:, order] * (-1.0) ** place
                for place, (model, order) in enumerate(zip(models, orders, strict=True))
            ]
            return np.stack(turned), np.stack([kl[order] for order in orders])
        case _:
            logvar = np.tile(np.log(_posterior_variance(codes)), (len(codes), 1))
            return (codes, logvar, np.zeros(len(codes))) if needs == "elbo" else (codes, logvar)


def _posterior_variance(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(codes.std(axis=0) > 0.01, POSTERIOR_DEVIATION**2, 1.0)


def behaviour(
    name: str, kinds: Iterable[str] = tuple(KINDS), **options: object
) -> dict[str, float]:
    """The score of metric *name*, called with *options*, for each of the *kinds* of code."""
    metric = METRICS.load(name)
    return {kind: metric(*arguments(metric.needs, kind), **options).score for kind in kinds}
