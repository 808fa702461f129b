# SPDX-License-Identifier: Apache-2.0
"""Class sparsity: closed forms, a plain re-implementation, invariants, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.metrics import class_sparsity


def test_classes_with_latents_of_their_own():
    codes = np.kron(np.eye(3), np.ones((4, 2))) * [1, -1, 1, -1, 1, -1]
    found = class_sparsity(codes, np.repeat([5, 1, 3], 4)[:, None])
    assert (found.used_by_a_class, found.in_use) == (pytest.approx(2.0), pytest.approx(6.0))
    assert found.score == pytest.approx(2 / 3)
    assert found.classes == ((0, 1), (0, 3), (0, 5))
    wanted = np.zeros((3, 6))
    wanted[0, 2:4] = wanted[1, 4:] = wanted[2, :2] = 1.0
    assert np.array_equal(found.size, wanted)


def test_classes_that_share_all_latents_score_0():
    codes = np.random.default_rng(0).choice([-1.0, 1.0], size=(60, 4))
    assert class_sparsity(codes, np.arange(60)[:, None] % 3).score == pytest.approx(0.0, abs=1e-9)


def test_latents_that_nobody_uses_change_nothing():
    generator = np.random.default_rng(1)
    labels = generator.integers(4, size=(400, 1))
    codes = generator.normal(size=(400, 5)) * np.abs(generator.normal(size=(4, 5)))[labels[:, 0]]
    found = class_sparsity(codes, labels)
    more = class_sparsity(np.hstack([codes, np.zeros((400, 20))]), labels)
    assert more.score == pytest.approx(found.score, abs=1e-12)
    assert more.in_use == pytest.approx(found.in_use)


@given(st.integers(0, 10**6), st.floats(1e-6, 1e6))
def test_plain_reimplementation_and_units(seed, unit):
    generator = np.random.default_rng(seed)
    codes, factors = generator.normal(size=(50, 3)), generator.integers(3, size=(50, 2))
    shares = []
    for column in factors.T:
        rows = [np.abs(codes[column == value]).mean(axis=0) for value in np.unique(column)]
        whole = np.mean(rows, axis=0)
        used = [row.sum() ** 2 / (row**2).sum() for row in rows]
        shares += [1 - one / (whole.sum() ** 2 / (whole**2).sum()) for one in used]
    assert class_sparsity(codes, factors).score == pytest.approx(max(0.0, np.mean(shares)))
    assert class_sparsity(codes * unit, factors).score == pytest.approx(max(0.0, np.mean(shares)))


def test_codes_of_zeros_use_nothing():
    found = class_sparsity(np.zeros((6, 2)), np.arange(6)[:, None] % 2)
    assert (found.score, found.used_by_a_class, found.in_use) == (0.0, 0.0, 0.0)
