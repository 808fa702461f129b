# SPDX-License-Identifier: Apache-2.0
"""Layers with a member axis against torch's own, member by member, values and gradients."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from unbraid.networks import layers
from unbraid.networks.layers import (
    carry_low_precision_copy,
    conv,
    conv_image,
    conv_transpose,
    conv_transpose_and_compare,
    conv_transpose_to_image,
    dense,
    uses_kernels,
)

TOLERANCE = 1e-12


def randoms(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def assert_members_agree(layer, peer, x, weight, bias):
    """*layer* on all members, and on each alone, gives *peer*'s values and gradients for each
    member.
    """
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
        for gradient, gradient_alone, gradient_peer in zip(
            gradients, alone_gradients, peer_gradients, strict=True
        ):
            close(gradient[member], gradient_peer)
            close(gradient_alone[0], gradient_peer)


def close(found, expected):
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= TOLERANCE * expected.abs().max()


def first(channels_last):
    return channels_last.permute(0, 3, 1, 2)


def last(channels_first):
    return channels_first.permute(0, 2, 3, 1)


def torch_conv(image, weight, bias):
    """Torch's own on one member: images and result channels first."""
    return F.conv2d(image, first(weight), bias, stride=2, padding=weight.shape[1] // 2 - 1).relu()


def torch_conv_transpose(x, weight, bias):
    return F.conv_transpose2d(first(x), first(weight), bias, stride=2, padding=1)


def test_dense():
    x, weight, bias = randoms((3, 5, 7), (3, 7, 4), (3, 4))
    assert_members_agree(
        dense, lambda x, weight, bias: F.linear(x, weight.T, bias), x, weight, bias
    )


def test_dense_by_hand():
    x, weight, bias = (
        torch.tensor([[[1.0, 2.0]]]),
        torch.tensor([[[1.0], [10.0]]]),
        torch.tensor([[100.0]]),
    )
    assert dense(x, weight, bias).tolist() == [[[121.0]]]
    both = dense(*(torch.cat([tensor, 2 * tensor]) for tensor in (x, weight, bias)))
    assert both.tolist() == [[[121.0]], [[284.0]]]


SIDES = [(2, 2), (3, 3), (6, 6), (7, 14), (28, 28)]


@pytest.mark.parametrize("kernel", [4, 2])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 32), (3, 8), (8, 1)])
@pytest.mark.parametrize("sides", SIDES)
def test_conv(kernel, inputs, outputs, sides):
    x, weight, bias = randoms(
        (3, 2, *sides, inputs), (3, outputs, kernel, kernel, inputs), (3, outputs)
    )
    assert_members_agree(conv, lambda x, *rest: last(torch_conv(first(x), *rest)), x, weight, bias)
    assert tuple(conv(x, weight, bias).shape) == (3, 2, sides[0] // 2, sides[1] // 2, outputs)


@pytest.mark.parametrize("kernel", [4, 2])
@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("sides", SIDES)
def test_conv_image(kernel, channels, sides):
    image, weight, bias = randoms(
        (3, 2, channels, *sides), (3, 8, kernel, kernel, channels), (3, 8)
    )

    def layer(image, weight, bias):
        return conv_image(image, weight, bias, torch.float64)

    assert_members_agree(layer, lambda *parts: last(torch_conv(*parts)), image, weight, bias)


@pytest.mark.parametrize(("inputs", "outputs"), [(32, 1), (8, 3), (4, 4), (4, 5), (1, 32)])
@pytest.mark.parametrize("sides", [(1, 1), (3, 3), (3, 5), (14, 14)])
def test_conv_transpose(inputs, outputs, sides):
    x, weight, bias = randoms((3, 2, *sides, inputs), (3, inputs, 4, 4, outputs), (3, outputs))
    assert_members_agree(
        conv_transpose, lambda *parts: last(torch_conv_transpose(*parts)).relu(), x, weight, bias
    )
    assert_members_agree(conv_transpose_to_image, torch_conv_transpose, x, weight, bias)
    assert tuple(conv_transpose(x, weight, bias).shape) == (
        3,
        2,
        2 * sides[0],
        2 * sides[1],
        outputs,
    )
    assert tuple(conv_transpose_to_image(x, weight, bias).shape) == (
        3,
        2,
        outputs,
        2 * sides[0],
        2 * sides[1],
    )


@pytest.mark.parametrize("kernel", [4, 2])
def test_layers_without_relu(kernel):
    """Where normalisation stands between a convolution and its nonlinearity."""
    x, weight, bias = randoms((3, 2, 6, 8, 3), (3, 8, kernel, kernel, 3), (3, 8))

    def convolution(x, weight, bias):
        return last(F.conv2d(first(x), first(weight), bias, stride=2, padding=kernel // 2 - 1))

    def from_image(image, weight, bias):
        return conv_image(image.movedim(-1, 2), weight, bias, torch.float64, relu=False)

    assert_members_agree(lambda *parts: conv(*parts, relu=False), convolution, x, weight, bias)
    assert_members_agree(from_image, convolution, x, weight, bias)
    x, weight, bias = randoms((3, 2, 3, 5, 4), (3, 4, 4, 4, 8), (3, 8))
    assert_members_agree(
        lambda *parts: conv_transpose(*parts, relu=False),
        lambda *parts: last(torch_conv_transpose(*parts)),
        x,
        weight,
        bias,
    )
    assert (conv_transpose(x, weight, bias, relu=False) < 0).any()


@pytest.mark.parametrize("members", [1, 3])
def test_layers_on_views_into_a_row(members):
    """Weights lie somewhere inside a member's row, not at its start, and activations may come
    transposed.
    """
    rows, x = randoms((members, 1000), (members, 2, 1, 6, 6))
    x = x.permute(0, 1, 3, 4, 2)
    weight, bias = rows[:, 13 : 13 + 16 * 5].view(members, 5, 4, 4, 1), rows[:, 900:905]
    for member in range(members):
        expected = torch_conv(
            first(x[member]).contiguous(), weight[member].contiguous(), bias[member]
        )
        close(conv(x, weight, bias)[member], last(expected))
        close(conv_image(x.permute(0, 1, 4, 2, 3), weight, bias, x.dtype)[member], last(expected))
    weight, bias = rows[:, 13 : 13 + 16 * 3].view(members, 1, 4, 4, 3), rows[:, 900:903]
    for member in range(members):
        expected = torch_conv_transpose(
            x[member].contiguous(), weight[member].contiguous(), bias[member]
        )
        close(conv_transpose(x, weight, bias)[member], last(expected).relu())
        close(conv_transpose_to_image(x, weight, bias)[member], expected)


@pytest.mark.parametrize("members", [1, 2])
def test_promises_about_neighbours_change_no_bit(members):
    def through(promise):
        image, *weights = randoms(
            *[
                (members, 2, 3, 16, 16),
                (members, 4, 4, 4, 3),
                (members, 4),
                (members, 4, 2, 2, 4),
                (members, 4),
            ],
            *[(members, 4, 4, 4, 4), (members, 4), (members, 4, 4, 4, 3), (members, 3)],
        )
        leaves = [weight.requires_grad_() for weight in weights]
        hidden = conv_image(image, *leaves[:2], torch.float64, masked_later=promise)
        hidden = conv(hidden, *leaves[2:4], after_relu=promise, masked_later=promise)
        hidden = conv_transpose(hidden, *leaves[4:6], after_relu=promise, masked_later=promise)
        out = conv_transpose_to_image(hidden, *leaves[6:], after_relu=promise)
        return [out, *torch.autograd.grad(out.square().sum(), leaves)]

    for with_promise, without in zip(through(True), through(False), strict=True):
        assert torch.equal(with_promise, without)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(
    "kind", ["dense", "conv_image", "conv", "conv_transpose", "conv_transpose_to_image"]
)
def test_activations_say_the_precision_and_weights_keep_theirs(kind, members, device):
    shapes = {
        "dense": ((5, 64), (64, 32), 32),
        "conv_image": ((5, 3, 8, 8), (16, 4, 4, 3), 16),
        "conv": ((5, 8, 8, 16), (32, 4, 4, 16), 32),
        "conv_transpose": ((5, 4, 4, 32), (32, 4, 4, 16), 16),
        "conv_transpose_to_image": ((5, 4, 4, 16), (16, 4, 4, 3), 3),
    }[kind]
    layer = {
        "dense": dense,
        "conv": conv,
        "conv_transpose": conv_transpose,
        "conv_transpose_to_image": conv_transpose_to_image,
    }.get(kind)
    x, weight, bias = randoms(
        *((members, *shape) for shape in (shapes[0], shapes[1], (shapes[2],)))
    )
    # Both sides start from numbers that bfloat16 holds, so that only the products and sums differ.
    x, weight, bias = (tensor.bfloat16().to(device) for tensor in (x, weight, bias))

    def apply(x, weight, bias):
        return (
            conv_image(x, weight, bias, torch.bfloat16) if layer is None else layer(x, weight, bias)
        )

    low = x.float() if layer is None else x.clone()
    parts = [
        low.requires_grad_(layer is not None),
        weight.float().requires_grad_(),
        bias.float().requires_grad_(),
    ]
    out = apply(*parts)
    assert out.dtype == torch.bfloat16
    wanted = [part for part in parts if part.requires_grad]
    gradients = torch.autograd.grad(out.float().sum(), wanted)
    assert [gradient.dtype for gradient in gradients] == [part.dtype for part in wanted]
    exact = [tensor.double().cpu().requires_grad_() for tensor in (x, weight, bias)]
    full = conv_image(*exact, torch.float64) if layer is None else layer(*exact)
    expected = torch.autograd.grad(full.sum(), exact[len(exact) - len(wanted) :])
    for found, value in zip([out, *gradients], [full, *expected], strict=True):
        apart = ((found.cpu().double() - value).norm() / value.norm()).item()
        # The plain form rounds each of the four patches that meet in a pixel, the kernels only
        # their sum.
        assert apart <= {"cpu": 3e-2, "cuda": 1e-2}[device], (kind, apart)


@pytest.mark.gpu
def test_a_carried_copy_takes_the_place_of_the_weight_on_the_device():
    x, weight, bias = (
        tensor.float().cuda() for tensor in randoms((2, 5, 64), (2, 64, 32), (2, 32))
    )
    leaf = weight.clone().requires_grad_()
    carry_low_precision_copy(leaf, 2 * weight.bfloat16())
    out = dense(x.bfloat16(), leaf, bias)
    assert torch.equal(out, dense(x.bfloat16(), (2 * weight.bfloat16()).float(), bias))
    (gradient,) = torch.autograd.grad(out.float().sum(), leaf)
    assert gradient.dtype == torch.float32


@pytest.mark.parametrize(
    ("properties", "roomy"),
    [
        ({"shared_memory_per_block_optin": 232448, "major": 9, "minor": 0}, True),
        ({"shared_memory_per_block_optin": 166912, "major": 8, "minor": 0}, True),
        ({"shared_memory_per_block_optin": 101376, "major": 8, "minor": 9}, False),
        ({"major": 9, "minor": 0}, True),
        ({"major": 8, "minor": 6}, False),
    ],
)
def test_kernels_need_room_on_the_device(properties, roomy, monkeypatch):
    """An H200, an A100 and an RTX 4090; and as torch before 2.7 describes them."""
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(**properties)
    )
    assert layers._roomy.__wrapped__(torch.device("cuda")) is roomy


def test_a_cpu_has_no_kernels_and_compares_by_itself():
    assert not uses_kernels(torch.device("cpu"))
    x, weight, bias, image = (
        tensor.float()
        for tensor in randoms((2, 2, 4, 4, 16), (2, 16, 4, 4, 1), (2, 1), (2, 2, 1, 8, 8))
    )
    assert conv_transpose_and_compare(x, weight, bias, image, "bernoulli") is None


@pytest.mark.parametrize("outputs", [1, 3, 8])
@pytest.mark.parametrize("members", [1, 2])
def test_conv_transpose_in_bfloat16_stays_near(outputs, members):
    parts = randoms((members, 2, 8, 8, 16), (members, 16, 4, 4, outputs), (members, outputs))
    for layer in (conv_transpose, conv_transpose_to_image):
        exact = layer(*parts)
        rough = layer(*(part.bfloat16() for part in parts))
        assert rough.dtype == torch.bfloat16
        assert (rough - exact).abs().max() <= 2e-2 * exact.abs().max()


def test_nan_in_one_member_stays_there():
    x, weight, bias = randoms((3, 2, 6, 6, 4), (3, 8, 4, 4, 4), (3, 8))
    clean = conv(x, weight, bias)
    x[1] = torch.nan
    torn = conv(x, weight, bias)
    assert torch.equal(torn[[0, 2]], clean[[0, 2]])
    assert torn[1].isnan().all()
