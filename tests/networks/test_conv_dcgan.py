# SPDX-License-Identifier: Apache-2.0
"""conv_dcgan against a plain torch model, weight for weight, in training and after it."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unbraid.core.random import Stream
from unbraid.networks.conv_dcgan import ConvDcgan

LATENTS = 6


class DcganPeer(nn.Module):
    """The network of torch's own layers, for Fashion-MNIST at 32x32."""

    shape = (1, 32, 32)
    network = ConvDcgan()

    def __init__(self, latents=LATENTS):
        super().__init__()
        e, d = self.encoder, self.decoder = nn.ModuleDict(), nn.ModuleDict()
        e["conv1"] = nn.Conv2d(1, 32, 4, 2, 1, bias=False)
        e["conv2"], e["norm2"] = nn.Conv2d(32, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64)
        e["conv3"], e["norm3"] = nn.Conv2d(64, 128, 4, 2, 1, bias=False), nn.BatchNorm2d(128)
        e["mean"], e["std"] = nn.Conv2d(128, latents, 4), nn.Conv2d(128, latents, 4)
        d["corner"], d["corner_norm"] = (
            nn.ConvTranspose2d(latents, 128, 4, bias=False),
            nn.BatchNorm2d(128),
        )
        d["conv1"], d["norm1"] = (
            nn.ConvTranspose2d(128, 64, 4, 2, 1, bias=False),
            nn.BatchNorm2d(64),
        )
        d["conv2"], d["norm2"] = nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32)
        d["conv3"] = nn.ConvTranspose2d(32, 1, 4, 2, 1, bias=False)

    def encode(self, x):
        e = self.encoder
        x = F.leaky_relu(e["conv1"](x), 0.2)
        x = F.leaky_relu(e["norm2"](e["conv2"](x)), 0.2)
        x = F.leaky_relu(e["norm3"](e["conv3"](x)), 0.2)
        return e["mean"](x).flatten(1), 2 * torch.log(F.softplus(e["std"](x).flatten(1)) + 1e-6)

    def decode(self, z):
        d = self.decoder
        x = d["corner_norm"](d["corner"](z[..., None, None])).relu()
        for number in (1, 2):
            x = d[f"norm{number}"](d[f"conv{number}"](x)).relu()
        return d["conv3"](x)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("members", [1, 2])
def test_against_a_plain_torch_model(peers, members, training):
    peers.assert_as_torch(DcganPeer, members, training)


def test_compare_is_the_likelihood_of_the_decoded(peers):
    peers.assert_compare(DcganPeer)


@pytest.mark.gpu
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("precision", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 8e-2)]
)
def test_on_a_gpu_it_is_the_same_network(peers, precision, tolerance, training):
    peers.assert_same_on_a_gpu(DcganPeer, precision, tolerance, training)


@pytest.mark.gpu
def test_a_training_pass_is_captured(peers):
    peers.assert_captured(DcganPeer)


def test_number_of_weights():
    weights = ConvDcgan().layout((1, 32, 32), 50).weights
    trained = sum(weight.count for weight in weights if ".running_" not in weight.name)
    assert trained == sum(parameter.numel() for parameter in DcganPeer(50).parameters()) == 636_836


def test_weights_start_normal():
    layout = ConvDcgan().layout((1, 32, 32), 50)
    views = layout.views(layout.initial(torch.arange(2), Stream.INITIAL_WEIGHTS))
    for name, values in views.items():
        if name.endswith(".weight"):
            assert values.std().item() == pytest.approx(0.02, rel=0.1)
            assert abs(values.mean().item()) <= 5 * 0.02 / math.sqrt(values.numel())
        elif name.endswith((".scale", ".running_var")):
            assert (values == 1.0).all()
        else:
            assert not values.any()


@pytest.mark.parametrize(
    ("shape", "name", "value", "remedy"),
    [
        ((1, 28, 28), "images", "28x28 with 1 channel", "32x32 (resize=32"),
        ((1, 64, 64), "images", "64x64 with 1 channel", "32x32 (resize=32"),
        ((2,), "samples", "vectors of shape (2,)", "the network mlp"),
        ((2, 32, 32), "images", "32x32 with 2 channels", "the network mlp"),
    ],
)
def test_unsuitable_samples_are_refused_with_a_remedy(shape, name, value, remedy):
    (problem,) = ConvDcgan().problems(shape)
    assert (problem.name, problem.value) == (name, value)
    assert "with a side of 32 and 1 or 3 channels" in problem.rule
    assert remedy in problem.remedy
