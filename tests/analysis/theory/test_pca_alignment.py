# SPDX-License-Identifier: Apache-2.0
"""A linear VAE against its closed form and scikit-learn's PCA; equal eigenvalues, switched-off
latents, and refusals.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from scipy.stats import ortho_group
from sklearn.decomposition import PCA

from unbraid.analysis.theory import pca_alignment as module
from unbraid.analysis.theory.pca_alignment import linear_vae, pca_alignment
from unbraid.core.errors import InputError


def covariance(eigenvalues: tuple[float, ...], seed: int = 0) -> np.ndarray:
    basis = ortho_group.rvs(len(eigenvalues), random_state=seed)
    made = (basis * np.array(eigenvalues)) @ basis.T
    return 0.5 * (made + made.T)


def test_the_loss_is_that_of_a_sampled_vae() -> None:
    """The expectation over noise and data, against plain sampling with torch's own KL."""
    data, latents, noise, beta = covariance((3.0, 1.0, 0.4)), 2, 0.3, 2.0
    draws = np.random.default_rng(0)
    values = draws.normal(size=2 * 3 * latents + latents) * 0.5
    decoder, encoder, log_variances = module._unpacked(values, 3, latents)
    x = draws.multivariate_normal(np.zeros(3), data, size=400_000)
    mean = x @ encoder.T
    z = mean + np.exp(0.5 * log_variances) * draws.normal(size=mean.shape)
    squared = ((x - z @ decoder.T) ** 2).sum(axis=1)
    posterior = torch.distributions.Normal(
        torch.from_numpy(mean), torch.from_numpy(np.exp(0.5 * log_variances))
    )
    kl = (
        torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0))
        .sum(dim=1)
        .numpy()
    )
    sampled = 0.5 * squared / noise + beta * kl
    loss, _ = module._loss_and_slope(values, data, latents, noise, beta)
    assert loss == pytest.approx(sampled.mean(), abs=5 * sampled.std() / np.sqrt(len(x)))


def test_the_slope_is_the_losss() -> None:
    data = covariance((3.0, 1.0, 0.4, 0.2))
    values = np.random.default_rng(1).normal(size=2 * 4 * 2 + 2)
    arguments = (data, 2, 0.3, 2.0)
    gap = check_grad(
        lambda at: module._loss_and_slope(at, *arguments)[0],
        lambda at: module._loss_and_slope(at, *arguments)[1],
        values,
    )
    assert gap < 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_the_axes_are_scikit_learns_pca(seed: int) -> None:
    data = covariance((5.0, 2.0, 1.0, 0.5, 0.2), seed)
    x = np.random.default_rng(seed).multivariate_normal(np.zeros(5), data, size=3000)
    x -= x.mean(axis=0)
    found = linear_vae(x.T @ x / len(x), latents=3, noise_variance=0.1, seed=seed)
    axes = PCA(3).fit(x).components_
    assert float(np.abs((axes.T * found.directions).sum(axis=0)).min()) > 0.999999
    assert found.largest_overlap < 1e-4
    np.testing.assert_allclose(
        np.linalg.norm(found.decoder, axis=0), found.expected_lengths, atol=1e-5
    )
    np.testing.assert_allclose(found.variances, found.expected_variances, atol=1e-6)
    assert found.loss == pytest.approx(found.expected_loss, abs=1e-9)
    # The encoder is the posterior mean of the learnt decoder.
    best = np.diag(found.variances) @ found.decoder.T / 0.1
    np.testing.assert_allclose(found.encoder, best, atol=1e-5)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**31 - 1), beta=st.floats(0.5, 4.0))
def test_the_closed_form_is_reached_and_never_passed(seed: int, beta: float) -> None:
    found = linear_vae(
        covariance((6.0, 3.0, 1.0, 0.3), seed), latents=2, noise_variance=0.2, beta=beta, seed=seed
    )
    assert found.loss >= found.expected_loss - 1e-9
    assert found.loss == pytest.approx(found.expected_loss, abs=1e-6)
    assert float(found.cosines.min()) > 0.99
    np.testing.assert_allclose(
        found.expected_variances, beta * 0.2 / np.array([6.0, 3.0]), rtol=1e-9
    )


