# SPDX-License-Identifier: Apache-2.0
"""DCI-ES: closed forms of the curve, forests read at a depth against forests grown to it, known
codes, degenerate input.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import dci_es
from unbraid.metrics.dci_es import DEPTHS, explicitness_of_curve, predictions_by_depth

FULL = np.tile(FactorGrid(("a", "b"), (2, 3)).to_factors(np.arange(6)), (10, 1))
QUICK = {"trees": 10, "depths": (1, 2, 4, 8)}


def test_the_lowest_loss_at_once_is_one() -> None:
    assert explicitness_of_curve([1, 2, 5], [0.2, 0.2, 0.2], 0.9) == 1.0


def test_an_even_fall_from_the_baseline_is_zero() -> None:
    assert explicitness_of_curve([1, 2, 5], [0.8, 0.6, 0.0], 0.8) == pytest.approx(0.0)
    assert explicitness_of_curve([1, 2, 5], [0.8, 0.7, 0.4], 0.8) == pytest.approx(0.0)


def test_a_fall_at_the_last_capacity_nears_minus_one_and_none_is_minus_one() -> None:
    # All of the rectangle, which is two triangles, but half of the last step.
    assert explicitness_of_curve([0, 9, 10], [0.5, 0.5, 0.0], 0.5) == pytest.approx(
        1 - 2 * 9.5 / 10
    )
    assert explicitness_of_curve([0, 9, 10], [0.5, 0.6, 0.7], 0.5) == -1.0


def test_rising_losses_and_losses_above_the_baseline_count_as_what_was_reached() -> None:
    assert explicitness_of_curve([1, 2, 3], [0.3, 0.1, 0.4], 0.5) == explicitness_of_curve(
        [1, 2, 3], [0.3, 0.1, 0.1], 0.5
    )
    assert explicitness_of_curve([1, 2, 3], [0.9, 0.1, 0.1], 0.5) == explicitness_of_curve(
        [1, 2, 3], [0.5, 0.1, 0.1], 0.5
    )


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=6),
    st.floats(0.1, 1),
    st.floats(0.1, 100),
    st.floats(-5, 5),
)
def test_a_curve_is_free_of_the_unit_of_capacity(
    losses: list[float], baseline: float, unit: float, shift: float
) -> None:
    capacities = np.arange(len(losses)) ** 2.0
    score = explicitness_of_curve(capacities, losses, baseline)
    assert -1.0 - 1e-9 <= score <= 1.0
    assert explicitness_of_curve(capacities * unit + shift, losses, baseline) == pytest.approx(
        score, abs=1e-6
    )


def test_a_forest_read_at_a_depth_is_the_forest_grown_to_it(sample) -> None:
    from sklearn.ensemble import RandomForestClassifier

    codes, factors = sample
    # Without lots for latents and samples a tree does not depend on the order in which nodes are
    # split.
    plain = {"n_estimators": 3, "bootstrap": False, "max_features": None, "random_state": 0}
    grown = RandomForestClassifier(**plain).fit(codes[:200], factors[:200, 2])
    said = predictions_by_depth(grown, codes[200:], DEPTHS)
    for depth, row in zip(DEPTHS, said, strict=True):
        alone = RandomForestClassifier(**plain, max_depth=depth).fit(codes[:200], factors[:200, 2])
        # Latents that tie are drawn by lot all the same.
        assert np.mean(row == alone.predict(codes[200:])) >= 0.97, depth


def test_the_deepest_reading_is_the_forest_itself(sample) -> None:
    from sklearn.ensemble import RandomForestClassifier

    codes, factors = sample
    forest = RandomForestClassifier(n_estimators=20, random_state=1).fit(
        codes[:200], factors[:200, 1]
    )
    assert np.array_equal(
        predictions_by_depth(forest, codes[200:], [1, 90])[1], forest.predict(codes[200:])
    )


def test_binary_factors_in_latents_of_their_own_are_explicit() -> None:
    result = dci_es(FULL[:, :1] * 1.0, FULL[:, :1], FULL[:, :1] * 1.0, FULL[:, :1])
    assert result.score == result.explicitness == 1.0
    assert result.size == 1.0
    assert result.loss.tolist() == [[0.0] * len(DEPTHS)]
    assert result.baseline.tolist() == [0.5]


def test_exclusive_or_needs_the_second_level() -> None:
    # Two signs whose product is the factor: a stump knows nothing, two levels know all.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(400, 2))
    factor = (signs.prod(axis=1) > 0).astype(int)[:, None]
    result = dci_es(signs, factor, signs, factor, depths=(1, 2, 3))
    assert result.loss[0, 0] > 0.3
    assert result.loss[0, 1:].tolist() == [0.0, 0.0]
    lost = min(result.loss[0, 0], result.baseline[0])
    assert result.score == pytest.approx(1 - lost / 2 / result.baseline[0])
    assert result.size == 0.5


@pytest.mark.parametrize(
    ("name", "score"),
    [("A/perfect", 0.96), ("A/rotation", 0.82), ("A/one_missing", 0.56), ("A/noise", -1.0)],
)
def test_known_codes(name: str, score: float, make_case) -> None:
    result = dci_es(*make_case(name).split, trees=50)
    assert result.score == pytest.approx(score, abs=0.03)


def test_noise_is_never_predicted_though_the_released_normaliser_calls_it_explicit(
    make_case,
) -> None:
    result = dci_es(*make_case("A/noise").split, trees=30)
    assert result.never_predicted == (0, 1, 2, 3, 4)
    assert result.per_factor.tolist() == [-1.0] * 5
    assert np.mean(result.per_factor_as_released) > 0.95


def test_the_released_normaliser_has_a_lowest_loss_of_zero(sample) -> None:
    codes, factors = sample
    result = dci_es(codes, factors, codes[::2], factors[::2], **QUICK)
    reached = np.minimum.accumulate(result.loss[2])
    area = np.trapezoid(reached - reached[-1], result.depths)
    assert result.per_factor_as_released[2] == pytest.approx(
        1 - area / (7 * result.baseline[2] / 2)
    )


def test_the_seed_reaches_the_forests(sample) -> None:
    codes, factors = sample
    runs = [
        dci_es(codes[:200], factors[:200], codes[200:], factors[200:], **QUICK, seed=seed).loss
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_order_and_sign_of_latents_and_names_of_values_hardly_matter(sample) -> None:
    codes, factors = sample
    parts = codes[:200], factors[:200], codes[200:], factors[200:]
    expected = dci_es(*parts).score
    turned, renamed = codes[:, ::-1] * [1, -2, 1, -3], np.array([5, 6, 8, 9, 40])[factors]
    assert dci_es(turned[:200], renamed[:200], turned[200:], renamed[200:]).score == pytest.approx(
        expected, abs=0.03
    )


def test_a_constant_factor_is_left_out_and_listed(sample) -> None:
    codes, factors = sample
    wider = np.column_stack([factors[:, :1], np.full(len(codes), 3), factors[:, 1:]])
    result, without = (dci_es(codes, each, codes, each, **QUICK) for each in (wider, factors))
    assert result.constant_factors == (1,)
    assert np.isnan(result.per_factor).tolist() == [False, True, False, False]
    assert (result.score, result.size) == (without.score, without.size) == (without.score, 3 / 4)


def test_constant_codes_predict_nothing() -> None:
    result = dci_es(np.ones((60, 2)), FULL, np.ones((60, 2)), FULL, **QUICK)
    assert result.score == -1.0
    assert result.never_predicted == (0, 1)


def test_values_missing_from_either_part_are_no_error(sample) -> None:
    codes, factors = sample
    low = factors[:, 2] < 2
    assert np.isfinite(dci_es(codes, factors, codes[low], factors[low], **QUICK).per_factor).all()
    unseen = dci_es(codes[low], factors[low], codes, factors, **QUICK)
    assert unseen.loss[2].min() >= np.mean(~low)


def test_a_factor_that_stays_at_its_commonest_value_is_left_out_and_listed(refused) -> None:
    factors = np.array([[0, 0], [0, 1], [0, 1], [1, 0]] * 20)
    test = factors[factors[:, 0] == 0]
    result = dci_es(factors * 1.0, factors, test * 1.0, test, **QUICK)
    assert result.untested_factors == (0,)
    assert np.isnan(result.per_factor[0])
    assert result.score == result.per_factor[1] == 1.0
    part = (factors * 1.0, factors[:, :1], test * 1.0, test[:, :1])
    ((name, _, shown),) = refused(dci_es, *part)
    assert (name, shown) == ("test_factors", "that value in every row")


def test_two_samples_and_one_latent_give_a_defined_value() -> None:
    codes, factors = np.array([[0.0], [1.0]]), np.array([[0], [1]])
    assert -1.0 <= dci_es(codes, factors, codes, factors, **QUICK).score <= 1.0


@pytest.mark.parametrize("depths", [(3,), (2, 1), (1, 1), (0, 1), (1, 2.5)])
def test_depths_must_rise(depths: tuple, refused) -> None:
    assert refused(dci_es, FULL * 1.0, FULL, FULL * 1.0, FULL, depths=depths) == [
        ("depths", "must be at least two whole numbers of at least 1, rising", str(depths))
    ]


def test_one_latent_is_enough() -> None:
    factors = np.random.default_rng(0).integers(3, size=(90, 2))
    codes = factors[:, :1] * 1.0
    result = dci_es(codes[:60], factors[:60], codes[60:], factors[60:])
    assert result.per_factor[0] == 1.0  # a single split of depth 2 at most tells all three values
    assert result.size == 2.0


def test_depths_that_are_no_list_are_refused(refused) -> None:
    factors = np.random.default_rng(0).integers(3, size=(30, 2))
    assert refused(dci_es, factors * 1.0, factors, factors * 1.0, factors, depths=5) == [
        ("depths", "must be at least two whole numbers of at least 1, rising", "5")
    ]
