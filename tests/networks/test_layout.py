# SPDX-License-Identifier: Apache-2.0
"""Rows and views undo each other; initial weights are Glorot-uniform, biases zero, members
independent.
"""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.core.random import Stream
from unbraid.networks.layout import (
    Layout,
    Weight,
    conv_transpose_weights,
    conv_weights,
    dense_weights,
    starts_of_torch,
)

LAYOUT = Layout(
    (
        *conv_weights("conv", 3, 8, 4),
        *dense_weights("dense", 8, 5),
        *conv_transpose_weights("up", 5, 2),
        *dense_weights("wide", 64, 64),
    )
)
STARTS = {
    "wide.weight": 0,
    "conv.weight": 4096,
    "conv.bias": 4480,
    "dense.weight": 4496,
    "dense.bias": 4544,
    "up.weight": 4560,
    "up.bias": 4720,
    "wide.bias": 4736,
}
"""4096 numbers of the one large weight, then 384, 8, 40, 5, 160, 2 and 64, each from a multiple of
16 on.
"""


def test_weights_and_where_they_lie_by_hand():
    assert LAYOUT.weights == (
        Weight("conv.weight", (8, 4, 4, 3), 48, 128),
        Weight("conv.bias", (8,)),
        Weight("dense.weight", (8, 5), 8, 5),
        Weight("dense.bias", (5,)),
        Weight("up.weight", (5, 4, 4, 2), 80, 32),
        Weight("up.bias", (2,)),
        Weight("wide.weight", (64, 64), 64, 64),
        Weight("wide.bias", (64,)),
    )
    assert [(weight.count, weight.gap) for weight in LAYOUT.weights[:4]] == [
        (384, 0),
        (8, 8),
        (40, 8),
        (5, 11),
    ]
    assert list(LAYOUT.starts.items()) == list(STARTS.items())
    assert LAYOUT.size == 4800
    assert LAYOUT.count == 384 + 8 + 40 + 5 + 160 + 2 + 4096 + 64 == 4759


def held(rows):
    """*rows* with zeros in the gaps."""
    kept = torch.zeros_like(rows)
    for weight in LAYOUT.weights:
        part = slice(STARTS[weight.name], STARTS[weight.name] + weight.count)
        kept[:, part] = rows[:, part]
    return kept


@pytest.mark.parametrize("members", [1, 4])
def test_views_and_rows_undo_each_other(members):
    rows = torch.arange(members * LAYOUT.size, dtype=torch.float64).view(members, -1)
    views = LAYOUT.views(rows)
    assert [(name, tuple(view.shape)) for name, view in views.items()] == [
        (weight.name, (members, *weight.shape)) for weight in LAYOUT.weights
    ]
    assert views["dense.weight"][-1, 0, :2].tolist() == [
        (members - 1) * 4800 + 4496,
        (members - 1) * 4800 + 4497,
    ]
    assert torch.equal(LAYOUT.rows(views), held(rows))
    assert torch.equal(LAYOUT.rows(dict(reversed(views.items()))), held(rows))
    assert torch.equal(LAYOUT.rows(list(views.values())), held(rows))


@pytest.mark.parametrize("members", [1, 4])
def test_parts_put_at_their_starts_are_the_rows(members):
    rows = torch.arange(members * LAYOUT.size, dtype=torch.float64).view(members, -1)
    views = LAYOUT.views(rows)
    for tensors in (views, list(views.values())):
        parts = LAYOUT.parts(tensors)
        assert [(start, tuple(part.shape)) for start, part in parts] == [
            (0, (members, 64, 64)),
            (4096, (members, 704)),
        ]
        assert parts[0][1].data_ptr() == views["wide.weight"].data_ptr(), (
            "a large weight is not copied"
        )
        assert torch.equal(torch.cat([part.flatten(1) for _, part in parts], dim=1), held(rows))


def test_a_layout_of_large_weights_alone_has_no_part_of_small_ones():
    layout = Layout((Weight("a", (4096,)), Weight("b", (70, 60))))
    a, b = torch.zeros(2, 4096), torch.ones(2, 70, 60)
    assert [(start, part.shape[1:].numel()) for start, part in layout.parts([a, b])] == [
        (0, 4096),
        (4096, 4200),
    ]
    assert layout.size == 4096 + 4208
    assert not Layout((Weight("few", (3,)),)).parts([torch.zeros(2, 3)])[0][0]


