# SPDX-License-Identifier: Apache-2.0
"""What a discovery plans: the range of β for images of a size."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from unbraid.search.discover.plan import beta_range
from unbraid.search.pbt.search_space import read_dimension


def images(*shape: int) -> Any:
    return SimpleNamespace(image_shape=shape)


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        ((32, 32, 1), 2.0, 32.0),
        ((16, 16, 1), 2.0, 32.0),
        ((64, 64, 1), 4.0, 128.0),
        ((64, 64, 3), 2 * math.sqrt(12), 384.0),
        ((128, 128, 3), 2 * math.sqrt(48), 1536.0),
    ],
)
def test_beta_grows_with_the_values_of_a_image(shape, low, high):
    space = read_dimension("beta", beta_range(images(*shape)))
    assert space is not None
    assert (space.low, space.high) == (pytest.approx(low, rel=1e-3), high)
