# SPDX-License-Identifier: Apache-2.0
"""Every sentence of the page, in full."""

import numpy as np
import pytest
from scipy.stats import f_oneway

from unbraid.report.train.words import (
    Spread,
    best_sentence,
    carried,
    diverged_sentence,
    factor_sentence,
    inactive_sentence,
    lowest_loss_sentence,
    missing_factors_note,
    spread_of,
    spread_sentence,
    trained_sentence,
)

ALL_ACTIVE = np.ones(3, dtype=bool)


def test_trained_sentence() -> None:
    assert trained_sentence(9, 9, "sprites", 1500) == "9 models trained on sprites for 1,500 steps."
    assert trained_sentence(1, 1, "sprites", 1) == "1 model trained on sprites for 1 step."
    assert (
        trained_sentence(3, 6, "own images", 200)
        == "3 of 6 models trained on own images for 200 steps."
    )


def test_best_sentences() -> None:
    assert (
        best_sentence("MIG", 0.714, "β-VAE, β = 4, seed 2", 9)
        == "The best reaches MIG 0.71 (β-VAE, β = 4, seed 2)."
    )
    assert best_sentence("MIG", 0.714, "VAE, seed 0", 1) == "It reaches MIG 0.71 (VAE, seed 0)."
    assert (
        lowest_loss_sentence(61.23456, "VAE, seed 1", 2)
        == "The lowest loss is 61.23 nats (VAE, seed 1)."
    )
    assert (
        lowest_loss_sentence(61.23456, "VAE, seed 0", 1) == "Its loss is 61.23 nats (VAE, seed 0)."
    )
    assert lowest_loss_sentence(float("nan"), "VAE, seed 0", 1) == ""


def test_diverged_sentence() -> None:
    assert diverged_sentence([], 6) == ""
    assert (
        diverged_sentence([("model 3 (AE, seed 0)", 1)], 6)
        == "1 of 6 models diverged and was frozen: model 3 (AE, seed 0) at step 1."
    )
    many = [(f"model {number}", 1000) for number in range(10)]
    listed = "; ".join(f"model {number} at step 1,000" for number in range(8))
    assert (
        diverged_sentence(many, 20)
        == f"10 of 20 models diverged and were frozen: {listed}; and 2 more."
    )


def test_factor_sentence_by_where_the_information_is() -> None:
    said = factor_sentence("x", np.array([0.05, 0.81, 0.0]), ALL_ACTIVE)
    assert said == "x is in latent 1 (0.81 of its information; next best latent 0: 0.05)."
    said = factor_sentence("y", np.array([0.4, 0.1, 0.5]), ALL_ACTIVE)
    assert said == "y is spread: latent 2 holds 0.50 of its information and latent 0 holds 0.40."
    said = factor_sentence("hue", np.array([0.01, 0.04, 0.02]), ALL_ACTIVE)
    assert said == "hue is in no latent: the best, latent 1, holds 0.04 of its information."
    assert (
        factor_sentence("hue", np.array([0.3]), np.array([True]))
        == "hue: the only latent holds 0.30 of its information."
    )
    constant = np.full(3, np.nan)
    assert (
        factor_sentence("hue", constant, ALL_ACTIVE)
        == "hue takes one value in this sample; nothing can be said about it."
    )


def test_factor_sentence_does_not_credit_inactive_latents() -> None:
    shares = np.array([0.24, 0.17, 0.9])
    said = factor_sentence("scale", shares, np.array([False, True, False]))
    assert (
        said == "scale is not clearly in any active latent: the best, latent 1, holds 0.17 of its"
        " information."
    )
    assert (
        factor_sentence("scale", shares, np.zeros(3, dtype=bool))
        == "scale is in no latent: none is active."
    )


def test_carried_factors_come_largest_first_and_small_ones_are_left_out() -> None:
    assert carried(("x", "y", "z", "c"), np.array([0.2, 0.09, 0.7, np.nan])) == [
        ("z", 0.7),
        ("x", 0.2),
    ]


def test_inactive_sentence() -> None:
    assert inactive_sentence([], "kl") == ""
    assert (
        inactive_sentence([3], "kl")
        == "Not shown: latent 3 (under 0.01 nats; moving it changes next to nothing)."
    )
    assert (
        inactive_sentence([3, 5], "spread")
        == "Not shown: latents 3, 5 (each nearly the same for every image; moving them changes next"
        " to nothing)."
    )


def test_missing_factors_note() -> None:
    expected = (
        "No factors are known for this data, so scores that compare codes with factors are left"
        " out."
    )
    assert missing_factors_note() == expected


def test_spread_by_hand() -> None:
    # Means 2 and 6, each group's variance 1: MSB = 3 * (2² + 2²) = 24, MSW = 1, so the settings'
    # variance is 23/3.
    spread = spread_of([[1, 2, 3], [5, 6, 7]])
    assert spread is not None
    assert spread.settings == pytest.approx(23 / 3)
    assert spread.seeds == pytest.approx(1.0)


def test_spread_agrees_with_scipy_on_uneven_groups() -> None:
    generator = np.random.default_rng(0)
    groups = [generator.normal(mean, 1.0, size) for mean, size in ((0, 3), (1, 5), (0.5, 8))]
    spread = spread_of(groups)
    assert spread is not None
    assert spread.chance == pytest.approx(f_oneway(*groups).pvalue)


def test_spread_recovers_known_variances() -> None:
    generator = np.random.default_rng(1)
    means = generator.normal(0.0, 3.0, 400)
    spread = spread_of([generator.normal(mean, 1.0, 200) for mean in means])
    assert spread is not None
    # Against the variance of the means that were drawn: that of the law they come from is off by 7
    # % in 400 draws.
    assert spread.settings == pytest.approx(means.var(ddof=1), rel=0.02)
    assert spread.seeds == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("groups", [[[1, 2, 3]], [[1, 2], [3, 4]], [[1, 2, 3], [1, np.nan, 2]], []])
def test_spread_is_not_told_from_too_little(groups: list[list[float]]) -> None:
    assert spread_of(groups) is None


def test_spread_of_scores_without_noise() -> None:
    assert spread_of([[1, 1, 1], [2, 2, 2]]) == Spread(pytest.approx(0.5), 0.0, 0.0)
    assert spread_of([[1, 1, 1], [1, 1, 1]]) == Spread(0.0, 0.0, 1.0)


def test_spread_sentence() -> None:
    assert spread_sentence(None) == ""
    assert spread_sentence(Spread(0.0, 0.0, 1.0)) == ""
    assert spread_sentence(Spread(2.0, 1.0, 0.01)) == "Settings matter more than seeds here."
    assert spread_sentence(Spread(0.5, 1.0, 0.01)) == "Seeds matter more than settings here."
    assert (
        spread_sentence(Spread(1.0, 1.0, 0.01)) == "Settings and seeds matter about equally here."
    )
    assert (
        spread_sentence(Spread(2.0, 1.0, 0.06))
        == "Seeds differ too much to tell the settings apart."
    )
