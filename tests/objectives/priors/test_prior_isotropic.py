# SPDX-License-Identifier: Apache-2.0
"""The standard normal prior against torch's own distribution, and its closed KL against draws."""

from __future__ import annotations

import torch
from scipy import stats

from unbraid.objectives.latent_terms import gaussian_kl
from unbraid.objectives.priors.isotropic import STANDARD


def test_density_is_torchs():
    z = torch.linspace(-5, 5, 60, dtype=torch.float64).view(2, 10, 3)
    expected = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(dim=-1)
    assert torch.allclose(STANDARD.log_density(z), expected, rtol=1e-14)


def test_density_integrates_to_one(integral):
    assert abs(integral(STANDARD, 10, 1, 4001) - 1) < 1e-12
    assert abs(integral(STANDARD, 8, 2, 401) - 1) < 1e-12


def test_draws_are_standard_normal_and_independent(draw_points, check_marginal):
    points = draw_points(STANDARD, 20_000, 3)
    for values in points.T:
        check_marginal(values, stats.norm.cdf)
    assert (torch.corrcoef(points.T) - torch.eye(3)).abs().max() < 5 / 20_000**0.5


def test_closed_kl_agrees_with_draws(assert_kl_agrees_with_draws):
    mean = torch.tensor([[0.0, 0.0], [1.5, -0.3]], dtype=torch.float64)
    logvar = torch.tensor([[0.0, 0.0], [-2.0, 1.0]], dtype=torch.float64)
    assert torch.equal(STANDARD.kl(mean, logvar, mean), gaussian_kl(mean, logvar))
    assert_kl_agrees_with_draws(STANDARD, mean, logvar, gaussian_kl(mean, logvar))


def test_it_is_the_standard_and_has_a_variance():
    assert STANDARD.standard
    assert STANDARD.factorised
    assert STANDARD.finite_variance
    assert STANDARD.weights(3) == ()
    assert STANDARD.problems(1) == []
