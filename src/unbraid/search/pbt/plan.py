# SPDX-License-Identifier: Apache-2.0
"""The plan of a population-based search: models, search space, scorer and epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from unbraid.core.errors import Problems, invalid
from unbraid.core.records import checked, from_record, in_range
from unbraid.core.store import digest
from unbraid.population.member import Member
from unbraid.population.plan import Plan
from unbraid.scoring.metric_names import metric_names
from unbraid.search.former_records import translated
from unbraid.search.pbt.exploit import Individual, Rule, epoch_seed, first_individuals
from unbraid.search.pbt.generation import GenerationModel
from unbraid.search.pbt.scorer import MOST_MODELS, SURROGATES, Scorer
from unbraid.search.pbt.search_space import SearchDimension

FORMAT = 1
CONVERGED_WITHIN, CONVERGED_EPOCHS = 0.005, 6
"""A search without labels ends when the best score changed by less in each of so many epochs
(Estermann et al. 2020).
"""
MOST_EPOCHS = 10_000
MOST_TOGETHER = 10_000


@dataclass(frozen=True)
class SearchPlan:
    """A population, its score and its rule of selection."""

    plan: Plan
    """Data, network, latents and the rest that all models share; its one member holds what does not
    evolve.
    """
    evolved: dict[str, SearchDimension]
    """By name: learning_rate, batch_size, hyperparameters of the objective."""
    population: int
    epochs: int
    epoch_images: int
    rule: Rule
    scorer: Scorer
    seed: int
    converged_within: float = 0.0
    """0 for never: the search then takes all its epochs."""
    converged_epochs: int = CONVERGED_EPOCHS
    together: int = 0
    """Models of a chunk, always so many; 0 for as many as fit, whose rounding depends on how many
    there are.
    """
    collapsed_last: bool = True
    """Whether collapsed individuals rank below the others; not in searches that an earlier version
    began, which end as they would have.
    """
    format: int = FORMAT

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        names = ("population", "epochs", "epoch_images", "seed", "together", "format")
        names += ("converged_within", "converged_epochs", "collapsed_last")
        return {
            **{name: getattr(self, name) for name in names},
            "plan": self.plan.record(),
            "evolved": {name: space.record() for name, space in self.evolved.items()},
            "rule": asdict(self.rule),
            "scorer": self.scorer.record(),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SearchPlan:
        """The inverse of `record`; those of earlier versions are read too."""
        record = translated(record)
        if record.get("format") != FORMAT:
            remedy = "Open it with the version that made it."
            raise invalid("format", f"must be {FORMAT}", record.get("format"), remedy)
        parts = {
            "plan": Plan.from_record(checked(dict[str, Any], record.get("plan"), "plan")),
            "evolved": {
                name: SearchDimension.from_record(space, f"evolved.{name}")
                for name, space in checked(
                    dict[str, dict[str, Any]], record.get("evolved"), "evolved"
                ).items()
            },
        }
        found = from_record(cls, {"collapsed_last": False, **record}, **parts)
        found._check()
        return found

    def _check(self) -> None:
        """Refuse numbers that no search could have been begun with."""
        problems = Problems()
        for problem in self.rule.problems(self.population):
            problems.say(problem)
        problems.raise_if_any()
        in_range("epochs", self.epochs, 1, MOST_EPOCHS)
        in_range("epoch_images", self.epoch_images, 1, 10**10)
        in_range("seed", self.seed, 0, 2**63 - 1)
        in_range("together", self.together, 0, MOST_TOGETHER)
        in_range("converged_within", self.converged_within, 0)
        in_range("converged_epochs", self.converged_epochs, 1)
        in_range("scorer.points", self.scorer.points, 0)
        in_range("scorer.models", self.scorer.models, 1, MOST_MODELS)
        if self.scorer.metric != SURROGATES:
            metric_names([self.scorer.metric], problems, labelled=True)
        problems.raise_if_any()
        template = self.plan.members[0]
        for name in self.evolved:
            if name not in ("learning_rate", "batch_size", *template.hyper):
                raise invalid("evolved", "must be settings of the models", name)
        for one in self.first():
            self.members(0, one.values, 0)[0].check("evolved")

    def is_but_for_its_place(self, other: SearchPlan) -> bool:
        """Whether both are one, whatever the data are called and wherever they lie: their
        fingerprint says what they are.
        """
        one, another = (
            replace(search, plan=replace(search.plan, data="", data_options={})).record()
            for search in (self, other)
        )
        return digest(one) == digest(another)

    @property
    def models(self) -> int:
        """Models of an individual."""
        return self.scorer.models

    @property
    def trained_models(self) -> int:
        """Models that train in the first epoch."""
        return self.population * self.rule.first_factor * self.models

    @property
    def all_models(self) -> Plan:
        """The plan of the models of the first epoch, the most that there ever are."""
        template = self.plan.members[0]
        everyone = (replace(template, id=number) for number in range(self.trained_models))
        return replace(self.plan, members=tuple(everyone))

    def first(self) -> list[Individual]:
        """The individuals of the first epoch."""
        return first_individuals(self.evolved, self.population * self.rule.first_factor, self.seed)

    def settings(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Hyperparameters by name: the evolved *values* and the fixed ones, for showing."""
        template = self.plan.members[0]
        return {
            "learning_rate": template.learning_rate,
            "batch_size": self.plan.batch_size,
            **template.hyper,
            **values,
        }

    def batch_size(self, values: Mapping[str, float]) -> int:
        """The batch size of an individual with these evolved values."""
        return int(values.get("batch_size", self.plan.batch_size))

    def members(self, place: int, values: Mapping[str, float], epoch: int) -> list[Member]:
        """The models of the individual at *place* as they train in *epoch*."""
        template = self.plan.members[0]
        hyper = {
            name: value
            for name, value in values.items()
            if name not in ("learning_rate", "batch_size")
        }
        rate = values.get("learning_rate", template.learning_rate)
        # Seeds of different searches are far apart, so that no two share an initial model.
        firsts = [
            epoch_seed(self.seed, 1) + place * self.models + number for number in range(self.models)
        ]
        return [
            replace(
                template,
                id=number,
                hyper={**template.hyper, **hyper},
                learning_rate=rate,
                seed=epoch_seed(first, epoch),
            )
            for number, first in enumerate(firsts)
        ]

    def generation_models(self, individuals: list[Individual], epoch: int) -> list[GenerationModel]:
        """All models of an epoch, those of an individual side by side."""
        return [
            GenerationModel(member, self.batch_size(one.values))
            for place, one in enumerate(individuals)
            for member in self.members(place, one.values, epoch)
        ]