def test_views_share_memory_with_the_rows():
    rows = torch.zeros(2, LAYOUT.size)
    LAYOUT.views(rows)["up.bias"][1, 0] = 7.0
    assert rows[1, 4720] == 7.0
    assert rows.sum() == 7.0


def test_gaps_start_at_zero_and_belong_to_no_view():
    rows = LAYOUT.initial(torch.arange(2), Stream.INITIAL_WEIGHTS)
    for view in LAYOUT.views(rows).values():
        view.fill_(torch.nan)
    assert not rows[~rows.isnan()].any()
    assert int((~rows.isnan()).sum()) == 2 * (4800 - 4759)


def test_initial_weights_fill_their_glorot_range_and_biases_are_zero():
    layout = Layout(
        (
            *dense_weights("dense", 200, 100),
            *conv_weights("conv", 32, 64, 4),
            *conv_transpose_weights("up", 64, 32),
        )
    )
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


def test_a_weight_starts_as_it_says():
    """Uniform within a given limit, normal with a given deviation, or constant."""
    kinds = (
        Weight("flat", (3000,), limit=0.25),
        Weight("bell", (3000,), 7, 7, deviation=0.02),
        Weight("one", (50,), start=1.0),
    )
    views = Layout(kinds).views(Layout(kinds).initial(torch.arange(2), Stream.INITIAL_WEIGHTS))
    assert 0.249 < views["flat"].abs().max() <= 0.25
    assert views["flat"].std().item() == pytest.approx(0.25 / math.sqrt(3), rel=0.05)
    assert views["bell"].std().item() == pytest.approx(0.02, rel=0.05)
    assert views["bell"].abs().max() > 0.05
    assert (views["one"] == 1.0).all()


def test_xavier_normal_starts_as_torchs_own_do():
    """Against torch.nn.init of layers of the same fans; biases 0, what has no fans untouched."""
    torch.manual_seed(0)
    theirs = {
        "conv": torch.nn.Conv2d(64, 96, 4).weight,
        "dense": torch.nn.Linear(300, 200).weight,
        "up": torch.nn.ConvTranspose2d(64, 32, 4).weight,
    }
    for weight in theirs.values():
        torch.nn.init.xavier_normal_(weight)
    plain = Layout(
        (
            *conv_weights("conv", 64, 96, 4),
            *starts_of_torch(dense_weights("dense", 300, 200)),
            *conv_transpose_weights("up", 64, 32),
            Weight("norm.scale", (3,), start=1.0),
        )
    )
    layout = plain.starting("xavier_normal")
    views = layout.views(layout.initial(torch.tensor([3]), Stream.INITIAL_WEIGHTS))
    for name, weight in theirs.items():
        own = views[f"{name}.weight"]
        assert own.numel() == weight.numel()
        assert own.std().item() == pytest.approx(weight.std().item(), rel=0.02)
        assert own.abs().max() > 3.5 * own.std()  # a normal's tails, which no uniform has
        assert (views[f"{name}.bias"] == 0).all()
    assert (views["norm.scale"] == 1.0).all()
    assert layout.starts == plain.starts
    assert plain.starting("") is plain
    with pytest.raises(InputError) as error:
        plain.starting("xavier")
    assert error.value.problems[0].name == "initialisation"


def test_starts_of_torch_take_the_fan_of_torch():
    weights = [
        *dense_weights("a", 16, 4),
        *conv_transpose_weights("up", 5, 4),
        Weight("norm.scale", (3,), start=1.0),
    ]
    found = {
        weight.name: (weight.limit, weight.start)
        for weight in starts_of_torch(weights, transposed="up")
    }
    assert found == {
        **{"a.weight": (0.25, 0.0), "a.bias": (0.25, 0.0)},
        **{"up.weight": (0.125, 0.0), "up.bias": (0.125, 0.0), "norm.scale": (0.0, 1.0)},
    }


def test_a_weight_without_numbers_keeps_its_shape():
    layout = Layout((Weight("latents", (7, 0)), Weight("few", (3,))))
    rows = torch.arange(2.0 * layout.size).view(2, -1)
    views = layout.views(rows)
    assert tuple(views["latents"].shape) == (2, 7, 0)
    assert torch.equal(layout.rows(views)[:, :3], rows[:, :3])
    assert layout.count == 3
