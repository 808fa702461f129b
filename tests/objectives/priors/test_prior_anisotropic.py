# SPDX-License-Identifier: Apache-2.0
"""Variances given, from the data and learned, against torch's distributions, closed forms and the
singular values of small data.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.drawn.pinwheel import Pinwheel
from unbraid.objectives.hyper import stack
from unbraid.objectives.latent_terms import gaussian_kl
from unbraid.objectives.priors.anisotropic import LEARNED, Anisotropic
from unbraid.population.plan import Plan, make_plan
from unbraid.population.training_step import TrainingStep

VARIANCES = (4.0, 1.0, 0.25)
PRIOR = Anisotropic(variances=VARIANCES)


def torchs(variances=VARIANCES):
    return torch.distributions.Normal(0.0, torch.tensor(variances, dtype=torch.float64).sqrt())


def test_density_is_torchs():
    z = torch.linspace(-5, 5, 60, dtype=torch.float64).view(2, 10, 3)
    assert torch.allclose(PRIOR.log_density(z), torchs().log_prob(z).sum(dim=-1), rtol=1e-13)


def test_scale_multiplies_the_variances():
    z = torch.linspace(-5, 5, 60, dtype=torch.float64).view(2, 10, 3)
    scaled = Anisotropic(variances=VARIANCES, scale=2.0)
    assert torch.allclose(
        scaled.log_density(z), torchs((8.0, 2.0, 0.5)).log_prob(z).sum(dim=-1), rtol=1e-13
    )


def test_density_integrates_to_one(integral):
    assert abs(integral(Anisotropic(variances=(2.0, 0.1)), 12, 2, 1001) - 1) < 1e-10


def test_draws_have_the_variances(draw_points, check_marginal):
    points = draw_points(PRIOR, 20_000, 3)
    for values, variance in zip(points.T, VARIANCES, strict=True):
        check_marginal(values, stats.norm(scale=variance**0.5).cdf)


def test_closed_kl_is_torchs_and_agrees_with_draws(assert_kl_agrees_with_draws):
    mean = torch.tensor([[0.0, 0.0, 0.0], [1.5, -0.3, 0.2]], dtype=torch.float64)
    logvar = torch.tensor([[0.0, 0.0, 0.0], [-2.0, 1.0, -1.0]], dtype=torch.float64)
    posterior = torch.distributions.Normal(mean, torch.exp(0.5 * logvar))
    known = torch.distributions.kl_divergence(posterior, torchs()).sum(dim=-1)
    assert torch.allclose(PRIOR.kl(mean, logvar, mean), known, rtol=1e-13)
    assert_kl_agrees_with_draws(PRIOR, mean, logvar, known)


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=6), st.floats(0.1, 10))
def test_posteriors_equal_to_the_prior_have_no_kl(variances, scale):
    prior = Anisotropic(variances=tuple(variances), scale=scale)
    logvar = torch.tensor([variances], dtype=torch.float64).log() + np.log(scale)
    assert torch.allclose(
        prior.kl(torch.zeros_like(logvar), logvar, logvar),
        torch.zeros(1, dtype=torch.float64),
        atol=1e-12,
    )


def test_unit_variances_are_the_isotropic_prior(make_forward):
    forward = make_forward()
    prior = Anisotropic(variances=(1, 1, 1, 1))
    assert torch.allclose(
        prior.kl(forward.mean, forward.logvar, forward.z),
        gaussian_kl(forward.mean, forward.logvar),
        rtol=1e-12,
    )


def learned_variances(prior, deviation):
    bound = prior.bound({LEARNED: torch.tensor([deviation], dtype=torch.float64)})
    return (
        bound.log_variance(torch.zeros(1, 1, len(deviation), dtype=torch.float64)).exp().flatten()
    )


def test_learned_variances_start_as_given_and_keep_their_sum():
    prior = Anisotropic(variances=VARIANCES, learned="yes", scale=2.0)
    assert learned_variances(prior, [0.0, 0.0, 0.0]).tolist() == pytest.approx(
        [8.0, 2.0, 0.5], rel=1e-13
    )
    moved = learned_variances(prior, [0.3, -1.0, 2.0])
    assert moved.sum().item() == pytest.approx(2.0 * sum(VARIANCES), rel=1e-13)
    by_hand = np.array([8.0 * np.exp(0.3), 2.0 * np.exp(-1.0), 0.5 * np.exp(2.0)])
    assert moved.tolist() == pytest.approx((by_hand / by_hand.sum() * 10.5).tolist(), rel=1e-12)


def test_learned_variances_move_towards_those_of_the_posteriors():
    prior = Anisotropic(variances=(1.0, 1.0), learned="yes")
    deviation = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    mean = torch.zeros(1, 1, 2, dtype=torch.float64)
    logvar = torch.tensor([[[1.6, 0.4]]], dtype=torch.float64).log()
    optimiser = torch.optim.LBFGS([deviation], max_iter=100, tolerance_change=1e-14)

    def closure():
        optimiser.zero_grad()
        loss = prior.bound({LEARNED: deviation}).kl(mean, logvar, mean).sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    # The sum, 2, is the posteriors' own, so the KL can vanish.
    assert learned_variances(prior, deviation[0].tolist()).tolist() == pytest.approx(
        [1.6, 0.4], rel=1e-4
    )
    assert closure().item() == pytest.approx(0.0, abs=1e-8)


def test_members_have_variances_of_their_own():
    rows = ((4.0, 1.0), (0.5, 2.0))
    together = stack(
        [
            Anisotropic(variances=row, scale=scale)
            for row, scale in zip(rows, (1.0, 3.0), strict=True)
        ],
        dtype=torch.float64,
    )
    z = torch.linspace(-2, 2, 12, dtype=torch.float64).view(2, 3, 2)
    alone = [
        Anisotropic(variances=row, scale=s).log_density(z)[k]
        for k, (row, s) in enumerate(zip(rows, (1.0, 3.0), strict=True))
    ]
    assert torch.allclose(together.log_density(z), torch.stack(alone), rtol=1e-13)


@pytest.mark.parametrize("given", ["pca", ()])
def test_variances_of_the_data_are_squared_singular_values(given):
    dataset = Pinwheel(points=50)
    prior = Anisotropic(variances=given).resolved(dataset, 2)
    squares = (
        np.linalg.svd(dataset.points(np.arange(200)).astype(np.float64), compute_uv=False) ** 2
    )
    assert prior.variances == pytest.approx(tuple(2 * squares / squares.sum()), rel=1e-10)
    assert prior.variances[0] >= prior.variances[1]
    assert prior.problems(2) == []
    assert PRIOR.resolved(dataset, 3) is PRIOR


def test_data_without_enough_components_is_refused():
    with pytest.raises(InputError) as caught:
        Anisotropic(variances="pca").resolved(Pinwheel(points=50), 3)
    assert (
        str(caught.value)
        == "anisotropic: variances by pca needs a principal component for each latent; got 3"
        " latents and 2 principal components of 'pinwheel'. Use at most 2 latents, or give the"
        " variances."
    )


def test_data_that_is_all_zero_is_refused():
    dataset = load(np.zeros((4, 8, 8), dtype=np.uint8))
    with pytest.raises(InputError) as caught:
        Anisotropic().resolved(dataset, 2)
    assert (
        str(caught.value)
        == "anisotropic: variances by pca needs a principal component for each latent; got 2"
        " latents and 0 principal components of 'own'. Give the variances."
    )


def test_wrong_numbers_of_variances_are_refused():
    assert PRIOR.problems(3) == []
    (problem,) = PRIOR.problems(4)
    assert problem.name == "anisotropic: variances"
    assert problem.rule == "must be 4 numbers, one for each latent"
    assert (problem.value, problem.remedy) == ((4.0, 1.0, 0.25), "Or use pca.")
    (problem,) = Anisotropic().problems(4)
    assert problem.rule == "must be numbers before training; the plan takes pca from its data"
    assert (problem.value, problem.remedy) == ("pca", "Give 4 numbers.")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"variances": (1.0, 0.0)}, "anisotropic: variances must be above 0; got 0.0."),
        (
            {"variances": "1/x"},
            "anisotropic: variances must be numbers with slashes between them, or pca; got '1/x'.",
        ),
        ({"scale": 0}, "anisotropic: scale must be above 0; got 0."),
        ({"learned": "often"}, "anisotropic: learned 'often' is unknown. Known: no, yes."),
    ],
)
def test_nonsense_is_refused_by_name(options, told):
    with pytest.raises(InputError) as caught:
        Anisotropic(**options)
    assert str(caught.value) == told


SMALL = {
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 2,
    "batch_size": 8,
    "steps": 30,
    "learning_rate": 1e-2,
}


def test_a_plan_holds_the_datas_variances_and_a_run_learns_from_them():
    plan, dataset = make_plan(
        "pinwheel", "vae", prior="anisotropic", prior_options={"learned": "yes"}, **SMALL
    )
    read_again = Plan.from_record(json.loads(json.dumps(plan.record())))
    prior = read_again.members[0].build_prior()
    assert prior == Anisotropic(learned="yes").resolved(dataset, 2)
    program = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    state = program.start()
    assert not program.kinds[0].layout.views(state.model.weights)[LEARNED].any()
    for _ in range(plan.steps):
        program.step(state)
    assert program.kinds[0].layout.views(state.model.weights)[LEARNED].abs().min() > 1e-3
    assert state.diverged_at.tolist() == [-1]
