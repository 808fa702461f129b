# SPDX-License-Identifier: Apache-2.0
"""From a request to the plan of a search: what is left out is filled in, and all of it checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypedDict, Unpack

from unbraid.core.checks import plain, read_whole_number
from unbraid.core.errors import InputError, Problems, Shown, unknown
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.networks.network import Network
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.hyper import is_number
from unbraid.objectives.objective import Objective
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.supervision.supervision import Supervision
from unbraid.population.plan import Plan, make_plan
from unbraid.scoring.metric_names import needing_factors
from unbraid.search import defaults
from unbraid.search.pbt.exploit import Rule
from unbraid.search.pbt.plan import (
    CONVERGED_EPOCHS,
    CONVERGED_WITHIN,
    MOST_EPOCHS,
    MOST_TOGETHER,
    SearchPlan,
)
from unbraid.search.pbt.scorer import read_scorer
from unbraid.search.pbt.search_space import SearchDimension, fixed_value, read_dimension

USUAL_WITH_LABELS = {"population": 28, "first_factor": 2, "epochs": 26}
"""As published: 56 models in the first epoch, of which the best half goes on."""
USUAL_WITHOUT_LABELS = {"population": 16, "first_factor": 1, "epochs": 30}
"""Individuals of five models each; 56 of them were published."""


class SharedOptions(TypedDict, total=False):
    """What all models of a search share: options of `unbraid.population.plan.make_plan`."""

    data_options: dict[str, Any] | None
    supervision: Supervision | str | None
    latents: int
    network: Network | str
    network_options: dict[str, Any] | None
    likelihood: str | None
    prior: Prior | str
    prior_options: dict[str, Any] | None
    standardise: bool
    convention: str
    precision: str
    where: str | None
    log_every: int | None
    checkpoint_seconds: float
    code_samples: int
    command: str


class SearchOptions(SharedOptions, total=False):
    """Options of `make_search`, for what makes several searches of one request."""

    score: str
    labels: int | str
    points: int | None
    population: int | None
    models: int | None
    epochs: int | None
    epoch_images: int | None
    hyper: Mapping[str, Any] | None
    learning_rate: Any
    batch_size: Any
    seed: int
    share: float
    factors: tuple[float, ...]
    first_factor: int | None
    converged_within: float | None
    converged_epochs: int
    together: int | None


def make_search(
    data: Any,
    objective: Objective | str = defaults.OBJECTIVE,
    *,
    score: str = defaults.SCORE,
    labels: int | str = "all",
    points: int | None = None,
    population: int | None = None,
    models: int | None = None,
    epochs: int | None = None,
    epoch_images: int | None = None,
    hyper: Mapping[str, Any] | None = None,
    learning_rate: Any = defaults.RATES,
    batch_size: Any = defaults.BATCHES,
    seed: int = 0,
    share: float = defaults.SHARE,
    factors: tuple[float, ...] = Rule.factors,
    first_factor: int | None = None,
    converged_within: float | None = None,
    converged_epochs: int = CONVERGED_EPOCHS,
    together: int | None = None,
    **shared: Unpack[SharedOptions],
) -> tuple[SearchPlan, Dataset]:
    """Check the whole request, every problem at once; return the search and its dataset.

    *score* is a metric; *labels* is "all" or how many labelled images it may see, *points* on how
    many images it is computed (by default 1,000 for `udr`, else 50,000). Each individual is
    *models* models (by default five for `udr`, else one). *population*, *epochs* and
    *first_factor* (so many times the population trains in the first epoch) are by default 16, 30
    and 1 for metrics that need no labels, and 28, 26 and 2 for those that do. The search space is
    *learning_rate*, *batch_size* and the values in *hyper*: ranges (`"1e-4..3e-3"`), lists, or
    single values, which do not evolve (`unbraid.search.pbt.search_space`). Without *hyper* the
    objective's strength evolves. An epoch has *epoch_images* for each model, by default one pass
    over the data and at least 10,000. *share* 0 is random search. The search ends after *epochs*,
    or when the best score changed by less than *converged_within* (by default 0.005 for `udr`, else
    0 for never) in each of the last *converged_epochs*. With *together* so many models train side
    by side, always, so that a model's rounding does not depend on its neighbours: for comparisons
    on a GPU.
    """
    problems = Problems()
    usual = USUAL_WITH_LABELS if needing_factors([str(score)]) else USUAL_WITHOUT_LABELS
    size: int = usual["population"] if population is None else plain(population)
    times: int = usual["first_factor"] if first_factor is None else plain(first_factor)
    epochs = usual["epochs"] if epochs is None else plain(epochs)
    own = shared.get("data_options") or {}
    dataset = problems.collect(lambda: data if isinstance(data, Dataset) else load(data, **own))
    cls, given = _objective(objective, hyper, problems)
    asked = {**given, "learning_rate": learning_rate, "batch_size": batch_size}
    evolved, fixed = _search_space(cls, asked, problems)
    rule = Rule(plain(share), _factors(factors), times)
    for problem in rule.problems(size):
        problems.say(problem)
    epochs = read_whole_number(problems, "epochs", epochs, 1, MOST_EPOCHS)
    seed = read_whole_number(problems, "seed", plain(seed), 0, 2**31 - 1)
    if epoch_images is not None:
        epoch_images = read_whole_number(problems, "epoch_images", plain(epoch_images), 1, 10**10)
    converged_epochs = read_whole_number(
        problems, "converged_epochs", plain(converged_epochs), 1, MOST_EPOCHS
    )
    if together is not None:
        together = read_whole_number(problems, "together", plain(together), 1, MOST_TOGETHER)
    within = plain(converged_within)
    number = isinstance(within, (int, float)) and not isinstance(within, bool)
    if within is not None and not (number and 0 <= within < math.inf):
        problems.add("converged_within", "must be a number of at least 0", within)
    if shared.get("convention", "sum") == "mean":
        # What evolves moves on after the plan was made, where nobody would convert it.
        remedy = "State their ranges for sums over pixels and latents."
        problems.add("convention", "must be sum in a search, whose weights move", "mean", remedy)
    scorer = None
    if dataset is not None:
        scorer = read_scorer(score, labels, models, dataset, seed, problems, points)
    template = _template(
        data if dataset is None else dataset, cls, evolved, fixed, shared, problems
    )
    if template is not None and len(template[0].members) > 1:
        single = "trains one prior and one supervision, of single values"
        shown = Shown(f"{len(template[0].members)} combinations")
        problems.add("a search", single, shown, "Run a search for each.")
    problems.raise_if_any()
    assert template is not None
    assert scorer is not None
    plan, dataset = template
    if within is None:
        within = CONVERGED_WITHIN if scorer.compares else 0.0
    search = SearchPlan(
        plan=plan,
        evolved=evolved,
        population=size,
        epochs=epochs,
        epoch_images=int(epoch_images or max(defaults.LEAST_EPOCH_IMAGES, len(dataset))),
        rule=rule,
        scorer=scorer,
        seed=seed,
        converged_within=float(within),
        converged_epochs=converged_epochs,
        together=together or 0,
    )
    return search, dataset


def _template(
    data: Any,
    cls: type[Objective] | None,
    evolved: Mapping[str, SearchDimension],
    fixed: Mapping[str, Any],
    shared: SharedOptions,
    problems: Problems,
) -> tuple[Plan, Dataset] | None:
    """The plan of one model at the start of every range, and its dataset; None where refused.

    Where something was refused before, something that is allowed stands in for it, so that the rest
    is looked at too.
    """
    start: dict[str, Any] = dict(fixed) | {
        name: space.listed[0] if space.listed else space.low for name, space in evolved.items()
    }
    rate, size = start.pop("learning_rate", 1e-4), start.pop("batch_size", 64)
    largest = int(evolved["batch_size"].high) if "batch_size" in evolved else size
    built = problems.collect(lambda: cls(**start)) if cls is not None else None
    return problems.collect(
        lambda: make_plan(
            data, built or "vae", learning_rate=rate, batch_size=largest, seeds=1, steps=1, **shared
        )
    )


def _objective(
    given: Objective | str, hyper: Mapping[str, Any] | None, problems: Problems
) -> tuple[type[Objective] | None, dict[str, Any]]:
    """The class of the objective, and its hyperparameters as given; by default its strength."""
    if hyper is not None and not isinstance(hyper, Mapping):
        problems.add("hyper", "must be a dictionary", hyper, "For example {'beta': '1..60'}.")
        hyper = None
    if isinstance(given, Objective):
        if hyper:
            remedy = "Set the values in the objective itself."
            problems.add("hyper", "goes to an objective given by name", dict(hyper), remedy)
        return type(given), {item.name: getattr(given, item.name) for item in fields(given)}
    if not isinstance(given, str):
        problems.add("objective", "must be an objective or its name", given)
        return None, {}
    cls = problems.collect(lambda: OBJECTIVES.load(given))
    if cls is None:
        return None, {}
    known = {item.name: item for item in fields(cls)}
    hyper = hyper or {}
    for name in hyper:
        if name not in known:
            problems.say(unknown(f"option of {given}", name, known))
    own = {name: value for name, value in hyper.items() if name in known}
    if not own and cls.strength is not None:
        own[cls.strength] = usual_range(known[cls.strength])
    return cls, own


def usual_range(item: Any) -> str:
    """Where a strength evolves by default: from a tenth to ten times its usual value, in bounds."""
    usual = float(item.default)
    rules = item.metadata
    low = max(usual / 10, rules["at_least"] or 0.0, 1.0 if item.name == "beta" else 0.0)
    high = min(max(10 * usual, 60.0 if item.name == "beta" else 0.0), rules["at_most"] or math.inf)
    return f"{low:g}..{high:g}"


def _is_whole(cls: type[Objective] | None, name: str) -> bool:
    return cls is not None and any(
        item.name == name and item.metadata.get("whole") for item in fields(cls)
    )


def _factors(given: Any) -> tuple[Any, ...]:
    values = plain(given)
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)


def _search_space(
    cls: type[Objective] | None, asked: Mapping[str, Any], problems: Problems
) -> tuple[dict[str, SearchDimension], dict[str, Any]]:
    """What evolves, and what has a single value; what is refused is in neither."""
    evolved: dict[str, SearchDimension] = {}
    fixed: dict[str, Any] = {}
    for name, value in asked.items():
        try:
            space = read_dimension(name, value, whole=name == "batch_size" or _is_whole(cls, name))
        except InputError as error:
            problems.say(error.problems[0])
            continue
        if space is None:
            fixed[name] = fixed_value(value)
        elif _may_evolve(cls, name, value, space, problems):
            evolved[name] = space
    return evolved, fixed


def _may_evolve(
    cls: type[Objective] | None, name: str, given: Any, space: SearchDimension, problems: Problems
) -> bool:
    """Refuse what cannot evolve, and ranges whose ends are not allowed."""
    before = len(problems.found)
    if name == "batch_size":
        if not 2 <= space.low <= space.high <= 10**5:
            problems.add(name, "must lie in 2 to 100000", Shown(f"{space.low:g} to {space.high:g}"))
    elif cls is not None and name != "learning_rate":
        if not any(item.name == name and is_number(item) for item in fields(cls)):
            problems.add(
                name,
                "cannot evolve, since members that differ in it cannot train together",
                Shown(str(given)),
            )
        else:
            for end in (space.low, space.high):
                if math.isfinite(end):
                    problems.collect(lambda value=end: cls(**{name: value}))
    return len(problems.found) == before
