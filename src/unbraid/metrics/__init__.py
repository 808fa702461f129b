# SPDX-License-Identifier: Apache-2.0
"""Scores of codes against factors: pure functions of arrays, samples first, that return their evidence.

`codes` are float `(n, latents)`, `factors` whole numbers `(n, factors)`, NumPy or torch; codes with a leading member axis are
scored one by one in one call (`Members`). A function says by its attributes `label`, `needs`, `family`, `citation` and `result`
what it is called, what to pass, what it is for, where it comes from and what it returns.
"""

from __future__ import annotations

from unbraid.metrics._describe import Members as Members
from unbraid.metrics._describe import describe as describe
from unbraid.registry import Registry

METRICS = Registry(
    "metric",
    "unbraid.metrics",
    {
        "beta_vae_score": "unbraid.metrics.beta_vae_score:beta_vae_score",
        "factor_vae_score": "unbraid.metrics.factor_vae_score:factor_vae_score",
        "mig": "unbraid.metrics.mig:mig",
        "dci": "unbraid.metrics.dci:dci",
        "sap": "unbraid.metrics.sap:sap",
        "modularity": "unbraid.metrics.modularity:modularity",
    },
)

# A metric has the name of its file, so importing the file puts the module where `unbraid.metrics.mig` should be the
# function. Binding all functions now, once, settles it: Python sets that attribute only when a module is first imported.
# The modules need only NumPy; predictors are imported when called.
for _name in METRICS.built_in:
    _function = METRICS.load(_name)
    globals()[_name] = _function
    globals()[_function.result.__name__] = _function.result
