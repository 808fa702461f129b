# SPDX-License-Identifier: Apache-2.0
"""What goes with what: objectives, priors, supervisions and networks, each chosen by name."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from unbraid.core.checks import is_real
from unbraid.core.errors import InputError, Problem, Problems, Shown, invalid, unknown
from unbraid.core.registry import Registry, home
from unbraid.core.spelling import as_named, as_number, as_source, split_names
from unbraid.data.dataset import Dataset
from unbraid.networks import NETWORKS
from unbraid.networks.network import Network
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.conventions import beta_of_sums
from unbraid.objectives.hyper import Kind
from unbraid.objectives.objective import Objective, Setting
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.schedule import Schedule
from unbraid.objectives.supervision import SUPERVISIONS
from unbraid.objectives.supervision.supervision import Supervision

CONVENTIONS = ("sum", "mean")
GENERAL_OPTIONS = frozenset(
    "seeds steps batch_size learning_rate latents network likelihood precision where prior"
    " supervision standardise convention code_samples checkpoint_seconds out device score"
    " keep_optimiser on address processes begin".split()
)
"""What any objective can be trained with (`unbraid train`, a test looks), for telling a misspelt
option from an unknown one.
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
    objectives: Sequence[Objective],
    priors: Sequence[Prior],
    supervisions: Sequence[Supervision | None],
    setting: Setting,
) -> list[Problem]:
    """Every reason why one of these cannot be trained with the others on such data, each once."""
    found = [line for prior in priors for line in prior.problems(setting.latents)]
    for one, prior in itertools.product(objectives, priors):
        found += one.problems(setting, prior)
        if one.supervision is not None:
            found += one.supervision.problems(one, setting, prior)
    for one, prior, given in itertools.product(objectives, priors, supervisions):
        if given is None:
            continue
        found += given.problems(one, setting, prior)
        if given.pairs and one.supervision is not None:
            rule = f"cannot be pairs for {one.key}, which has pairs of its own"
            found.append(Problem("supervision", rule, given.key, "Leave it out, or use beta_vae."))
    return list({str(one): one for one in found}.values())


def choose_priors(given: Any, options: dict[str, Any], problems: Problems) -> list[Prior]:
    """Every prior with its sweeps expanded; *options* goes to those given by name."""
    wanted = _listed(given, (*PRIORS, *OTHER_NAMES))
    if not isinstance(options, dict):
        remedy = "For example {'gamma': 0.8}."
        problems.add("prior_options", "must be a dictionary", options, remedy)
        options = {}
    if options and wanted and not any(isinstance(one, str) for one in wanted):
        remedy = "Set the values in the prior itself."
        problems.add("prior_options", "goes to priors given by name", options, remedy)

    def built(text: str) -> Prior:
        name, own = as_named(text)
        name, usual = OTHER_NAMES.get(name.replace("-", "_"), (name.replace("-", "_"), {}))
        return _made(PRIORS, name, usual | options | own)

    example = "'sparse' or unbraid.Sparse(gamma=0.8)"
    return _chosen(Prior, PRIORS, wanted, built, example, problems)


def choose_supervisions(given: Any, problems: Problems) -> list[Supervision | None]:
    """Every supervision with its sweeps expanded; None stands for none."""

    def built(text: str) -> Supervision:
        return _made(SUPERVISIONS, *as_named(text))

    found: list[Supervision | None] = []
    example = "'labels:count=100' or unbraid.FewLabels(count=100)"
    wanted = _listed(given, (*SUPERVISIONS, "none"))
    if not wanted:
        problems.add("supervision", "needs at least one", given)
    for one in wanted:
        if one is None or one == "none":
            found.append(None)
        else:
            found += _chosen(Supervision, SUPERVISIONS, [one], built, example, problems)
    return found


def _listed(given: Any, known: Container[str]) -> list[Any]:
    """What was given, one by one: names with commas apart."""
    wanted = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    return [
        part
        for one in wanted
        for part in (split_names(one, known) if isinstance(one, str) else [one])
    ]


def _chosen(
    kind: type[Kind],
    registry: Registry,
    wanted: list[Any],
    built: Callable[[str], Kind],
    example: str,
    problems: Problems,
) -> list[Kind]:
    """What was asked for, objects or names that are *built*, with sweeps expanded."""
    if not wanted:
        problems.add(registry.kind, "needs at least one", wanted)
    found: list[Kind] = []
    for one in wanted:
        made = problems.collect(functools.partial(built, one)) if isinstance(one, str) else one
        if isinstance(made, kind):
            if registry.get(made.key) != home(type(made)):
                problems.say(_not_registered(registry, made))
            found += problems.collect(made.sweep) or []
        elif not isinstance(one, str):
            rule = f"must be a {registry.kind}, its name, or a list of them"
            problems.add(registry.kind, rule, one, f"For example {example}.")
    return found


