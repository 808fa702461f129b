# SPDX-License-Identifier: Apache-2.0
"""Few-shot classification: separate classes, chance, a closed form, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.neighbors import NearestCentroid

from unbraid.core.errors import InputError
from unbraid.metrics import few_shot


def split(apart: float, rows: int = 400, latents: int = 1, seed: int = 0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(2, size=(2 * rows, 1))
    codes = generator.normal(size=(2 * rows, latents))
    codes[:, :1] += apart * labels
    return codes[:rows], labels[:rows], codes[rows:], labels[rows:]


def test_separate_classes_need_one_sample_each():
    assert few_shot(*split(60.0)).score == 1.0
    assert few_shot(*split(0.0)).score == pytest.approx(0.5, abs=0.03)
    assert few_shot(*split(1.0)).chance == 0.5


def test_one_sample_of_each_of_two_normal_classes_in_closed_form():
    """Right where the test sample is nearer to the first: by signs of a difference and of a sum."""
    apart, count = 2.0, 2_000
    found = few_shot(*split(apart, count), draws=400).score
    nearer = stats.norm.cdf(apart / np.sqrt(2))
    above = stats.norm.cdf(apart / 2 / np.sqrt(1.5))
    wanted = nearer * above + (1 - nearer) * (1 - above)
    assert found == pytest.approx(wanted, abs=0.02)


def test_all_samples_labelled_is_scikit_learns_nearest_centroid():
    codes, labels, asked, truth = split(1.5, latents=3)
    peer = NearestCentroid().fit(codes, labels[:, 0]).predict(asked)
    each = [(peer == value)[truth[:, 0] == value].mean() for value in (0, 1)]
    found = few_shot(codes, labels, asked, truth, shots=10**6, draws=1).score
    assert found == pytest.approx(np.mean(each))


def test_more_shots_help_and_units_do_not_matter():
    data = split(1.5, latents=4)
    scores = [few_shot(*data, shots=shots).score for shots in (1, 5, 50)]
    assert scores == sorted(scores)
    scaled = few_shot(1e8 * data[0] + 1e9, data[1], 1e8 * data[2] + 1e9, data[3]).score
    assert scaled == pytest.approx(scores[0], abs=1e-3)


def test_values_that_one_part_lacks_are_left_out():
    codes, labels, asked, truth = split(60.0)
    both = np.hstack([labels, labels * 0]), np.hstack([truth, truth * 0])
    found = few_shot(codes, both[0], asked, both[1])
    assert found.per_factor[0] == 1.0
    assert np.isnan(found.per_factor[1])
    assert found.score == 1.0
    labels = labels.copy()
    labels[0] = 7
    assert few_shot(codes, labels, asked, truth).score == 1.0
    alone = few_shot(codes, np.where(labels == 1, 8, 9), asked, truth)
    assert alone.score == 0.0
    assert np.isnan(alone.chance)
    with pytest.raises(InputError, match="shots must be"):
        few_shot(codes, labels, asked, truth, shots=0)
