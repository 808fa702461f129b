# SPDX-License-Identifier: Apache-2.0
"""Divergences against loops over pairs, closed forms of Gaussians and equal laws."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.objectives.divergences import (
    INVERSE_MULTIQUADRATIC,
    inclusive_kl,
    inverse_multiquadratic,
    log_aggregate_posterior,
    mmd,
    mmd_by_latent,
)
from unbraid.objectives.hyper import stack
from unbraid.objectives.priors.anisotropic import Anisotropic
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.mixture import Mixture

SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def similarity(a, b):
    squared = sum((float(one) - float(other)) ** 2 for one, other in zip(a, b, strict=True))
    return sum(2 * scale / (2 * scale + squared) for scale in SCALES)


def mmd_by_loops(first, second):
    """The U-statistic, pair by pair."""
    n, m = len(first), len(second)
    within_first = sum(
        similarity(first[i], first[j]) for i in range(n) for j in range(n) if i != j
    ) / (n * (n - 1))
    within_second = sum(
        similarity(second[i], second[j]) for i in range(m) for j in range(m) if i != j
    ) / (m * (m - 1))
    return (
        within_first
        + within_second
        - 2 * sum(similarity(a, b) for a in first for b in second) / (n * m)
    )


def test_mmd_against_loops():
    first, second = normal(2, 5, 3), 1.0 + normal(2, 7, 3, seed=1)
    expected = [mmd_by_loops(first[member], second[member]) for member in range(2)]
    assert mmd(first, second).tolist() == pytest.approx(expected, rel=1e-12)


def test_mmd_by_latent_against_loops_over_latents():
    first, second = normal(2, 5, 3), 1.0 + normal(2, 7, 3, seed=1)
    expected = [
        sum(
            mmd_by_loops(first[member, :, d : d + 1], second[member, :, d : d + 1])
            for d in range(3)
        )
        for member in range(2)
    ]
    assert mmd_by_latent(first, second).tolist() == pytest.approx(expected, rel=1e-12)


def test_kernel_constants_are_twice_the_published_scales():
    assert INVERSE_MULTIQUADRATIC == tuple(2 * scale for scale in SCALES)
    assert inverse_multiquadratic()(torch.zeros(1)).item() == len(SCALES)
    assert inverse_multiquadratic((3.0,))(torch.tensor([1.0])).item() == 0.75


def test_kernel_slope_is_autograds_and_finite_everywhere():
    squared = torch.tensor([0.0, 1e-30, 0.3, 5.0, 1e10], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(inverse_multiquadratic(), squared[:4].detach().requires_grad_())
    (slope,) = torch.autograd.grad(inverse_multiquadratic()(squared).sum(), [squared])
    written_out = sum(constant / (constant + squared) for constant in INVERSE_MULTIQUADRATIC).sum()
    (expected,) = torch.autograd.grad(written_out, [squared])
    assert torch.allclose(slope, expected, rtol=1e-12)
    far = torch.tensor([1e30, torch.inf], requires_grad=True)
    (slope,) = torch.autograd.grad(inverse_multiquadratic()(far).sum(), [far])
    assert slope.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("measure", [mmd, mmd_by_latent])
def test_gradient_at_zero_distance_is_finite(measure):
    z = torch.zeros(1, 4, 2, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(measure(z, torch.zeros(1, 4, 2, dtype=torch.float64)).sum(), [z])
    assert slope.eq(0).all()
    z = normal(2, 5, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda points: measure(points, normal(2, 6, 2, seed=4)), z)


@pytest.mark.parametrize("measure", [mmd, mmd_by_latent])
def test_equal_laws_have_no_mmd_on_average_and_other_laws_have(measure):
    """2,000 pairs of small samples, each a member: a biased estimate would be off by hundreds of
    standard errors.
    """
    values = measure(normal(2000, 8, 2), normal(2000, 8, 2, seed=1))
    error = values.std() / 2000**0.5
    assert abs(values.mean()) < 4 * error
    assert values.min() < 0
    shifted = measure(normal(2000, 8, 2), 1.0 + normal(2000, 8, 2, seed=1))
    assert shifted.mean() > 20 * error


def test_mmd_of_normal_laws_is_the_integral():
    """E k over Gaussians by quadrature of the distance's law, N(shift, 2), against the mean of many
    samples' MMD.
    """
    shift, line = 1.5, torch.linspace(-14, 14, 20_001, dtype=torch.float64)
    kernel = inverse_multiquadratic()(line.square())

    def expected_similarity(mean):
        density = torch.exp(-0.25 * (line - mean).square()) / math.sqrt(4 * math.pi)
        return torch.trapezoid(kernel * density, line)

    known = 2 * expected_similarity(0.0) - 2 * expected_similarity(shift)
    values = mmd(normal(4000, 6, 1), shift + normal(4000, 6, 1, seed=1))
    assert abs(values.mean() - known) < 4 * values.std() / 4000**0.5


def test_mmd_of_one_latent_is_the_same_both_ways():
    first, second = normal(3, 6, 1), normal(3, 6, 1, seed=1)
    assert torch.allclose(mmd(first, second), mmd_by_latent(first, second), rtol=1e-12)


def test_only_the_joint_mmd_sees_clusters_behind_equal_marginals():
    """Latents of the mixture shuffled over its points keep marginals and lose the clusters."""
    uniform = torch.rand(
        40, 200, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).clamp(1e-9)
    points = Mixture().sample(uniform)
    other = Mixture().sample(1.0 - uniform.roll(17, 1))
    shuffled = torch.stack([points[..., 0], points[..., 1].roll(50, 1)], dim=-1)
    apart, joint = mmd_by_latent(shuffled, other), mmd(shuffled, other)
    assert abs(apart.mean()) < 4 * apart.std() / 40**0.5
    assert joint.mean() > 10 * joint.std() / 40**0.5


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_invariants_of_mmd(seed):
    first, second = normal(1, 6, 3, seed=seed), normal(1, 5, 3, seed=seed + 1)
    for measure in (mmd, mmd_by_latent):
        value = measure(first, second)
        assert torch.allclose(measure(second, first), value, atol=1e-12)
        assert torch.allclose(measure(first + 7.0, second + 7.0), value, atol=1e-9)
        order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
        assert torch.allclose(measure(first[:, order], second), value, atol=1e-12)
    turn, _ = torch.linalg.qr(normal(3, 3, seed=seed + 2))
    assert torch.allclose(mmd(first @ turn, second @ turn), mmd(first, second), atol=1e-10)


def test_aggregate_posterior_against_torchs_mixture():
    points, mean, logvar = normal(2, 5, 3), normal(2, 4, 3, seed=1), 0.5 * normal(2, 4, 3, seed=2)
    distributions = torch.distributions
    parts = distributions.Independent(distributions.Normal(mean, torch.exp(0.5 * logvar)), 1)
    mixture = distributions.MixtureSameFamily(
        distributions.Categorical(torch.ones(2, 4).double()), parts
    )
    expected = torch.stack([mixture.log_prob(points[:, point]) for point in range(5)], dim=1)
    assert torch.allclose(log_aggregate_posterior(points, mean, logvar), expected, rtol=1e-12)


def test_inclusive_kl_of_one_gaussian_is_the_closed_form():
    """With all posteriors alike q is one Gaussian, and KL(N(0, v) || N(m, s²)) is known."""
    variances = torch.tensor([2.0, 0.5], dtype=torch.float64)
    prior = Anisotropic(variances=(2.0, 0.5))
    mean = torch.tensor([0.5, -0.2], dtype=torch.float64).expand(1, 3, 2)
    logvar = torch.tensor([0.3, -0.4], dtype=torch.float64).expand(1, 3, 2)
    target = torch.distributions.Normal(mean[0, 0], torch.exp(0.5 * logvar[0, 0]))
    known = torch.distributions.kl_divergence(
        torch.distributions.Normal(torch.zeros(2).double(), variances.sqrt()), target
    ).sum()
    points = normal(1, 40_000, 2) * variances.sqrt()
    values = inclusive_kl(points, prior, mean, logvar)
    assert values.shape == (1, 40_000)
    assert abs(values.mean() - known) < 4 * values.std() / 40_000**0.5


def test_posteriors_that_make_up_the_prior_have_no_inclusive_kl():
    """Four posteriors equal to the clusters of the mixture: q is p, at every single point."""
    prior = Mixture()
    mean = prior.centres(torch.zeros(1, dtype=torch.float64)).unsqueeze(0)
    logvar = torch.full((1, 4, 2), math.log(0.03), dtype=torch.float64)
    assert torch.allclose(
        inclusive_kl(normal(1, 50, 2), prior, mean, logvar), torch.zeros(1, 50).double(), atol=1e-10
    )


def test_narrow_posteriors_far_away_stay_finite_in_float32():
    mean = (10.0 + normal(1, 4, 2)).float().requires_grad_()
    logvar = torch.full((1, 4, 2), math.log(1e-8)).requires_grad_()
    value = inclusive_kl(normal(1, 6, 2).float(), STANDARD, mean, logvar).mean()
    assert torch.isfinite(value)
    for slope in torch.autograd.grad(value, [mean, logvar]):
        assert torch.isfinite(slope).all()


def test_members_are_separate():
    points, mean, logvar = normal(3, 5, 2), normal(3, 4, 2, seed=1), normal(3, 4, 2, seed=2)
    priors = [Mixture(variance=variance) for variance in (0.03, 0.3, 1.0)]
    together = inclusive_kl(points, stack(priors, dtype=torch.float64), mean, logvar)
    for member, prior in enumerate(priors):
        one = slice(member, member + 1)
        assert torch.allclose(
            together[one], inclusive_kl(points[one], prior, mean[one], logvar[one]), rtol=1e-12
        )
        assert torch.equal(mmd(points, mean)[one], mmd(points[one], mean[one]))
        assert torch.equal(mmd_by_latent(points, mean)[one], mmd_by_latent(points[one], mean[one]))
