# SPDX-License-Identifier: Apache-2.0
"""The importance-weighted bound against one-sample VAEs, and against a linear Gaussian model whose
log p(x) is known.
"""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.objectives.iwae import IWAE
from unbraid.objectives.objective import Forward, total_loss
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.mixture import Mixture
from unbraid.objectives.priors.sparse import Sparse
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

SCALE = 0.5
LOADINGS = torch.tensor([[1.0, 0.9], [-0.4, 0.2], [0.2, 0.5]], dtype=torch.float64)
"""x = loadings z + SCALE · noise with z standard normal, so log p(x) = log N(x; 0, loadings
loadingsᵀ + SCALE² I).
"""


def images(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    return z @ LOADINGS.T + SCALE * torch.randn(count, 3, generator=generator, dtype=torch.float64)


def log_p(x):
    covariance = LOADINGS @ LOADINGS.T + SCALE**2 * torch.eye(3, dtype=torch.float64)
    return torch.distributions.MultivariateNormal(
        torch.zeros(3, dtype=torch.float64), covariance
    ).log_prob(x)


def forward_of(x, samples, seed=1, widen=1.0):
    """A pass of one member whose posteriors have the right means and, up to *widen*, the right
    variances without covariance.
    """
    precision = torch.eye(2, dtype=torch.float64) + LOADINGS.T @ LOADINGS / SCALE**2
    mean = (x @ LOADINGS / SCALE**2 @ torch.linalg.inv(precision)).unsqueeze(0)
    logvar = (widen * torch.linalg.inv(precision).diagonal()).log().expand_as(mean)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(1, len(x) * samples, 2, generator=generator, dtype=torch.float64)
    z = IWAE(importance_samples=samples).latents(mean, logvar, noise, {})
    error = x.repeat_interleave(samples, dim=0) - z[0] @ LOADINGS.T
    nats = (0.5 * (error / SCALE).square() + math.log(SCALE) + 0.5 * math.log(2 * math.pi)).sum(
        dim=-1
    )
    return Forward(nats.unsqueeze(0), mean, logvar, z, torch.tensor(0.0), samples=samples)


def bounds(x, samples, **options):
    return (
        IWAE(importance_samples=samples).terms(forward_of(x, samples, **options))["bound"].value[0]
    )


def test_one_sample_is_the_vae_with_its_kl_at_the_draw(make_forward):
    for prior in (STANDARD, Sparse(), Mixture()):
        forward = make_forward(prior=prior)
        loss = total_loss(IWAE(importance_samples=1).terms(forward))
        kl = prior.kl_by_draws(forward.mean, forward.logvar, forward.z)
        assert torch.allclose(loss, (forward.reconstruction + kl).mean(dim=1), rtol=1e-13)


def test_two_samples_by_hand():
    """Weights p(x|z) p(z) / q(z|x) of 1/4 and 3/4 have the mean 1/2."""
    zeros = torch.zeros(1, 1, 1, dtype=torch.float64)
    reconstruction = -torch.tensor([[0.25, 0.75]], dtype=torch.float64).log()
    forward = Forward(
        reconstruction,
        zeros,
        zeros,
        torch.zeros(1, 2, 1, dtype=torch.float64),
        torch.tensor(0.0),
        samples=2,
    )
    terms = IWAE(importance_samples=2).terms(forward)
    assert terms["bound"].value.tolist() == [[pytest.approx(math.log(2), rel=1e-13)]]
    assert terms["reconstruction"].value.tolist() == [
        [pytest.approx(-0.5 * math.log(0.25 * 0.75), rel=1e-13)]
    ]
    assert terms["kl"].value.tolist() == [[0.0]]
    assert total_loss(terms).item() == pytest.approx(math.log(2), rel=1e-13)


def test_samples_of_a_image_stay_together():
    """Images of very different likelihood: a bound that mixed their samples would be far off."""
    x = torch.cat([images(3), 20.0 + images(1)])
    together = bounds(x, 50, widen=2.0)
    assert (together - -log_p(x)).abs().max() < 1.0
    assert together[3] > 100


def test_gradient_weights_are_the_normalised_importance_weights():
    forward = forward_of(images(4), 5)
    leaf = forward.reconstruction.clone().requires_grad_()
    (slope,) = torch.autograd.grad(
        total_loss(
            IWAE(importance_samples=5).terms(
                Forward(leaf, forward.mean, forward.logvar, forward.z, forward.step, samples=5)
            )
        ),
        [leaf],
    )
    shares = slope.view(4, 5)
    assert torch.allclose(
        shares.sum(dim=1), torch.full((4,), 0.25, dtype=torch.float64), rtol=1e-12
    )
    repeated = (part.repeat_interleave(5, dim=1) for part in (forward.mean, forward.logvar))
    log_w = -(forward.reconstruction + STANDARD.kl_by_draws(*repeated, forward.z)).view(4, 5)
    assert torch.allclose(shares, 0.25 * log_w.softmax(dim=1), rtol=1e-12)


def test_bound_falls_to_minus_log_p_as_samples_grow():
    x = images(400)
    truth = -log_p(x)
    gaps = [(bounds(x, samples) - truth).mean().item() for samples in (1, 5, 50, 2000)]
    assert gaps[0] > gaps[1] + 0.1 > gaps[2] + 0.1
    assert gaps[2] > gaps[3]
    assert abs(gaps[3]) < 0.004
    # With one sample the gap is KL(q || true posterior), which two Gaussians of the same mean have
    # in closed form.
    precision = torch.eye(2, dtype=torch.float64) + LOADINGS.T @ LOADINGS / SCALE**2
    covariance = torch.linalg.inv(precision)
    spread = covariance.diagonal().diag()
    known = 0.5 * (
        (precision @ spread).trace() - 2 + torch.logdet(covariance) - torch.logdet(spread)
    )
    error = (bounds(x, 1) - truth).std() / 400**0.5
    assert abs(gaps[0] - known.item()) < 4 * error.item()


def test_wrong_posteriors_only_slow_the_bound_down():
    x = images(50)
    assert (bounds(x, 10_000, widen=4.0) - -log_p(x)).abs().mean() < 0.03


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "iwae: importance_samples must be at least 1; got 0."),
        (10_001, "iwae: importance_samples must be at most 10000; got 10001."),
        (2.5, "iwae: importance_samples must be a whole number; got 2.5."),
        (
            "linear(1, 5, 10)",
            (
                "iwae: importance_samples cannot be on a schedule; got linear(1, 5, 10). Give a"
                " whole number."
            ),
        ),
    ],
)
def test_nonsense_is_refused_by_name(value, told):
    with pytest.raises(InputError) as caught:
        IWAE(importance_samples=value)
    assert str(caught.value) == told


@pytest.mark.parametrize("prior", ["isotropic", "mixture"])
def test_it_trains_and_its_bound_beats_that_of_one_sample(prior):
    plan, dataset = make_plan(
        "pinwheel",
        IWAE(importance_samples=8),
        prior=prior,
        network="mlp",
        network_options={"hidden": 16},
        latents=2,
        likelihood="gaussian:scale=learned",
        batch_size=50,
        steps=60,
        learning_rate=1e-2,
        seeds=2,
        log_every=20,
    )
    program = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    state = program.start()
    for _ in range(plan.steps):
        program.step(state)
    assert state.diverged_at.tolist() == [-1, -1]
    history = dict(zip(program.kinds[0].quantities, state.history.unbind(dim=2), strict=True))
    assert torch.equal(history["bound"], history["loss"])
    assert (history["bound"] < history["reconstruction"] + history["kl"]).all()
    assert (history["bound"][:, -1] < history["bound"][:, 0]).all()
