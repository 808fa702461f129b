# SPDX-License-Identifier: Apache-2.0
"""Ranks with ties against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from unbraid.metrics._ranks import average_ranks


@pytest.mark.parametrize("digits", [0, 1, 15])
def test_ranks_are_scipys(digits: int) -> None:
    codes = np.random.default_rng(digits).normal(size=(3, 200, 4)).round(digits)
    codes[1, :, 2] = 0.5
    assert average_ranks(codes).tolist() == rankdata(codes, axis=1).tolist()
    assert average_ranks(codes[0]).tolist() == rankdata(codes[0], axis=0).tolist()


def test_a_zero_has_no_sign() -> None:
    assert average_ranks(np.array([[0.0], [-0.0], [1.0]]))[:, 0].tolist() == [1.5, 1.5, 3.0]
