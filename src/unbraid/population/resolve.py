# SPDX-License-Identifier: Apache-2.0
"""What goes with what: objectives, priors and networks, chosen independently by name and refused
where they make no sense.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from unbraid.core.errors import InputError, Problem, Problems, Shown, invalid, unknown
from unbraid.core.registry import home
from unbraid.core.spelling import as_named, as_number, as_source, split_names
from unbraid.data.dataset import Dataset
from unbraid.networks import NETWORKS
from unbraid.networks.network import Network
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.conventions import beta_of_sums
from unbraid.objectives.objective import Objective, Setting
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.schedule import Schedule

CONVENTIONS = ("sum", "mean")
GENERAL_OPTIONS = frozenset(
    (
        *(
            "seeds",
            "steps",
            "batch_size",
            "learning_rate",
            "latents",
            "network",
            "likelihood",
            "precision",
            "where",
        ),
        *(
            "prior",
            "standardise",
            "convention",
            "code_samples",
            "checkpoint_seconds",
            "out",
            "device",
        ),
    )
)
"""What any objective can be trained with, for telling a misspelt one from an unknown
hyperparameter.
"""
OTHER_NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "iso": ("isotropic", {}),
    "pca": ("anisotropic", {"variances": "pca"}),
    "pca_learned": ("anisotropic", {"variances": "pca", "learned": "yes"}),
}
"""Short names of priors, as the authors' scripts of Mathieu et al. (2019) have them."""


def setting_of(dataset: Dataset, latents: int, where: str = "") -> Setting:
    """What objectives may know of *dataset* and the plan."""
    sizes = tuple(dataset.factor_sizes) if dataset.labelled else ()
    complete = bool(sizes) and math.prod(sizes) == len(dataset)
    if (
        complete and tuple(dataset.grid.sizes) != sizes
    ):  # a table of labels may hold a whole grid, in order
        every = np.arange(len(dataset))
        complete = np.array_equal(
            dataset.factors(every), np.stack(np.unravel_index(every, sizes), axis=-1)
        )
    return Setting(latents, tuple(dataset.sample_shape), sizes, complete, where, len(dataset))


def refusals(
    objectives: Sequence[Objective], priors: Sequence[Prior], setting: Setting
) -> list[Problem]:
    """Every reason why one of *objectives* cannot be trained with one of *priors* on such data,
    each once.
    """
    found = [line for prior in priors for line in prior.problems(setting.latents)]
    found += [
        line for one in objectives for prior in priors for line in one.problems(setting, prior)
    ]
    return list(dict.fromkeys(found))


def choose_priors(given: Any, options: dict[str, Any], problems: Problems) -> list[Prior]:
    """Every prior with its sweeps expanded; *options* goes to those given by name."""
    wanted = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if not wanted:
        problems.add("prior", "needs at least one", given)
    if not isinstance(options, dict):
        problems.add(
            "prior_options", "must be a dictionary", options, "For example {'gamma': 0.8}."
        )
        options = {}
    if options and wanted and not any(isinstance(one, str) for one in wanted):
        problems.add(
            "prior_options",
            "goes to priors given by name",
            options,
            "Set the values in the prior itself.",
        )
    found: list[Prior] = []
    for one in wanted:
        built = (
            problems.collect(functools.partial(_built, one, options))
            if isinstance(one, str)
            else one
        )
        if not isinstance(built, Prior):
            if not isinstance(one, str):
                rule = "must be a prior, its name, or a list of them"
                problems.add(
                    "prior", rule, one, "For example 'sparse' or unbraid.Sparse(gamma=0.8)."
                )
            continue
        if PRIORS.get(built.key) != home(type(built)):
            kind = type(built).__name__
            problems.say(
                f"prior {kind} is not registered, so a run could not find it again; call"
                f" unbraid.PRIORS.register('my_prior', {kind}), or add it to the entry points"
                f" '{PRIORS.group}' of an installed package."
            )
        found += problems.collect(built.sweep) or []
    return found


def _built(text: str, options: dict[str, Any]) -> Prior:
    """The prior that *text* names, as in `sparse:gamma=0.8`, with *options* besides."""
    name, spelled = as_source(text)
    name, usual = OTHER_NAMES.get(name.replace("-", "_"), (name.replace("-", "_"), {}))
    options = usual | options | {key: as_number(value) for key, value in spelled.items()}
    cls = PRIORS.load(name)
    known = [item.name for item in fields(cls)]
    for option in options.keys() - set(known):
        raise InputError(
            unknown(f"{name} option", option, known)
            if known
            else f"prior {name} has no options; got '{option}'."
        )
    return cls(**options)


