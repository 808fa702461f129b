# SPDX-License-Identifier: Apache-2.0
"""conv_batchnorm against a plain torch model, weight for weight, in training and after it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from unbraid.networks.conv_batchnorm import ConvBatchNorm

LATENTS = 6


class BatchNormPeer(nn.Module):
    """The published network of torch's own layers, for 64x64."""

    shape = (1, 64, 64)
    network = ConvBatchNorm()

    def __init__(self, latents=LATENTS):
        super().__init__()
        e, d = self.encoder, self.decoder = nn.ModuleDict(), nn.ModuleDict()
        inputs = 1
        for number, outputs in enumerate((32, 32, 64, 64), start=1):
            e[f"conv{number}"], e[f"norm{number}"] = (
                nn.Conv2d(inputs, outputs, 4, 2, 1),
                nn.BatchNorm2d(outputs),
            )
            inputs = outputs
        e["wide"], e["wide_norm"] = nn.Conv2d(64, 512, 4), nn.BatchNorm2d(512)
        e["mean"], e["log_std"] = nn.Conv2d(512, latents, 1), nn.Conv2d(512, latents, 1)
        d["wide"], d["wide_norm"] = nn.ConvTranspose2d(latents, 512, 1), nn.BatchNorm2d(512)
        d["corner"], d["corner_norm"] = nn.ConvTranspose2d(512, 64, 4), nn.BatchNorm2d(64)
        for number, outputs in enumerate((64, 32, 32), start=1):
            d[f"conv{number}"], d[f"norm{number}"] = (
                nn.ConvTranspose2d(inputs, outputs, 4, 2, 1),
                nn.BatchNorm2d(outputs),
            )
            inputs = outputs
        d["conv4"] = nn.ConvTranspose2d(32, 1, 4, 2, 1)

    def encode(self, x):
        e = self.encoder
        for number in (1, 2, 3, 4):
            x = e[f"norm{number}"](e[f"conv{number}"](x)).relu()
        x = e["wide_norm"](e["wide"](x)).relu()
        return e["mean"](x).flatten(1), 2 * e["log_std"](x).flatten(1)

    def decode(self, z):
        d = self.decoder
        x = d["wide_norm"](d["wide"](z[..., None, None])).relu()
        x = d["corner_norm"](d["corner"](x)).relu()
        for number in (1, 2, 3):
            x = d[f"norm{number}"](d[f"conv{number}"](x)).relu()
        return d["conv4"](x)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("members", [1, 2])
def test_against_a_plain_torch_model(peers, members, training):
    peers.assert_as_torch(BatchNormPeer, members, training)


def test_compare_is_the_likelihood_of_the_decoded(peers):
    peers.assert_compare(BatchNormPeer)


@pytest.mark.gpu
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("precision", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 8e-2)]
)
def test_on_a_gpu_it_is_the_same_network(peers, precision, tolerance, training):
    peers.assert_same_on_a_gpu(BatchNormPeer, precision, tolerance, training)


@pytest.mark.gpu
def test_a_training_pass_is_captured(peers):
    peers.assert_captured(BatchNormPeer)


def test_number_of_weights():
    """What is trained, as in the authors' code for 64x64x1 and 10 latents: about 1.29 M. The
    running means come on top.
    """
    weights = ConvBatchNorm().layout((1, 64, 64), 10).weights
    trained = sum(weight.count for weight in weights if ".running_" not in weight.name)
    assert (
        trained
        == sum(parameter.numel() for parameter in BatchNormPeer(10).parameters())
        == 1_298_581
    )
    assert (
        sum(weight.count for weight in weights if weight.name.endswith((".weight", ".bias")))
        == 1_295_765
    )
    assert sum(weight.count for weight in weights if ".running_" in weight.name) == 2 * 2 * (
        32 + 32 + 64 + 64 + 512
    )


def test_weights_start_in_the_range_of_torch_s_layers():
    limits = {
        weight.name: weight.limit for weight in ConvBatchNorm().layout((1, 64, 64), LATENTS).weights
    }
    for name, module in BatchNormPeer().named_modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            fan_in, _ = nn.init._calculate_fan_in_and_fan_out(module.weight)
            assert (
                limits[f"{name}.weight"]
                == limits[f"{name}.bias"]
                == pytest.approx(1 / math.sqrt(fan_in), rel=1e-12)
            )
    assert not any(limit for name, limit in limits.items() if "norm" in name)


@pytest.mark.parametrize(("side", "depth"), [(32, 3), (64, 4), (128, 5)])
def test_convolutions_end_at_four_by_four(side, depth):
    shapes = {
        weight.name: weight.shape for weight in ConvBatchNorm().layout((3, side, side), 10).weights
    }
    assert shapes["encoder.wide.weight"] == (1024, 512)
    assert shapes[f"encoder.conv{depth}.weight"] == (64, 4, 4, 32 if depth == 3 else 64)
    assert shapes[f"decoder.conv{depth}.weight"] == (32, 4, 4, 3)
    assert f"encoder.conv{depth + 1}.weight" not in shapes


@pytest.mark.parametrize(
    ("shape", "name", "value", "remedy"),
    [
        ((1, 28, 28), "images", "28x28 with 1 channel", "resize=32"),
        ((4, 64, 64), "images", "64x64 with 4 channels", "the network mlp"),
    ],
)
def test_unsuitable_samples_are_refused_with_a_remedy(shape, name, value, remedy):
    (problem,) = ConvBatchNorm().problems(shape)
    assert (problem.name, problem.value) == (name, value)
    assert "with a side of 32, 64, 128 and 1 or 3 channels" in problem.rule
    assert remedy in problem.remedy
