# SPDX-License-Identifier: Apache-2.0
"""What is minimised: one file an objective, one line here."""

from typing import Any

from unbraid.registry import Registry

OBJECTIVES = Registry(
    "objective",
    "unbraid.objectives",
    {
        "ae": "unbraid.objectives.ae:AE",
        "vae": "unbraid.objectives.vae:VAE",
        "beta_vae": "unbraid.objectives.beta_vae:BetaVAE",
        "annealed_vae": "unbraid.objectives.annealed_vae:AnnealedVAE",
        "factor_vae": "unbraid.objectives.factor_vae:FactorVAE",
        "beta_tcvae": "unbraid.objectives.beta_tcvae:BetaTCVAE",
        "dip_vae_i": "unbraid.objectives.dip_vae_i:DIPVAEI",
        "dip_vae_ii": "unbraid.objectives.dip_vae_ii:DIPVAEII",
    },
)


def __getattr__(attribute: str) -> Any:
    """`unbraid.objectives.BetaVAE` without importing torch for those who never ask."""
    name = OBJECTIVES.attribute_home(attribute)
    if name is None:
        raise AttributeError(f"module 'unbraid.objectives' has no attribute '{attribute}'")
    return OBJECTIVES.load(name)