def test_a_latent_that_costs_more_than_it_explains_is_switched_off() -> None:
    found = linear_vae(covariance((4.0, 1.0, 0.3)), latents=2, noise_variance=0.5, beta=3.0)
    assert found.active.tolist() == [True, False]
    assert found.expected_lengths[1] == 0.0
    np.testing.assert_allclose(found.variances, (1.5 / 4.0, 1.0), atol=1e-5)
    assert len(found.cosines) == 1
    assert found.largest_overlap == 0.0


def test_distinct_variances_single_the_axes_out_and_equal_ones_do_not() -> None:
    found = pca_alignment(seed=1)
    assert found.smallest_cosine > 0.999999
    assert found.largest_loss_gap < 1e-9
    assert found.largest_variance_gap < 1e-6
    assert 10.0 < found.equal_spread <= 45.0
    for one in found.equal:  # any axes, but orthogonal ones in the right plane
        assert one.largest_overlap < 1e-4
        np.testing.assert_allclose(
            np.linalg.norm(one.axes[:, :2].T @ one.directions, axis=0), 1.0, atol=1e-8
        )


def test_axes_on_either_side_of_a_swap_are_near() -> None:
    """At 89° and 1° the two latents have swapped and stand two degrees apart."""
    turned = []
    for degrees in (1.0, 89.0, 80.0):
        angle = np.radians(degrees)
        turned.append(
            replace(
                linear_vae(np.diag([3.0, 3.0, 1.0]), latents=2, noise_variance=0.1), axes=np.eye(3)
            )
        )
        turned[-1].decoder[:] = [
            [np.cos(angle), -np.sin(angle)],
            [np.sin(angle), np.cos(angle)],
            [0.0, 0.0],
        ]
    assert module.PcaAlignment((), tuple(turned[:2])).equal_spread == pytest.approx(2.0)
    assert module.PcaAlignment((), tuple(turned)).equal_spread == pytest.approx(11.0)
    assert module.PcaAlignment((), tuple(turned[:1])).equal_spread == 0.0


def test_a_seed_gives_the_same_again() -> None:
    first, second = pca_alignment(restarts=2, seed=2), pca_alignment(restarts=2, seed=2)
    assert np.array_equal(first.distinct[1].decoder, second.distinct[1].decoder)
    assert not np.array_equal(first.equal[0].decoder, first.equal[1].decoder)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: linear_vae(np.ones((2, 3)), latents=1, noise_variance=1.0),
            "covariance must be a symmetric matrix; got shape (2, 3), or unequal halves.",
        ),
        (
            lambda: linear_vae(np.diag([1.0, 0.0]), latents=1, noise_variance=1.0),
            "covariance must have positive eigenvalues; got one of 0. Variances lie above 0.",
        ),
        (
            lambda: linear_vae(np.eye(2), latents=3, noise_variance=1.0),
            (
                "latents must be a whole number in 1..2; got 3. A linear decoder has no use for"
                " more latents than pixels."
            ),
        ),
        (
            lambda: linear_vae(np.eye(2), latents=1, noise_variance=-0.1),
            "noise_variance must be a finite number above 0; got -0.1.",
        ),
        (
            lambda: linear_vae(np.eye(2), latents=1, noise_variance=1.0, beta=0.0),
            "beta must be a finite number above 0; got 0.0.",
        ),
        (
            lambda: pca_alignment(restarts=1),
            "restarts must be a whole number of at least 2; got 1.",
        ),
        (lambda: pca_alignment(seed=-1), "seed must be a whole number of at least 0; got -1."),
    ],
)
def test_nonsense_is_refused(call, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()
