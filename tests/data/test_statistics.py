# SPDX-License-Identifier: Apache-2.0
"""Means, deviations and principal variances of whole datasets against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.data import load, statistics


def images(count: int = 40, side: int = 8, channels: int = 3) -> np.ndarray:
    drawn = np.random.default_rng(3).integers(0, 256, (count, side, side, channels), dtype=np.uint8)
    drawn[..., -1] = 7  # a channel that never changes
    return drawn


def test_channels_have_the_mean_and_deviation_of_all_their_pixels(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(statistics, "_AT_ONCE", 7)  # parts of unequal size
    array = images()
    found = statistics.channel_constants(load(array))
    scaled = array.reshape(-1, 3) / 255.0
    assert found["mean"] == pytest.approx(scaled.mean(axis=0), abs=1e-7)
    assert found["std"][:2] == pytest.approx(scaled.std(axis=0)[:2], abs=1e-7)
    assert found["std"][2] == 1.0, "nothing can be divided by 0"


def test_points_have_one_mean_and_deviation_for_all_their_values():
    dataset = load("pinwheel")
    points = np.concatenate(list(statistics.spread_of_samples(dataset)))
    assert len(points) == len(dataset)
    found = statistics.channel_constants(dataset)
    assert found["mean"] == pytest.approx([points.mean()], abs=1e-9)
    assert found["std"] == pytest.approx([points.std()], abs=1e-9)


def test_principal_variances_are_the_largest_squared_singular_values(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(statistics, "_AT_ONCE", 7)
    array = images()
    flat = np.moveaxis(array, -1, 1).reshape(len(array), -1) / 255.0
    expected = np.linalg.svd(flat, compute_uv=False) ** 2
    assert statistics.principal_variances(load(array), 5) == pytest.approx(expected[:5], rel=1e-5)
    # More than there are directions: zeros, and no more numbers than values.
    many = statistics.principal_variances(load(array[:3]), 200)
    assert len(many) == flat.shape[1]
    assert (many[3:] < 1e-6 * many[0]).all()
    # Of long samples the products between samples tell the same.
    monkeypatch.setattr(statistics, "_MANY_VALUES", 40)
    assert flat.shape[1] > 40 >= len(flat)
    assert statistics.principal_variances(load(array), 5) == pytest.approx(expected[:5], rel=1e-5)


def test_principal_variances_are_computed_once_of_a_dataset(monkeypatch: pytest.MonkeyPatch):
    dataset, other = load(images()), load(images()[:5])
    first = statistics.principal_variances(dataset, 3)
    first[:] = 0.0  # what one caller does to them is nothing to the next
    again = statistics.principal_variances(other, 3)
    monkeypatch.setattr(statistics, "spread_of_samples", None)
    assert statistics.principal_variances(dataset, 3)[0] > 0
    assert statistics.principal_variances(other, 3) == pytest.approx(again)
    with pytest.raises(TypeError):
        statistics.principal_variances(dataset, 2)


def test_at_most_so_many_samples_evenly_spread_and_the_same_at_every_call():
    array = np.zeros((100, 8, 8, 1), dtype=np.uint8)
    array[:, 0, 0, 0] = np.arange(100)
    dataset = load(array)
    taken = [
        np.concatenate(list(statistics.spread_of_samples(dataset, most=12)))[:, 0, 0, 0] * 255
        for _ in range(2)
    ]
    assert taken[0].round().tolist() == np.linspace(0, 99, 12).round().tolist()
    assert np.array_equal(*taken)


@pytest.mark.parametrize("place", [1, 29, 30, 39])
def test_images_are_all_alike_until_one_differs(place: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(statistics, "_AT_ONCE", 10)
    same = np.repeat(images(1), 40, axis=0)
    assert statistics.all_alike(load(same))
    same[place, 0, 0, 0] ^= 1
    assert not statistics.all_alike(load(same))
