# SPDX-License-Identifier: Apache-2.0
"""Plain layers compute what the network computes, by convolutions of torch and nothing of ours."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unbraid.core.random import Stream
from unbraid.networks import NETWORKS
from unbraid.networks.batch_norm import EPSILON
from unbraid.networks.conv import ConvBurgess, ConvStack
from unbraid.networks.conv_batchnorm import ConvBatchNorm
from unbraid.networks.conv_dcgan import ConvDcgan
from unbraid.networks.from_module import ModuleNetwork
from unbraid.networks.mlp import Mlp
from unbraid.networks.plain_layers import channels_last
from unbraid.networks.posterior_scale import LEAST, logvar_of_floored, logvar_of_softplus
from unbraid.networks.standardised import Standardised

LATENTS, BATCH = 6, 4
AGREEMENT = 1e-4
IMAGES = [
    (channels, side, side) for channels, side in itertools.product((1, 3), (28, 32, 64, 96, 128))
]
OBLONG = (3, 5, 7)
"""Height and width cannot be mistaken for each other."""
MLPS = [
    Mlp(12, *layers, activation, scale)
    for layers in ((2, 3), (0, 0), (1, 0), (0, 1), (3, 2))
    for activation, scale in (("tanh", "logvar"), ("relu", "softplus"))
]
RULES = {
    "logvar": lambda head: head,
    "softplus": logvar_of_softplus,
    "floored": logvar_of_floored,
}
NONLINEARITIES = {
    "none": lambda x, slope: x,
    "relu": lambda x, slope: x.relu(),
    "leaky": F.leaky_relu,
    "tanh": lambda x, slope: x.tanh(),
}


def trained_weights(network, shape):
    """Weights of one member off their start, batch norm's running means far off."""
    layout = network.layout(shape, LATENTS)
    weights = layout.views(layout.initial(torch.tensor([5]), Stream.INITIAL_WEIGHTS))
    generator = torch.Generator().manual_seed(2)
    for name, values in weights.items():
        noise = torch.randn(values.shape, generator=generator)
        if name.endswith("running_var"):
            values.copy_(0.2 + 2.0 * noise.abs())
            values[:, 0] = EPSILON
        else:
            values += 0.3 * noise if values.dim() == 2 else 0.01 * noise
    return weights


def apply(layer, x):
    """One layer on `(batch, values)` or `(batch, height, width, channels)`."""
    if layer.kind == "dense":
        return NONLINEARITIES[layer.activation](
            x.flatten(1) @ layer.weight + layer.bias, layer.slope
        )
    x, kernel = x.permute(0, 3, 1, 2), layer.weight.shape[0]
    assert layer.weight.shape[1] == kernel
    assert layer.weight.shape[2] == x.shape[1]
    if layer.kind == "conv":
        padding = {4: 1, 2: 0}[kernel]
        weight = layer.weight.permute(3, 2, 0, 1)
        out = F.conv2d(x, weight, layer.bias, stride=2, padding=padding)
    else:
        weight = layer.weight.permute(2, 3, 0, 1)
        out = F.conv_transpose2d(x, weight, layer.bias, stride=2, padding=1)
    return NONLINEARITIES[layer.activation](out, layer.slope).permute(0, 2, 3, 1)


def by_channel(change, x):
    return x if change is None else x * torch.tensor(change.scale) + torch.tensor(change.shift)


def plain_encode(plain, x):
    """Mean and log-variance of images with channels last."""
    x = by_channel(plain.input, x)
    for layer in plain.encoder:
        x = apply(layer, x)
    return apply(plain.mean, x), RULES[plain.logvar_rule](apply(plain.logvar, x))


def plain_decode(plain, z):
    """Raw outputs with channels last."""
    channels, height, width = plain.sample_shape
    doublings = sum(layer.kind == "conv_transpose" for layer in plain.decoder)
    for layer in plain.decoder:
        if layer.kind == "conv_transpose" and z.dim() == 2:
            z = z.view(len(z), height >> doublings, width >> doublings, -1)
        z = apply(layer, z)
    return by_channel(plain.output, z.view(len(z), height, width, channels))


def assert_same(network, shape, weights=None):
    weights = weights or trained_weights(network, shape)
    plain = network.plain(weights, shape)
    generator = torch.Generator().manual_seed(4)
    x = torch.rand(BATCH, *shape, generator=generator)
    z = torch.randn(BATCH, LATENTS, generator=generator)
    mean, logvar = network.encode(weights, x[None])
    raw = network.decode(weights, z[None], shape)
    found = [*plain_encode(plain, x.permute(0, 2, 3, 1)), plain_decode(plain, z)]
    expected = [mean[0], logvar[0], raw[0].permute(0, 2, 3, 1)]
    for what, one, other in zip(("mean", "logvar", "raw"), found, expected, strict=True):
        assert one.shape == other.shape, what
        assert other.std() > 1e-3, f"{what} hardly depends on anything"
        apart = (one - other).abs().max().item()
        assert apart <= AGREEMENT * max(1.0, other.abs().max().item()), f"{what} is {apart} apart"


