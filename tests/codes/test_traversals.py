# SPDX-License-Identifier: Apache-2.0
"""Latent traversals: where they begin and end, where they start from, which images go along."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.codes.traversals import images_along, traverse, typical_image


def test_a_traversal_moves_one_latent_between_its_quantiles() -> None:
    mean = np.stack([np.linspace(-1, 1, 101), np.linspace(0, 100, 101)], axis=1)
    mean = mean.astype(np.float32)
    moved = traverse(mean[50], 1, mean[:, 1], 11, (0.01, 0.99))
    assert moved.shape == (11, 2)
    assert moved.dtype == np.float32
    assert (moved[:, 0] == 0.0).all()
    assert moved[:, 1] == pytest.approx(np.linspace(1, 99, 11))
    assert mean[50, 1] == 50, "the code that it starts from must stay as it was"


def test_the_typical_image_is_the_one_in_the_middle_of_the_active_latents() -> None:
    mean = np.array([[0.0, 9.0], [4.0, 5.0], [5.0, 5.0], [9.0, 1.0], [6.0, 4.0]], dtype=np.float32)
    assert typical_image(mean, np.array([True, True])) == 2
    assert typical_image(mean, np.array([False, True])) == 1
    assert typical_image(mean, [0]) == 2
    assert typical_image(mean, np.array([False, False])) == 0


def test_distances_are_measured_by_the_spread_of_each_latent() -> None:
    # The second latent is 1,000 times wider: by plain distance image 0 would be nearest.
    mean = np.array([[3.0, 0.0], [0.0, 400.0], [-3.0, -1000.0], [0.1, 1000.0]], dtype=np.float32)
    assert typical_image(mean, [0, 1]) == 1


def grid(size: int) -> np.ndarray:
    """Codes of a size x size grid of images: each latent follows one axis."""
    rows, columns = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    return np.stack([rows.ravel(), columns.ravel()], axis=1).astype(np.float32)


@pytest.mark.parametrize("latent", [0, 1])
def test_images_along_a_latent_rise_in_it_and_stay_in_the_middle_of_the_others(latent: int) -> None:
    mean = grid(9)
    found = images_along(mean, [1, 0], latent, 9, (0.0, 1.0))
    np.testing.assert_array_equal(mean[found, latent], np.arange(9))
    np.testing.assert_array_equal(mean[found, 1 - latent], 4)


def test_images_along_a_latent_are_sorted_by_what_they_are_not_by_what_was_wanted() -> None:
    # Of three clusters only the ends exist: the wanted middle goes to one of them.
    mean = np.array([[0.0], [0.1], [9.9], [10.0]], dtype=np.float32)
    found = images_along(mean, [0], 0, 5, (0.0, 1.0))
    assert (np.diff(mean[found, 0]) >= 0).all()
    assert {found[0], found[-1]} == {0, 3}
