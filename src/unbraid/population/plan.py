# SPDX-License-Identifier: Apache-2.0
"""A plan: everything needed to repeat a run, checked as a whole before anything runs.

Objectives with lists in them and several seeds are expanded into members; one model is a population
of one.
"""

from __future__ import annotations

import functools
import itertools
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch

from unbraid.core.errors import InputError, Problems, Shown, invalid
from unbraid.core.store import digest
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.data.statistics import channel_constants
from unbraid.data.where_rule import cumulative_weights
from unbraid.networks import NETWORKS
from unbraid.networks.layout import Layout
from unbraid.networks.network import Network
from unbraid.networks.standardised import Standardised
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.hyper import Configured, structure
from unbraid.objectives.likelihoods import Likelihood
from unbraid.objectives.likelihoods import likelihood as find_likelihood
from unbraid.objectives.objective import Objective
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.schedule import Schedule
from unbraid.population import defaults
from unbraid.population.numbers import is_finite, plain, read_rates, read_seeds, read_whole_number
from unbraid.population.resolve import (
    CONVENTIONS,
    choose_network,
    choose_objectives,
    choose_priors,
    in_sums,
    network_name,
    refusals,
    setting_of,
)

FORMAT = 2
_FEW_FIELDS = 3
"""Of so few hyperparameters a label shows all."""
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Member:
    """One model of the population."""

    id: int
    objective: str
    hyper: dict[str, Any]
    learning_rate: float | str
    """A number, or the spelling of a schedule."""
    seed: int
    prior: str = "isotropic"
    prior_hyper: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    """Hyperparameters as they were given, where that was in another convention than sums over
    pixels and latents.
    """

    def build(self) -> Objective:
        """Its objective."""
        return OBJECTIVES.recall(self.objective)(**self.hyper)

    def build_prior(self) -> Prior:
        """Its prior."""
        return PRIORS.recall(self.prior)(**self.prior_hyper)

    def rate(self) -> float | Schedule:
        """Its learning rate."""
        return (
            Schedule.parse(self.learning_rate)
            if isinstance(self.learning_rate, str)
            else self.learning_rate
        )

    def structure(self) -> tuple[Any, ...]:
        """What members that train together have in common."""
        return (*structure(self.build()), *structure(self.build_prior()))

    def settings(self) -> dict[str, Any]:
        """All that it may differ in from other members but the seed, by name."""
        prior = {"prior": self.prior} | {
            f"prior_{name}": value for name, value in self.prior_hyper.items()
        }
        return {
            "objective": self.objective,
            "learning_rate": self.learning_rate,
            **self.hyper,
            **prior,
        }

    def label(self) -> str:
        """A name for people: objective, hyperparameters, seed."""
        objective, prior = self.build(), self.build_prior()
        told = (
            self.hyper
            if len(fields(objective)) <= _FEW_FIELDS
            else _unusual(objective, self.hyper, objective.strength)
        )
        values = [f"{name}={_shown(value)}" for name, value in told.items()]
        options = ",".join(
            f"{name}={_shown(value)}" for name, value in _unusual(prior, self.prior_hyper).items()
        )
        if options or self.prior != "isotropic":
            values.append(f"prior={self.prior}" + (f":{options}" if options else ""))
        return " ".join((self.objective, *values, f"seed={self.seed}"))

    def record(self) -> dict[str, Any]:
        """The member as JSON values; what is usual is left out, so that older plans keep their
        digest.
        """
        record = asdict(self)
        usual = {"prior": "isotropic", "prior_hyper": {}, "given": {}}
        return {
            name: value
            for name, value in record.items()
            if name not in usual or value != usual[name]
        }


def _unusual(one: Configured, hyper: dict[str, Any], always: str | None = None) -> dict[str, Any]:
    """Those of the hyperparameters *hyper* that differ from their defaults, and the one called
    *always*.
    """
    usual = {item.name: item.default for item in fields(one)}
    # A file gives the numbers of a vector as a list.
    held = {
        name: tuple(value) if isinstance(value, list) else value for name, value in hyper.items()
    }
    return {name: value for name, value in held.items() if name == always or value != usual[name]}


def _shown(value: Any) -> str:
    """A hyperparameter in a few digits, numbers that belong together with slashes between them."""
    if isinstance(value, tuple):
        return "/".join(f"{number:.3g}" for number in value)
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


