# SPDX-License-Identifier: Apache-2.0
"""Batch norm with a member axis against torch's own, member by member: values, gradients, running
means.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from unbraid.core.random import Stream
from unbraid.networks.batch_norm import batch_norm, batch_norm_weights
from unbraid.networks.layout import Layout
from unbraid.networks.network import TrainedWeights

MEMBERS, CHANNELS = 3, 5
LAYOUT = Layout(tuple(batch_norm_weights("norm", CHANNELS)))
NAMES = ("scale", "shift", "running_mean", "running_var")


def randoms(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fresh(members=MEMBERS):
    """Weights off their start, so that a wrong one shows."""
    rows = LAYOUT.initial(torch.arange(members), Stream.INITIAL_WEIGHTS).double()
    return LAYOUT.views(rows + 0.1 * randoms(*rows.shape, seed=5).abs())


def peer(weights, member):
    """Torch's batch norm with the weights of one member."""
    norm = nn.BatchNorm2d(CHANNELS).double()
    for ours, theirs in zip(
        NAMES, (norm.weight, norm.bias, norm.running_mean, norm.running_var), strict=True
    ):
        theirs.data.copy_(weights[f"norm.{ours}"][member])
    return norm


def assert_close(found, expected):
    assert (found - expected).abs().max() <= 1e-10 * expected.abs().max()


def test_weights_start_as_torch_s():
    views = LAYOUT.views(LAYOUT.initial(torch.arange(2), Stream.INITIAL_WEIGHTS))
    norm = nn.BatchNorm2d(CHANNELS)
    for ours, theirs in zip(
        NAMES, (norm.weight, norm.bias, norm.running_mean, norm.running_var), strict=True
    ):
        assert torch.equal(views[f"norm.{ours}"], theirs.detach().expand(2, -1))


@pytest.mark.parametrize("members", [1, MEMBERS])
@pytest.mark.parametrize("places", [(6, 4), ()])
def test_against_torch_in_training_and_after(members, places):
    x = 3.0 + randoms(members, 7, *places, CHANNELS)
    pull = randoms(*x.shape, seed=1)
    leaves = {name: value.requires_grad_() for name, value in fresh(members).items()}
    x.requires_grad_()
    weights = TrainedWeights(leaves)
    out = batch_norm(x, weights, "norm")
    trained = [x, leaves["norm.scale"], leaves["norm.shift"]]
    gradients = torch.autograd.grad((out * pull).sum(), trained)
    assert sorted(weights.notes) == ["norm.running_mean", "norm.running_var"]
    after = {**leaves, **weights.notes}
    later = batch_norm(x, after, "norm")
    for member in range(members):
        norm = peer(leaves, member)

        def apply(given, norm=norm):
            first = given.movedim(-1, 1) if places else given[..., None, None]
            return norm(first).movedim(1, -1) if places else norm(first)[..., 0, 0]

        given = x[member].detach().requires_grad_()
        expected = apply(given)
        assert_close(out[member], expected)
        theirs = torch.autograd.grad(
            (expected * pull[member]).sum(), [given, norm.weight, norm.bias]
        )
        for ours, value in zip(gradients, theirs, strict=True):
            assert_close(ours[member], value)
        assert_close(weights.notes["norm.running_mean"][member], norm.running_mean)
        assert_close(weights.notes["norm.running_var"][member], norm.running_var)
        norm.eval()
        assert_close(later[member], apply(given))


def test_by_hand():
    """Two values, 0 and 2: mean 1, variance 1 with the divisor n and 2 with n - 1."""
    views = {
        name: value[:, :1]
        for name, value in LAYOUT.views(
            LAYOUT.initial(torch.arange(1), Stream.INITIAL_WEIGHTS).double()
        ).items()
    }
    weights = TrainedWeights(views)
    out = batch_norm(torch.tensor([[[0.0], [2.0]]], dtype=torch.float64), weights, "norm")
    assert out.flatten().tolist() == pytest.approx(
        [-1 / math.sqrt(1 + 1e-5), 1 / math.sqrt(1 + 1e-5)], rel=1e-12
    )
    assert weights.notes["norm.running_mean"].item() == pytest.approx(0.1, rel=1e-12)
    assert weights.notes["norm.running_var"].item() == pytest.approx(0.9 + 0.1 * 2.0, rel=1e-12)
    assert weights["norm.running_mean"].item() == 0.0, (
        "the weights themselves change only when the step is done"
    )


