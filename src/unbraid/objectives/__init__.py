# SPDX-License-Identifier: Apache-2.0
"""What is minimised: one file per objective, one line here."""

import importlib
from typing import TYPE_CHECKING, Any

from unbraid.core.registry import Registry

if TYPE_CHECKING:
    from unbraid.objectives.hyper import Choice as Choice
    from unbraid.objectives.hyper import Count as Count
    from unbraid.objectives.hyper import Number as Number
    from unbraid.objectives.hyper import Vector as Vector
    from unbraid.objectives.hyper import choice as choice
    from unbraid.objectives.hyper import count as count
    from unbraid.objectives.hyper import number as number
    from unbraid.objectives.hyper import vector as vector
    from unbraid.objectives.latent_terms import gaussian_kl as gaussian_kl
    from unbraid.objectives.latent_terms import gaussian_log_density as gaussian_log_density
    from unbraid.objectives.objective import AuxiliaryNetwork as AuxiliaryNetwork
    from unbraid.objectives.objective import Forward as Forward
    from unbraid.objectives.objective import Objective as Objective
    from unbraid.objectives.objective import Setting as Setting
    from unbraid.objectives.objective import Term as Term
    from unbraid.objectives.schedule import Schedule as Schedule

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
        "info_vae": "unbraid.objectives.info_vae:InfoVAE",
        "control_vae": "unbraid.objectives.control_vae:ControlVAE",
        "wae": "unbraid.objectives.wae:WAE",
        "qlae": "unbraid.objectives.qlae:QLAE",
        "iwae": "unbraid.objectives.iwae:IWAE",
        "decomposition": "unbraid.objectives.decomposition:Decomposition",
        "ada_gvae": "unbraid.objectives.ada_gvae:AdaGVAE",
        "ada_mlvae": "unbraid.objectives.ada_mlvae:AdaMLVAE",
        "gvae": "unbraid.objectives.gvae:GVAE",
        "mlvae": "unbraid.objectives.mlvae:MLVAE",
    },
    "unbraid.objectives.objective:Objective",
)


_HOMES: dict[str, str] = dict.fromkeys(
    ("Objective", "Setting", "Term", "Forward", "AuxiliaryNetwork"), "unbraid.objectives.objective"
)
_HOMES |= dict.fromkeys(
    ("number", "count", "choice", "vector", "Number", "Count", "Choice", "Vector"),
    "unbraid.objectives.hyper",
)
_HOMES |= dict.fromkeys(("FewLabels", "Pairs", "Supervision"), "unbraid.objectives.supervision")
_HOMES |= dict.fromkeys(
    ("Schedule", "constant", "linear", "cosine", "cyclic", "step"), "unbraid.objectives.schedule"
)
_HOMES |= dict.fromkeys(("gaussian_kl", "gaussian_log_density"), "unbraid.objectives.latent_terms")


def __getattr__(attribute: str) -> Any:
    """`unbraid.objectives.BetaVAE` without importing torch for those who never ask."""
    if attribute in _HOMES:
        return getattr(importlib.import_module(_HOMES[attribute]), attribute)
    name = OBJECTIVES.attribute_home(attribute)
    if name is None:
        raise AttributeError(f"module 'unbraid.objectives' has no attribute '{attribute}'")
    return OBJECTIVES.load(name)
