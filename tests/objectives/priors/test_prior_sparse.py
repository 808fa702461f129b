# SPDX-License-Identifier: Apache-2.0
"""Spike and slab against torch's own mixture, quadrature, and its two ends γ = 0 and γ = 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unbraid.core.errors import InputError
from unbraid.objectives.hyper import stack
from unbraid.objectives.latent_terms import gaussian_log_density
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.sparse import Sparse

PRIOR = Sparse()


@given(st.floats(0.01, 0.99), st.floats(0.01, 2.0))
def test_density_is_torchs(gamma, spike):
    distributions = torch.distributions
    z = torch.linspace(-3, 3, 24, dtype=torch.float64).view(1, 12, 2)
    parts = distributions.Normal(
        torch.zeros(2).double(), torch.tensor([1.0, spike], dtype=torch.float64)
    )
    weights = distributions.Categorical(torch.tensor([1 - gamma, gamma], dtype=torch.float64))
    expected = distributions.MixtureSameFamily(weights, parts).log_prob(z).sum(dim=-1)
    assert torch.allclose(Sparse(gamma=gamma, spike=spike).log_density(z), expected, rtol=1e-10)


def test_density_integrates_to_one(integral):
    assert abs(integral(PRIOR, 10, 1, 20_001) - 1) < 1e-10
    assert abs(integral(Sparse(gamma=0.3, spike=0.3), 8, 2, 801) - 1) < 1e-10


def test_both_ends_are_normal():
    z = torch.linspace(-3, 3, 24, dtype=torch.float64).view(1, 12, 2).requires_grad_()
    assert torch.allclose(Sparse(gamma=0).log_density(z), STANDARD.log_density(z), rtol=1e-14)
    spike = Sparse(gamma=1, spike=0.5).log_density(z)
    assert torch.allclose(
        spike, torch.distributions.Normal(0.0, 0.5).log_prob(z).sum(dim=-1), rtol=1e-13
    )
    (slope,) = torch.autograd.grad(spike.sum(), [z])
    assert torch.allclose(slope, -z / 0.25, rtol=1e-12)
    (slope,) = torch.autograd.grad(Sparse(gamma=0).log_density(z).sum(), [z])
    assert torch.allclose(slope, -z, rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.8, 1.0])
def test_draws_follow_the_mixtures_distribution(gamma, draw_points, check_marginal):
    points = draw_points(Sparse(gamma=gamma), 20_000, 2)

    def distribution(values: np.ndarray) -> np.ndarray:
        return (1 - gamma) * stats.norm.cdf(values) + gamma * stats.norm.cdf(values, scale=0.05)

    for values in points.T:
        check_marginal(values, distribution)
    # Whether one latent is off says nothing about the other.
    off = (points.abs() < 0.1).double()
    if 0 < gamma < 1:
        assert abs(torch.corrcoef(off.T)[0, 1]) < 5 / 20_000**0.5


def test_kl_by_quadrature_agrees_with_draws(assert_kl_agrees_with_draws):
    mean = torch.tensor([[0.0], [0.8], [-0.1]], dtype=torch.float64)
    logvar = torch.tensor([[-5.0], [-1.0], [0.2]], dtype=torch.float64)
    line = torch.linspace(-10, 10, 200_001, dtype=torch.float64)
    log_q = gaussian_log_density(line, mean, logvar)
    log_p = PRIOR.log_density(line.view(1, -1, 1))
    known = torch.trapezoid(log_q.exp() * (log_q - log_p), line)
    assert_kl_agrees_with_draws(PRIOR, mean, logvar, known)


def test_members_have_numbers_of_their_own():
    settings = [(0.8, 0.05), (0.0, 0.1), (1.0, 0.5)]
    together = stack([Sparse(gamma=g, spike=s) for g, s in settings], dtype=torch.float64)
    z = torch.linspace(-2, 2, 36, dtype=torch.float64).view(3, 4, 3)
    alone = [Sparse(gamma=g, spike=s).log_density(z)[k] for k, (g, s) in enumerate(settings)]
    assert torch.allclose(together.log_density(z), torch.stack(alone), rtol=1e-13)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"gamma": -0.1}, "sparse: gamma must be at least 0; got -0.1."),
        ({"gamma": 1.5}, "sparse: gamma must be at most 1; got 1.5."),
        ({"spike": 0}, "sparse: spike must be above 0; got 0."),
    ],
)
def test_nonsense_is_refused_by_name(options, told):
    with pytest.raises(InputError) as caught:
        Sparse(**options)
    assert str(caught.value) == told
