# SPDX-License-Identifier: Apache-2.0
"""Scores of codes against factors: pure functions of arrays, samples first, that return their
evidence.

`codes` are float `(n, latents)`, `factors` whole numbers `(n, factors)`, NumPy or torch; codes with
a leading member axis are scored one by one in one call (`Members`). A function says by its
attributes `label`, `needs`, `family`, `citation` and `result` what it is called, what to pass, what
it is for, where it comes from and what it returns. `check_codes`, `check_codes_factors`,
`check_split` and `check_codes_grid` read what people pass, for metrics of other packages too.
"""

from __future__ import annotations

from unbraid.core.registry import Registry
from unbraid.metrics._arrays import check_codes as check_codes
from unbraid.metrics._arrays import check_codes_factors as check_codes_factors
from unbraid.metrics._arrays import check_codes_grid as check_codes_grid
from unbraid.metrics._arrays import check_split as check_split
from unbraid.metrics._describe import Members as Members
from unbraid.metrics._describe import describe as describe

METRICS = Registry(
    "metric",
    "unbraid.metrics",
    {
        "mig": "unbraid.metrics.mig:mig",
        "mig_sup": "unbraid.metrics.mig_sup:mig_sup",
        "jemmig": "unbraid.metrics.jemmig:jemmig",
        "dcimig": "unbraid.metrics.dcimig:dcimig",
        "dci": "unbraid.metrics.dci:dci",
        "dci_es": "unbraid.metrics.dci_es:dci_es",
        "sap": "unbraid.metrics.sap:sap",
        "modularity": "unbraid.metrics.modularity:modularity",
        "explicitness": "unbraid.metrics.explicitness:explicitness",
        "infomec": "unbraid.metrics.infomec:infomec",
        "beta_vae_score": "unbraid.metrics.beta_vae_score:beta_vae_score",
        "factor_vae_score": "unbraid.metrics.factor_vae_score:factor_vae_score",
        "kim_mnih_score": "unbraid.metrics.kim_mnih_score:kim_mnih_score",
        "irs": "unbraid.metrics.irs:irs",
        "unified_scores": "unbraid.metrics.unified_scores:unified_scores",
        "total_correlation": "unbraid.metrics.total_correlation:total_correlation",
        "wasserstein_correlation": (
            "unbraid.metrics.wasserstein_correlation:wasserstein_correlation"
        ),
        "pairwise_information": "unbraid.metrics.pairwise_information:pairwise_information",
        "udr": "unbraid.metrics.udr:udr",
        "active_units": "unbraid.metrics.active_units:active_units",
        "elbo": "unbraid.metrics.elbo:elbo",
        "hoyer": "unbraid.metrics.hoyer:hoyer",
        "downstream": "unbraid.metrics.downstream:downstream",
        "downstream_reduced": "unbraid.metrics.downstream_reduced:downstream_reduced",
        "downstream_strong": "unbraid.metrics.downstream_strong:downstream_strong",
        "fairness": "unbraid.metrics.fairness:fairness",
    },
)

# A metric has the name of its file, so importing the file puts the module where
# `unbraid.metrics.mig` should be the function. Binding all functions now, once, settles it: Python
# sets that attribute only when a module is first imported. The modules need only NumPy; predictors
# are imported when called.
for _name in METRICS.built_in:
    _function = METRICS.load(_name)
    globals()[_name] = _function
    globals()[_function.result.__name__] = _function.result

# The same scores of batches that were drawn elsewhere; no metrics of their own, for no run has such
# batches.
from unbraid.metrics.beta_vae_score import (  # noqa: E402
    beta_vae_score_of_pairs as beta_vae_score_of_pairs,
)
from unbraid.metrics.factor_vae_score import (  # noqa: E402
    factor_vae_score_of_batches as factor_vae_score_of_batches,
)
