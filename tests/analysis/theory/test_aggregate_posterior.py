# SPDX-License-Identifier: Apache-2.0
"""The aggregate posterior against kernel density estimates, closed forms and mixtures that are
known.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

import unbraid.analysis.theory.aggregate_posterior as module
from unbraid.analysis.theory.aggregate_posterior import (
    centre_shares,
    density_on_grid,
    groups_kept,
    inclusive_kl,
    log_density,
    nearest_centre,
    prior_points,
)
from unbraid.core.errors import InputError
from unbraid.objectives.priors.anisotropic import Anisotropic
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.mixture import Mixture

GENERATOR = np.random.default_rng(0)
MEAN, LOGVAR = GENERATOR.normal(size=(30, 2)), GENERATOR.normal(size=(30, 2)) - 1
CENTRES = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def test_density_is_the_mean_of_the_posteriors():
    points = GENERATOR.normal(size=(7, 2))
    each = stats.norm.pdf(points[:, None], MEAN, np.exp(0.5 * LOGVAR)).prod(axis=2)
    assert log_density(points, MEAN, LOGVAR) == pytest.approx(np.log(each.mean(axis=1)), rel=1e-12)


def test_equal_posteriors_are_a_kernel_density_estimate():
    # scipy's kernel is the data's covariance times a factor; data of unit covariance makes it
    # isotropic.
    data = GENERATOR.normal(size=(40, 2))
    data = (data - data.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(data.T))).T
    points = GENERATOR.normal(size=(9, 2))
    peer = stats.gaussian_kde(data.T, bw_method=0.3)(points.T)
    assert np.exp(
        log_density(points, data, np.full_like(data, 2 * math.log(0.3)))
    ) == pytest.approx(peer, rel=1e-9)


def test_few_pairs_at_once_change_nothing(monkeypatch):
    points = GENERATOR.normal(size=(50, 2))
    whole = log_density(points, MEAN, LOGVAR)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 100)
    assert log_density(points, MEAN, LOGVAR) == pytest.approx(whole, rel=1e-13)


def test_grid_density_has_the_mass_one_and_its_axes_in_order():
    line = np.linspace(-9, 9, 301)
    density = density_on_grid(MEAN, LOGVAR, line)
    assert np.trapezoid(np.trapezoid(density, line), line) == pytest.approx(1.0, rel=1e-6)
    at = np.exp(log_density([[line[200], line[120]]], MEAN, LOGVAR))[0]
    assert density[120, 200] == pytest.approx(at)


def test_inclusive_kl_of_one_posterior_is_the_closed_form():
    prior = Anisotropic(variances=(2.0, 0.5))
    found = inclusive_kl(prior, np.array([[0.5, -0.2]]), np.array([[0.3, -0.4]]), points=20_000)
    p = torch.distributions.Normal(torch.zeros(2), torch.tensor([2.0, 0.5]).sqrt())
    q = torch.distributions.Normal(
        torch.tensor([0.5, -0.2]), torch.exp(0.5 * torch.tensor([0.3, -0.4]))
    )
    assert (
        abs(found.nats - torch.distributions.kl_divergence(p, q).sum().item())
        < 4 * found.standard_error
    )
    assert found.standard_error < 0.02


def test_posteriors_that_make_up_the_prior_have_no_kl():
    found = inclusive_kl(Mixture(), CENTRES, np.full((4, 2), math.log(0.03)))
    assert found.nats == pytest.approx(0.0, abs=1e-10)
    assert inclusive_kl(Mixture(), CENTRES[:3], np.full((3, 2), math.log(0.03))).nats > 1


def test_prior_points_are_repeatable_and_of_the_prior():
    points = prior_points(STANDARD, 20_000, 2, seed=4)
    assert np.array_equal(points, prior_points(STANDARD, 20_000, 2, seed=4))
    assert not np.array_equal(points, prior_points(STANDARD, 20_000, 2, seed=5))
    assert stats.kstest(points[:, 1], stats.norm.cdf).pvalue > 1e-4


def test_shares_count_the_nearest_centre():
    z = np.array([[0.9, 0.1], [0.8, -0.2], [0.1, 2.0], [-3.0, 0.5]])
    assert nearest_centre(z, CENTRES).tolist() == [0, 0, 1, 2]
    assert centre_shares(z, CENTRES).tolist() == [0.5, 0.25, 0.25, 0.0]


def test_groups_are_kept_whichever_centre_each_has():
    z = np.repeat(CENTRES, 10, axis=0) + 0.1 * GENERATOR.normal(size=(40, 2))
    groups = np.repeat([2, 0, 3, 1], 10)
    assert groups_kept(z, groups, CENTRES) == 1.0
    # Two groups on one centre: only one of them can have it.
    merged = z.copy()
    merged[:10] = merged[10:20]
    assert groups_kept(merged, groups, CENTRES) == 0.75
    assert groups_kept(np.zeros((40, 2)), groups, CENTRES) == 0.25


def test_nonsense_is_refused_by_name():
    told = {
        "mean and logvar must both have the shape (n, latents); got shapes (30, 2) and (3, 2).": (
            lambda: log_density(MEAN, MEAN, LOGVAR[:3])
        ),
        "points must have the shape (m, 2); got shape (4,).": lambda: log_density(
            [1, 2, 3, 4], MEAN, LOGVAR
        ),
        "points must be a whole number in 2..10000000; got 1.": lambda: inclusive_kl(
            STANDARD, MEAN, LOGVAR, points=1
        ),
        "latents and centres must have the shapes (n, latents) and (k, latents); got shapes (30, "
        "2) and (4, 1).": lambda: centre_shares(MEAN, CENTRES[:, :1]),
        "groups must have one number for each latent vector; got shape (3,).": lambda: groups_kept(
            MEAN, [0, 1, 2], CENTRES
        ),
    }
    for line, call in told.items():
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == line
