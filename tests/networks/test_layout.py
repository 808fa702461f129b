# SPDX-License-Identifier: Apache-2.0
"""Rows and views undo each other; initial weights are Glorot-uniform, biases zero, members independent."""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.networks.layout import Layout, Weight, dense_weights, double_weights, halve_weights
from unbraid.random import Stream

LAYOUT = Layout((*halve_weights("conv", 3, 8, 4), *dense_weights("dense", 8, 5), *double_weights("up", 5, 2)))


def test_weights_and_offsets_by_hand():
    assert LAYOUT.weights == (
        Weight("conv.weight", (8, 3, 4, 4), 48, 128),
        Weight("conv.bias", (8,)),
        Weight("dense.weight", (8, 5), 8, 5),
        Weight("dense.bias", (5,)),
        Weight("up.weight", (5, 2, 4, 4), 80, 32),
        Weight("up.bias", (2,)),
    )
    assert LAYOUT.offsets == (0, 384, 392, 432, 437, 597, 599)
    assert LAYOUT.size == 599


@pytest.mark.parametrize("members", [1, 4])
def test_views_and_rows_undo_each_other(members):
    rows = torch.arange(members * LAYOUT.size, dtype=torch.float64).view(members, -1)
    views = LAYOUT.views(rows)
    assert {name: tuple(view.shape) for name, view in views.items()} == {
        weight.name: (members, *weight.shape) for weight in LAYOUT.weights
    }
    assert views["dense.weight"][-1, 0, :2].tolist() == [(members - 1) * 599 + 392, (members - 1) * 599 + 393]
    assert torch.equal(LAYOUT.rows(views), rows)
    assert torch.equal(LAYOUT.rows(dict(reversed(views.items()))), rows)
    assert torch.equal(LAYOUT.rows(list(views.values())), rows)


def test_views_share_memory_with_the_rows():
    rows = torch.zeros(2, LAYOUT.size)
    LAYOUT.views(rows)["up.bias"][1, 0] = 7.0
    assert rows[1, 597] == 7.0
    assert rows.sum() == 7.0


def test_initial_weights_fill_their_glorot_range_and_biases_are_zero():
    layout = Layout((*dense_weights("dense", 200, 100), *halve_weights("conv", 32, 64, 4), *double_weights("up", 64, 32)))
    views = layout.views(layout.initial(torch.arange(4), Stream.INITIAL_WEIGHTS))
    for weight in layout.weights:
        values = views[weight.name]
        if weight.fan_in == 0:
            assert not values.any()
            continue
        limit = math.sqrt(6.0 / (weight.fan_in + weight.fan_out))
        assert values.abs().max() <= limit
        assert values.max() > 0.999 * limit
        assert values.min() < -0.999 * limit
        count = values.numel()
        assert values.mean().item() == pytest.approx(0.0, abs=5 * limit / math.sqrt(3 * count))
        assert values.std().item() == pytest.approx(limit / math.sqrt(3), rel=5 / math.sqrt(count))


def test_layers_of_equal_shape_start_differently():
    layout = Layout((*dense_weights("a", 6, 6), *dense_weights("b", 6, 6)))
    views = layout.views(layout.initial(torch.tensor([1]), Stream.INITIAL_WEIGHTS))
    assert not torch.equal(views["a.weight"], views["b.weight"])
    other = layout.views(layout.initial(torch.tensor([1]), Stream.AUXILIARY_WEIGHTS))
    assert not torch.equal(views["a.weight"], other["a.weight"])


def test_a_member_starts_the_same_whoever_its_neighbours_are():
    among = LAYOUT.initial(torch.tensor([9, 5, 7]), Stream.INITIAL_WEIGHTS)
    assert torch.equal(among[1:2], LAYOUT.initial(torch.tensor([5]), Stream.INITIAL_WEIGHTS))
    assert torch.equal(among[[1, 2]], LAYOUT.initial(torch.tensor([5, 7]), Stream.INITIAL_WEIGHTS))
    assert not torch.equal(among[0], among[1])
