# SPDX-License-Identifier: Apache-2.0
"""The closed-form rotation: built answers, a search over rotations and variances, the objective
itself, and refusals.
"""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import special_ortho_group

from unbraid.analysis.theory.gaussian_toy import Posterior, Toy, beta_objective
from unbraid.analysis.theory.optimal_rotation import optimal_rotation, rotation_loss, rotation_sweep
from unbraid.core.errors import InputError


def jacobian(pixels: int, latents: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(pixels, latents))


def test_a_built_jacobian_gives_back_its_parts() -> None:
    left = np.linalg.qr(jacobian(7, 3, 0))[0]
    right = special_ortho_group.rvs(3, random_state=1)
    found = optimal_rotation((left * (3.0, 2.0, 0.5)) @ right.T, noise_variance=0.5, beta=2.0)
    np.testing.assert_allclose(found.singular_values, (3.0, 2.0, 0.5), atol=1e-12)
    np.testing.assert_allclose(np.abs(found.rotation.T @ right), np.eye(3), atol=1e-12)
    # noise_variance x beta is 1, so the variances are 1 / (1 + s²).
    np.testing.assert_allclose(found.variances, (0.1, 0.2, 0.8), atol=1e-12)
    assert found.loss_after == pytest.approx(np.log(10.0 * 5.0 * 1.25), abs=1e-12)
    assert np.linalg.det(found.rotation) == pytest.approx(1.0)


def searched(matrix: np.ndarray, noise_variance: float, beta: float, start: np.ndarray) -> float:
    """The least loss that BFGS finds over the exponentials of skew matrices and free variances."""
    size = matrix.shape[1]
    rows, columns = np.triu_indices(size, 1)
    given_jacobian = torch.from_numpy(matrix)

    def loss_and_slope(values: np.ndarray) -> tuple[float, np.ndarray]:
        free = torch.from_numpy(values).requires_grad_()
        skew = torch.zeros(size, size, dtype=torch.float64).index_put(
            (torch.tensor(rows), torch.tensor(columns)), free[size:]
        )
        lengths = (given_jacobian @ torch.matrix_exp(skew - skew.T)).square().sum(dim=0)
        variances = free[:size].exp()
        loss = (
            0.5 * (variances * lengths).sum() / noise_variance
            + 0.5 * beta * (variances - free[:size] - 1.0).sum()
        )
        loss.backward()
        return (
            float(loss.detach()),
            free.grad.numpy(),
        )  # pyright: ignore[reportOptionalMemberAccess]

    return float(
        minimize(
            loss_and_slope,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-10},
        ).fun
    )


