# SPDX-License-Identifier: Apache-2.0
"""DCI: closed forms of the aggregation, golden numbers by scikit-learn's trees, LightGBM beside them, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.errors import InputError
from unbraid.grid import FactorGrid
from unbraid.metrics import dci
from unbraid.metrics.dci import completeness, disentanglement

QUICK = ["A/perfect", "A/rotation", "A/noisy_mixture", "A/one_missing", "B/warped"]
SLOW = ["A/perm_flip_dead", "A/noise", "A/duplicated", "A/warped", "A/perfect_jitter", "A/const_latent"]
SLOW += ["B/perfect", "B/perm_flip_dead", "B/rotation", "B/noise", "B/duplicated", "B/noisy_mixture", "B/one_missing"]
SLOW += ["B/perfect_jitter"]
FULL = np.tile(FactorGrid(("a", "b"), (2, 3)).to_factors(np.arange(6)), (10, 1))


def test_each_latent_serves_two_of_ten_factors() -> None:
    importance = np.kron(np.eye(5), np.ones((1, 2)))
    score, per_latent = disentanglement(importance)
    assert score == pytest.approx(1 - np.log(2) / np.log(10), abs=1e-9)
    assert per_latent == pytest.approx(np.full(5, 1 - np.log(2) / np.log(10)), abs=1e-9)
    assert completeness(importance)[0] == pytest.approx(1.0, abs=1e-8)


def test_each_factor_needs_two_of_ten_latents() -> None:
    importance = np.kron(np.eye(5), np.ones((2, 1)))
    assert completeness(importance)[0] == pytest.approx(1 - np.log(2) / np.log(10), abs=1e-9)
    assert disentanglement(importance)[0] == pytest.approx(1.0, abs=1e-8)


def test_rows_count_by_their_mass() -> None:
    # A pure row of mass 3 and an even row of mass 1: 3/4 * 1 + 1/4 * 0.
    assert disentanglement(np.array([[3.0, 0.0], [0.5, 0.5]]))[0] == pytest.approx(0.75, abs=1e-9)


def test_even_and_empty_importances_score_zero() -> None:
    for importance in (np.ones((4, 3)), np.zeros((4, 3))):
        assert disentanglement(importance)[0] == pytest.approx(0.0, abs=1e-9)
        assert completeness(importance)[0] == pytest.approx(0.0, abs=1e-9)


def test_golden_aggregation(golden_numbers) -> None:
    golden = golden_numbers["dci_aggregation"]
    importance = np.array(golden["importance"])
    score, per_latent = disentanglement(importance)
    assert score == pytest.approx(golden["disentanglement"], abs=1e-9)
    assert per_latent == pytest.approx(np.array(golden["per_code"]), abs=1e-9)
    score, per_factor = completeness(importance)
    assert score == pytest.approx(golden["completeness"], abs=1e-9)
    assert per_factor == pytest.approx(np.array(golden["per_factor"]), abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6))
def test_aggregation_stays_in_range_whatever_the_order(seed: int, latents: int, factors: int) -> None:
    generator = np.random.default_rng(seed)
    importance = generator.exponential(size=(latents, factors)) ** 3
    score, _ = disentanglement(importance)
    assert 0.0 <= score <= 1.0
    turned = importance[generator.permutation(latents)][:, generator.permutation(factors)] * 5.0
    assert disentanglement(turned)[0] == pytest.approx(score, abs=1e-9)


def check_golden(golden_case) -> None:
    result = dci(*golden_case.split)
    expected = golden_case.expected["dci"]
    assert result.score == result.disentanglement == pytest.approx(expected["disentanglement"], abs=5e-3)
    assert result.completeness == pytest.approx(expected["completeness"], abs=5e-3)
    assert result.informativeness == pytest.approx(expected["informativeness_test"], abs=5e-3)
    assert result.informativeness_train == pytest.approx(expected["informativeness_train"], abs=5e-3)
    assert result.importance == pytest.approx(np.array(expected["importance"]), abs=2e-2)
    weight = result.importance.sum(axis=1) > 0.05  # rows without mass are rounding
    assert result.disentanglement_per_latent[weight] == pytest.approx(
        np.array(expected["disentanglement_per_code"])[weight], abs=2e-2
    )
    assert result.completeness_per_factor == pytest.approx(np.array(expected["completeness_per_factor"]), abs=2e-2)


@pytest.mark.parametrize("golden_case", QUICK, indirect=True)
def test_golden(golden_case) -> None:
    check_golden(golden_case)


@pytest.mark.slow
@pytest.mark.parametrize("golden_case", SLOW, indirect=True)
def test_golden_further_cases(golden_case) -> None:
    check_golden(golden_case)


@pytest.mark.parametrize("set_name", ["A", "B"])
def test_lightgbm_stays_near_the_golden_disentanglement(golden_numbers, set_name: str, make_case) -> None:
    away = []
    for name in [name for name in golden_numbers["cases"] if name.startswith(set_name)]:
        case = make_case(name)
        away.append(abs(dci(*case.split, backend="lightgbm").score - case.expected["dci"]["disentanglement"]))
    assert np.mean(away) <= 0.02
    assert np.max(away) <= 0.04


@pytest.mark.parametrize("backend", ["sklearn", "lightgbm"])
class TestBothBackends:
    def test_perfect_codes(self, backend) -> None:
        result = dci(FULL[:, ::-1] * 1.5, FULL, FULL[:, ::-1] * 1.5, FULL, backend=backend)
        assert result.disentanglement == pytest.approx(1.0, abs=1e-6)
        assert result.completeness == pytest.approx(1.0, abs=1e-6)
        assert result.informativeness == result.informativeness_train == 1.0
        assert result.importance == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0]]), abs=1e-6)

    def test_one_latent_is_complete_but_not_disentangled(self, backend) -> None:
        both = FULL[:, :1] * 3.0 + FULL[:, 1:]
        result = dci(both, FULL, both, FULL, backend=backend)
        assert result.disentanglement == pytest.approx(0.0, abs=1e-9)
        assert result.completeness == 1.0
        assert result.informativeness == 1.0

    def test_constant_codes_say_nothing(self, backend) -> None:
        result = dci(np.ones((60, 2)), FULL, np.ones((60, 2)), FULL, backend=backend)
        assert result.score == pytest.approx(0.0, abs=1e-9)
        assert result.completeness == pytest.approx(0.0, abs=1e-9)
        assert not result.importance.any()
        assert result.informativeness_per_factor == pytest.approx([1 / 2, 1 / 3])

    def test_a_constant_factor_is_left_out_and_listed(self, backend) -> None:
        wider = np.column_stack([FULL[:, 0], np.full(60, 4), FULL[:, 1]])
        result = dci(FULL * 1.0, wider, FULL * 1.0, wider, backend=backend)
        assert result.constant_factors == (1,)
        assert result.score == dci(FULL * 1.0, FULL, FULL * 1.0, FULL, backend=backend).score
        assert np.isnan(result.completeness_per_factor).tolist() == [False, True, False]

    def test_one_varying_factor_cannot_be_mixed(self, backend) -> None:
        assert dci(FULL * 1.0, FULL[:, 1:], FULL * 1.0, FULL[:, 1:], backend=backend).disentanglement == 1.0

    def test_unseen_values_count_as_wrong_and_missing_ones_do_not_matter(self, backend) -> None:
        test = FULL[:4].copy()
        test[:2, 1] = 77
        result = dci(FULL * 1.0, FULL, FULL[:4] * 1.0, test, backend=backend)
        assert result.informativeness_per_factor.tolist() == [1.0, 0.5]

    def test_two_samples_are_enough(self, backend) -> None:
        codes, factors = np.array([[0.0], [1.0]]), np.array([[0], [1]])
        assert np.isfinite(dci(codes, factors, codes, factors, backend=backend).score)

    def test_values_may_bear_other_names(self, backend, sample) -> None:
        codes, factors = sample
        codes, factors = codes[:120], factors[:120]
        renamed = np.array([-7, 3, 20, 21, 50])[factors]
        expected = dci(codes, factors, codes, factors, backend=backend)
        assert dci(codes, renamed, codes, renamed, backend=backend).score == pytest.approx(expected.score, abs=1e-12)


def test_unknown_backend() -> None:
    with pytest.raises(InputError, match=r"^backend 'lightgbn' is unknown; did you mean 'lightgbm'\? Known: lightgbm, sklearn\.$"):
        dci(FULL, FULL, FULL, FULL, backend="lightgbn")


def test_the_seed_decides_ties() -> None:
    twice = np.column_stack([FULL, FULL]) * 1.0
    runs = [dci(twice, FULL, twice, FULL, seed=seed).importance for seed in (0, 0, 1)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