@dataclass(frozen=True)
class Plan:
    """What is trained on what, how long and how."""

    data: str
    data_options: dict[str, Any]
    data_fingerprint: str
    network: str
    network_options: dict[str, Any]
    latents: int
    likelihood: str
    steps: int
    batch_size: int
    precision: str
    log_every: int
    checkpoint_seconds: float
    code_samples: int
    members: tuple[Member, ...]
    where: str = ""
    """The rule on factors by which training picks its images; all alike when empty. Scoring sees
    the whole grid.
    """
    standardise: dict[str, list[float]] = field(default_factory=dict)
    """Mean and standard deviation of each channel, by which samples are standardised for the
    network; empty for no.
    """
    command: str = ""
    made_with: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def record(self) -> dict[str, Any]:
        """The plan as JSON values."""
        record = asdict(self) | {"members": [member.record() for member in self.members]}
        # Left out where there is none, so that runs made before there were rules keep their digest.
        return {
            name: value
            for name, value in record.items()
            if value or name not in ("where", "standardise")
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Plan:
        """The plan a run folder holds."""
        if record.get("format") != FORMAT:
            maker = (record.get("made_with") or {}).get("unbraid", "another version")
            raise InputError(
                f"the plan has format {record.get('format')!r}, and this version of Unbraid reads"
                f" format {FORMAT}. Open it with the version that made it (unbraid {maker}), or"
                " train it again."
            )
        return cls(**{**record, "members": tuple(Member(**member) for member in record["members"])})

    def digest(self) -> str:
        """A fingerprint of the plan, kept in every checkpoint."""
        return digest(self.record())

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the heavy layers."""
        return getattr(torch, self.precision)

    def build_network(self) -> Network:
        """The network of all members."""
        network = NETWORKS.recall(self.network)(**self.network_options)
        if self.standardise:
            return Standardised(
                network, tuple(self.standardise["mean"]), tuple(self.standardise["std"])
            )
        return network

    def bounded(self, dataset: Dataset) -> bool:
        """Whether the samples that the likelihood sees lie in [0, 1]."""
        return dataset.bounded and not self.standardise

    def build_likelihood(self, dataset: Dataset) -> Likelihood:
        """The likelihood of all members."""
        return find_likelihood(self.likelihood, bounded=self.bounded(dataset))

    def layout(self, member: Member, dataset: Dataset) -> Layout:
        """Where the weights of *member* lie: the network's, and behind them what objective, prior
        and likelihood learn.
        """
        own = self.build_network().layout(dataset.sample_shape, self.latents)
        learned = member.build().weights(setting_of(dataset, self.latents, self.where))
        return own.with_more(
            (
                *learned,
                *member.build_prior().weights(self.latents),
                *self.build_likelihood(dataset).weights,
            )
        )

    def siblings(self) -> list[tuple[Member, ...]]:
        """Members that differ only by their seed, in groups of the same setting; groups in order of
        first appearance.
        """
        groups: dict[tuple[Any, ...], list[Member]] = {}
        for member in self.members:
            key = tuple((name, repr(value)) for name, value in member.settings().items())
            groups.setdefault(key, []).append(member)
        return [tuple(group) for group in groups.values()]

    def swept(self) -> list[str]:
        """Names of what differs between members besides the seed, in order of first appearance."""
        rows = [member.settings() for member in self.members]
        names = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
        return [name for name in names if len({repr(row.get(name)) for row in rows}) > 1]


def make_plan(
    data: Any,
    objective: Objective | str | Sequence[Objective | str] = defaults.OBJECTIVE,
    *,
    data_options: dict[str, Any] | None = None,
    hyper: dict[str, Any] | None = None,
    seeds: int | Sequence[int] = 1,
    steps: int = defaults.STEPS,
    batch_size: int = defaults.BATCH_SIZE,
    learning_rate: float | Sequence[float] = defaults.LEARNING_RATE,
    latents: int = defaults.LATENTS,
    network: Network | str = defaults.NETWORK,
    network_options: dict[str, Any] | None = None,
    likelihood: str | None = None,
    prior: Prior | str | Sequence[Prior | str] = defaults.PRIOR,
    prior_options: dict[str, Any] | None = None,
    standardise: bool = False,
    convention: str = defaults.CONVENTION,
    precision: str = "float32",
    where: str | None = None,
    log_every: int | None = None,
    checkpoint_seconds: float = defaults.CHECKPOINT_SECONDS,
    code_samples: int = defaults.CODE_SAMPLES,
    command: str = "",
) -> tuple[Plan, Dataset]:
    """Check the whole request and return the plan with its dataset; every problem is reported at
    once.

    *data* is a name, a path, an array or a `Dataset`. *objective* is one or several objectives or their names; *hyper*
    goes to those given by name. Lists among the hyperparameters and learning rates are sweeps;
    *seeds* is how many, or which. *likelihood* is Bernoulli for images and Gaussian for points
    unless given (`unbraid.objectives.likelihoods`). *prior* is one or several priors or their
    names, *prior_options* goes to those given by name. *standardise* gives the network samples of
    mean 0 and variance 1 in each channel. *convention* "mean" reads weights of the KL as Michlo et
    al. (2023) state them: means over pixels and latents instead of sums. *where* is a rule on the
    factors by which training picks its images (`unbraid.data.where_rule`); scoring sees all of
    them.
    """
    problems = Problems()
    dataset = problems.collect(
        lambda: data if isinstance(data, Dataset) else load(data, **(data_options or {}))
    )
    objectives = choose_objectives(objective, hyper or {}, problems)
    priors = choose_priors(prior, prior_options or {}, problems)
    chosen_network = choose_network(network, network_options, problems)
    seed_list = read_seeds(plain(seeds), problems)
    rates = read_rates(plain(learning_rate), problems)
    steps = read_whole_number(problems, "steps", plain(steps), 1, 10**9)
    batch_size = read_whole_number(problems, "batch_size", plain(batch_size), 2, 10**5)
    latents = read_whole_number(problems, "latents", plain(latents), 1, 10**4)
    code_samples = read_whole_number(problems, "code_samples", plain(code_samples), 2, 10**9)
    if log_every is not None:
        log_every = read_whole_number(problems, "log_every", plain(log_every), 1, 10**9)
    if not is_finite(plain(checkpoint_seconds)) or checkpoint_seconds < 0:
        problems.add("checkpoint_seconds", "must be a number of at least 0", checkpoint_seconds)
    if precision not in PRECISIONS:
        problems.add("precision", f"must be auto or one of {', '.join(PRECISIONS)}", precision)
    if convention not in CONVENTIONS:
        problems.add("convention", f"must be one of {', '.join(CONVENTIONS)}", convention)
    if not isinstance(standardise, bool):
        problems.add("standardise", "must be True or False", standardise)
    if dataset is not None:
        bounded = dataset.bounded and not standardise
        spelled = likelihood or ("bernoulli" if bounded else "gaussian")
        found = problems.collect(lambda: find_likelihood(str(spelled), bounded=bounded))
        for line in found.problems(dataset.sample_shape) if found else []:
            problems.say(line)
        for line in chosen_network.problems(dataset.sample_shape) if chosen_network else []:
            problems.say(line)
        if where is not None:
            problems.collect(lambda: cumulative_weights(where, dataset))
        resolved = [
            problems.collect(functools.partial(one.resolved, dataset, latents)) for one in priors
        ]
        priors = [one for one in resolved if one is not None]
        setting = setting_of(dataset, latents, where or "")
        for line in refusals(objectives, priors, setting):
            problems.say(line)
        likelihood = found.name if found else spelled
    problems.raise_if_any()
    assert dataset is not None
    assert chosen_network is not None
    converted = [in_sums(one, convention, dataset.sample_shape, latents) for one in objectives]
    members = tuple(
        Member(number, one.key, one.hyper(), rate, seed, prior.key, prior.hyper(), given)
        for number, ((one, given), prior, rate, seed) in enumerate(
            itertools.product(converted, priors, rates, seed_list)
        )
    )
    _refuse_twins(members)
    plan = Plan(
        data=dataset.name,
        data_options=dataset.options,
        data_fingerprint=dataset.fingerprint(),
        network=network_name(chosen_network),
        network_options=chosen_network.options(),
        latents=int(latents),
        likelihood=str(likelihood),
        steps=int(steps),
        batch_size=int(batch_size),
        precision=precision,
        log_every=int(log_every or max(1, steps // 200)),
        checkpoint_seconds=float(checkpoint_seconds),
        code_samples=int(code_samples),
        members=members,
        where=str(where or "").strip(),
        standardise=channel_constants(dataset) if standardise else {},
        command=command,
        made_with=_versions(),
    )
    return plan, dataset


def _refuse_twins(members: tuple[Member, ...]) -> None:
    """Two members that are the same in everything would pass for two seeds."""
    seen: set[str] = set()
    for member in members:
        what = repr((member.settings(), member.prior, member.prior_hyper, member.seed))
        if what in seen:
            raise invalid(
                "members",
                "must differ from each other",
                Shown(f"'{member.label()}' twice"),
                "List each value once.",
            )
        seen.add(what)


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        ours = version("unbraid")
    except PackageNotFoundError:  # run from the source tree
        ours = "source"
    return {"unbraid": ours, "torch": torch.__version__, "python": platform.python_version()}