CASES = [
    (network, shape)
    for name in NETWORKS.built_in
    for network in [NETWORKS.load(name)()]
    if name != "mlp"
    for shape in IMAGES
    if not network.problems(shape)
]


@pytest.mark.parametrize(("network", "shape"), CASES, ids=str)
def test_convolutional_networks(network, shape):
    assert_same(network, shape)


@pytest.mark.parametrize("network", MLPS, ids=str)
@pytest.mark.parametrize("shape", [OBLONG, (1, 8, 8)])
def test_dense_networks(network, shape):
    assert_same(network, shape)


@pytest.mark.parametrize(
    ("network", "shape", "mean", "std"),
    [
        (ConvBurgess(), (3, 32, 32), (0.5, 0.6, 0.2), (0.3, 0.2, 0.4)),
        (ConvBurgess(), (3, 32, 32), 0.4, 0.25),
        (ConvBatchNorm(), (1, 32, 32), 0.1, 0.3),
        (ConvDcgan(), (3, 32, 32), (0.5, 0.6, 0.2), (0.3, 0.2, 0.4)),
        (Mlp(12), OBLONG, (0.5, 0.6, 0.2), (0.3, 0.2, 0.4)),
        (Mlp(12, encoder_layers=0, decoder_layers=0), OBLONG, -1.0, 3.0),
    ],
)
def test_standardised_networks(network, shape, mean, std):
    assert_same(Standardised(network, mean, std), shape)


@pytest.mark.parametrize("name", ["conv_mathieu", "conv_dcgan", "mlp"])
def test_heads_that_go_far_below_zero(name):
    network, shape = NETWORKS.load(name)(), (1, 32, 32)
    network = Mlp(12, scale="softplus") if name == "mlp" else network
    weights = trained_weights(network, shape)
    bias = weights["encoder.std.bias" if name == "conv_dcgan" else "encoder.logvar.bias"]
    bias[:, ::2] -= 50.0
    _, logvar = network.encode(weights, torch.rand(1, BATCH, *shape))
    assert logvar.min().item() == pytest.approx(2.0 * math.log(LEAST), abs=1e-3)
    assert_same(network, shape, weights)


def test_every_registered_network_has_plain_layers():
    told = {type(network) for network, _ in CASES} | {Mlp}
    assert {NETWORKS.load(name) for name in NETWORKS.built_in} == told


def test_weights_are_of_their_own_and_in_float32():
    network, shape = ConvBatchNorm(), (1, 32, 32)
    weights = {name: one.double() for name, one in trained_weights(network, shape).items()}
    plain = network.plain({name: one.requires_grad_() for name, one in weights.items()}, shape)
    for layer in [*plain.encoder, plain.mean, plain.logvar, *plain.decoder]:
        for tensor in (layer.weight, layer.bias):
            assert tensor.dtype == torch.float32
            assert not tensor.requires_grad


def test_channels_last_by_hand():
    image = torch.tensor([[[0, 1], [2, 3]], [[4, 5], [6, 7]]])
    assert channels_last((2, 2, 2)).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert torch.equal(image.flatten()[channels_last((2, 2, 2))], image.permute(1, 2, 0).flatten())


@dataclass(frozen=True)
class Doubles(ConvBurgess):
    """Computes something else than the network it takes its layers from."""

    def encode(self, weights, x, precision=None):
        mean, logvar = super().encode(weights, x, precision)
        return 2.0 * mean, logvar


@dataclass(frozen=True)
class EndsElsewhere(ConvBurgess):
    """Another last layer."""

    def _last(self, weights, sample_shape):
        weight, bias = super()._last(weights, sample_shape)
        return -weight, bias


@dataclass(frozen=True)
class Narrow(ConvStack):
    """Other numbers, and nothing computed otherwise."""

    kernels = (4, 2, 4, 2, 4)
    hidden = 20
    citation = ConvBurgess.citation


@dataclass(frozen=True)
class OfModules(ModuleNetwork):
    """Modules of one's own."""

    citation = ConvBurgess.citation

    def encoder(self, sample_shape, latents):
        return nn.Flatten()

    def decoder(self, sample_shape, latents):
        return nn.Flatten()


def test_what_a_class_computes_otherwise_is_not_told_by_its_parent():
    shape = (1, 32, 32)
    for network in (Doubles(), EndsElsewhere(), Standardised(Doubles(), 0.5, 0.5)):
        assert network.plain(trained_weights(network, shape), shape) is None
    assert_same(Narrow(), shape)


def test_none_where_nothing_is_known_or_shown():
    points = Mlp(8)
    assert OfModules().plain({}, (1, 32, 32)) is None
    assert points.plain(trained_weights(points, (2,)), (2,)) is None
    twice = Standardised(Standardised(points, 0.5, 0.5), 0.1, 2.0)
    assert twice.plain(trained_weights(points, OBLONG), OBLONG) is None
