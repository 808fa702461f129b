# SPDX-License-Identifier: Apache-2.0
"""What a discovery plans: the range of β for pictures of a size."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from unbraid.population.space import read_evolved
from unbraid.search.discovery_plan import beta_range


def pictures(*shape: int) -> Any:
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
def test_beta_grows_with_the_values_of_a_picture(shape, low, high):
    space = read_evolved("beta", beta_range(pictures(*shape)))
    assert space is not None
    assert (space.low, space.high) == (pytest.approx(low, rel=1e-3), high)
