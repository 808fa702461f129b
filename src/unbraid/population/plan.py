# SPDX-License-Identifier: Apache-2.0
"""A plan: everything needed to repeat a run, checked as a whole before anything runs.

Objectives with lists in them and several seeds are expanded into members; one model is a population
of one.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from unbraid.core.checks import check_option_names, is_finite, plain, read_whole_number
from unbraid.core.errors import Problems, Shown, invalid
from unbraid.core.records import from_record, in_range
from unbraid.core.store import digest
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.data.statistics import channel_constants
from unbraid.data.where_rule import cumulative_weights
from unbraid.networks import NETWORKS
from unbraid.networks.layout import INITIALISATIONS, Layout
from unbraid.networks.network import Network
from unbraid.networks.standardised import Standardised
from unbraid.objectives.likelihood_spelling import DECODED, read_likelihood
from unbraid.objectives.likelihoods import Likelihood
from unbraid.objectives.likelihoods import likelihood as find_likelihood
from unbraid.objectives.objective import Objective
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.supervision.supervision import Supervision
from unbraid.population import defaults
from unbraid.population.member import Member
from unbraid.population.resolve import (
    CONVENTIONS,
    choose_network,
    choose_objectives,
    choose_priors,
    choose_supervisions,
    in_sums,
    network_name,
    refusals,
    setting_of,
)
from unbraid.population.seeds_and_rates import read_rates, read_seeds

FORMAT = 2
BOUNDS = {
    "steps": (1, 10**9),
    "batch_size": (1, 10**5),
    "latents": (1, 10**4),
    "code_samples": (1, 10**9),
    "log_every": (1, 10**9),
}
"""Least and most of the whole numbers of a stored plan."""
PRECISIONS = ("float32", "bfloat16")
ALL = "all"
"""The batch that is all images."""


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
    """The rule on factors by which training picks its images; scoring sees the whole grid."""
    standardise: dict[str, list[float]] = field(default_factory=dict)
    """Mean and deviation of each channel, by which samples are standardised; empty for no."""
    initialisation: str = ""
    """By which weights start; empty for the network's own rule."""
    full_batch: bool = False
    """Whether a step takes every image once instead of some at random."""
    amsgrad: bool = False
    command: str = ""
    made_with: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def record(self) -> dict[str, Any]:
        """The plan as JSON values."""
        record = asdict(self) | {"members": [member.record() for member in self.members]}
        # Left out where there is none, so that runs made before there were any keep their digest.
        return {
            name: value
            for name, value in record.items()
            if value
            or name not in ("where", "standardise", "initialisation", "full_batch", "amsgrad")
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Plan:
        """The plan that a folder holds, every field and member of it checked."""
        if record.get("format") != FORMAT:
            made_with = record.get("made_with")
            maker = (
                made_with.get("unbraid") if isinstance(made_with, dict) else "of another version"
            )
            remedy = f"Open it with the version that made it (unbraid {maker}), or train it again."
            raise invalid("format", f"must be {FORMAT}", record.get("format"), remedy)
        found = from_record(cls, record)
        for name, (least, most) in BOUNDS.items():
            in_range(name, getattr(found, name), least, most)
        in_range("checkpoint_seconds", found.checkpoint_seconds, 0)
        if found.precision not in PRECISIONS:
            rule = f"must be one of {', '.join(PRECISIONS)}"
            raise invalid("precision", rule, found.precision)
        if found.standardise and set(found.standardise) != {"mean", "std"}:
            raise invalid("standardise", "must hold mean and std", found.standardise)
        if found.initialisation and found.initialisation not in INITIALISATIONS:
            rule = f"must be one of {', '.join(INITIALISATIONS)}"
            raise invalid("initialisation", rule, found.initialisation)
        check_option_names(
            f"network {found.network}", NETWORKS.recall(found.network), found.network_options
        )
        found.build_network()
        read_likelihood(found.likelihood)
        ids = [member.id for member in found.members]
        if not ids or ids != list(range(len(ids))):
            raise invalid("members", "must be one or more, numbered from 0 on", Shown(f"{ids}"))
        known: set[str] = set()  # members differ by their seeds, most of them
        for at, member in enumerate(found.members):
            in_range(f"members[{at}].seed", member.seed, -(2**63), 2**63 - 1)
            if (setting := repr(dataclasses.replace(member, id=0, seed=0))) not in known:
                member.check(f"members[{at}]")
                known.add(setting)
        return found

    def digest(self) -> str:
        """A fingerprint of the plan, kept in every checkpoint."""
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
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
        """Where the weights of *member* lie: the network's, behind them what else is learned."""
        own = self.build_network().layout(dataset.sample_shape, self.latents)
        own = own.starting(self.initialisation)
        setting = setting_of(dataset, self.latents, self.where)
        parts = (member.build(), *member.build_supervision())
        learned = [weight for one in parts for weight in one.weights(setting)]
        prior, likelihood = member.build_prior(), self.build_likelihood(dataset)
        return own.with_more((*learned, *prior.weights(self.latents), *likelihood.weights))

    def siblings(self) -> list[tuple[Member, ...]]:
        """Members that differ only by their seed, in groups by order of first appearance."""
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
    supervision: Supervision | str | Sequence[Supervision | str | None] | None = None,
    seeds: int | Sequence[int] = 1,
    steps: int = defaults.STEPS,
    batch_size: int | str = defaults.BATCH_SIZE,
    learning_rate: float | Sequence[float] = defaults.LEARNING_RATE,
    latents: int = defaults.LATENTS,
    network: Network | str = defaults.NETWORK,
    network_options: dict[str, Any] | None = None,
    likelihood: str | None = None,
    prior: Prior | str | Sequence[Prior | str] = defaults.PRIOR,
    prior_options: dict[str, Any] | None = None,
    standardise: bool = False,
    initialisation: str | None = None,
    convention: str = defaults.CONVENTION,
    precision: str = "float32",
    where: str | None = None,
    amsgrad: bool = False,
    log_every: int | None = None,
    checkpoint_seconds: float = defaults.CHECKPOINT_SECONDS,
    code_samples: int = defaults.CODE_SAMPLES,
    command: str = "",
) -> tuple[Plan, Dataset]:
    """Check the whole request, and return the plan with its dataset.

    *data* is a name, a path, an array or a `Dataset`. *objective* is one or several objectives or
    their names; *hyper* goes to those given by name. *supervision* is what is known beside images
    (`unbraid.objectives.supervision`): `FewLabels(count=100)`, or spelled `labels:count=100`.
    Lists among the hyperparameters and learning rates are sweeps; *seeds* is how many, or which.
    *likelihood* is by default Bernoulli for images and Gaussian for points
    (`unbraid.objectives.likelihoods`). *prior* is one or several priors or their names,
    *prior_options* goes to those given by name. *standardise* gives the network samples of mean 0
    and variance 1 in each channel. *initialisation* is a rule by which weights start in place of
    the network's own (`unbraid.networks.layout.INITIALISATIONS`). *convention* "mean" reads weights
    of the KL as Michlo et al. (2023) state them: means over pixels and latents instead of sums.
    *where* is a rule on the factors by which training picks its images (`unbraid.data.where_rule`);
    scoring sees all of them. *batch_size* "all" takes every image at every step; *amsgrad* is a
    variant of Adam. Every problem is reported at once.
    """
    problems = Problems()
    dataset = problems.collect(
        lambda: data if isinstance(data, Dataset) else load(data, **(data_options or {}))
    )
    objectives = choose_objectives(objective, hyper or {}, problems)
    priors = choose_priors(prior, prior_options or {}, problems)
    supervisions = choose_supervisions(supervision, problems)
    chosen_network = choose_network(network, network_options, problems)
    seed_list = read_seeds(plain(seeds), problems)
    rates = read_rates(plain(learning_rate), problems)
    whole = functools.partial(_one_for_all, problems)
    steps = whole("steps", plain(steps), 1, 10**9)
    full_batch = batch_size == ALL
    if full_batch:
        batch_size = _count_all(dataset, where, problems)
    else:
        batch_size = whole("batch_size", plain(batch_size), 2, BOUNDS["batch_size"][1])
    latents = whole("latents", plain(latents), 1, 10**4)
    code_samples = whole("code_samples", plain(code_samples), 2, 10**9)
    every = max(1, steps // 200) if log_every is None else plain(log_every)
    every = whole("log_every", every, 1, 10**9)
    if not is_finite(plain(checkpoint_seconds)) or checkpoint_seconds < 0:
        problems.add("checkpoint_seconds", "must be a number of at least 0", checkpoint_seconds)
    _check_words(precision, convention, standardise, amsgrad, problems)
    spelled = ""
    if dataset is not None:
        spelled = _check_likelihood(likelihood, dataset, standardise, problems)
        for line in chosen_network.problems(dataset.sample_shape) if chosen_network else []:
            problems.say(line)
        if initialisation is not None and chosen_network and not problems.found:
            layout = chosen_network.layout(dataset.sample_shape, latents)
            problems.collect(lambda: layout.starting(initialisation))
        if chosen_network is not None:
            _check_scales(chosen_network, spelled, problems)
        if where is not None:
            problems.collect(lambda: cumulative_weights(where, dataset))
        priors = _resolved(priors, dataset, latents, problems)
        for line in refusals(
            objectives, priors, supervisions, setting_of(dataset, latents, where or "")
        ):
            problems.say(line)
    problems.raise_if_any()
    assert dataset is not None
    assert chosen_network is not None
    converted = [in_sums(one, convention, dataset.sample_shape, latents) for one in objectives]
    dataset.check_files()
    plan = Plan(
        data=dataset.name,
        data_options=dataset.options,
        data_fingerprint=dataset.fingerprint(),
        network=network_name(chosen_network),
        network_options=chosen_network.options(),
        latents=latents,
        likelihood=spelled,
        steps=steps,
        batch_size=batch_size,
        precision=precision,
        log_every=every,
        checkpoint_seconds=float(checkpoint_seconds),
        code_samples=code_samples,
        members=_members(converted, priors, supervisions, rates, seed_list),
        where=str(where or "").strip(),
        standardise=channel_constants(dataset) if standardise else {},
        initialisation=initialisation or "",
        full_batch=full_batch,
        amsgrad=amsgrad,
        command=command,
        made_with=_versions(),
    )
    return plan, dataset


def _one_for_all(problems: Problems, name: str, value: Any, least: int, most: int) -> int:
    """*value* where it is a whole number in range, else *least* with the problem recorded."""
    if not isinstance(value, (list, tuple)) and not (isinstance(value, str) and "," in value):
        return read_whole_number(problems, name, value, least, most)
    problems.add(name, "must be one number for all models of a run", value, "Train a run for each.")
    return least


def _count_all(dataset: Dataset | None, where: str | None, problems: Problems) -> int:
    """How many images a step takes that takes all."""
    if where is not None:
        rule = "cannot be all with a rule, by which images are drawn at random"
        problems.add("batch_size", rule, Shown(f"where={where}"), "Leave one of them out.")
    count = 2 if dataset is None else len(dataset.every_training_index())
    if count > BOUNDS["batch_size"][1]:
        rule = f"can be all for at most {BOUNDS['batch_size'][1]:,} images"
        problems.add("batch_size", rule, count, "Give the number of images of a step.")
    return count


def _check_scales(network: Network, likelihood: str, problems: Problems) -> None:
    """A decoder has scales for a likelihood that reads them, and for no other."""
    wanted = read_likelihood(likelihood).scale == DECODED
    if wanted and not network.decodes_scale:
        rule = "needs a decoder with a scale for each value"
        problems.add("likelihood", rule, likelihood, "Use {network=mlp:decoder_scale=softplus}.")
    if network.decodes_scale and not wanted:
        rule = "must read the scale that this decoder gives for each value"
        remedy = "Use {likelihood=gaussian:scale=decoded}, or leave decoder_scale out."
        problems.add("likelihood", rule, likelihood, remedy)


def _check_words(
    precision: Any, convention: Any, standardise: Any, amsgrad: Any, problems: Problems
) -> None:
    if precision not in PRECISIONS:
        problems.add("precision", f"must be auto or one of {', '.join(PRECISIONS)}", precision)
    if convention not in CONVENTIONS:
        problems.add("convention", f"must be one of {', '.join(CONVENTIONS)}", convention)
    if not isinstance(standardise, bool):
        problems.add("standardise", "must be True or False", standardise)
    if not isinstance(amsgrad, bool):
        problems.add("amsgrad", "must be True or False", amsgrad)


def _check_likelihood(
    given: str | None, dataset: Dataset, standardise: bool, problems: Problems
) -> str:
    """The likelihood as a plan spells it."""
    bounded = dataset.bounded and not standardise
    spelled = str(given or ("bernoulli" if bounded else "gaussian"))
    found = problems.collect(lambda: find_likelihood(spelled, bounded=bounded))
    for line in found.problems(dataset.sample_shape) if found else []:
        problems.say(line)
    return found.name if found else spelled


def _resolved(
    priors: list[Prior], dataset: Dataset, latents: int, problems: Problems
) -> list[Prior]:
    """The priors with numbers for words that only the data can turn into numbers."""
    found = [problems.collect(functools.partial(one.resolved, dataset, latents)) for one in priors]
    return [one for one in found if one is not None]


def _members(
    objectives: list[tuple[Objective, dict[str, Any]]],
    priors: list[Prior],
    supervisions: list[Supervision | None],
    rates: list[Any],
    seeds: list[int],
) -> tuple[Member, ...]:
    """Every combination, the seed fastest."""
    combined = itertools.product(objectives, priors, supervisions, rates, seeds)
    members = tuple(
        Member(
            number,
            one.key,
            one.hyper(),
            rate,
            seed,
            prior.key,
            prior.hyper(),
            given,
            supervision.key if supervision else "",
            supervision.hyper() if supervision else {},
        )
        for number, ((one, given), prior, supervision, rate, seed) in enumerate(combined)
    )
    _refuse_twins(members)
    return members


def _refuse_twins(members: tuple[Member, ...]) -> None:
    """Two members that are the same in everything would pass for two seeds."""
    seen: set[str] = set()
    for member in members:
        what = repr((member.settings(), member.seed))
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
