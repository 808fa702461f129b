# SPDX-License-Identifier: Apache-2.0
"""conv_mathieu: layers, a plain torch model beside it, where it starts, refusals."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from unbraid.core.random import Stream
from unbraid.networks.conv import SIDES
from unbraid.networks.conv_mathieu import ConvMathieu

ORDER = [
    *(f"encoder.conv{k}" for k in (1, 2, 3, 4)),
    "encoder.dense",
    "encoder.mean",
    "encoder.logvar",
]
ORDER += ["decoder.dense1", "decoder.dense2", *(f"decoder.conv{k}" for k in (1, 2, 3, 4))]


def torch_layers():
    """The published layers, in the order of `ORDER`."""
    encoder = [
        nn.Conv2d(1, 32, 4, 2, 1),
        nn.Conv2d(32, 32, 4, 2, 1),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.Conv2d(64, 64, 4, 2, 1),
    ]
    dense = [
        nn.Linear(1024, 128),
        nn.Linear(128, 10),
        nn.Linear(128, 10),
        nn.Linear(10, 128),
        nn.Linear(128, 1024),
    ]
    decoder = [(64, 64), (64, 64), (64, 32), (32, 1)]
    return [
        layer.double()
        for layer in [*encoder, *dense, *(nn.ConvTranspose2d(*pair, 4, 2, 1) for pair in decoder)]
    ]


def encode(layers, x):
    for layer in layers[:4]:
        x = layer(x).relu()
    hidden = layers[4](x.permute(0, 2, 3, 1).flatten(1))
    return layers[5](hidden), 2 * torch.log(torch.exp(layers[6](hidden) / 2) + 1e-6)


def decode(layers, z):
    x = layers[8](layers[7](z).relu()).relu().view(-1, 4, 4, 64).permute(0, 3, 1, 2)
    for layer in layers[9:12]:
        x = layer(x).relu()
    return layers[12](x)


def as_torch(tensor, layer):
    if tensor.dim() == 1:
        return tensor
    return tensor.T if isinstance(layer, nn.Linear) else tensor.permute(0, 3, 1, 2)


@pytest.mark.parametrize("members", [1, 2])
def test_against_a_plain_torch_model(members):
    network, shape = ConvMathieu(), (1, 64, 64)
    layout = network.layout(shape, 10)
    generator = torch.Generator().manual_seed(0)
    rows = layout.initial(torch.arange(members), Stream.INITIAL_WEIGHTS).double()
    x = torch.rand(members, 3, *shape, generator=generator, dtype=torch.float64)
    z = torch.randn(members, 3, 10, generator=generator, dtype=torch.float64)
    leaves = {name: view.detach().requires_grad_() for name, view in layout.views(rows).items()}
    outputs = [*network.encode(leaves, x), network.decode(leaves, z, shape)]
    total = sum(output.square().sum() for output in outputs)
    gradients = dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))
    for member in range(members):
        layers = torch_layers()
        for layer, key in zip(layers, ORDER, strict=True):
            layer.weight.data.copy_(as_torch(leaves[f"{key}.weight"][member].detach(), layer))
            layer.bias.data.copy_(leaves[f"{key}.bias"][member].detach())
        expected = [*encode(layers, x[member]), decode(layers, z[member])]
        for ours, theirs in zip(outputs, expected, strict=True):
            assert torch.allclose(ours[member], theirs, rtol=1e-10, atol=1e-12)
        sum(output.square().sum() for output in expected).backward()
        for layer, key in zip(layers, ORDER, strict=True):
            for part, value in (("weight", layer.weight), ("bias", layer.bias)):
                ours = as_torch(gradients[f"{key}.{part}"][member], layer)
                assert (ours - value.grad).abs().max() <= 1e-10 * value.grad.abs().max(), (
                    f"{key}.{part}"
                )


def test_number_and_start_of_the_weights():
    layout = ConvMathieu().layout((1, 64, 64), 10)
    layers = torch_layers()
    assert layout.count == sum(
        parameter.numel() for layer in layers for parameter in layer.parameters()
    )
    views = layout.views(layout.initial(torch.arange(2), Stream.INITIAL_WEIGHTS))
    for layer, key in zip(layers, ORDER, strict=True):
        limit = 1 / math.sqrt(nn.init._calculate_fan_in_and_fan_out(layer.weight)[0])
        for part in ("weight", "bias"):
            values = views[f"{key}.{part}"]
            assert values.abs().max() <= limit
            if values.numel() > 100:
                assert values.std().item() == pytest.approx(
                    limit / math.sqrt(3), rel=5 / math.sqrt(values.numel())
                )


@pytest.mark.parametrize("side", SIDES)
def test_every_side_of_the_stack_is_taken(side):
    network = ConvMathieu()
    assert network.problems((3, side, side)) == []
    weights = network.layout((3, side, side), 10)
    views = weights.views(weights.initial(torch.arange(1), Stream.INITIAL_WEIGHTS))
    assert tuple(network.decode(views, torch.zeros(1, 2, 10), (3, side, side)).shape) == (
        1,
        2,
        3,
        side,
        side,
    )


def test_other_images_are_refused_with_a_remedy():
    (problem,) = ConvMathieu().problems((1, 50, 50))
    assert (problem.name, problem.value) == ("images", "50x50 with 1 channel")
    assert "28, 32, 64, 96, 128" in problem.rule
    assert "64x64" in problem.remedy
