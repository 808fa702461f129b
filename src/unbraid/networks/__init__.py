# SPDX-License-Identifier: Apache-2.0
"""Encoders and decoders with a member axis."""

import importlib
from typing import TYPE_CHECKING, Any

from unbraid.core.registry import Registry

if TYPE_CHECKING:
    from unbraid.networks.from_module import ModuleNetwork as ModuleNetwork
    from unbraid.networks.network import Network as Network

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
    "unbraid.networks.network:Network",
)


_HOMES = {"Network": "unbraid.networks.network", "ModuleNetwork": "unbraid.networks.from_module"}


def __getattr__(attribute: str) -> Any:
    """The base classes of networks without importing torch for those who never ask."""
    if attribute not in _HOMES:
        raise AttributeError(f"module 'unbraid.networks' has no attribute '{attribute}'")
    return getattr(importlib.import_module(_HOMES[attribute]), attribute)
