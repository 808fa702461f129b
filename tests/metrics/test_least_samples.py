# SPDX-License-Identifier: Apache-2.0
"""The least number of samples: noise there is near what it scores with four times as many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from unbraid.metrics import METRICS
from unbraid.metrics._least_samples import Counted, Drawn, Fitted

LATENTS = 4
QUICK = {
    "dci": {},
    "dci_es": {"trees": 10},
    "downstream": {"predictor": "logistic", "train_sizes": (100,)},
    "unified_scores": {},
    "kim_mnih_score": {"batch": 100, "votes": 2_000},
    "beta_vae_score": {"train_points": 2_000, "test_points": 2_000},
    "factor_vae_score": {"train_votes": 2_000, "test_votes": 2_000},
}
"""Options that make a metric quick, without a change of what it asks."""
SCATTERS = {"modularity": 0.35, "infomec": 0.4, "irs": 0.15, "kim_mnih_score": 0.2}
SCATTERS |= {"pairwise_information": 0.15}
"""Ratios of chance values, which more samples do not settle; scores of their own training; nats."""
LEFT_OUT = {"downstream_reduced", "downstream_strong", "fairness"}
"""Fitted like `dci`, and too slow for a test."""


def score(name: str, sizes: tuple[int, ...], rows: int, seed: int, latents: int = LATENTS) -> float:
    """What noise scores."""
    metric: Any = METRICS.load(name)
    generator = np.random.default_rng(seed)
    codes = generator.normal(size=(rows, latents))
    factors = np.column_stack([generator.integers(size, size=rows) for size in sizes])
    cut = round(rows * 2 / 3)
    arrays = {
        "codes": (codes,),
        "split": (codes[:cut], factors[:cut], codes[cut:], factors[cut:]),
    }.get(metric.needs, (codes, factors))
    return metric(*arrays, **QUICK.get(name, {})).score


@pytest.mark.parametrize("sizes", [(2, 3), (4, 8, 3)])
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in METRICS
        if METRICS.load(name).needs in ("codes", "sample", "split", "grid") and name not in LEFT_OUT
    ],
)
def test_noise_of_so_many_samples_scores_what_noise_scores(name: str, sizes: tuple[int, ...]):
    rule = METRICS.load(name).least_samples
    least = rule(sizes, LATENTS, QUICK.get(name, {}))
    at_least, at_more = (
        float(np.mean([score(name, sizes, rows, seed) for seed in range(2)]))
        for rows in (least, 4 * least)
    )
    assert at_least == pytest.approx(at_more, abs=SCATTERS.get(name, 0.1))


MANY = 10_000
MORE_SIZES = [(2, 2), (3, 15), (3, 6, 40, 32, 32)]


@pytest.mark.slow
@pytest.mark.parametrize("latents", [2, 10])
@pytest.mark.parametrize("sizes", MORE_SIZES)
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in METRICS
        if METRICS.load(name).needs in ("codes", "sample", "split", "grid") and name not in LEFT_OUT
    ],
)
def test_noise_scores_no_more_than_in_ten_thousand_rows(
    name: str, sizes: tuple[int, ...], latents: int
):
    least = METRICS.load(name).least_samples(sizes, latents, QUICK.get(name, {}))
    at_least, at_many = (
        float(np.mean([score(name, sizes, rows, seed, latents) for seed in range(2)]))
        for rows in (min(least, MANY), MANY)
    )
    assert at_least < at_many + SCATTERS.get(name, 0.1)


def test_no_options_make_a_handful_enough():
    for name in METRICS:
        for options in ({"bins": 2}, {"batch": 2}, {"alpha": 10.0}):
            assert METRICS.load(name).least_samples((2,), 1, options) >= 100, name


def test_every_metric_says_how_many_samples_it_needs():
    for name in METRICS:
        rule = METRICS.load(name).least_samples
        assert 50 <= rule((3, 4), 5, {}) <= 10_000, name
        assert rule((3, 40), 5, {}) >= rule((3, 4), 5, {}), name
        assert rule.why, name


def test_rules_by_hand():
    assert Counted()((2, 8, 4), 10, {}) == math.ceil(10 * 19 * 7 / math.log(8))
    assert Counted()((8,), 10, {"bins": 100}) == math.ceil(10 * 99 * 7 / math.log(8))
    assert Fitted()((2, 40), 10, {}) == 1200
    assert Drawn(64)((2, 40), 10, {"batch": 8}) == 640