@pytest.mark.parametrize("latents", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_search_over_rotations_and_variances_finds_better(latents: int, seed: int) -> None:
    matrix = jacobian(8, latents, seed)
    noise_variance, beta = (0.3, 1.0) if seed else (2.0, 4.0)
    found = optimal_rotation(matrix, noise_variance=noise_variance, beta=beta)
    draws = np.random.default_rng(seed)
    size = latents + latents * (latents - 1) // 2
    reached = [searched(matrix, noise_variance, beta, draws.normal(size=size)) for _ in range(6)]
    assert min(reached) >= found.loss_after - 1e-8
    assert min(reached) == pytest.approx(found.loss_after, abs=1e-8)
    assert found.loss_after < found.loss_before - 1e-4


@pytest.mark.parametrize("latents", [2, 3])
def test_the_gain_is_that_of_the_objective_itself(latents: int) -> None:
    """A linear decoder around a posterior at the origin: L_β of the toy, by quadrature, gains what
    the closed form says.
    """
    matrix = jacobian(5, latents, 3)
    toy = Toy(lambda z: z @ matrix.T, np.zeros(5), noise_variance=0.4)
    beta = 3.0
    found = optimal_rotation(matrix, noise_variance=0.4, beta=beta)
    plain = 1.0 / (1.0 + (matrix**2).sum(axis=0) / (beta * 0.4))
    before = beta_objective(toy, Posterior(np.zeros(latents), np.diag(plain)), beta)
    turned = toy.rotated(found.rotation.T)
    after = beta_objective(turned, Posterior(np.zeros(latents), np.diag(found.variances)), beta)
    assert after - before == pytest.approx(found.loss_before - found.loss_after, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    latents=st.integers(2, 6),
    pixels=st.integers(1, 7),
    noise_variance=st.floats(0.05, 5.0),
    beta=st.floats(0.1, 20.0),
)
def test_any_rotation_costs_at_least_as_much(
    seed: int, latents: int, pixels: int, noise_variance: float, beta: float
) -> None:
    matrix = jacobian(pixels, latents, seed)
    options = {"noise_variance": noise_variance, "beta": beta}
    found = optimal_rotation(matrix, **options)
    other = special_ortho_group.rvs(latents, random_state=seed % 2**31)
    scale = max(1.0, abs(found.loss_after))
    assert rotation_loss(matrix, other, **options) >= found.loss_after - 1e-10 * scale
    assert rotation_loss(matrix, found.rotation, **options) == pytest.approx(
        found.loss_after, rel=1e-9, abs=1e-10
    )
    with_variances = rotation_loss(matrix, found.rotation, **options, variances=found.variances)
    assert with_variances == pytest.approx(found.loss_after, rel=1e-9, abs=1e-9)
    columns = matrix @ found.rotation
    outside = columns.T @ columns
    np.testing.assert_allclose(
        outside - np.diag(np.diagonal(outside)), 0.0, atol=1e-10 * max(1.0, float(outside.max()))
    )
    # The best that can be reached does not depend on where one starts.
    assert optimal_rotation(matrix @ other, **options).loss_after == pytest.approx(
        found.loss_after, rel=1e-9
    )
    assert np.linalg.det(found.rotation) == pytest.approx(1.0)
    assert bool((np.diff(found.variances) >= 0).all())


def test_equal_singular_values_prefer_no_rotation() -> None:
    matrix = 2.0 * np.linalg.qr(jacobian(6, 3, 4))[0]
    found = optimal_rotation(matrix, noise_variance=1.0)
    assert found.loss_before == pytest.approx(found.loss_after, abs=1e-12)
    np.testing.assert_allclose(found.variances, 0.2, atol=1e-12)
    for seed in range(5):
        other = special_ortho_group.rvs(3, random_state=seed)
        assert rotation_loss(matrix, other, noise_variance=1.0) == pytest.approx(
            found.loss_after, abs=1e-12
        )


def test_latents_that_carry_nothing_keep_the_prior() -> None:
    found = optimal_rotation([[3.0, 4.0, 0.0]], noise_variance=1.0)
    np.testing.assert_allclose(found.variances, (1.0 / 26.0, 1.0, 1.0), atol=1e-12)
    np.testing.assert_allclose(found.rotation[:, 0], (0.6, 0.8, 0.0), atol=1e-12)
    assert found.loss_after == pytest.approx(0.5 * np.log(26.0))


def test_the_jacobian_of_a_decoder_of_images_takes_no_matrix_of_pixels_by_pixels() -> None:
    matrix = jacobian(12_288, 3, 5)
    tracemalloc.start()
    try:
        found = optimal_rotation(matrix, noise_variance=1.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20 * matrix.nbytes  # pixels by pixels would be 4,096 times
    columns = matrix @ found.rotation
    np.testing.assert_allclose(columns.T @ columns, np.diag(found.singular_values**2), atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_the_sweep_meets_the_closed_form(seed: int) -> None:
    found = rotation_sweep(seed=seed)
    assert found.searched_loss == pytest.approx(found.closed.loss_after, abs=1e-9)
    assert found.searched_degrees == pytest.approx(found.closed_degrees, abs=1e-3)
    assert 20.0 <= found.closed_degrees <= 70.0
    assert bool((found.losses >= found.closed.loss_after - 1e-12).all())
    assert found.losses[0] == pytest.approx(found.losses[-1], abs=1e-12)
    assert found.losses[0] == pytest.approx(found.closed.loss_before, abs=1e-12)


GOOD = np.eye(2)
SHAPE = "It is (pixels, latents): a column for each latent."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: optimal_rotation([[1.0, np.nan]], noise_variance=1.0),
            f"jacobian must hold finite numbers; got 1 of 2 entries NaN or infinite. {SHAPE}",
        ),
        (
            lambda: optimal_rotation([1.0, 2.0], noise_variance=1.0),
            f"jacobian must be a matrix with rows and columns; got an array of shape (2,). {SHAPE}",
        ),
        (
            lambda: optimal_rotation("J", noise_variance=1.0),  # pyright: ignore[reportArgumentType]
            f"jacobian must be a matrix of numbers; got 'J'. {SHAPE}",
        ),
        (
            lambda: optimal_rotation(np.zeros((3, 2)), noise_variance=1.0),
            (
                "jacobian must have an entry other than 0; got zeros alone. A constant decoder"
                " prefers no rotation."
            ),
        ),
        (
            lambda: optimal_rotation(GOOD, noise_variance=-1.0),
            "noise_variance must be a finite number above 0; got -1.0.",
        ),
        (
            lambda: optimal_rotation(GOOD, noise_variance=1.0, beta=0),
            "beta must be a finite number above 0; got 0.",
        ),
        (
            lambda: optimal_rotation(GOOD, noise_variance=1.0, beta=np.inf),
            "beta must be a finite number above 0; got inf.",
        ),
        (
            lambda: rotation_loss(GOOD, np.ones((2, 3)), noise_variance=1.0),
            "rotation must be square; got shape (2, 3).",
        ),
        (
            lambda: rotation_loss(GOOD, np.eye(3), noise_variance=1.0),
            "rotation must have a row for each of the 2 latents; got shape (3, 3).",
        ),
        (
            lambda: rotation_loss(GOOD, 2.0 * np.eye(2), noise_variance=1.0),
            (
                "rotation must be orthogonal (its transpose times itself is the identity); got a"
                " product that is off by 3."
            ),
        ),
        (
            lambda: rotation_loss(GOOD, np.eye(2), noise_variance=1.0, variances=[0.5, -0.1]),
            "variances must be 2 finite numbers above 0, one a latent; got [0.5, -0.1].",
        ),
        (
            lambda: rotation_sweep(np.eye(3)),
            "jacobian must have two columns to be turned by one angle; got 3.",
        ),
        (lambda: rotation_sweep(angles=2), "angles must be a whole number of at least 3; got 2."),
    ],
)
def test_nonsense_is_refused(call, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()
