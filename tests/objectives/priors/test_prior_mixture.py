# SPDX-License-Identifier: Apache-2.0
"""The mixture of clusters against torch's own mixture, quadrature and its moments."""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.objectives.hyper import stack
from unbraid.objectives.latent_terms import gaussian_log_density
from unbraid.objectives.priors.mixture import Mixture

PRIOR = Mixture()


def torchs(prior, latents):
    distributions = torch.distributions
    angles = 2 * math.pi * torch.arange(prior.components, dtype=torch.float64) / prior.components
    centres = torch.zeros(prior.components, latents, dtype=torch.float64)
    centres[:, 0], centres[:, 1] = prior.radius * angles.cos(), prior.radius * angles.sin()
    clusters = distributions.Independent(distributions.Normal(centres, prior.variance**0.5), 1)
    return distributions.MixtureSameFamily(
        distributions.Categorical(torch.ones(prior.components).double()), clusters
    )


@pytest.mark.parametrize(
    ("prior", "latents"),
    [(PRIOR, 2), (PRIOR, 5), (Mixture(components=3, radius=2.0, variance=0.5), 3)],
)
def test_density_is_torchs(prior, latents):
    z = torch.linspace(-3, 3, 12 * latents, dtype=torch.float64).view(1, 12, latents)
    assert torch.allclose(prior.log_density(z), torchs(prior, latents).log_prob(z), rtol=1e-12)


def test_density_integrates_to_one(integral):
    assert abs(integral(PRIOR, 4, 2, 801) - 1) < 1e-10


def test_four_centres_lie_on_the_axes():
    centres = PRIOR.centres(torch.zeros(1, dtype=torch.float64))
    assert centres.tolist() == [[1, 0], [0, 1], [-1, 0], [0, -1]]
    # Between two of four centres at distance sqrt(2) both count alike; the other two are far.
    middle = torch.tensor([[[0.5, 0.5]]], dtype=torch.float64)
    alone = (
        gaussian_log_density(middle, centres[:1], torch.tensor(math.log(0.03), dtype=torch.float64))
        .sum()
        .item()
    )
    assert PRIOR.log_density(middle).item() == pytest.approx(alone - math.log(2), abs=1e-6)


def test_draws_fall_into_the_clusters_alike_with_their_spread(draw_points):
    count = 20_000
    points = draw_points(PRIOR, count, 3)
    centres = torch.cat([PRIOR.centres(points), torch.zeros(4, 1, dtype=torch.float64)], dim=1)
    nearest = torch.cdist(points, centres).argmin(dim=1)
    shares = torch.bincount(nearest, minlength=4) / count
    assert (shares - 0.25).abs().max() < 5 * (0.25 * 0.75 / count) ** 0.5
    for cluster in range(4):
        own = points[nearest == cluster] - centres[cluster]
        assert own.mean(dim=0).abs().max() < 5 * (0.03 / len(own)) ** 0.5
        assert (own.var(dim=0) / 0.03 - 1).abs().max() < 5 * (2 / len(own)) ** 0.5


def test_kl_of_a_cluster_is_log_four_and_agrees_with_draws(assert_kl_agrees_with_draws):
    """A posterior equal to one cluster: KL = log 4 − E[log(1 + what the others add)], the latter
    below 1e-6 here.
    """
    mean = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    logvar = torch.full((1, 2), math.log(0.03), dtype=torch.float64)
    assert_kl_agrees_with_draws(
        PRIOR, mean, logvar, torch.tensor([math.log(4)], dtype=torch.float64)
    )


def test_kl_by_quadrature_agrees_with_draws(assert_kl_agrees_with_draws):
    prior = Mixture(variance=0.3)
    mean, logvar = (
        torch.tensor([[0.4, -0.2]], dtype=torch.float64),
        torch.tensor([[-1.0, 0.3]], dtype=torch.float64),
    )
    line = torch.linspace(-9, 9, 1201, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1).view(1, -1, 2)
    log_q = gaussian_log_density(grid, mean, logvar).sum(dim=-1)
    inside = (log_q.exp() * (log_q - prior.log_density(grid))).view(1201, 1201)
    assert_kl_agrees_with_draws(
        prior, mean, logvar, torch.trapezoid(torch.trapezoid(inside, line), line).unsqueeze(0)
    )


def test_members_have_radii_and_variances_of_their_own():
    settings = [(1.0, 0.03), (2.0, 0.5), (0.3, 1.0)]
    together = stack([Mixture(radius=r, variance=v) for r, v in settings], dtype=torch.float64)
    z = torch.linspace(-2, 2, 36, dtype=torch.float64).view(3, 4, 3)
    alone = [Mixture(radius=r, variance=v).log_density(z)[k] for k, (r, v) in enumerate(settings)]
    assert torch.allclose(together.log_density(z), torch.stack(alone), rtol=1e-13)


def test_latents_depend_on_each_other_and_one_is_too_few():
    assert not PRIOR.factorised
    assert PRIOR.problems(2) == []
    (problem,) = PRIOR.problems(1)
    assert (problem.name, problem.value) == ("mixture", 1)
    assert problem.rule == "needs at least 2 latents, the plane of its clusters"
    assert problem.remedy == "Train with more latents, or use the prior isotropic."


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"components": 1}, "mixture: components must be at least 2; got 1."),
        ({"components": 1001}, "mixture: components must be at most 1000; got 1001."),
        ({"components": 2.5}, "mixture: components must be a whole number; got 2.5."),
        ({"radius": 0}, "mixture: radius must be above 0; got 0."),
        ({"variance": -0.1}, "mixture: variance must be above 0; got -0.1."),
    ],
)
def test_nonsense_is_refused_by_name(options, told):
    with pytest.raises(InputError) as caught:
        Mixture(**options)
    assert str(caught.value) == told