def _made(registry: Registry, name: str, options: dict[str, Any]) -> Any:
    """The registered *name* with *options*, which it must have."""
    cls = registry.load(name)
    known = [item.name for item in fields(cls)]
    for option in options.keys() - set(known):
        if known:
            raise InputError(unknown(f"{name} option", option, known))
        raise InputError(f"{registry.kind} {name} has no options; got '{option}'.")
    return cls(**options)


def _not_registered(registry: Registry, one: object) -> str:
    """Why an object of a class that no run could find again is refused."""
    kind, cls = registry.kind, type(one).__name__
    return (
        f"{kind} {cls} is not registered, so a run could not find it again; call"
        f" unbraid.{kind.upper()}S.register('my_{kind}', {cls}), or add it to the entry points"
        f" '{registry.group}' of an installed package."
    )


def in_sums(
    objective: Objective, convention: str, sample_shape: tuple[int, ...], latents: int
) -> tuple[Objective, dict[str, Any]]:
    """*objective* with weights in our convention, and the numbers as they were given.

    In the convention "mean" the loss is a mean over pixels and the KL a mean over latents
    (`objectives/conventions.py`). Only weights of such means are converted: those of other terms (α
    of `decomposition`, the weight of labels) are taken as they are.
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
    wanted = _listed(given, OBJECTIVES)
    if not wanted:
        problems.add("objective", "needs at least one", given)
    for one in [one for one in wanted if isinstance(one, str) and is_real(as_number(one))]:
        remedy = "Lists are written with commas and no blanks: --beta 1,4."
        problems.add("objective", "must be a name", one, remedy)
        wanted.remove(one)
    for one in wanted:
        if not isinstance(one, (str, Objective)):
            rule = "must be an objective, its name, or a list of them"
            problems.add(
                "objective", rule, one, "For example 'beta_vae' or unbraid.BetaVAE(beta=4)."
            )
    named = {
        one: problems.collect(functools.partial(as_named, one)) or (one.partition(":")[0], {})
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
    _check_hyper(hyper, options, [own for _, own in named.values()], problems)
    found: list[Objective] = []
    for one in wanted:
        if isinstance(one, str):
            name, own = named[one]
            own = {key: hyper[key] for key in options.get(name, ()) if key in hyper} | own
            one = problems.collect(functools.partial(_made, OBJECTIVES, name, own))
        elif isinstance(one, Objective) and OBJECTIVES.get(one.key) != home(type(one)):
            problems.say(_not_registered(OBJECTIVES, one))
        if isinstance(one, Objective):
            found += problems.collect(one.sweep) or []
    return found


def _check_hyper(
    hyper: dict[str, Any],
    options: dict[str, list[str]],
    spelled: list[dict[str, Any]],
    problems: Problems,
) -> None:
    """Refuse hyperparameters that no objective has, that several have, or that are given twice."""
    for key, value in sorted(hyper.items()):
        owners = [name for name, known in options.items() if key in known]
        if not owners and options:
            known = {one for names in options.values() for one in names}
            if key in GENERAL_OPTIONS:
                rule = "is no hyperparameter, but a parameter of its own"
                problems.add(key, rule, value, f"Give it outside of hyper: {key}={value}.")
            else:
                problems.say(unknown("option", key, known | GENERAL_OPTIONS))
        elif len(owners) > 1:
            rule = f"belongs to {' and to '.join(owners)}, and may mean something else in each"
            text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            example = " ".join(f"{name}:{key}={text}" for name in owners)
            problems.add(key, rule, value, f"Say it for each: {example}")
        elif any(key in own for own in spelled):
            rule = f"is given with {owners[0]} already"
            problems.add(key, rule, value, f"Say it once: {owners[0]}:{key}=...")


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
        return _made(NETWORKS, name, chosen)

    return problems.collect(build)


def network_name(network: Network) -> str:
    """The registered name of a network, those of outside packages included."""
    for name, target in NETWORKS.items():
        if target == home(type(network)):
            return name
    raise InputError(_not_registered(NETWORKS, network))
