# SPDX-License-Identifier: Apache-2.0
"""Layers with a member axis against torch's own, member by member, values and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from unbraid.networks.layers import dense, double, halve

TOLERANCE = 1e-12


def randoms(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def assert_members_agree(layer, peer, x, weight, bias):
    """*layer* on all members, and on each alone, gives *peer*'s values and gradients for each member."""
    members = x.shape[0]
    parts = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    together = layer(*parts)
    (pull,) = randoms(together.shape, seed=1)
    gradients = torch.autograd.grad((together * pull).sum(), parts)
    for member in range(members):
        one = slice(member, member + 1)
        alone_parts = [tensor[one].clone().requires_grad_() for tensor in (x, weight, bias)]
        alone = layer(*alone_parts)
        peer_parts = [tensor[member].clone().requires_grad_() for tensor in (x, weight, bias)]
        expected = peer(*peer_parts)
        alone_gradients = torch.autograd.grad((alone * pull[one]).sum(), alone_parts)
        peer_gradients = torch.autograd.grad((expected * pull[member]).sum(), peer_parts)
        close(together[member], expected)
        close(alone[0], expected)
        for gradient, gradient_alone, gradient_peer in zip(gradients, alone_gradients, peer_gradients, strict=True):
            close(gradient[member], gradient_peer)
            close(gradient_alone[0], gradient_peer)


def close(found, expected):
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= TOLERANCE * expected.abs().max()


def test_dense():
    x, weight, bias = randoms((3, 5, 7), (3, 7, 4), (3, 4))
    assert_members_agree(dense, lambda x, weight, bias: F.linear(x, weight.T, bias), x, weight, bias)


def test_dense_by_hand():
    x, weight, bias = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0], [10.0]]]), torch.tensor([[100.0]])
    assert dense(x, weight, bias).tolist() == [[[121.0]]]
    both = dense(*(torch.cat([tensor, 2 * tensor]) for tensor in (x, weight, bias)))
    assert both.tolist() == [[[121.0]], [[284.0]]]


@pytest.mark.parametrize("kernel", [4, 2])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 32), (3, 8), (8, 1)])
@pytest.mark.parametrize("side", [2, 6, 28])
def test_halve(kernel, inputs, outputs, side):
    x, weight, bias = randoms((3, 2, inputs, side, side), (3, outputs, inputs, kernel, kernel), (3, outputs))
    padding = {4: 1, 2: 0}[kernel]
    assert_members_agree(
        halve, lambda x, weight, bias: F.conv2d(x, weight, bias, stride=2, padding=padding).relu(), x, weight, bias
    )
    assert tuple(halve(x, weight, bias).shape) == (3, 2, outputs, side // 2, side // 2)


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), [(32, 1), (8, 3), (4, 4), (4, 5), (1, 32)])
@pytest.mark.parametrize("side", [1, 3, 14])
def test_double(relu, inputs, outputs, side):
    x, weight, bias = randoms((3, 2, inputs, side, side), (3, inputs, outputs, 4, 4), (3, outputs))

    def peer(x, weight, bias):
        out = F.conv_transpose2d(x, weight, bias, stride=2, padding=1)
        return out.relu() if relu else out

    assert_members_agree(lambda *parts: double(*parts, relu=relu), peer, x, weight, bias)
    assert tuple(double(x, weight, bias, relu=relu).shape) == (3, 2, outputs, 2 * side, 2 * side)


@pytest.mark.parametrize("members", [1, 3])
def test_layers_on_views_into_a_row(members):
    """Weights lie somewhere inside a member's row, not at its start, and pictures may come transposed."""
    (rows, x) = randoms((members, 1000), (members, 2, 6, 6, 1))
    x = x.permute(0, 1, 4, 2, 3)
    weight, bias = rows[:, 13 : 13 + 16 * 5].view(members, 5, 1, 4, 4), rows[:, 900:905]
    for member in range(members):
        expected = F.conv2d(x[member].contiguous(), weight[member].contiguous(), bias[member], stride=2, padding=1).relu()
        close(halve(x, weight, bias)[member], expected)
    weight, bias = rows[:, 13 : 13 + 16 * 3].view(members, 1, 3, 4, 4), rows[:, 900:903]
    for member in range(members):
        expected = F.conv_transpose2d(x[member].contiguous(), weight[member].contiguous(), bias[member], stride=2, padding=1)
        close(double(x, weight, bias, relu=False)[member], expected)


@pytest.mark.parametrize("outputs", [1, 3, 8])
@pytest.mark.parametrize("members", [1, 2])
def test_double_in_bfloat16_stays_near(outputs, members):
    parts = randoms((members, 2, 16, 8, 8), (members, 16, outputs, 4, 4), (members, outputs))
    exact = double(*parts, relu=False)
    rough = double(*(part.bfloat16() for part in parts), relu=False)
    assert rough.dtype == torch.bfloat16
    assert (rough - exact).abs().max() <= 2e-2 * exact.abs().max()


def test_nan_in_one_member_stays_there():
    x, weight, bias = randoms((3, 2, 4, 6, 6), (3, 8, 4, 4, 4), (3, 8))
    clean = halve(x, weight, bias)
    x[1] = torch.nan
    torn = halve(x, weight, bias)
    assert torch.equal(torn[[0, 2]], clean[[0, 2]])
    assert torn[1].isnan().all()
