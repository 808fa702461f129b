# SPDX-License-Identifier: Apache-2.0
"""What a recursion (rPU-VAE) will do: the root's search, leaf-runs, final populations; checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

from unbraid.core.checks import plain, read_whole_number
from unbraid.core.errors import InputError, Problems, unknown
from unbraid.core.records import checked, from_record, in_range
from unbraid.data.dataset import Dataset
from unbraid.data.own.image_arrays import FEWEST_IMAGES
from unbraid.data.subset import Subset
from unbraid.objectives.objective import Objective
from unbraid.search import defaults
from unbraid.search.former_records import translated
from unbraid.search.pbt.exploit import Rule, epoch_seed
from unbraid.search.pbt.make_search import USUAL_WITHOUT_LABELS, SearchOptions, make_search
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.scorer import SURROGATES, Scorer
from unbraid.search.reduce.reduction import ReductionRule
from unbraid.search.rpu.stages import Stage, planned_stages
from unbraid.search.rpu.surrogate_labels import ACTIVE_NATS, LABEL_RULES

MOST_LEAF_RUNS, MOST_LEVELS = 32, 10
BOUNDS = {
    "leaf_runs": (0, MOST_LEAF_RUNS),
    "levels": (1, MOST_LEVELS),
    "leaf_images": (1, 10**10),
    "final_first_factor": (1, 16),
    "final_epochs": (1, 10_000),
}
PUBLISHED = ReductionRule(chance=None)
"""Without the bound on what chance alone makes of noise: codes of real models seldom rise in clean
steps.
"""
SURROGATES_FILE = "surrogates.safetensors"
_SEED_OF_LEAF, _SEED_OF_FINAL = 1_000, 2_000


@dataclass(frozen=True)
class RecursionPlan:
    """The root's search, and what is made of it."""

    root: SearchPlan
    leaf_runs: int = defaults.LEAF_RUNS
    levels: int = defaults.LEVELS
    """Levels of labels at most, the root's included."""
    final_population: int = 16
    final_epochs: int = 16
    final_first_factor: int = 2
    leaf_images: int = defaults.LEAST_EPOCH_IMAGES
    """An epoch of a leaf-run is a pass over its images, and no shorter than this."""
    final_labels: str = "published"
    """Which labels select final populations, and how much each counts."""
    every_final: bool = False
    """Train a final population for each number of leaf-runs from 0 on, as in the paper's figure 6.
    """
    active_nats: float = ACTIVE_NATS
    reduction: ReductionRule = PUBLISHED

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **{name: getattr(self, name) for name in _SIMPLE},
            "root": self.root.record(),
            "reduction": asdict(self.reduction),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RecursionPlan:
        """The inverse of `record`; those of earlier versions are read too."""
        record = translated(record)
        root = SearchPlan.from_record(checked(dict[str, Any], record.get("root"), "root"))
        found = from_record(cls, record, root=root)
        for name, (least, most) in BOUNDS.items():
            in_range(name, getattr(found, name), least, most)
        in_range("active_nats", found.active_nats, 0)
        if found.final_labels not in LABEL_RULES:
            raise InputError(unknown("final_labels", found.final_labels, LABEL_RULES))
        for problem in Rule(first_factor=found.final_first_factor).problems(found.final_population):
            raise InputError(problem)
        return found

    def finals(self) -> list[int]:
        """With how many leaf-runs each final population is trained."""
        return list(range(self.leaf_runs + 1)) if self.every_final else [self.leaf_runs]

    def stages(self) -> list[Stage]:
        """Every stage that it may come to, in order."""
        return planned_stages(self.leaf_runs, self.levels, self.finals())

    def leaf_search(self, stage: Stage, part: Subset) -> SearchPlan:
        """The search of a leaf, in its part of the images."""
        number = _SEED_OF_LEAF + stage.leaf * MOST_LEVELS + stage.level
        seed = epoch_seed(self.root.seed, number) & 0x7FFFFFFF
        data = {"data": part.name, "data_options": part.options}
        return replace(
            self.root,
            plan=replace(self.root.plan, **data, data_fingerprint=part.fingerprint()),
            epoch_images=max(self.leaf_images, len(part)),
            seed=seed,
            scorer=replace(self.root.scorer, seed=seed),
        )

    def final_search(self) -> SearchPlan:
        """The search of a final population, selected by the surrogate labels in its folder."""
        seed = epoch_seed(self.root.seed, _SEED_OF_FINAL) & 0x7FFFFFFF
        return replace(
            self.root,
            population=self.final_population,
            epochs=self.final_epochs,
            rule=replace(self.root.rule, first_factor=self.final_first_factor),
            scorer=Scorer(SURROGATES, 0, 1, seed, SURROGATES_FILE),
            seed=seed,
            converged_within=0.0,
        )


