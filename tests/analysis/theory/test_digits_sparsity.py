# SPDX-License-Identifier: Apache-2.0
"""The gap in sparsity between both priors grows with α, on digits that scikit-learn ships."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unbraid.analysis.theory.digits_sparsity import (
    DigitsMember,
    DigitsSparsity,
    digits,
    digits_sparsity,
)


def test_gaps_are_taken_seed_by_seed():
    scores = {
        (0.0, 0.0): (0.2, 0.3),
        (0.8, 0.0): (0.25, 0.25),
        (0.0, 5.0): (0.2, 0.2),
        (0.8, 5.0): (0.4, 0.1),
    }
    rows = [
        DigitsMember(gamma, alpha, seed, score, 2.0 + seed)
        for (gamma, alpha), both in scores.items()
        for seed, score in enumerate(both)
    ]
    found = DigitsSparsity(tuple(rows))
    assert found.gap(5.0) == {0: pytest.approx(0.2), 1: pytest.approx(-0.1)}
    assert found.mean_gaps() == pytest.approx([0.0, 0.05])
    assert found.gap_grows
    assert found.seeds_that_grow == 1
    assert found.least_kl == 2.0
    assert found.alphas() == [0.0, 5.0]
    assert found.gammas() == [0.0, 0.8]


def test_the_digits_are_scikit_learns():
    dataset = digits()
    assert len(dataset) == 1797
    assert dataset.sample_shape == (1, 8, 8)
    from sklearn.datasets import load_digits

    images = load_digits().images
    assert np.abs(dataset.images(np.arange(1797))[..., 0] / 255 - images / 16).max() < 1 / 255


def test_a_short_sweep_trains_every_setting():
    found = digits_sparsity(seeds=[3], alphas=(0.0, 5.0), steps=20)
    assert [(one.gamma, one.alpha) for one in found.members] == [
        (0.0, 0.0),
        (0.8, 0.0),
        (0.0, 5.0),
        (0.8, 5.0),
    ]
    assert all(0 < one.sparsity < 1 and math.isfinite(one.kl_nats) for one in found.members)


@pytest.mark.slow
def test_the_gap_grows_with_alpha():
    found = digits_sparsity(seeds=[20])
    assert found.gap_grows
    assert found.mean_gaps()[2] > 0.1
    assert found.least_kl > 1
