# SPDX-License-Identifier: Apache-2.0
"""The decoder in plain operations gives what the network's own gives, and can be differentiated."""

from __future__ import annotations

import pytest
import torch

from unbraid.core.random import Stream
from unbraid.networks import NETWORKS
from unbraid.networks.mlp import Mlp
from unbraid.networks.plain_decoder import decode_plain

SHAPE, LATENTS = (1, 28, 28), 2
NETWORKS_TRIED = [
    NETWORKS.load(name)()
    for name in NETWORKS.built_in
    if name != "mlp" and not NETWORKS.load(name)().problems(SHAPE)
]


def weights_of(network):
    layout = network.layout(SHAPE, LATENTS)
    found = layout.views(layout.initial(torch.tensor([3]), Stream.INITIAL_WEIGHTS))
    chance = torch.Generator().manual_seed(0)
    return {
        name: one + 0.02 * torch.randn(one.shape, generator=chance).abs()
        for name, one in found.items()
    }


@pytest.mark.parametrize(
    "network", [*NETWORKS_TRIED, Mlp(12, activation="relu")], ids=lambda one: repr(one)[:24]
)
def test_it_is_the_networks_own_and_so_are_its_slopes(network):
    weights = weights_of(network)
    plain = network.plain(weights, SHAPE)
    assert plain is not None
    z = torch.randn(1, LATENTS, generator=torch.Generator().manual_seed(1))
    own = network.decode(weights, z[None], SHAPE)[0]
    assert own.std() > 1e-3
    assert torch.allclose(decode_plain(plain, z)[0], own, atol=1e-4 * float(own.abs().max()))
    # Slopes in double precision, by forward mode and by differences.
    z, step = z.double(), 1e-6
    slopes = decode_plain(plain, z)[1]
    assert slopes.shape == (1, LATENTS, *SHAPE)
    for latent in range(LATENTS):
        along = step * torch.eye(LATENTS, dtype=torch.float64)[latent]
        difference = decode_plain(plain, z + along)[0] - decode_plain(plain, z - along)[0]
        apart = (slopes[:, latent] - difference / (2 * step)).abs().max()
        assert apart < 1e-6 * max(1.0, float(slopes.abs().max())), latent
        assert slopes[:, latent].abs().max() > 0


def test_there_are_networks_to_try():
    assert len(NETWORKS_TRIED) >= 3
