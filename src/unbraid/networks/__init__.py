# SPDX-License-Identifier: Apache-2.0
"""Encoders and decoders with a member axis."""

from unbraid.registry import Registry

NETWORKS = Registry(
    "network",
    "unbraid.networks",
    {
        "conv_burgess": "unbraid.networks.conv:ConvBurgess",
        "conv_locatello": "unbraid.networks.conv:ConvLocatello",
        "conv_mathieu": "unbraid.networks.conv_mathieu:ConvMathieu",
        "conv_batchnorm": "unbraid.networks.conv_batchnorm:ConvBatchNorm",
        "conv_dcgan": "unbraid.networks.conv_dcgan:ConvDcgan",
        "mlp": "unbraid.networks.mlp:Mlp",
    },
)
