# SPDX-License-Identifier: Apache-2.0
"""Any information without overlap: closed forms beside draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unbraid.analysis.theory.overlap_and_information import (
    ball_information,
    normal_information,
    overlap_and_information,
)
from unbraid.core.errors import InputError
from unbraid.report.gallery.statements import STATEMENTS


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_information_of_balls_by_draws(share):
    generator = np.random.default_rng(0)
    means, radius, draws = np.array([[0.0, 0.0], [1.0, 0.5], [-1.0, 1.0], [0.3, -1.2]]), 0.1, 60_000
    chosen = generator.integers(len(means), size=draws)
    angle = generator.uniform(0, 2 * math.pi, draws)
    length = radius * np.sqrt(generator.uniform(size=draws))
    ball = means[chosen] + np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)
    in_ball = generator.uniform(size=draws) < share
    z = np.where(in_ball[:, None], ball, generator.normal(size=(draws, 2)))
    prior = (1 - share) * np.exp(-0.5 * (z**2).sum(axis=1)) / (2 * math.pi)
    near = ((z[:, None] - means) ** 2).sum(axis=-1) < radius**2
    density = prior[:, None] + share / (math.pi * radius**2) * near
    values = np.log(density[np.arange(draws), chosen] / density.mean(axis=1))
    error = values.std() / math.sqrt(draws)
    wanted = ball_information(share, means, radius)
    assert wanted == pytest.approx(values.mean(), abs=4 * error + 0.002)


def test_normal_posteriors_far_apart_and_all_alike():
    means = 100.0 * np.arange(8.0)[:, None] * np.ones((1, 2))
    noise = np.random.default_rng(0).normal(size=(800, 2))
    assert normal_information(means, 1.0, noise) == pytest.approx(math.log(8), abs=1e-9)
    assert normal_information(means, 1e6, noise) == pytest.approx(0.0, abs=0.01)


def test_any_information_without_overlap():
    found = overlap_and_information()
    reach = found.information / math.log(64)
    assert reach[0] < 0.05
    assert reach[-1] > 0.95
    assert (np.diff(reach) > 0).all()
    assert found.ball_overlap.max() == 0.0
    assert found.normal_information == pytest.approx(found.information, abs=1e-2)
    assert (np.diff(found.normal_overlap) < 0).all()
    assert found.normal_overlap[4] > 0.5
    statement = next(one for one in STATEMENTS if one.key == "overlap_information")
    assert statement.verdict(found).holds


def test_balls_that_touch_share_what_circles_share():
    wide = overlap_and_information(samples=40, radius=0.2, steps=2)
    assert (wide.ball_overlap == 0).all()  # they are kept apart
    with pytest.raises(InputError, match="samples must be"):
        overlap_and_information(samples=1)
