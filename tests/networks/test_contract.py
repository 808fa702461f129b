# SPDX-License-Identifier: Apache-2.0
"""Every registered network keeps the contract at every side and channel count; the contract notices
what breaks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.networks import NETWORKS
from unbraid.networks.conv import ConvBurgess
from unbraid.networks.mlp import Mlp
from unbraid.networks.network import TrainedWeights
from unbraid.testing.checks import check_test_file
from unbraid.testing.network_contract import check_network

SHAPES = ((2,), (1, 28, 28), (3, 32, 32), (1, 64, 64), (3, 96, 96), (1, 128, 128))
LARGEST = (1, 128, 128)
MOST_WEIGHTS = 2_000_000
OPTIONS = {"mlp": {"hidden": 64}}
"""Where the default network is too large to be tested quickly."""


def taken(name):
    """The shapes that a network takes, but for those that make it large and the test slow."""
    network = NETWORKS.load(name)(**OPTIONS.get(name, {}))
    return [
        shape
        for shape in SHAPES
        if not network.problems(shape) and network.layout(shape, 5).count <= MOST_WEIGHTS
    ]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        pytest.param(name, shape, marks=[pytest.mark.slow] if shape == LARGEST else [])
        for name in NETWORKS.built_in
        for shape in taken(name)
    ],
)
def test_registered_networks_keep_the_contract(name, shape):
    check_network(name, shape, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("name", list(NETWORKS.built_in))
def test_registered_networks_take_samples_and_have_a_test_file(name):
    assert set(taken(name)) - {LARGEST}
    module = NETWORKS.built_in[name].partition(":")[0].rpartition(".")[2]
    check_test_file(Path(__file__).parent / f"test_{module}.py")


def test_unknown_network_is_refused():
    with pytest.raises(InputError) as told:
        NETWORKS.load("conv_burges")
    assert (
        str(told.value) == "network 'conv_burges' is unknown; did you mean 'conv_burgess'? Known:"
        f" {', '.join(sorted(NETWORKS))}."
    )


@dataclass(frozen=True)
class Small(Mlp):
    """A narrow network."""

    hidden: int = 6


@dataclass(frozen=True)
class MixesMembers(Small):
    """Adds the mean over all members to the latents."""

    def encode(self, weights, x, precision=None):
        mean, logvar = super().encode(weights, x, precision)
        return mean + mean.mean(dim=0), logvar


@dataclass(frozen=True)
class IgnoresPrecision(Small):
    """Computes in full precision always."""

    def encode(self, weights, x, precision=None):
        return super().encode(weights, x)


@dataclass(frozen=True)
class SharesHeads(Small):
    """One head for both."""

    def encode(self, weights, x, precision=None):
        mean, _ = super().encode(weights, x, precision)
        return mean, mean


@dataclass(frozen=True)
class ReturnsDoubles(Small):
    """Outputs in float64."""

    def decode(self, weights, z, sample_shape, precision=None):
        return super().decode(weights, z, sample_shape, precision).to(torch.float64)


@dataclass(frozen=True)
class NormalisesWithoutNotes(Small):
    """In training centres the latents on the batch, with nothing to centre them later."""

    def encode(self, weights, x, precision=None):
        mean, logvar = super().encode(weights, x, precision)
        return (
            mean - mean.mean(dim=1, keepdim=True) if isinstance(weights, TrainedWeights) else mean
        ), logvar


@dataclass(frozen=True)
class NotesTheMeanOfAll(Small):
    """In training notes for one member what it saw in all."""

    def encode(self, weights, x, precision=None):
        mean, logvar = super().encode(weights, x, precision)
        if isinstance(weights, TrainedWeights):
            weights.notes["encoder.mean.bias"] = (
                mean.detach().mean(dim=(0, 1)).expand(len(mean), -1)
            )
            mean = mean - weights["encoder.mean.bias"].unsqueeze(1)
        return mean, logvar


@dataclass(frozen=True)
class NotesAStranger(Small):
    """Notes what is no weight."""

    def encode(self, weights, x, precision=None):
        if isinstance(weights, TrainedWeights):
            weights.notes["encoder.memory"] = x
        return super().encode(weights, x, precision)


@dataclass(frozen=True)
class NotesAWeight(Small):
    """Notes a weight that is trained as well."""

    def encode(self, weights, x, precision=None):
        if isinstance(weights, TrainedWeights):
            weights.notes["encoder.mean.bias"] = weights["encoder.mean.bias"].detach()
        return super().encode(weights, x, precision)


@dataclass(frozen=True)
class FollowsPrecisionInSecret(Small):
    """Says that it ignores the precision."""

    lowers_precision = False


@pytest.mark.parametrize(
    ("kind", "shape", "told"),
    [
        (
            NormalisesWithoutNotes,
            (2,),
            (
                "outputs in training differ from those outside, and nothing is noted that would"
                " tell why"
            ),
        ),
        (NotesTheMeanOfAll, (2,), "NaN in one member must not reach another in training"),
        (NotesAStranger, (2,), "a note must name a weight, 'encoder.memory' is none"),
        (
            NotesAWeight,
            (2,),
            "encoder.mean.bias is noted in training, so that it must get no gradient",
        ),
        (
            FollowsPrecisionInSecret,
            (2,),
            "mean changes with bfloat16, though the network says that it does not follow it",
        ),
        (MixesMembers, (2,), "mean of a member alone is .* from that in a population"),
        (IgnoresPrecision, (2,), "mean does not change with bfloat16"),
        (SharesHeads, (2,), "mean and logvar need heads of their own"),
        (ReturnsDoubles, (2,), "output must be float32 for float32 samples, is torch.float64"),
        (ConvBurgess, (2,), r"refuses samples of shape \(2,\)"),
    ],
)
def test_contract_notices_what_breaks_it(kind, shape, told, monkeypatch):
    monkeypatch.setattr(NETWORKS, "load", lambda name: kind)
    with pytest.raises(AssertionError, match=told):
        check_network("broken", shape)
