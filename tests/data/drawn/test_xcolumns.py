# SPDX-License-Identifier: Apache-2.0
"""XColumns: closed forms of the distances, and columns where the offset says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unbraid.core.errors import InputError
from unbraid.data import load


@pytest.mark.parametrize("spacing", range(1, 9))
def test_distances_along_a_factor_follow_the_closed_form(spacing):
    dataset = load("xcolumns", spacing=spacing)
    for factor in dataset.factor_names:
        images = dataset.images(dataset.grid.traversal(321, factor)) / 255.0
        for a, b in itertools.combinations(range(8), 2):
            expected = 2 * 64 * min(8, spacing * (b - a)) / 12288
            assert ((images[a] - images[b]) ** 2).mean() == pytest.approx(expected, abs=1e-15)


def test_columns_lie_where_the_offset_says():
    dataset = load("xcolumns", spacing=5)
    image = dataset.images(dataset.grid.to_index([[0, 3, 7]]))[0]
    start = (64 - (8 + 7 * 5)) // 2
    for channel, x in enumerate((0, 3, 7)):
        expected = np.zeros((64, 64), np.uint8)
        expected[:, start + 5 * x : start + 5 * x + 8] = 255
        assert np.array_equal(image[..., channel], expected)


def test_spacing_is_checked():
    with pytest.raises(InputError) as caught:
        load("xcolumns", spacing=9)
    assert (
        str(caught.value)
        == "spacing must be a whole number in 1..8; got 9. Use 8 for columns that never overlap, 1"
        " for the most overlap."
    )
