# SPDX-License-Identifier: Apache-2.0
"""Species: a tree of kinds, shapes by their formulas, traits that hang together."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.metrics import clustering
from unbraid.testing.data_contract import check_dataset

SMALL = {"individuals": 60}


def test_it_keeps_the_contract():
    check_dataset(load("species", genera=2, species=2, individuals=6, image_size=16))


def test_species_are_numbered_through_all_genera():
    dataset = load("species", **SMALL)
    assert len(dataset) == 6 * 60
    assert (dataset.factor_names, dataset.factor_sizes) == (("genus", "species"), (3, 6))
    kinds = dataset.factors(np.arange(len(dataset)))
    assert np.array_equal(kinds[:, 0], np.repeat([0, 1, 2], 120))
    assert np.array_equal(kinds[:, 1], np.repeat(np.arange(6), 60))


def test_petals_are_those_of_the_genus():
    dataset = load("species", genera=4, species=1, individuals=2, image_size=128, spread=0.0)
    line = (np.arange(128) + 0.5) / 64 - 1
    x, y = np.meshgrid(line, -line)
    angle = np.arctan2(y, x)
    for index in (0, 2, 4, 6):
        petals, size, depth = dataset.traits[index, :3]
        between = size * (1 - 0.5 * depth)
        ring = np.abs(np.hypot(x, y) - between) < 0.02
        order = np.argsort(angle[ring])
        inside = dataset.images([index])[0, ..., 0][ring][order] > 40
        smooth = np.convolve(np.r_[inside[-3:], inside, inside[:3]], np.ones(7) / 7, "valid") > 0.5
        assert np.count_nonzero(np.diff(smooth.astype(int)) == 1) in (petals - 1, petals)
    assert (dataset.images([0]) == dataset.images([1])).all()


def test_sizes_are_as_the_traits_say():
    dataset = load("species", genera=1, species=2, individuals=40, image_size=64)
    petals, size, depth = dataset.traits[:, :3].T
    assert (petals == 3).all()
    # The area of an outline r = s (1 - d/2 + d/2 cos(3 t)) is pi s^2 ((1 - d/2)^2 + d^2 / 8).
    area = np.pi * size**2 * ((1 - depth / 2) ** 2 + depth**2 / 8)
    lit = (dataset.images(np.arange(80)) > 0).mean(axis=(1, 2, 3)) * 4
    inside = size < 0.9
    assert np.corrcoef(lit[inside], area[inside])[0, 1] > 0.99


def test_traits_hang_together_and_kinds_are_clusters():
    dataset = load("species", individuals=300)
    kinds = dataset.factors(np.arange(len(dataset)))
    one = dataset.traits[kinds[:, 1] == 3]
    assert np.corrcoef(one[:, 1], one[:, 2])[0, 1] > 0.8
    assert np.corrcoef(one[:, 1], one[:, 3])[0, 1] < -0.8
    traits = dataset.traits[:, :5] / dataset.traits[:, :5].std(axis=0)
    assert clustering(traits, kinds).per_factor[1] > 0.9
    tight = load("species", individuals=300, spread=0.0)
    assert len(np.unique(tight.traits, axis=0)) == 6


def test_the_same_seed_draws_the_same():
    one, again, other = (load("species", seed=seed, **SMALL) for seed in (0, 0, 1))
    assert one.fingerprint() == again.fingerprint() != other.fingerprint()
    assert load(one.name, **one.options).fingerprint() == one.fingerprint()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"genera": 1, "species": 1}, "species must be two or more in all genera"),
        ({"spread": -1}, "spread must be"),
        ({"individuals": 1}, "individuals must be"),
        ({"individuals": 100_000, "genera": 12, "species": 12}, "images must take at most 1 GiB"),
    ],
)
def test_bad_options_are_refused(options, told):
    with pytest.raises(InputError, match=told):
        load("species", **options)
