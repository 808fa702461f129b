# SPDX-License-Identifier: Apache-2.0
"""InfoVAE's three terms by hand, against scikit-learn's kernel and a closed form, and where it is
the VAE and the β-VAE.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from unbraid.core.errors import InputError
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.hyper import stack
from unbraid.objectives.info_vae import InfoVAE
from unbraid.objectives.objective import Forward, Setting, total_loss
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.schedule import linear
from unbraid.objectives.vae import VAE

SETTING = Setting(latents=4, sample_shape=(1, 16, 16))


def points(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_mmd_of_two_points_by_hand(make_forward):
    # Codes 0 and 2, prior points 0 and 1, one latent: the kernel is exp(−d²).
    z = torch.tensor([[[0.0], [2.0]]], dtype=torch.float64)
    prior = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
    forward = make_forward(members=1, batch=2, latents=1, z=z, prior_points=prior)
    expected = (
        math.exp(-4) + math.exp(-1) - 2 * (1 + math.exp(-1) + math.exp(-4) + math.exp(-1)) / 4
    )
    assert InfoVAE().terms(forward)["mmd"].value.item() == pytest.approx(expected, rel=1e-12)


def test_mmd_against_the_kernel_of_scikit_learn(make_forward):
    forward = make_forward(prior_points=points(3, 8, 4))
    found = InfoVAE(bandwidth=0.3).terms(forward)["mmd"].value
    gamma = 1.0 / (0.3 * 4**2)
    for member in range(3):
        z, prior = forward.z[member].numpy(), forward.prior_points[member].numpy()
        within = [(np.sum(rbf_kernel(x, x, gamma)) - 8) / (8 * 7) for x in (z, prior)]
        assert found[member].item() == pytest.approx(
            sum(within) - 2 * rbf_kernel(z, prior, gamma).mean(), rel=1e-10
        )


def test_mmd_has_the_mean_of_its_closed_form(make_forward):
    # E exp(−‖x − y‖² / D²) = (1 + 2 (a² + b²) / D²)^(−D/2) for x of deviation a, y of deviation b;
    # the estimate is unbiased.
    members, batch, latents, spread = 3000, 16, 3, 1.7
    z, prior = (
        spread * points(members, batch, latents, seed=2),
        points(members, batch, latents, seed=3),
    )
    forward = make_forward(members=members, batch=batch, latents=latents, z=z, prior_points=prior)
    found = InfoVAE().terms(forward)["mmd"].value

    def similarity(a: float, b: float) -> float:
        return (1 + 2 * (a**2 + b**2) / latents**2) ** (-latents / 2)

    expected = similarity(spread, spread) + similarity(1, 1) - 2 * similarity(spread, 1)
    error = found.std().item() / math.sqrt(members)
    assert expected > 5 * error  # the test can tell it from 0
    assert found.mean().item() == pytest.approx(expected, abs=4 * error)


def test_departure_from_the_authors_estimate_is_as_stated(make_forward):
    # Theirs counts each point with itself: within-sample means are (1 − 1/n) of ours plus 1/n.
    forward = make_forward(prior_points=points(3, 8, 4))
    ours = InfoVAE().terms(forward)["mmd"].value
    for member in range(3):
        z, prior = forward.z[member].numpy(), forward.prior_points[member].numpy()
        kernels = [rbf_kernel(a, b, 1.0 / 4**2) for a, b in ((z, z), (prior, prior), (z, prior))]
        theirs = kernels[0].mean() + kernels[1].mean() - 2 * kernels[2].mean()
        within = [(kernel.sum() - 8) / (8 * 7) for kernel in kernels[:2]]
        assert theirs == pytest.approx(
            ours[member].item() + sum((1 - one) / 8 for one in within), rel=1e-10
        )
        assert 0 < theirs - ours[member].item() < 2 / 8


def test_alpha_zero_lambda_one_is_the_vae(make_forward):
    forward = make_forward(prior_points=points(3, 8, 4))
    assert torch.allclose(
        total_loss(InfoVAE(alpha=0, lambda_prior=1).terms(forward)),
        total_loss(VAE().terms(forward)),
        rtol=1e-14,
    )


@settings(max_examples=25)
@given(beta=st.floats(0, 50))
def test_alpha_of_one_less_lambda_is_the_beta_vae(fixed_forward, beta):
    forward = fixed_forward
    info, plain = InfoVAE(alpha=1 - beta, lambda_prior=beta), BetaVAE(beta=beta)
    assert torch.allclose(
        total_loss(info.terms(forward)), total_loss(plain.terms(forward)), rtol=1e-12
    )


@pytest.fixture(scope="module")
def fixed_forward():
    mean, logvar, noise = (points(3, 8, 4, seed=seed) for seed in (4, 5, 6))
    z = mean + torch.exp(0.5 * logvar) * noise
    step = torch.tensor(0.0, dtype=torch.float64)
    return Forward(50 + points(3, 8), mean, logvar, z, step, prior_points=points(3, 8, 4, seed=7))


def test_weights_of_the_terms(make_forward):
    terms = InfoVAE(alpha=0.25, lambda_prior=10).terms(make_forward(prior_points=points(3, 8, 4)))
    assert tuple(terms) == InfoVAE.term_names
    assert [term.weight for term in terms.values()] == [1.0, 0.75, 9.25]


@settings(max_examples=25)
@given(order=st.permutations(range(8)), other=st.permutations(range(8)))
def test_the_order_of_a_batch_does_not_matter(fixed_forward, order, other):
    forward = fixed_forward
    moved = replace(
        forward, z=forward.z[:, list(order)], prior_points=forward.prior_points[:, list(other)]
    )
    same, turned = (InfoVAE().terms(one)["mmd"].value for one in (forward, moved))
    assert torch.allclose(same, turned, rtol=1e-10, atol=1e-14)


def test_members_with_numbers_of_their_own(make_forward):
    forward = make_forward(prior_points=points(3, 8, 4))
    objectives = [
        InfoVAE(alpha=a, lambda_prior=v, bandwidth=w)
        for a, v, w in ((0, 50, 1), (1, 5, 0.1), (-3, 10, 4))
    ]
    together = total_loss(stack(objectives, dtype=torch.float64).terms(forward))
    alone = torch.stack([total_loss(one.terms(forward))[k] for k, one in enumerate(objectives)])
    assert torch.allclose(together, alone, rtol=1e-13)


def test_gradient_draws_far_codes_to_the_prior(make_forward):
    z = (points(1, 64, 2) + 3.0).requires_grad_()
    forward = make_forward(
        members=1, batch=64, latents=2, z=z, prior_points=points(1, 64, 2, seed=9)
    )
    (gradient,) = torch.autograd.grad(InfoVAE().terms(forward)["mmd"].value.sum(), z)
    assert (gradient.mean(dim=1) > 0).all()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"alpha": 1.5}, "alpha must be at most 1; got 1.5."),
        ({"lambda_prior": -1}, "lambda_prior must be at least 0; got -1."),
        ({"bandwidth": 0}, "bandwidth must be above 0; got 0."),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as caught:
        InfoVAE(**given)
    assert str(caught.value) == f"info_vae: {told}"


@pytest.mark.parametrize(
    ("alpha", "lambda_prior", "told"),
    [
        (0.0, 0.5, "alpha 0.0 and lambda_prior 0.5"),
        (-2.0, 2.0, "alpha -2.0 and lambda_prior 2.0"),
        (0.0, linear(0, 10, 100), "alpha 0.0 and lambda_prior linear(0, 10, 100)"),
    ],
)
def test_a_reward_for_leaving_the_prior_is_refused(alpha, lambda_prior, told):
    (problem,) = InfoVAE(alpha=alpha, lambda_prior=lambda_prior).problems(SETTING, STANDARD)
    assert (problem.name, problem.value) == ("info_vae: alpha + lambda_prior", told)
    assert problem.rule == "must be at least 1"
    assert problem.remedy == "Below 1 latents would be rewarded for leaving the prior."


def test_bounded_settings_are_allowed():
    for alpha, lambda_prior in ((0, 1), (1, 0), (-9, 10), (linear(0, 1, 10), linear(1, 50, 10))):
        assert InfoVAE(alpha=alpha, lambda_prior=lambda_prior).problems(SETTING, STANDARD) == []
