# SPDX-License-Identifier: Apache-2.0
"""Active units: closed forms of the three rules, boundaries, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unbraid.metrics import active_units

SIGNS = np.array([1.0, -1.0, 1.0, -1.0])[:, None]


def posterior(scale: list[float], variance: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Means of the given standard deviations around 0 and constant posterior variances."""
    return SIGNS * scale, np.tile(np.log(variance), (4, 1))


def test_each_rule_judges_by_its_own_number() -> None:
    # In use, switched off, little used, and narrow without ever moving.
    result = active_units(*posterior([1.0, 0.0, 0.5, 0.0], [0.01, 1.0, 0.75, 0.5]))
    assert result.posterior_variance == pytest.approx([0.01, 1.0, 0.75, 0.5], abs=1e-12)
    assert result.code_std == pytest.approx([1.0, 0.0, 0.5, 0.0], abs=1e-12)
    expected = [
        0.5 * (s**2 + v - np.log(v) - 1) for s, v in ((1, 0.01), (0, 1), (0.5, 0.75), (0, 0.5))
    ]
    assert result.kl == pytest.approx(expected, abs=1e-12)
    assert result.kl[2] == pytest.approx(0.14, abs=0.005)
    assert result.active_by_posterior_variance.tolist() == [True, False, True, True]
    assert result.active_by_kl.tolist() == [True, False, False, False]
    assert result.active_by_code_std.tolist() == [True, False, True, False]
    assert (result.count_by_posterior_variance, result.count_by_kl, result.count_by_code_std) == (
        3,
        1,
        2,
    )


@pytest.mark.parametrize("rule", ["posterior_variance", "kl", "code_std"])
def test_the_rule_asked_for_gives_the_score(rule: str) -> None:
    result = active_units(*posterior([1.0, 0.0, 0.5, 0.0], [0.01, 1.0, 0.75, 0.5]), rule=rule)
    assert result.active.tolist() == getattr(result, f"active_by_{rule}").tolist()
    assert result.score == float(getattr(result, f"count_by_{rule}"))
    assert isinstance(result.score, float)


def test_the_default_is_the_mean_posterior_variance() -> None:
    assert active_units(*posterior([1.0, 0.5], [0.01, 0.75])).score == 2.0


def test_thresholds_are_compared_as_published() -> None:
    # Exactly at the threshold: not below 0.8, not above 1 nat, but at least 0.05.
    at_variance = active_units(
        np.zeros((2, 1)), np.full((2, 1), np.log(0.5)), threshold=float(np.exp(np.log(0.5)))
    )
    assert at_variance.score == 0.0
    at_kl = active_units(np.array([[2.0], [-2.0]]), np.zeros((2, 1)), rule="kl", threshold=2.0)
    assert at_kl.kl.tolist() == [2.0]
    assert at_kl.score == 0.0
    at_std = active_units(
        np.array([[0.5], [-0.5]]), np.zeros((2, 1)), rule="code_std", threshold=0.5
    )
    assert at_std.score == 1.0


def test_other_published_thresholds() -> None:
    mean, logvar = posterior([0.2, 0.07], [0.9, 0.99])
    assert active_units(mean, logvar, rule="kl").score == 0.0
    assert active_units(mean, logvar, rule="kl", threshold=0.01).active.tolist() == [True, False]
    assert active_units(mean, logvar, rule="code_std").score == 2.0
    # Burda et al.: variance of the mean above 0.01.
    assert active_units(mean, logvar, rule="code_std", threshold=0.1).active.tolist() == [
        True,
        False,
    ]


def test_variances_are_averaged_not_their_logarithms() -> None:
    logvar = np.log(np.array([[0.1], [1.9]]))
    assert active_units(np.zeros((2, 1)), logvar).posterior_variance == pytest.approx(
        [1.0], abs=1e-12
    )


def test_kl_is_torchs() -> None:
    generator = np.random.default_rng(0)
    mean, logvar = generator.normal(size=(50, 3)), generator.normal(size=(50, 3))
    normal = torch.distributions.Normal(torch.tensor(mean), torch.tensor(logvar).mul(0.5).exp())
    expected = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).mean(
        dim=0
    )
    assert active_units(mean, logvar).kl == pytest.approx(expected.numpy(), abs=1e-12)


def test_invariants() -> None:
    generator = np.random.default_rng(1)
    mean, logvar = (
        generator.normal(size=(40, 5)) * [2, 1, 0.5, 0.1, 0.01],
        generator.normal(size=(40, 5)) - [4, 3, 2, 1, 0],
    )
    order = generator.permutation(5)
    for rule in ("posterior_variance", "kl", "code_std"):
        active = active_units(mean, logvar, rule=rule).active
        assert (
            active_units(-mean[:, order], logvar[:, order], rule=rule).active.tolist()
            == active[order].tolist()
        )
        assert (
            active_units(np.tile(mean, (3, 1)), np.tile(logvar, (3, 1)), rule=rule).active.tolist()
            == active.tolist()
        )


def test_one_sample_has_no_spread() -> None:
    result = active_units(np.array([[3.0]]), np.array([[0.0]]))
    assert (result.count_by_posterior_variance, result.count_by_kl, result.count_by_code_std) == (
        0,
        1,
        0,
    )


def test_a_constant_mean_has_no_spread() -> None:
    assert active_units(np.full((3, 1), 0.1), np.zeros((3, 1))).code_std.tolist() == [0.0]


def test_bad_options_are_refused_together(refused) -> None:
    assert refused(
        active_units, np.zeros((2, 1)), np.zeros((2, 1)), rule="std", threshold=-1.0
    ) == [
        ("rule", "is unknown", "std"),
        ("threshold", "must be a finite number of at least 0", "-1.0"),
    ]
    assert refused(
        active_units, np.zeros((2, 1)), np.zeros((2, 1)), rule=["kl"], threshold="0.1"
    ) == [
        ("rule", "is unknown", "['kl']"),
        ("threshold", "must be a finite number of at least 0", "0.1"),
    ]


def test_bad_arrays_are_refused(refused) -> None:
    assert refused(active_units, np.zeros((2, 1)), np.zeros((2, 2))) == [
        ("mean and logvar", "must have the same shape", "(2, 1) and (2, 2)")
    ]
    assert refused(active_units, np.zeros((2, 1)), np.array([[0.0], [501.0]])) == [
        ("logvar", "must be at most 500 in size", "501.0 at row 1, latent 0")
    ]
