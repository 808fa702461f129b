# SPDX-License-Identifier: Apache-2.0
"""Unbraid: a laboratory for disentangled representations.

    import unbraid as ub
    run = ub.train("dsprites", ub.BetaVAE(beta=[1, 4, 16]), seeds=10, steps=30_000)
    run.score(["mig", "dci"]).groupby("beta").mean()
    z = run.best("mig").encode(images)

Names are imported when first used, so that `import unbraid` and `unbraid --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import InputError as InputError
from unbraid.core.errors import UnbraidError as UnbraidError
from unbraid.core.grid import FactorGrid as FactorGrid
from unbraid.core.registry import Citation as Citation
from unbraid.data import DATA as DATA
from unbraid.networks import NETWORKS as NETWORKS
from unbraid.objectives import OBJECTIVES as OBJECTIVES
from unbraid.objectives.priors import PRIORS as PRIORS
from unbraid.objectives.supervision import SUPERVISIONS as SUPERVISIONS

if TYPE_CHECKING:
    from unbraid.commands.train import Model as Model
    from unbraid.commands.train import Run as Run
    from unbraid.commands.train import open_run as open_run
    from unbraid.commands.train import train as train
    from unbraid.data import load as load

__version__ = "0.1.0"

_HOMES = {
    "train": "unbraid.commands.train",
    "open_run": "unbraid.commands.train",
    "Run": "unbraid.commands.train",
    "Model": "unbraid.commands.train",
    "load": "unbraid.data",
    "perturb_data": "unbraid.commands.perturb",
    "measure_distances": "unbraid.commands.distances",
    "make_gallery": "unbraid.commands.gallery",
    "evolve": "unbraid.commands.pbt",
    "recurse": "unbraid.commands.pbt",
    "resume_search": "unbraid.commands.pbt",
    "discover": "unbraid.commands.discover",
    "reduce_labels": "unbraid.commands.reduce",
}
_HOMES |= dict.fromkeys(
    ("constant", "linear", "cosine", "cyclic", "step"), "unbraid.objectives.schedule"
)
_PACKAGES = (
    "metrics",
    "analysis",
    "testing",
    "studies",
    "report",
    "codes",
    "population",
    "networks",
    "objectives",
    "search",
)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES, *_PACKAGES]


def __getattr__(name: str) -> Any:
    """Find a public name in its module, or an objective by its class name."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"unbraid.{name}")
    for registry in (OBJECTIVES, PRIORS, SUPERVISIONS):
        if (home := registry.attribute_home(name)) is not None:
            return registry.load(home)
    raise AttributeError(f"module 'unbraid' has no attribute '{name}'")
