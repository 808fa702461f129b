# SPDX-License-Identifier: Apache-2.0
"""Collapsed models: which latents are active, and how many are too few."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.metrics import METRICS, active_units
from unbraid.scoring.collapse import collapse_remark, count_active, dead_codes_remark, least_active
from unbraid.scoring.own_codes import score_codes

Z = np.random.default_rng(0).normal(size=(4000, 4))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 100.0])
def test_a_latent_is_active_by_its_share_of_signal_whatever_its_scale(scale: float):
    signal = np.array([0.95, 0.25, 0.15, 0.0])
    mean = scale * Z * np.sqrt(signal) + 5.0
    assert count_active(mean, scale**2 * (1 - signal)) == 2


def test_under_the_standard_prior_it_is_the_rule_of_active_units():
    signal = np.array([0.95, 0.3, 0.1, 0.0])
    logvar = np.log(1 - signal) + 0 * Z
    counted = count_active(Z * np.sqrt(signal), np.exp(logvar).mean(axis=0))
    assert counted == active_units(Z * np.sqrt(signal), logvar).score == 2


def test_noise_alone_is_no_signal():
    assert count_active(np.zeros((10, 3)), np.full(3, 0.5)) == 0
    assert count_active(np.zeros((10, 3)), None) == 0


def test_without_noise_a_latent_is_dead_where_it_stands_still():
    assert count_active(Z * [1.0, 0.1, 1e-5, 0.0], None) == 2


@pytest.mark.parametrize(
    ("latents", "factors", "least"), [(10, 7, 4), (10, 6, 3), (3, 7, 2), (10, 1, 1), (10, 0, 1)]
)
def test_half_of_the_factors_or_of_fewer_latents(latents: int, factors: int, least: int):
    assert least_active(latents, factors) == least


def test_the_remark_says_who_why_and_what_to_try():
    text = collapse_remark({1: 0, 3: 2}, 10, 5, 4)
    assert text.startswith(
        "Collapsed: 2 of 4 models, by member with its active latents of 10: 1 (0)"
    )
    assert "fewer than half of the 5 factors" in text
    assert text.endswith("or train for more steps.")
    assert "; none is active." in collapse_remark({1: 0}, 10, 0, 4)


def test_metrics_that_like_dead_codes_say_so():
    fond = {name for name in METRICS if dead_codes_remark(name)}
    told = {"jemmig", "irs", "modularity", "hoyer", "total_correlation", "infomec"}
    assert fond == told | {
        *("wasserstein_correlation", "pairwise_information", "posterior_overlap"),
    }
    assert dead_codes_remark("jemmig:bins=10")


def test_own_codes_that_never_move_are_told():
    said: list[str] = []
    factors = np.random.default_rng(0).integers(3, size=(500, 2))
    score_codes(np.full((500, 4), 0.1), factors, "jemmig", warn=said.append)
    assert any(line.startswith("Collapsed: 1 of 1 model, by") for line in said)
    said.clear()
    score_codes(Z[:500], factors, "jemmig", warn=said.append)
    assert [line for line in said if "jemmig: dead codes" not in line] == []
