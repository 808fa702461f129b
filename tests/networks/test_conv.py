# SPDX-License-Identifier: Apache-2.0
"""The convolutional networks: shapes, counts, a plain torch model beside them, refusals."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import nn

from unbraid.core.random import Stream
from unbraid.networks import NETWORKS
from unbraid.networks.conv import SIDES, ConvBurgess, ConvLocatello
from unbraid.networks.conv_mathieu import ConvMathieu
from unbraid.networks.mlp import Mlp
from unbraid.objectives.likelihoods import likelihood

RULE = (
    "must be square with a side of 28, 32, 64, 96, 128 and 1 or 3 channels for a convolutional"
    " network"
)


def test_layers_of_conv_locatello():
    layout = ConvLocatello().layout((1, 64, 64), 10)
    assert {
        weight.name.removesuffix(".weight"): weight.shape
        for weight in layout.weights
        if weight.fan_in
    } == {
        "encoder.conv1": (32, 4, 4, 1),
        "encoder.conv2": (32, 4, 4, 32),
        "encoder.conv3": (64, 2, 2, 32),
        "encoder.conv4": (64, 2, 2, 64),
        "encoder.dense": (1024, 256),
        "encoder.mean": (256, 10),
        "encoder.logvar": (256, 10),
        "decoder.dense1": (10, 256),
        "decoder.dense2": (256, 1024),
        "decoder.conv1": (64, 4, 4, 64),
        "decoder.conv2": (64, 4, 4, 32),
        "decoder.conv3": (32, 4, 4, 32),
        "decoder.conv4": (32, 4, 4, 1),
    }


@pytest.mark.parametrize(
    ("network", "shape", "count"),
    [
        (ConvLocatello, (1, 64, 64), 690_517),
        (ConvBurgess, (1, 64, 64), 764_245),
        (ConvLocatello, (3, 64, 64), 692_567),
    ],
)
def test_number_of_weights(network, shape, count):
    assert network().layout(shape, 10).count == count


@pytest.mark.parametrize(
    ("side", "corner", "depth"), [(28, 7, 2), (32, 4, 3), (64, 4, 4), (96, 3, 5), (128, 4, 5)]
)
def test_every_side_halves_to_its_corner(side, corner, depth):
    shapes = {
        weight.name: weight.shape for weight in ConvBurgess().layout((3, side, side), 10).weights
    }
    channels = (32, 32, 64, 64, 64)[depth - 1]
    assert shapes["encoder.dense.weight"] == (channels * corner * corner, 256)
    assert f"encoder.conv{depth}.weight" in shapes
    assert f"encoder.conv{depth + 1}.weight" not in shapes
    assert shapes[f"decoder.conv{depth}.weight"] == (32, 4, 4, 3)


class Permuted(nn.Module):
    """Axes in another order: our networks flatten by height, width and then channel."""

    def __init__(self, *axes):
        super().__init__()
        self.axes = axes

    def forward(self, x):
        return x.permute(self.axes)


def torch_model(kernels):
    """The published network of torch's own layers, for 64x64."""
    channels = (32, 32, 64, 64)
    encoder, inputs = [], 3
    for outputs, kernel in zip(channels, kernels, strict=True):
        encoder += [nn.Conv2d(inputs, outputs, kernel, 2, kernel // 2 - 1), nn.ReLU()]
        inputs = outputs
    encoder += [Permuted(0, 2, 3, 1), nn.Flatten(), nn.Linear(1024, 256), nn.ReLU()]
    decoder = [nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU()]
    decoder += [nn.Unflatten(1, (4, 4, 64)), Permuted(0, 3, 1, 2)]
    for outputs in (64, 32, 32, 3):
        decoder += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.ReLU()]
        inputs = outputs
    parts = {
        "encoder": nn.Sequential(*encoder),
        "mean": nn.Linear(256, 10),
        "logvar": nn.Linear(256, 10),
    }
    return nn.ModuleDict(parts | {"decoder": nn.Sequential(*decoder[:-1])}).double()


@pytest.mark.parametrize(
    ("name", "kernels"), [("conv_burgess", (4, 4, 4, 4)), ("conv_locatello", (4, 4, 2, 2))]
)
def test_against_a_plain_torch_model(name, kernels):
    network = NETWORKS.load(name)()
    layout = network.layout((3, 64, 64), 10)
    generator = torch.Generator().manual_seed(0)
    rows = layout.initial(torch.tensor([1, 2]), Stream.INITIAL_WEIGHTS).double()
    rows += 0.01 * torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    x = torch.rand(2, 3, 3, 64, 64, generator=generator, dtype=torch.float64)
    z = torch.randn(2, 3, 10, generator=generator, dtype=torch.float64)
    views = layout.views(rows)
    mean, logvar = network.encode(views, x)
    raw = network.decode(views, z, (3, 64, 64))
    order = [f"encoder.conv{k}" for k in (1, 2, 3, 4)] + [
        "encoder.dense",
        "encoder.mean",
        "encoder.logvar",
    ]
    order += ["decoder.dense1", "decoder.dense2"] + [f"decoder.conv{k}" for k in (1, 2, 3, 4)]
    for member in range(2):
        model = torch_model(kernels)
        layers = [
            layer
            for layer in model.modules()
            if isinstance(layer, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d))
        ]
        for layer, key in zip(layers, order, strict=True):
            weight = views[f"{key}.weight"][member]
            layer.weight.data.copy_(
                weight.T if isinstance(layer, nn.Linear) else weight.permute(0, 3, 1, 2)
            )
            layer.bias.data.copy_(views[f"{key}.bias"][member])
        with torch.no_grad():
            hidden = model["encoder"](x[member])
            assert torch.allclose(mean[member], model["mean"](hidden), rtol=1e-10, atol=1e-12)
            assert torch.allclose(logvar[member], model["logvar"](hidden), rtol=1e-10, atol=1e-12)
            assert torch.allclose(raw[member], model["decoder"](z[member]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("channels", [1, 3])
def test_allowed_images_have_no_problems(side, channels):
    assert ConvBurgess().problems((channels, side, side)) == []


@pytest.mark.parametrize(
    ("shape", "value", "nearest"),
    [
        ((1, 50, 50), "50x50 with 1 channel", 64),
        ((3, 64, 32), "64x32 with 3 channels", 64),
        ((3, 32, 64), "32x64 with 3 channels", 64),
        ((1, 8, 8), "8x8 with 1 channel", 28),
        ((3, 512, 512), "512x512 with 3 channels", 128),
        ((1, 30, 30), "30x30 with 1 channel", 28),
        ((2, 64, 64), "64x64 with 2 channels", None),
        ((4, 50, 50), "50x50 with 4 channels", None),
    ],
)
def test_other_images_are_refused_with_a_remedy(shape, value, nearest):
    (problem,) = ConvLocatello().problems(shape)
    assert (problem.name, problem.rule, problem.value) == ("images", RULE, value)
    assert "the network mlp" in problem.remedy
    assert re.findall(r"resize=(\d+)", problem.remedy) == (
        [] if nearest is None else [str(nearest)]
    )


def test_vectors_are_refused():
    (problem,) = ConvBurgess().problems((2,))
    assert (problem.name, problem.rule, problem.value) == (
        "samples",
        RULE,
        "vectors of shape (2,)",
    )
    assert problem.remedy == "Use the network mlp."


def test_precision_changes_the_convolutions_only():
    network = ConvBurgess()
    layout = network.layout((1, 64, 64), 10)
    rows = layout.initial(torch.tensor([1, 2]), Stream.INITIAL_WEIGHTS)
    z = torch.zeros(2, 1, 10)
    # Nothing but the heads' biases tells the latents apart when every other weight is zero: they
    # keep float32's digits.
    quiet = layout.views(torch.zeros_like(rows))
    quiet["encoder.mean.bias"].fill_(math.pi)
    mean, _ = network.encode(quiet, torch.zeros(2, 1, 1, 64, 64), torch.bfloat16)
    assert torch.equal(mean, torch.full_like(z, math.pi))


LIKELIHOODS = [("bernoulli", True), ("gaussian", True), ("gaussian", False)]


def random_weights(network, shape, members):
    """Initial weights with biases that are not zero, and samples for them, float64."""
    generator = torch.Generator().manual_seed(2)
    rows = network.layout(shape, 10).initial(torch.arange(members), Stream.INITIAL_WEIGHTS).double()
    rows += 0.01 * torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    x = torch.rand(members, 5, *shape, generator=generator, dtype=torch.float64)
    return rows, x, torch.randn(members, 5, 10, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(("name", "bounded"), LIKELIHOODS)
@pytest.mark.parametrize("network", [ConvLocatello(), Mlp(hidden=6)])
def test_compare_is_the_likelihood_of_the_decoded(network, name, bounded, members):
    rows, x, z = random_weights(network, (3, 28, 28), members)
    views, chosen = network.layout((3, 28, 28), 10).views(rows), likelihood(name, bounded=bounded)
    found = network.compare(views, z, x, chosen)
    assert tuple(found.shape) == (members, 5)
    assert torch.equal(found, chosen.negative_log(network.decode(views, z, (3, 28, 28)), x))


def results(network, rows, x, z, chosen, precision, device):
    """What training takes from a network on *device*, by name, and what it follows: the gradient of
    every weight.
    """
    layout, shape = network.layout(tuple(x.shape[2:]), 10), tuple(x.shape[2:])
    rows, x, z = (
        tensor.to(device, torch.float64 if precision is None else torch.float32)
        for tensor in (rows, x, z)
    )
    leaves = {name: view.detach().requires_grad_() for name, view in layout.views(rows).items()}
    mean, logvar = network.encode(leaves, x, precision)
    raw, distance = (
        network.decode(leaves, z, shape, precision),
        network.compare(leaves, z, x, chosen, precision),
    )
    values = {"mean": mean, "logvar": logvar, "raw": raw, "distance": distance}
    # Each counts the same, whatever its size.
    total = sum(
        value.double().square().sum() / value.detach().double().square().sum()
        for value in values.values()
    )
    gradients = dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))
    return tuple(
        {name: tensor.detach().cpu().double() for name, tensor in group.items()}
        for group in (values, gradients)
    )


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("precision", "of_values", "of_gradients"),
    # A number that rounding moves over zero opens or closes a path of its own through the ReLUs:
    # gradients differ by more.
    [(torch.float32, 1e-5, 5e-3), (torch.bfloat16, 2e-2, 2e-1)],
)
@pytest.mark.parametrize(
    ("side", "channels", "name", "bounded"),
    [(side, channels, "bernoulli", True) for side in SIDES for channels in (1, 3)]
    + [(64, 3, "gaussian", True), (64, 3, "gaussian", False)],
)
@pytest.mark.parametrize("network", [ConvBurgess(), ConvLocatello(), ConvMathieu()])
def test_the_kernels_give_the_network_of_the_plain_form(
    network, side, channels, name, bounded, precision, of_values, of_gradients
):
    rows, x, z = random_weights(network, (channels, side, side), 3)
    chosen = likelihood(name, bounded=bounded)
    expected = results(network, rows, x, z, chosen, None, "cpu")
    found = results(network, rows, x, z, chosen, precision, "cuda")
    for ours, plain, tolerance in zip(found, expected, (of_values, of_gradients), strict=True):
        for what, value in plain.items():
            apart = ((ours[what] - value).norm() / value.norm()).item()
            assert apart <= tolerance, f"{what} on the kernels is {apart:.1e} from the plain form"
