# SPDX-License-Identifier: Apache-2.0
"""The sentence about what a VAE will see: of factors seen, hardly seen, or seen in no order."""

from __future__ import annotations

import numpy as np
import pytest

import unbraid as ub
from unbraid.analysis.distances.advice import advice, advise, losses_to_try
from unbraid.analysis.distances.perceived_distances import Distances, perceived_distances
from unbraid.data.dataset import Dataset

SPRITES = {"image_size": 16, "x": 5, "y": 4, "scale": 2}


def told(dataset: Dataset, loss: str = "mse") -> str:
    return advise(perceived_distances(dataset, loss, pairs=60), dataset)


def of_levels(*levels: int) -> Dataset:
    """Images of one grey each, by a factor `light` and a factor `spot` that changes one pixel."""
    rows = np.array([[light, spot] for light in range(len(levels)) for spot in range(3)])
    images = np.zeros((len(rows), 16, 16, 1), np.uint8)
    images[:] = np.array(levels, np.uint8)[rows[:, 0]][:, None, None, None]
    images[:, 3, 3, 0] = 40 * rows[:, 1]
    return ub.load(images, factors=rows, factor_names=["light", "spot"])


def test_squares_that_never_overlap_need_a_blur() -> None:
    text = told(ub.load("xysquares"))
    names = "x_R, y_R, x_G, y_G, x_B and y_B"
    assert text.startswith(
        f"A VAE with the loss mse will tell the values of {names} apart in little or no order: try"
        f" mse+box31, which orders {names} (rank correlation 0.9"
    )
    assert text.count(".") == 2  # one sentence, and a number
    far = told(ub.load("xysquares", spacing=6))  # only neighbours overlap
    assert f"the values of {names} apart in little or no order: try mse+box31" in far
    near = told(ub.load("xysquares", spacing=1))
    assert near == f"A VAE with the loss mse will see {names}, each in its order."


def test_a_factor_that_hardly_moves_the_image() -> None:
    text = told(of_levels(0, 60, 120, 180))
    assert text.startswith("A VAE with the loss mse will see light; it will hardly see spot, which")
    assert "order" not in text


def test_values_in_no_order_that_no_blur_can_help() -> None:
    """Greys whose values were shuffled: a blur changes nothing of them."""
    data = of_levels(0, 180, 60, 120, 30, 150)
    assert [loss.name for loss in losses_to_try(perceived_distances(data, pairs=60), data)] == [
        "mse+box7",
        "mse+box1",
    ]
    text = told(data)
    assert "the values of light apart in little or no order: no blur brings one" in text


def test_a_loss_that_blurs_already_is_not_blurred_again() -> None:
    data = ub.load("xysquares")
    found = perceived_distances(data, "mse+box31", pairs=30)
    assert losses_to_try(found, data) == []
    assert advise(found, data).startswith("A VAE with the loss mse+box31 will see ")


def test_points_have_no_blur() -> None:
    text = told(ub.load("pinwheel"))
    assert text == (
        "A VAE with the loss mse will tell the values of arm apart in little or no order: kinds,"
        " angles and hues have none."
    )


def test_one_factor_and_equal_images() -> None:
    data = ub.load("sprites", **{**SPRITES, "y": 1, "scale": 1})
    assert told(data).startswith("A VAE with the loss mse will see x")
    rows = np.array([[0], [1], [2]])
    same = ub.load(np.full((3, 16, 16, 1), 7, np.uint8), factors=rows, factor_names=["nothing"])
    assert told(same) == "Under mse all images are alike: there is nothing for a VAE to see."


def test_of_two_values_no_order_is_asked() -> None:
    """They have one distance: seen or hardly seen by how large it is."""
    text = told(ub.load("sprites", x=6, y=4, scale=2, image_size=28))
    start = "A VAE with the loss mse will see x, scale and y, each in its order"
    assert text == f"{start} (if of more than two values)."
    data = ub.load("sprites", x=2, y=2, scale=2, image_size=28)
    assert losses_to_try(perceived_distances(data, pairs=60), data) == []
    text = told(data)
    assert text.startswith("A VAE with the loss mse will see ")
    assert "order" not in text
    assert told(of_levels(0, 180)).startswith(
        "A VAE with the loss mse will see light; it will hardly see spot, which"
    )
    # A binary factor is hardly seen where its one distance is small, and others keep their order.
    rows = np.array([[light, spot] for light in range(4) for spot in range(2)])
    images = np.zeros((8, 16, 16, 1), np.uint8)
    images[:] = (60 * rows[:, 0])[:, None, None, None]
    images[:, 3, 3, 0] += (40 * rows[:, 1]).astype(np.uint8)
    faint = ub.load(images, factors=rows, factor_names=["light", "spot"])
    assert "will see light; it will hardly see spot, which" in told(faint)
    kinds = of_levels(0, 180, 60, 120, 30, 150)  # in no order, unlike a binary factor beside them
    both = perceived_distances(kinds, pairs=60)
    assert "the values of light apart in little or no order" in advice(both)


@pytest.mark.parametrize("spacing", [2, 8])
def test_only_what_helps_is_advised(spacing: int) -> None:
    """A loss that orders no better is not named."""
    data = ub.load("xysquares", spacing=spacing)
    found: Distances = perceived_distances(data, pairs=30)
    assert "try" not in advice(found, [found])
