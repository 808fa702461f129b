# SPDX-License-Identifier: Apache-2.0
"""Posterior overlap: quadrature, closed forms, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unbraid.core.errors import InputError
from unbraid.metrics import posterior_overlap


@given(st.floats(-3, 3), st.floats(-2, 2), st.floats(-2, 2))
def test_two_posteriors_by_quadrature(distance, first, second):
    line = np.linspace(-60, 60, 60_001)
    laws = [stats.norm(0.0, np.exp(first / 2)), stats.norm(distance, np.exp(second / 2))]
    wanted = np.trapezoid(np.sqrt(laws[0].pdf(line) * laws[1].pdf(line)), line)
    found = posterior_overlap(np.array([[0.0], [distance]]), np.array([[first], [second]]))
    assert found.score == found.pairwise == pytest.approx(wanted, abs=1e-6)


def test_latents_multiply_and_neighbours_are_the_nearest():
    mean = np.array([[0.0, 0.0], [1.0, 2.0], [50.0, 0.0]])
    found = posterior_overlap(mean, np.zeros((3, 2)))
    pair = np.exp(-5 / 8)
    assert found.per_sample == pytest.approx([pair, pair, np.exp(-(49**2 + 4) / 8)])
    assert found.pairwise == pytest.approx(pair / 3, abs=1e-9)
    assert found.width == 1.0


def test_equal_posteriors_overlap_wholly_and_separate_ones_not_at_all():
    same = posterior_overlap(np.ones((40, 3)), np.full((40, 3), -1.0))
    assert same.score == same.pairwise == pytest.approx(1.0)
    apart = posterior_overlap(np.arange(40.0)[:, None], np.full((40, 1), -20.0))
    assert apart.score == apart.pairwise == pytest.approx(0.0, abs=1e-9)


def test_wider_posteriors_overlap_more_and_units_do_not_matter():
    mean = np.random.default_rng(0).normal(size=(300, 4))
    scores = [posterior_overlap(mean, np.full(mean.shape, logvar)).score for logvar in (-6, -3, 0)]
    assert scores[0] < scores[1] < scores[2]
    scale = np.array([1.0, 10.0, 1e-3, 5.0])
    logvar = np.full(mean.shape, -3.0)
    scaled = posterior_overlap(mean * scale, logvar + 2 * np.log(scale))
    assert scaled.score == pytest.approx(scores[1], abs=1e-9)


def test_a_part_of_many_rows_is_compared():
    mean = np.random.default_rng(1).normal(size=(900, 2))
    found = posterior_overlap(mean, np.full(mean.shape, -4.0), samples=200)
    assert found.rows == 200
    assert found.score < posterior_overlap(mean, np.full(mean.shape, -4.0)).score
    other = posterior_overlap(mean, np.full(mean.shape, -4.0), samples=200, seed=1)
    assert other.score != found.score


def test_extreme_numbers_stay_finite():
    mean = np.array([[-1e29], [1e29], [0.0]])
    assert posterior_overlap(mean, np.array([[-400.0], [-400.0], [400.0]])).score >= 0.0
    with pytest.raises(InputError, match="mean must hold at least two samples"):
        posterior_overlap(np.zeros((1, 2)), np.zeros((1, 2)))
    with pytest.raises(InputError, match="samples must be"):
        posterior_overlap(np.zeros((3, 2)), np.zeros((3, 2)), samples=1)
