# SPDX-License-Identifier: Apache-2.0
"""Draws from priors, and integrals over them, that the tests of all priors share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.objectives.priors.prior import UNIFORMS, Prior

Draw = Callable[..., torch.Tensor]


@pytest.fixture(scope="session")
def draw_points() -> Draw:
    """Points `(n, latents)` of a prior, from uniform numbers made as training makes them."""

    def draw(prior: Prior, count: int, latents: int, seed: int = 0) -> torch.Tensor:
        uniform = (
            random.uniform(torch.tensor([seed]), 0, Stream.PRIOR_POINTS, (count, latents, UNIFORMS))
            + 2.0**-25
        )
        return prior.sample(uniform.double())[0]

    return draw


@pytest.fixture(scope="session")
def check_marginal() -> Callable[..., None]:
    """Kolmogorov-Smirnov: draws of one latent against a distribution function; one in 10,000 right
    samples would fail.
    """

    def check(values: torch.Tensor, distribution: Callable[[np.ndarray], np.ndarray]) -> None:
        assert stats.kstest(values.numpy(), distribution).pvalue > 1e-4

    return check


@pytest.fixture(scope="session")
def assert_kl_agrees_with_draws() -> Callable[..., None]:
    """The mean of `kl_by_draws` over many draws of given posteriors against a known KL, within 4
    standard errors.
    """

    def check(
        prior: Prior,
        mean: torch.Tensor,
        logvar: torch.Tensor,
        known: torch.Tensor,
        draws: int = 40_000,
    ) -> None:
        noise = random.normal(
            torch.tensor([3]), 0, Stream.LATENT_NOISE, (draws, mean.shape[-1])
        ).double()
        for centre, spread, expected in zip(mean, logvar, known, strict=True):
            z = centre + torch.exp(0.5 * spread) * noise
            values = prior.kl_by_draws(centre.expand_as(z), spread.expand_as(z), z)[0]
            error = values.std() / draws**0.5
            assert abs(values.mean() - expected) < 4 * error + 1e-9, (
                values.mean(),
                expected,
                error,
            )

    return check


@pytest.fixture(scope="session")
def integral() -> Callable[..., float]:
    """Trapezoidal integral of exp log p over a box of one or two latents."""

    def integrate(prior: Prior, reach: float, latents: int, cells: int) -> float:
        line = torch.linspace(-reach, reach, cells, dtype=torch.float64)
        if latents == 1:
            density = prior.log_density(line.view(1, -1, 1)).exp()[0]
            return float(torch.trapezoid(density, line))
        grid = torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1).view(1, -1, 2)
        density = prior.log_density(grid).exp().view(cells, cells)
        return float(torch.trapezoid(torch.trapezoid(density, line), line))

    return integrate