def in_sums(
    objective: Objective, convention: str, sample_shape: tuple[int, ...], latents: int
) -> tuple[Objective, dict[str, Any]]:
    """*objective* with the weights of sums over latents in our convention, and the numbers as they
    were given.

    In the convention "mean" the loss is a mean over pixels and the KL a mean over latents
    (`objectives/conventions.py`). Only weights of such means are converted: those of other terms (α
    of `decomposition`, γ_sup of few labels) are taken as they are.
    """
    if convention == "sum":
        return objective, {}
    names = [item.name for item in fields(objective) if item.metadata.get("per_latent")]
    if not names:
        rule = "can be mean for objectives whose KL has a weight of its own"
        raise invalid("convention", rule, objective.key, "Use the convention sum.")
    given = {name: getattr(objective, name) for name in names}
    usual = {item.name: item.default for item in fields(objective)}
    for name, value in given.items():
        if value == usual[name]:
            rule = f"can be mean only where {name} is given, since its default is meant for sums"
            found = Shown(f"{objective.key} without it")
            raise invalid("convention", rule, found, f"Give {name} as the paper states it.")

    def converted(value: Any) -> Any:
        if isinstance(value, Schedule):
            return replace(value, start=converted(value.start), end=converted(value.end))
        return beta_of_sums(value, math.prod(sample_shape), latents)

    told = {
        name: str(value) if isinstance(value, Schedule) else value for name, value in given.items()
    }
    return replace(objective, **{name: converted(value) for name, value in given.items()}), told


def choose_objectives(given: Any, hyper: dict[str, Any], problems: Problems) -> list[Objective]:
    """Every objective with its sweeps expanded.

    A name may have options, as in `factor_vae:gamma=10,20`. *hyper* goes to objectives given by
    name; what several of them have is refused there, since it may mean something else in each.
    """
    wanted = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    wanted = [
        part for one in wanted for part in (split_names(one) if isinstance(one, str) else [one])
    ]
    if not wanted:
        problems.add("objective", "needs at least one", given)
    for one in wanted:
        if not isinstance(one, (str, Objective)):
            rule = "must be an objective, its name, or a list of them"
            problems.add(
                "objective", rule, one, "For example 'beta_vae' or unbraid.BetaVAE(beta=4)."
            )
    named = {
        one: problems.collect(functools.partial(as_named, one)) or (one, {})
        for one in wanted
        if isinstance(one, str)
    }
    if hyper and not named and wanted:
        remedy = "Set the values in the objective itself."
        problems.add("hyper", "goes to objectives given by name", hyper, remedy)
    options = {
        name: [item.name for item in fields(OBJECTIVES.load(name))]
        for name, _ in named.values()
        if name in OBJECTIVES
    }
    _check_hyper(hyper, options, problems)
    found: list[Objective] = []
    for one in wanted:
        if isinstance(one, str):
            name, own = named[one]
            own = {key: hyper[key] for key in options.get(name, ()) if key in hyper} | own
            one = problems.collect(functools.partial(_build_objective, name, own))
        elif isinstance(one, Objective) and OBJECTIVES.get(one.key) != home(type(one)):
            kind = type(one).__name__
            problems.say(
                f"objective {kind} is not registered, so a run could not find it again; call"
                f" unbraid.OBJECTIVES.register('my_objective', {kind}), or add it to the entry"
                f" points '{OBJECTIVES.group}' of an installed package."
            )
        if isinstance(one, Objective):
            found += problems.collect(one.sweep) or []
    return found


def _check_hyper(hyper: dict[str, Any], options: dict[str, list[str]], problems: Problems) -> None:
    """Refuse hyperparameters that none of the objectives has, and those that several have."""
    for key, value in sorted(hyper.items()):
        owners = [name for name, known in options.items() if key in known]
        if not owners and options:
            known = {one for names in options.values() for one in names}
            problems.say(unknown("option", key, known | GENERAL_OPTIONS))
        elif len(owners) > 1:
            rule = f"belongs to {' and to '.join(owners)}, and may mean something else in each"
            text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            example = " ".join(f"{name}:{key}={text}" for name in owners)
            problems.add(key, rule, value, f"Say it for each: {example}")


def _build_objective(name: str, hyper: dict[str, Any]) -> Objective:
    cls = OBJECTIVES.load(name)
    known = [item.name for item in fields(cls)]
    for option in hyper.keys() - set(known):
        raise InputError(unknown(f"option of {name}", option, known))
    return cls(**hyper)


def choose_network(
    given: Network | str, options: dict[str, Any] | None, problems: Problems
) -> Network | None:
    """The network, or None with the reason recorded."""
    if isinstance(given, Network):
        return given
    if not isinstance(given, str):
        rule, found = "must be a name or a network object", Shown(f"a {type(given).__name__}")
        remedy = (
            "Plain torch modules become one by a class derived from unbraid.networks.ModuleNetwork"
            " (examples/own_network.py)."
        )
        problems.add("network", rule, found, remedy)
        return None

    def build() -> Network:
        name, spelled = as_source(given)
        chosen = (options or {}) | {key: as_number(value) for key, value in spelled.items()}
        cls = NETWORKS.load(name)
        known = [item.name for item in fields(cls)]
        for option in chosen.keys() - set(known):
            raise InputError(
                unknown(f"{name} option", option, known)
                if known
                else f"network {name} has no options; got '{option}'."
            )
        return cls(**chosen)

    return problems.collect(build)


def network_name(network: Network) -> str:
    """The registered name of a network, those of outside packages included."""
    for name, target in NETWORKS.items():
        if target == home(type(network)):
            return name
    kind = type(network).__name__
    raise InputError(
        f"network {kind} is not registered, so a run could not find it again; call"
        f" unbraid.NETWORKS.register('my_network', {kind}), or add it to the entry points"
        f" '{NETWORKS.group}'."
    )
