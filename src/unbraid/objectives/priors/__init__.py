# SPDX-License-Identifier: Apache-2.0
"""What latents are drawn to: one file a prior, one line here."""

import importlib
from typing import Any

from unbraid.core.registry import Registry

PRIORS = Registry(
    "prior",
    "unbraid.priors",
    {
        "isotropic": "unbraid.objectives.priors.isotropic:Isotropic",
        "anisotropic": "unbraid.objectives.priors.anisotropic:Anisotropic",
        "mixture": "unbraid.objectives.priors.mixture:Mixture",
        "sparse": "unbraid.objectives.priors.sparse:Sparse",
        "cross": "unbraid.objectives.priors.cross:Cross",
        "student_t": "unbraid.objectives.priors.student_t:StudentT",
    },
    "unbraid.objectives.priors.prior:Prior",
)


def __getattr__(attribute: str) -> Any:
    """The base class `Prior` without importing torch for those who never ask."""
    if attribute != "Prior":
        raise AttributeError(f"module 'unbraid.objectives.priors' has no attribute '{attribute}'")
    return importlib.import_module("unbraid.objectives.priors.prior").Prior
