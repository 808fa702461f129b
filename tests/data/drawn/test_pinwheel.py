# SPDX-License-Identifier: Apache-2.0
"""Pinwheel: geometry of the arms, and the images of points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.data import load


def test_without_noise_all_points_of_an_arm_are_one_known_point():
    dataset = load("pinwheel", arms=4, points=3, radial_std=0, tangential_std=0, rate=0.25)
    for arm in range(4):
        angle = np.pi / 2 * arm + 0.25 * np.e
        points = dataset.points(dataset.grid.to_index([[arm, nth] for nth in range(3)]))
        assert points == pytest.approx(np.tile([np.cos(angle), -np.sin(angle)], (3, 1)), abs=1e-6)


def test_turning_back_gives_the_stated_deviations():
    """Undo the rotation: the radius determines nothing alone, but at rate 0 the arm angle can be
    taken off exactly.
    """
    dataset = load("pinwheel", arms=5, points=20_000, rate=0.0)
    points = dataset.points(np.arange(len(dataset))).astype(np.float64).reshape(5, -1, 2)
    angle = 2 * np.pi / 5 * np.arange(5)[:, None]
    first = np.cos(angle) * points[..., 0] - np.sin(angle) * points[..., 1]
    second = np.sin(angle) * points[..., 0] + np.cos(angle) * points[..., 1]
    # 100,000 normal draws: five standard errors of mean and deviation.
    assert first.mean() == pytest.approx(1.0, abs=5 * 0.3 / 316)
    assert second.mean() == pytest.approx(0.0, abs=5 * 0.1 / 316)
    assert first.std() == pytest.approx(0.3, abs=5 * 0.3 / 447)
    assert second.std() == pytest.approx(0.1, abs=5 * 0.1 / 447)


@given(seed=st.integers(0, 2**31), rate=st.floats(-2, 2))
@settings(max_examples=25, deadline=None)
def test_the_rate_turns_points_but_keeps_their_radius(seed, rate):
    straight = load("pinwheel", seed=seed, rate=0.0, points=7).points(np.arange(28))
    turned = load("pinwheel", seed=seed, rate=rate, points=7).points(np.arange(28))
    assert np.linalg.norm(turned, axis=1) == pytest.approx(
        np.linalg.norm(straight, axis=1), abs=1e-5
    )


def test_only_the_arm_is_a_factor():
    dataset = load("pinwheel")
    assert (len(dataset), dataset.grid.names, dataset.grid.sizes) == (
        400,
        ("arm", "point"),
        (4, 100),
    )
    assert (dataset.factor_names, dataset.factor_sizes, dataset.sample_shape, dataset.bounded) == (
        ("arm",),
        (4,),
        (2,),
        False,
    )
    assert dataset.factors([0, 99, 100, 399]).tolist() == [[0], [0], [1], [3]]
    samples = dataset.sampler("cpu")(torch.tensor([[0, 5], [399, 7]]))
    assert np.array_equal(samples.numpy(), dataset.points([[0, 5], [399, 7]]))


def test_seeds_give_different_points_and_the_same_ones_again():
    first, again, other = (load("pinwheel", seed=seed).points(np.arange(400)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.isclose(first, other).any(axis=1).all()


def test_a_dot_is_drawn_where_the_point_lies():
    dataset = load("pinwheel")
    images = dataset.as_images(np.array([[0.0, 2.0], [-2.0, 0.0]]))[..., 0].astype(float)
    centres = (np.arange(64) + 0.5) * 5 / 64 - 2.5
    for image, (x, y) in zip(images, [(0.0, 2.0), (-2.0, 0.0)], strict=True):
        weight = image / image.sum()
        assert (weight.sum(0) @ centres, -(weight.sum(1) @ centres)) == pytest.approx(
            (x, y), abs=0.01
        )


def test_points_that_are_not_finite_or_far_away_leave_a_blank_image():
    strange = np.array([[np.nan, 0.0], [np.inf, 0.0], [0.0, -np.inf], [1e30, 0.0]])
    assert load("pinwheel").as_images(strange).max() == 0


def test_wrong_options_are_named_together():
    with pytest.raises(InputError) as caught:
        load("pinwheel", arms=1, rate="fast")
    assert str(caught.value).splitlines() == [
        "arms must be a whole number in 2..1000; got 1.",
        "rate must be a number from -10 to 10; got 'fast'.",
    ]
    with pytest.raises(InputError) as caught:
        load("pinwheel").as_images(np.zeros((4, 3)))
    assert str(caught.value) == "samples must be points (..., 2); got shape (4, 3)."
