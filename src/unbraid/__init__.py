# SPDX-License-Identifier: Apache-2.0
"""Unbraid: a laboratory for disentangled representations.

    import unbraid as ub
    run = ub.train("dsprites", ub.BetaVAE(beta=[1, 4, 16]), seeds=10, steps=30_000)
    run.score(["mig", "dci"]).groupby("beta").mean()
    z = run.best("mig").encode(images)

Every command of the command line is a function here. Torch is imported when it is first needed, so
that `import unbraid` and `unbraid --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import unbraid.report  # noqa: F401  first, since its name here is that of the command
from unbraid.core.errors import InputError as InputError
from unbraid.core.errors import StoppedError as StoppedError
from unbraid.core.errors import UnbraidError as UnbraidError
from unbraid.core.grid import FactorGrid as FactorGrid
from unbraid.core.registry import Citation as Citation
from unbraid.data import DATA as DATA
from unbraid.networks import NETWORKS as NETWORKS
from unbraid.objectives import OBJECTIVES as OBJECTIVES
from unbraid.objectives.priors import PRIORS as PRIORS
from unbraid.objectives.supervision import SUPERVISIONS as SUPERVISIONS

# isort: split
# The commands. `data` and `report` are packages too: imported by name they are found as ever.
from unbraid.commands import data as data
from unbraid.commands import study as study
from unbraid.commands.crossings import crossings as crossings
from unbraid.commands.demo import demo as demo
from unbraid.commands.discover import discover as discover
from unbraid.commands.distances import distances as distances
from unbraid.commands.explore import explore as explore
from unbraid.commands.gallery import gallery as gallery
from unbraid.commands.list import list as list
from unbraid.commands.pbt import pbt as pbt
from unbraid.commands.perturb import perturb as perturb
from unbraid.commands.reduce import reduce as reduce
from unbraid.commands.report import report as report
from unbraid.commands.resume import resume as resume
from unbraid.commands.rpu import rpu as rpu
from unbraid.commands.run import Run as Run
from unbraid.commands.run import open_run as open_run
from unbraid.commands.score import score as score
from unbraid.commands.status import status as status
from unbraid.commands.train import train as train
from unbraid.commands.work import work as work

if TYPE_CHECKING:
    from unbraid import analysis as analysis
    from unbraid import codes as codes
    from unbraid import metrics as metrics
    from unbraid import networks as networks
    from unbraid import objectives as objectives
    from unbraid import population as population
    from unbraid import search as search
    from unbraid import studies as studies
    from unbraid import testing as testing
    from unbraid.codes.model import Model as Model
    from unbraid.commands.names import *  # noqa: F403  objectives, priors, supervisions
    from unbraid.data.dataset import Dataset as Dataset
    from unbraid.data.loading import load as load
    from unbraid.objectives.schedule import constant as constant
    from unbraid.objectives.schedule import cosine as cosine
    from unbraid.objectives.schedule import cyclic as cyclic
    from unbraid.objectives.schedule import linear as linear
    from unbraid.objectives.schedule import step as step

__version__ = "0.1.0"

_HOMES = {
    "Model": "unbraid.codes.model",
    "Dataset": "unbraid.data.dataset",
    "load": "unbraid.data.loading",
    **dict.fromkeys(
        ("constant", "linear", "cosine", "cyclic", "step"), "unbraid.objectives.schedule"
    ),
}
_PACKAGES = (
    *("metrics", "analysis", "testing", "studies", "codes", "population", "networks"),
    *("objectives", "search"),
)


def __dir__() -> tuple[str, ...]:
    classes = (
        home.partition(":")[2]
        for table in (OBJECTIVES, PRIORS, SUPERVISIONS)
        for home in table.values()
    )
    plumbing = {"Any", "TYPE_CHECKING", "annotations", "importlib", "unbraid"}
    names = {*globals(), *_HOMES, *_PACKAGES, *classes} - plumbing
    return tuple(name for name in names if not name.startswith("_") or name == "__version__")


if not TYPE_CHECKING:  # which would take any name for known

    def __getattr__(name: str) -> Any:
        """A public name from its module; objectives, priors and supervisions by class name."""
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        if name in _PACKAGES:
            return importlib.import_module(f"unbraid.{name}")
        for registry in (OBJECTIVES, PRIORS, SUPERVISIONS):
            if (home := registry.attribute_home(name)) is not None:
                return registry.load(home)
        raise AttributeError(f"module 'unbraid' has no attribute '{name}'")
