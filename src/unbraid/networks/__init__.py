# SPDX-License-Identifier: Apache-2.0
"""Encoders and decoders with a member axis."""

from unbraid.registry import Registry

NETWORKS = Registry(
    "network",
    "unbraid.networks",
    {
        "conv_burgess": "unbraid.networks.conv:ConvBurgess",
        "conv_locatello": "unbraid.networks.conv:ConvLocatello",
        "mlp": "unbraid.networks.mlp:Mlp",
    },
)
