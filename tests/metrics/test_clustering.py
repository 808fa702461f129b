# SPDX-License-Identifier: Apache-2.0
"""Clustering: separate classes, classes that are not there, scikit-learn's own index."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from unbraid.core.errors import InputError
from unbraid.metrics import clustering


def clusters(apart: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(4), 75)
    centres = apart * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    return centres[labels] + generator.normal(size=(300, 2)), labels[:, None]


def test_separate_classes_are_found_and_none_where_there_are_none():
    assert clustering(*clusters(20.0)).score == pytest.approx(1.0)
    assert abs(clustering(*clusters(0.0)).score) < 0.05
    scores = [clustering(*clusters(apart)).score for apart in (1.0, 2.0, 4.0)]
    assert scores == sorted(scores)


def test_it_is_scikit_learns():
    codes, labels = clusters(2.0)
    found = KMeans(4, n_init=10, random_state=0).fit(codes).labels_
    wanted = adjusted_rand_score(labels[:, 0], found)
    assert clustering(codes, labels).score == pytest.approx(wanted, abs=0.02)


def test_units_and_names_do_not_matter():
    codes, labels = clusters(3.0)
    renamed = np.array([7, 3, 0, 12])[labels]
    assert clustering(1e9 * codes + 5e9, renamed).score == clustering(codes, labels).score


def test_both_levels_of_a_hierarchy_count():
    codes, labels = clusters(20.0)
    codes = codes + 200.0 * (labels // 2)
    found = clustering(codes, np.hstack([labels, labels // 2, labels * 0]))
    assert found.per_factor[:2] == pytest.approx([1.0, 1.0])
    assert np.isnan(found.per_factor[2])
    assert found.score == pytest.approx(1.0)


def test_codes_without_anything_in_them():
    labels = np.arange(40)[:, None] % 4
    assert clustering(np.zeros((40, 2)), labels).score == pytest.approx(0.0, abs=0.05)
    with pytest.raises(InputError, match="factors must take at least two values"):
        clustering(np.zeros((9, 2)), np.zeros((9, 1), int))
    with pytest.raises(InputError, match="starts must be"):
        clustering(np.zeros((40, 2)), labels, starts=0)


def test_a_part_of_many_rows_is_clustered():
    codes, labels = clusters(20.0)
    assert clustering(codes, labels, samples=40).score == pytest.approx(1.0)
