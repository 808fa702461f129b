# SPDX-License-Identifier: Apache-2.0
"""What latents are drawn to: one file a prior, one line here."""

from unbraid.registry import Registry

PRIORS = Registry(
    "prior",
    "unbraid.priors",
    {
        "isotropic": "unbraid.objectives.priors.isotropic:Isotropic",
        "anisotropic": "unbraid.objectives.priors.anisotropic:Anisotropic",
        "mixture": "unbraid.objectives.priors.mixture:Mixture",
        "sparse": "unbraid.objectives.priors.sparse:Sparse",
        "student_t": "unbraid.objectives.priors.student_t:StudentT",
    },
)
