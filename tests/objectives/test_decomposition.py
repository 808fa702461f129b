# SPDX-License-Identifier: Apache-2.0
"""β weighs the overlap, α the divergence; both against their parts, and combinations that make no
sense are refused.
"""

from __future__ import annotations

import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.decomposition import Decomposition
from unbraid.objectives.divergences import inclusive_kl, mmd, mmd_by_latent
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import Forward, total_loss
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.mixture import Mixture
from unbraid.objectives.priors.sparse import Sparse
from unbraid.objectives.priors.student_t import StudentT
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

CHOICES = ("kl_inclusive", "mmd", "mmd_joint")


@pytest.fixture
def forward(make_forward):
    points = torch.randn(3, 8, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return make_forward(prior_points=points)


def divergence_of(choice, forward):
    if choice == "kl_inclusive":
        return inclusive_kl(forward.prior_points, forward.prior, forward.mean, forward.logvar).mean(
            dim=1
        )
    return {"mmd": mmd_by_latent, "mmd_joint": mmd}[choice](forward.z, forward.prior_points)


@pytest.mark.parametrize("choice", CHOICES)
def test_loss_is_reconstruction_plus_beta_kl_plus_alpha_divergence(forward, choice):
    loss = total_loss(Decomposition(beta=2.0, alpha=7.0, divergence=choice).terms(forward))
    expected = (
        forward.reconstruction.mean(dim=1)
        + 2.0 * forward.kl().mean(dim=1)
        + 7.0 * divergence_of(choice, forward)
    )
    assert torch.allclose(loss, expected, rtol=1e-13)


@pytest.mark.parametrize("choice", CHOICES)
def test_without_alpha_it_is_the_beta_vae_and_without_both_a_noisy_autoencoder(forward, choice):
    alone = total_loss(Decomposition(beta=4.0, alpha=0.0, divergence=choice).terms(forward))
    assert torch.allclose(alone, total_loss(BetaVAE(beta=4.0).terms(forward)), rtol=1e-13)
    none = total_loss(Decomposition(beta=0, alpha=0, divergence=choice).terms(forward))
    assert torch.equal(none, forward.reconstruction.mean(dim=1))


def test_each_member_has_its_own_weights(forward):
    settings = [(0.0, 5.0), (1.0, 0.0), (0.5, 2.0)]
    together = total_loss(
        stack([Decomposition(beta=b, alpha=a) for b, a in settings], dtype=torch.float64).terms(
            forward
        )
    )
    alone = [
        total_loss(Decomposition(beta=b, alpha=a).terms(forward))[k]
        for k, (b, a) in enumerate(settings)
    ]
    assert torch.allclose(together, torch.stack(alone), rtol=1e-13)


def test_the_prior_of_the_member_is_used(make_forward):
    points = Mixture().sample(torch.full((3, 8, 4, 3), 0.3, dtype=torch.float64))
    forward = make_forward(prior=Mixture(), prior_points=points)
    terms = Decomposition().terms(forward)
    assert torch.equal(
        terms["kl"].value, Mixture().kl_by_draws(forward.mean, forward.logvar, forward.z)
    )
    assert torch.equal(
        terms["divergence"].value, inclusive_kl(points, Mixture(), forward.mean, forward.logvar)
    )


@pytest.mark.parametrize("choice", CHOICES)
def test_descending_the_divergence_alone_brings_the_latents_to_the_prior(choice):
    """One Gaussian as the posterior of all images, far from the prior at first, ends at mean 0 and
    variance 1.
    """
    generator = torch.Generator().manual_seed(0)
    centre, spread = (
        torch.full((1, 1, 1), 2.0, requires_grad=True),
        torch.full((1, 1, 1), -2.0, requires_grad=True),
    )
    optimiser = torch.optim.Adam([centre, spread], lr=0.05)
    objective = Decomposition(beta=0, alpha=1, divergence=choice)
    for _ in range(200):
        noise, points = torch.randn(2, 1, 64, 1, generator=generator)
        mean, logvar = centre.expand(1, 64, 1), spread.expand(1, 64, 1)
        z = mean + torch.exp(0.5 * logvar) * noise
        loss = total_loss(
            objective.terms(
                Forward(torch.zeros(1, 64), mean, logvar, z, torch.tensor(0.0), prior_points=points)
            )
        )
        optimiser.zero_grad()
        loss.sum().backward()
        optimiser.step()
    assert centre.item() == pytest.approx(0.0, abs=0.25)
    assert spread.item() == pytest.approx(0.0, abs=0.4)


def test_nonsense_combinations_are_refused_with_a_reason():
    for choice in CHOICES:
        for prior in (STANDARD, Sparse(), StudentT()):
            assert Decomposition(divergence=choice).refuses(prior) == ""
    for choice in ("kl_inclusive", "mmd_joint"):
        assert Decomposition(divergence=choice).refuses(Mixture()) == ""
    for choice in ("mmd", "mmd_joint"):
        assert Decomposition(divergence=choice).refuses(StudentT(df=1)) == ""
    options = {"network": "mlp", "latents": 2}
    with pytest.raises(InputError) as caught:
        make_plan("pinwheel", Decomposition(divergence="mmd"), prior="mixture", **options)
    assert (
        str(caught.value)
        == "decomposition: prior must have independent latents where divergence=mmd, which compares"
        " one latent at a time (kl_inclusive and mmd_joint compare them together); got"
        " 'mixture'. Use the prior isotropic."
    )
    with pytest.raises(InputError) as caught:
        make_plan(
            "pinwheel", "decomposition", prior="student_t", prior_options={"df": 2}, **options
        )
    assert (
        str(caught.value)
        == "decomposition: prior must have a finite variance where divergence=kl_inclusive, which"
        " is infinite otherwise (student_t has one with df above 2; mmd needs none); got"
        " 'student_t'. Use the prior isotropic."
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"beta": -1}, "decomposition: beta must be at least 0; got -1."),
        ({"alpha": -0.5}, "decomposition: alpha must be at least 0; got -0.5."),
        (
            {"divergence": "mdm"},
            (
                "decomposition: divergence 'mdm' is unknown; did you mean 'mmd'? Known:"
                " kl_inclusive, mmd, mmd_joint."
            ),
        ),
    ],
)
def test_nonsense_is_refused_by_name(options, told):
    with pytest.raises(InputError) as caught:
        Decomposition(**options)
    assert str(caught.value) == told


@pytest.mark.parametrize("prior", ["isotropic", "anisotropic", "mixture", "sparse", "student_t"])
@pytest.mark.parametrize("choice", CHOICES)
def test_every_combination_that_is_allowed_trains(prior, choice):
    if (prior, choice) == ("mixture", "mmd"):
        return
    plan, dataset = make_plan(
        "pinwheel",
        Decomposition(divergence=choice),
        prior=prior,
        network="mlp",
        network_options={"hidden": 8},
        latents=2,
        batch_size=8,
        steps=3,
        seeds=2,
    )
    program = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    state = program.start()
    for _ in range(3):
        program.step(state)
    assert state.diverged_at.tolist() == [-1, -1]
    assert torch.isfinite(state.history).all()
