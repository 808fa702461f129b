# SPDX-License-Identifier: Apache-2.0
"""Both theorems to rounding, their parts against scipy and torch, what they do not say, and
refusals.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm, special_ortho_group
from torch.distributions import MultivariateNormal, kl_divergence

from unbraid.analysis.theory.beta_vae_theorems import (
    log_normaliser,
    plane_rotation,
    signed_permutations,
    theorem_one,
    theorem_two,
)
from unbraid.analysis.theory.gaussian_toy import (
    Posterior,
    Toy,
    best_posterior,
    beta_objective,
    random_toy,
    reconstruction,
)
from unbraid.core.errors import InputError


def random_posterior(latents: int, seed: int) -> Posterior:
    draws = np.random.default_rng(seed)
    square = draws.normal(size=(latents, latents))
    return Posterior(draws.normal(size=latents), 0.1 * square @ square.T + 0.1 * np.eye(latents))


def peer(posterior: Posterior) -> MultivariateNormal:
    return MultivariateNormal(
        torch.from_numpy(posterior.mean), torch.from_numpy(posterior.covariance)
    )


@pytest.mark.parametrize("beta", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("variance", [0.5, 1.0, 3.0])
def test_the_normaliser_is_the_integral_of_the_power(beta: float, variance: float) -> None:
    power, _ = quad(
        lambda z: norm.pdf(z, scale=math.sqrt(variance)) ** beta, -np.inf, np.inf, epsabs=1e-13
    )
    assert log_normaliser(beta, 1, variance) == pytest.approx(math.log(power), abs=1e-9)
    assert log_normaliser(beta, 4, variance) == pytest.approx(4 * math.log(power), abs=1e-8)
    sharper = norm.pdf(0.7, scale=math.sqrt(variance)) ** beta / power
    assert sharper == pytest.approx(norm.pdf(0.7, scale=math.sqrt(variance / beta)), rel=1e-9)


@pytest.mark.parametrize("latents", [1, 2, 3])
def test_entropy_and_kl_are_torchs(latents: int) -> None:
    posterior = random_posterior(latents, latents)
    wide = MultivariateNormal(
        torch.zeros(latents, dtype=torch.float64), 2.5 * torch.eye(latents, dtype=torch.float64)
    )
    assert posterior.entropy == pytest.approx(float(peer(posterior).entropy()), abs=1e-12)
    assert posterior.kl(2.5) == pytest.approx(
        float(kl_divergence(peer(posterior), wide)), abs=1e-12
    )


@pytest.mark.parametrize("latents", [1, 2, 3])
def test_a_linear_decoder_has_a_closed_form(latents: int) -> None:
    draws = np.random.default_rng(latents)
    weights, x = draws.normal(size=(latents, 4)), draws.normal(size=4)
    toy, posterior = (
        Toy(lambda z: z @ weights, x, noise_variance=0.7, prior_variance=1.3),
        random_posterior(latents, 9),
    )
    expected = (
        -0.5
        * (
            ((posterior.mean @ weights - x) ** 2).sum()
            + np.trace(weights.T @ posterior.covariance @ weights)
        )
        / 0.7
    )
    expected -= 2.0 * math.log(2.0 * math.pi * 0.7)
    assert reconstruction(toy, posterior) == pytest.approx(expected, abs=1e-9)
    assert beta_objective(toy, posterior, 4.0) == pytest.approx(
        expected - 4.0 * posterior.kl(1.3), abs=1e-9
    )


@pytest.mark.parametrize("latents", [1, 2, 3])
@pytest.mark.parametrize(("seed", "variance"), [(0, 1.0), (1, 0.4), (2, 3.0)])
def test_theorem_one_to_a_millionth(latents: int, seed: int, variance: float) -> None:
    betas = (0.2, 1.0, 5.0) if latents == 3 else (0.2, 0.5, 1.0, 2.0, 5.0, 25.0)
    found = theorem_one(betas, latents=latents, prior_variance=variance, seed=seed)
    assert found.largest_gap < 1e-6
    np.testing.assert_allclose(found.left, found.right, rtol=0, atol=1e-6)
    # Each part is needed: the equation fails by far where one is left out.
    away = np.abs(np.log(found.betas)) > 0.1
    assert bool((np.abs(found.left - found.right + found.log_normaliser)[away] > 0.01).all())
    assert bool((np.abs(found.left - found.right + found.entropy_reward)[away] > 0.01).all())


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**31 - 1), beta=st.floats(0.1, 20.0), variance=st.floats(0.3, 3.0))
def test_theorem_two_for_any_rotation(seed: int, beta: float, variance: float) -> None:
    base = random_toy(2, np.random.default_rng(seed))
    toy = Toy(base.decoder, base.x, prior_variance=variance)
    posterior, turn = random_posterior(2, seed), special_ortho_group.rvs(2, random_state=seed)
    before = beta_objective(toy, posterior, beta)
    assert beta_objective(toy.rotated(turn), posterior.rotated(turn), beta) == pytest.approx(
        before, abs=1e-6
    )


def test_theorem_two_in_three_dimensions_and_for_reflections() -> None:
    toy, posterior = random_toy(3, np.random.default_rng(4)), random_posterior(3, 4)
    turn = special_ortho_group.rvs(3, random_state=0) @ np.diag([1.0, 1.0, -1.0])
    before = beta_objective(toy, posterior, 4.0)
    assert beta_objective(toy.rotated(turn), posterior.rotated(turn), 4.0) == pytest.approx(
        before, abs=1e-6
    )
    assert (
        abs(beta_objective(toy, posterior.rotated(turn), 4.0) - before) > 0.01
    )  # the decoder has to be turned too


def test_an_anisotropic_prior_is_not_covered() -> None:
    """Stretching a latent breaks the premise: the same rotation then changes the objective."""
    base, posterior, turn = (
        random_toy(2, np.random.default_rng(0)),
        random_posterior(2, 0),
        plane_rotation(40.0),
    )
    stretch = np.array([1.0, 3.0])
    toy = Toy(lambda z: base.decoder(z * stretch), base.x)
    shrunk = Posterior(posterior.mean / stretch, posterior.covariance / np.outer(stretch, stretch))
    turned = posterior.rotated(turn)
    other = Posterior(turned.mean / stretch, turned.covariance / np.outer(stretch, stretch))
    back = Toy(lambda z: base.decoder((z * stretch) @ turn), base.x)
    assert abs(beta_objective(toy, shrunk, 2.0) - beta_objective(back, other, 2.0)) > 0.01


def test_only_signed_permutations_keep_a_diagonal_covariance() -> None:
    posterior = Posterior(np.ones(3), np.diag([0.1, 0.5, 2.0]))
    everything = signed_permutations(3)
    assert len({one.tobytes() for one in (matrix + 0.0 for matrix in everything)}) == 48
    assert all(posterior.rotated(one).is_diagonal for one in everything)
    for seed in range(20):
        assert not posterior.rotated(special_ortho_group.rvs(3, random_state=seed)).is_diagonal
    assert not Posterior(np.ones(2), np.diag([0.1, 0.5])).rotated(plane_rotation(89.0)).is_diagonal


@pytest.mark.parametrize(("seed", "beta"), [(0, 1.0), (3, 4.0)])
def test_angles_in_numbers(seed: int, beta: float) -> None:
    found = theorem_two(beta=beta, angles=13, seed=seed)
    assert found.full_gap < 1e-6
    assert found.permutation_gap < 1e-6
    assert found.aligned_gap < 1e-6
    assert found.diagonal_loss > 0.01
    assert bool((found.diagonal <= found.full + 1e-9).all())
    np.testing.assert_allclose(
        found.diagonal[:7], found.diagonal[6:], atol=1e-6
    )  # a quarter turn swaps the latents


def test_a_fit_finds_the_exact_posterior_of_a_linear_model() -> None:
    weights = np.array([[1.0, 0.5, -1.0], [0.3, 2.0, 0.4]])
    toy = Toy(lambda z: z @ weights, np.array([1.0, -0.5, 0.2]), noise_variance=0.5)
    precision = np.eye(2) + weights @ weights.T / 0.5
    start = Posterior(np.zeros(2), np.eye(2))
    found = best_posterior(toy, 1.0, start)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), atol=1e-5)
    np.testing.assert_allclose(
        found.mean, np.linalg.solve(precision, weights @ toy.x / 0.5), atol=1e-5
    )
    diagonal = best_posterior(toy, 1.0, start, diagonal=True)
    np.testing.assert_allclose(
        diagonal.covariance, np.diag(1.0 / np.diagonal(precision)), atol=1e-5
    )


TOY = random_toy(2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theorem_one([0.0]), "betas must be a finite number above 0; got 0.0."),
        (lambda: theorem_one([1.0, -2.0]), "betas must be a finite number above 0; got -2.0."),
        (lambda: theorem_one([]), "betas must hold at least one value; got none."),
        (
            lambda: theorem_one(latents=4),
            (
                "latents must be a whole number in 1..3; got 4. The sums run over a grid, which is"
                " too large beyond three."
            ),
        ),
        (
            lambda: theorem_one(prior_variance=-1.0),
            "prior_variance must be a finite number above 0; got -1.0.",
        ),
        (lambda: theorem_two(beta=float("nan")), "beta must be a finite number above 0; got nan."),
        (lambda: theorem_two(angles=2), "angles must be a whole number of at least 3; got 2."),
        (
            lambda: theorem_two(seed=0.5),
            "seed must be a whole number of at least 0; got 0.5.",
        ),  # pyright: ignore
        (lambda: log_normaliser(-1.0, 2), "beta must be a finite number above 0; got -1.0."),
        (
            lambda: Toy(TOY.decoder, TOY.x, noise_variance=0.0),
            "noise_variance must be a finite number above 0; got 0.0.",
        ),
        (lambda: TOY.rotated(np.ones((2, 3))), "rotation must be square; got shape (2, 3)."),
        (
            lambda: Posterior(np.zeros(2), np.diag([1.0, -1.0])),
            "covariance must have positive eigenvalues; got one of -1. Variances lie above 0.",
        ),
        (
            lambda: Posterior(np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]])),
            "covariance must be a symmetric matrix; got shape (2, 2), or unequal halves.",
        ),
        (lambda: Posterior(np.zeros(2), np.eye(3)), "covariance must have 2 rows; got 3."),
        (
            lambda: beta_objective(TOY, Posterior(np.zeros(2), np.eye(2)), -1.0),
            "beta must be a finite number above 0; got -1.0.",
        ),
    ],
)
def test_nonsense_is_refused(call, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()
