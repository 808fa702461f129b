# SPDX-License-Identifier: Apache-2.0
"""The mixing map keeps every law and mixes every latent: closed forms, derivatives, tests of laws,
and refusals.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import special_ortho_group

from unbraid.analysis.theory.impossibility import MixingMap, impossibility, mixing_reflection
from unbraid.core.errors import InputError

SMOOTH: dict[str, tuple[Any, ...]] = {
    "normal": (stats.norm(), stats.norm(2.0, 0.5)),
    "uniform": (stats.uniform(), stats.uniform(-1.0, 2.0), stats.uniform()),
    "student_t": (stats.t(2.5), stats.t(9.0)),
    "mixed": (stats.norm(), stats.t(4.0), stats.uniform(-2.0, 4.0), stats.expon()),
}


def sample(laws: tuple[Any, ...], count: int, seed: int = 0) -> np.ndarray:
    draws = np.random.default_rng(seed)
    return np.stack([law.rvs(count, random_state=draws) for law in laws], axis=1)


@settings(deadline=None, max_examples=40)
@given(latents=st.integers(2, 12), alpha=st.none() | st.floats(0.01, 0.49))
def test_the_reflection_is_orthogonal_its_own_inverse_and_full(
    latents: int, alpha: float | None
) -> None:
    matrix = mixing_reflection(latents, alpha)
    np.testing.assert_allclose(matrix @ matrix, np.eye(latents), atol=1e-12)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-15)
    assert float(np.abs(matrix).min()) > 1e-4


def test_the_proofs_matrix_by_hand() -> None:
    """alpha = 1/4 and three latents: v = (1/2, sqrt(3/8), sqrt(3/8))."""
    side, corner = -np.sqrt(3.0 / 8.0), -3.0 / 4.0
    expected = [[0.5, side, side], [side, 0.25, corner], [side, corner, 0.25]]
    np.testing.assert_allclose(mixing_reflection(3, 0.25), expected, atol=1e-15)


@pytest.mark.parametrize("latents", [2, 3, 4])
def test_two_latents_tie_for_every_factor(latents: int) -> None:
    sizes = np.sort(np.abs(mixing_reflection(latents)), axis=1)
    np.testing.assert_allclose(sizes[:, -1], sizes[:, -2], atol=1e-12)


def test_normal_latents_are_simply_turned() -> None:
    matrix = special_ortho_group.rvs(3, random_state=0)
    z = sample((stats.norm(),) * 3, 200)
    mapping = MixingMap((stats.norm(),) * 3, matrix)
    np.testing.assert_allclose(mapping(z), z @ matrix.T, atol=1e-9)
    np.testing.assert_allclose(mapping.jacobian(z), np.broadcast_to(matrix, (200, 3, 3)), rtol=1e-6)


def test_uniform_latents_in_closed_form() -> None:
    laws = (stats.uniform(), stats.uniform())
    z = np.array([[0.5, 0.5], [0.5, 0.975], [0.1, 0.9]])
    expected = stats.norm.cdf(stats.norm.ppf(z) @ mixing_reflection(2).T)
    np.testing.assert_allclose(MixingMap(laws, mixing_reflection(2))(z), expected, atol=1e-14)
    np.testing.assert_allclose(expected[0], 0.5, atol=1e-15)


@pytest.mark.parametrize("kind", list(SMOOTH))
def test_laws_stay_and_latents_mix(kind: str) -> None:
    found = impossibility(SMOOTH[kind], samples=8000, seed=3)
    assert found.log_density_gap < 1e-6
    assert found.jacobian_gap < 1e-6
    assert found.smallest_slope > 0
    assert found.smallest_p > 1e-3
    assert found.data_gap < 1e-8
    assert found.mig_before > 0.98
    assert found.mig_after < 0.02
    assert len(found.independence_p) == len(SMOOTH[kind]) * (len(SMOOTH[kind]) - 1) // 2


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31 - 1), kind=st.sampled_from(list(SMOOTH)))
def test_there_and_back(seed: int, kind: str) -> None:
    laws = SMOOTH[kind]
    mapping = MixingMap(laws, special_ortho_group.rvs(len(laws), random_state=seed))
    z = sample(laws, 50, seed)
    np.testing.assert_allclose(mapping.inverse(mapping(z)), z, rtol=1e-6, atol=1e-9)
    reflected = MixingMap(laws, mixing_reflection(len(laws)))
    np.testing.assert_allclose(reflected(reflected(z)), z, rtol=1e-6, atol=1e-9)


def test_far_tails_keep_their_digits() -> None:
    laws = (stats.norm(), stats.norm())
    z = np.array([[20.0, -20.0], [9.0, 9.0]])
    mapping = MixingMap(laws, mixing_reflection(2))
    np.testing.assert_allclose(mapping(z), z @ mapping.rotation.T, rtol=1e-9, atol=1e-12)


def test_the_tests_see_a_law_that_changed() -> None:
    """A map made for other marginals keeps neither the density nor the law of these."""
    laws, others = (stats.norm(), stats.norm()), (stats.norm(), stats.norm(0.0, 2.0))
    z, wrong = sample(laws, 5000), MixingMap(others, mixing_reflection(2))
    assert stats.kstest(wrong(z)[:, 0], "norm").pvalue < 1e-6
    change = (
        stats.norm.logpdf(wrong(z)).sum(axis=1) + np.linalg.slogdet(wrong.numerical_jacobian(z))[1]
    )
    assert float(np.abs(change - stats.norm.logpdf(z).sum(axis=1)).max()) > 0.1


def test_a_kink_costs_digits_only() -> None:
    found = impossibility((stats.laplace(), stats.laplace()), samples=4000)
    assert found.log_density_gap < 1e-2
    assert found.smallest_p > 1e-3


def test_more_latents_are_mixed_less_evenly_but_mixed() -> None:
    assert impossibility((stats.norm(),) * 6, samples=4000).mig_after < 0.2


def test_a_seed_gives_the_same_again() -> None:
    first, second, other = (impossibility(samples=1000, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.mixed, second.mixed)
    assert first.mig_after == second.mig_after
    assert not np.array_equal(first.mixed, other.mixed)


def test_a_decoder_of_ones_own_is_used() -> None:
    found = impossibility(decoder=lambda z: z[:, :1] ** 3, samples=1000)
    assert found.data_p.shape == (1,)


NORMALS = (stats.norm(), stats.norm())
HALF = mixing_reflection(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: impossibility([stats.norm()]),
            (
                "latents must be at least 2: the theorem mixes them; got 1. A single latent has"
                " nothing to be mixed with."
            ),
        ),
        (
            lambda: mixing_reflection(1),
            (
                "latents must be at least 2: the theorem mixes them; got 1. A single latent has"
                " nothing to be mixed with."
            ),
        ),
        (
            lambda: mixing_reflection(3, 0.5),
            "alpha must lie between 0 and 0.5, both left out; got 0.5.",
        ),
        (
            lambda: mixing_reflection(3, "half"),
            "alpha must lie between 0 and 0.5, both left out; got 'half'.",
        ),  # pyright: ignore
        (
            lambda: MixingMap(NORMALS, np.eye(2)),
            (
                "rotation must have no entry of 0; got 2 of 4 entries 0. Such a matrix leaves some"
                " latent out of the mixture; mixing_reflection makes one that does not."
            ),
        ),
        (lambda: MixingMap(NORMALS, np.ones((2, 3))), "rotation must be square; got shape (2, 3)."),
        (
            lambda: MixingMap(NORMALS, np.ones((2, 2))),
            (
                "rotation must be orthogonal (its transpose times itself is the identity); got a"
                " product that is off by 2."
            ),
        ),
        (
            lambda: MixingMap((stats.norm(), 3.0), HALF),
            (
                "marginals[1] must be a frozen continuous law of scipy.stats; got 3.0. For example"
                " scipy.stats.norm() or scipy.stats.uniform(-1, 2)."
            ),
        ),
        (
            lambda: MixingMap(NORMALS, HALF)([[1.0, 2.0, 3.0]]),
            "z must have 2 columns, one a latent; got 3.",
        ),
        (
            lambda: MixingMap(NORMALS, HALF)([[1.0, np.nan]]),
            "z must hold finite numbers; got 1 of 2 entries NaN or infinite.",
        ),
        (
            lambda: MixingMap((stats.norm(), stats.uniform()), HALF)([[0.0, 1.5], [0.0, 0.5]]),
            "z must lie inside the prior's support, (0, 1) for latent 1; got 1 outside it.",
        ),
        (
            lambda: impossibility(samples=10),
            (
                "samples must be a whole number of at least 1000; got 10. Fewer tell nothing about"
                " a law."
            ),
        ),
        (lambda: impossibility(seed=-1), "seed must be a whole number of at least 0; got -1."),
    ],
)
def test_nonsense_is_refused(call, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()