_SIMPLE = (
    *("leaf_runs", "levels", "leaf_images", "final_population", "final_epochs"),
    *("final_first_factor", "final_labels", "every_final", "active_nats"),
)
"""Fields of a plan that are JSON values as they are."""


def make_recursion(
    data: Any,
    objective: Objective | str = defaults.OBJECTIVE,
    *,
    leaf_runs: int = defaults.LEAF_RUNS,
    levels: int = defaults.LEVELS,
    final_population: int | None = None,
    final_epochs: int | None = None,
    final_first_factor: int = 2,
    leaf_images: int = defaults.LEAST_EPOCH_IMAGES,
    final_labels: str = "published",
    every_final: bool = False,
    active_nats: float = ACTIVE_NATS,
    reduction: ReductionRule | None = None,
    **search: Unpack[SearchOptions],
) -> tuple[RecursionPlan, Dataset]:
    """Check the whole request; *search* are options of `make_search`, for root and leaves.

    *final_population* and *final_epochs* are those of the root by default; *final_labels* says
    which labels count (`search/rpu/surrogate_labels.py`).
    """
    problems = Problems()
    if final_labels not in LABEL_RULES:
        problems.say(unknown("final_labels", str(final_labels), LABEL_RULES))
    if plain(leaf_runs) and plain(levels) == 1:
        rule = "must be at least 2 for leaf-runs, since the root's labels are the first"
        problems.add("levels", rule, levels)
    counts = {
        "leaf_runs": leaf_runs,
        "levels": levels,
        "leaf_images": leaf_images,
        "final_first_factor": final_first_factor,
    }
    whole = {
        name: read_whole_number(problems, name, plain(value), *BOUNDS[name])
        for name, value in counts.items()
    }
    active_nats = _check_nats(plain(active_nats), problems)
    _check_reduction(reduction, problems)
    score = search.get("score", defaults.SCORE)
    if str(score).partition(":")[0] != "udr":
        problems.add("score", "must be udr, since a recursion has no labels", score)
    made = problems.collect(lambda: make_search(data, objective, **search))
    population = _final_population(
        final_population, search.get("population"), whole["final_first_factor"], problems
    )
    if final_epochs is not None:
        final_epochs = read_whole_number(
            problems, "final_epochs", plain(final_epochs), *BOUNDS["final_epochs"]
        )
    problems.raise_if_any()
    assert made is not None
    root, dataset = made
    plan = RecursionPlan(
        root=root,
        **whole,
        final_population=population,
        final_epochs=root.epochs if final_epochs is None else final_epochs,
        final_labels=final_labels,
        every_final=bool(every_final),
        active_nats=active_nats,
        reduction=reduction or PUBLISHED,
    )
    return plan, dataset


def _check_nats(nats: Any, problems: Problems) -> float:
    number = isinstance(nats, (int, float)) and not isinstance(nats, bool)
    if number and 0 <= nats < math.inf:
        return float(nats)
    problems.add("active_nats", "must be a number of at least 0", nats)
    return ACTIVE_NATS


def _check_reduction(reduction: Any, problems: Problems) -> None:
    if reduction is None:
        return
    if not isinstance(reduction, ReductionRule):
        problems.add("reduction", "must be a ReductionRule", reduction)
    elif reduction.fewest_images < FEWEST_IMAGES:
        rule = f"must keep at least {FEWEST_IMAGES} images (fewest_images)"
        problems.add("reduction", rule, reduction.fewest_images)


def _final_population(given: Any, root: Any, first_factor: int, problems: Problems) -> int:
    """How many individuals a final population has; as many as the root by default."""
    own = given is not None
    population = given if own else USUAL_WITHOUT_LABELS["population"] if root is None else root
    for one in Rule(first_factor=first_factor).problems(plain(population)):
        rename = own and one.name == "population"
        problems.say(replace(one, name="final_population") if rename else one)
    return plain(population)
