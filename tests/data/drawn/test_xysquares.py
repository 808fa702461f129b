# SPDX-License-Identifier: Apache-2.0
"""XYSquares: closed forms of Michlo et al. 2023 and the published statistics."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from unbraid.data import load


def traversal_distances(dataset, factor, index=12_345):
    images = dataset.images(dataset.grid.traversal(index, factor)).astype(np.float64) / 255.0
    return {
        (a, b): float(((images[a] - images[b]) ** 2).mean())
        for a, b in itertools.combinations(range(len(images)), 2)
    }


@pytest.mark.parametrize("spacing", range(1, 9))
@pytest.mark.parametrize("factor", ["x_R", "y_G", "x_B"])
def test_distances_along_a_factor_follow_the_closed_form(spacing, factor):
    for (a, b), distance in traversal_distances(load("xysquares", spacing=spacing), factor).items():
        assert distance == pytest.approx(2 * 8 * min(8, spacing * (b - a)) / 12288, abs=1e-15)


def test_at_spacing_8_all_distances_are_equal_and_random_pairs_average_to_theory():
    dataset = load("xysquares")
    assert set(traversal_distances(dataset, "y_B").values()) == {128 / 12288}
    # Exactly over one square: 63 of 64 pairs of positions differ, each by 128/12288; three squares
    # add up.
    squares = (
        dataset.images(
            dataset.grid.to_index([[x, y, 0, 0, 0, 0] for x in range(8) for y in range(8)])
        )
        / 255.0
    )
    flat = squares.reshape(64, -1)
    pairs = ((flat[:, None] - flat[None]) ** 2).mean(-1)
    assert 3 * pairs.mean() == pytest.approx(3 * (63 / 64) * 128 / 12288, abs=1e-12)
    assert 3 * pairs.mean() == pytest.approx(0.0308, abs=5e-5)


@pytest.mark.parametrize("spacing", [1, 5, 8])
def test_mean_and_deviation_do_not_depend_on_spacing(spacing):
    images = load("xysquares", spacing=spacing).images(np.arange(0, 262_144, 997)) / 255.0
    assert images.mean() == 0.015625
    assert images.std() == pytest.approx(math.sqrt(63) / 64, abs=1e-12)
    # Published as .124035, which is 1.5e-5 above the exact value.
    assert images.std() == pytest.approx(0.124035, abs=2e-5)


def test_squares_lie_where_the_offset_says():
    dataset = load("xysquares", spacing=3)
    image = dataset.images(dataset.grid.to_index([[1, 2, 0, 0, 7, 7]]))[0]
    start = (64 - (8 + 7 * 3)) // 2
    for channel, (x, y) in enumerate([(1, 2), (0, 0), (7, 7)]):
        rows, columns = np.nonzero(image[..., channel])
        assert (rows.min(), rows.max()) == (start + 3 * y, start + 3 * y + 7)
        assert (columns.min(), columns.max()) == (start + 3 * x, start + 3 * x + 7)
        assert len(rows) == 64


def test_the_sampler_draws_the_same_images():
    dataset = load("xysquares", spacing=2)
    indices = np.random.default_rng(0).integers(0, len(dataset), (3, 5))
    samples = dataset.sampler("cpu")(torch.from_numpy(indices))
    assert samples.shape == (3, 5, 3, 64, 64)
    assert np.array_equal(samples.numpy(), np.moveaxis(dataset.images(indices), -1, 2) / 255.0)