def test_two_calls_in_a_pass_are_noted_in_order():
    first, second = (
        randoms(MEMBERS, 6, 4, 4, CHANNELS),
        2.0 + randoms(MEMBERS, 9, 4, 4, CHANNELS, seed=3),
    )
    weights = TrainedWeights(fresh())
    batch_norm(first, weights, "norm")
    batch_norm(second, weights, "norm")
    for member in range(MEMBERS):
        norm = peer(fresh(), member)
        norm(first[member].movedim(-1, 1))
        norm(second[member].movedim(-1, 1))
        assert_close(weights.notes["norm.running_mean"][member], norm.running_mean)
        assert_close(weights.notes["norm.running_var"][member], norm.running_var)


@settings(max_examples=30, deadline=None)
@given(scale=st.floats(0.1, 100.0), shift=st.floats(-100.0, 100.0), seed=st.integers(0, 1000))
def test_in_training_neither_scale_nor_place_of_the_input_matters(scale, shift, seed):
    x = randoms(2, 8, 3, 3, CHANNELS, seed=seed)
    plain, moved = (
        batch_norm(given, TrainedWeights(LAYOUT.views(START)), "norm")
        for given in (100.0 * x, 100.0 * (scale * x + shift))
    )
    # The 1e-5 under the root moves by at most 1e-5 / variance.
    assert (plain - moved).abs().max() <= 1e-4
    assert plain.mean(dim=(1, 2, 3)).abs().max() <= 1e-10
    assert (plain.var(dim=(1, 2, 3), correction=0) - 1.0).abs().max() <= 1e-6


START = LAYOUT.initial(torch.arange(2), Stream.INITIAL_WEIGHTS).double()


@pytest.mark.parametrize("training", [True, False])
def test_members_do_not_meet(training):
    weights = TrainedWeights(fresh()) if training else fresh()
    x = randoms(MEMBERS, 4, 2, 2, CHANNELS)
    whole = batch_norm(x, weights, "norm")
    torn_x = x.clone()
    torn_x[1] = torch.nan
    torn_weights = TrainedWeights(fresh()) if training else fresh()
    torn = batch_norm(torn_x, torn_weights, "norm")
    assert torch.equal(torn[[0, 2]], whole[[0, 2]])
    assert torn[1].isnan().all()
    if isinstance(weights, TrainedWeights) and isinstance(torn_weights, TrainedWeights):
        for name, note in weights.notes.items():
            assert torch.equal(note[[0, 2]], torn_weights.notes[name][[0, 2]])


@pytest.mark.parametrize("members", [1, MEMBERS])
@pytest.mark.parametrize("training", [True, False])
def test_bfloat16_keeps_its_kind_and_sums_in_float32(members, training):
    x = 2.0 + randoms(members, 16, 4, 4, CHANNELS)
    rough = {name: value.float() for name, value in fresh(members).items()}
    kept = TrainedWeights(rough) if training else rough
    exact = TrainedWeights(fresh(members)) if training else fresh(members)
    low, full = (
        batch_norm(x.bfloat16(), kept, "norm"),
        batch_norm(x.bfloat16().double(), exact, "norm"),
    )
    assert low.dtype == torch.bfloat16
    assert (low - full).norm() <= 5e-3 * full.norm()
    if isinstance(kept, TrainedWeights) and isinstance(exact, TrainedWeights):
        for name, note in kept.notes.items():
            assert note.dtype == torch.float32
            assert (note - exact.notes[name]).abs().max() <= 1e-5
