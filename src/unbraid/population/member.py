# SPDX-License-Identifier: Apache-2.0
"""A member: one model of a population, with everything it may differ in from the others."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from unbraid.core.checks import check_option_names
from unbraid.core.errors import invalid
from unbraid.core.records import in_range
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.hyper import Configured, structure
from unbraid.objectives.objective import Objective
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.schedule import Schedule
from unbraid.objectives.supervision import SUPERVISIONS
from unbraid.objectives.supervision.supervision import Supervision
from unbraid.population import former_plans

_FEW_FIELDS = 3
"""Of so few hyperparameters a label shows all."""


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
    supervision: str = ""
    """Empty for none."""
    supervision_hyper: dict[str, Any] = field(default_factory=dict)

    def current(self) -> Member:
        """The same in today's terms, where an earlier version made the plan."""
        return former_plans.in_todays_terms(self)

    def build(self) -> Objective:
        """Its objective."""
        now = self.current()
        return OBJECTIVES.recall(now.objective)(**now.hyper)

    def build_prior(self) -> Prior:
        """Its prior."""
        return PRIORS.recall(self.prior)(**self.prior_hyper)

    def build_supervision(self) -> tuple[Supervision, ...]:
        """What it learns from beside images: what its method brings along, then what was chosen."""
        now, own = self.current(), self.build().supervision
        found = (own,) if own is not None else ()
        if not now.supervision:
            return found
        return (*found, SUPERVISIONS.recall(now.supervision)(**now.supervision_hyper))

    def rate(self) -> float | Schedule:
        """Its learning rate."""
        return (
            Schedule.parse(self.learning_rate)
            if isinstance(self.learning_rate, str)
            else self.learning_rate
        )

    def check(self, name: str) -> None:
        """Refuse what cannot be built of a record called *name*."""
        now = self.current()
        chosen = [(OBJECTIVES, now.objective, now.hyper), (PRIORS, self.prior, self.prior_hyper)]
        if now.supervision:
            chosen.append((SUPERVISIONS, now.supervision, now.supervision_hyper))
        for registry, key, hyper in chosen:
            cls = registry.recall(key)
            check_option_names(f"{name}: {registry.kind} {key}", cls, hyper)
            if len(cls(**hyper).sweep()) > 1:
                raise invalid(f"{name}: {key}", "must have single values", hyper)
        rate = self.rate()
        if not isinstance(rate, Schedule):
            in_range(f"{name}.learning_rate", rate, 0.0)

    def structure(self) -> tuple[Any, ...]:
        """What members of one kind have in common: they can be stacked."""
        parts = (self.build(), self.build_prior(), *self.build_supervision())
        return tuple(itertools.chain.from_iterable(structure(one) for one in parts))

    def settings(self) -> dict[str, Any]:
        """All that it may differ in from other members but the seed, by name."""
        settings = {
            "objective": self.objective,
            "learning_rate": self.learning_rate,
            **self.hyper,
            "prior": self.prior,
            **{f"prior_{name}": value for name, value in self.prior_hyper.items()},
        }
        if self.supervision:
            settings["supervision"] = self.supervision
            for name, value in self.supervision_hyper.items():
                settings[f"{self.supervision}_{name}"] = value
        return settings

    def unusual_supervision(self) -> dict[str, Any]:
        """What of its supervision differs from the defaults."""
        if not self.supervision:
            return {}
        return _unusual(self.supervision_hyper, _defaults(SUPERVISIONS.recall(self.supervision)))

    def remarks(self, steps: int) -> list[str]:
        """What a person should know of *steps* updates."""
        objective = self.build()
        # What a named composition brings with it are the objective's own numbers.
        given = [one for one in self.build_supervision() if one != objective.supervision]
        return [line for one in (objective, *given) for line in one.remarks(steps)]

    def label(self) -> str:
        """A name for people: objective, hyperparameters, seed."""
        usual = former_plans.usual_hyper(self)
        told = self.hyper
        if len(usual) > _FEW_FIELDS:
            told = _unusual(self.hyper, usual, self.build().strength)
        words = [self.objective, *_worded(told)]
        prior = _spelled(self.prior, _unusual(self.prior_hyper, _defaults(self.build_prior())))
        if prior != "isotropic":
            words.append(f"prior={prior}")
        if self.supervision:
            words.append(_spelled(self.supervision, self.unusual_supervision()))
        return " ".join((*words, f"seed={self.seed}"))

    def record(self) -> dict[str, Any]:
        """The member as JSON values, without what is usual: older plans keep their digest."""
        usual = {
            "prior": "isotropic",
            "prior_hyper": {},
            "given": {},
            "supervision": "",
            "supervision_hyper": {},
        }
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in usual or value != usual[name]
        }


def _defaults(one: Configured | type[Configured]) -> dict[str, Any]:
    return {item.name: item.default for item in fields(one)}


def _unusual(
    hyper: dict[str, Any], usual: dict[str, Any], always: str | None = None
) -> dict[str, Any]:
    """What of *hyper* differs from its default, and the one called *always*."""
    # A file gives the numbers of a vector as a list.
    held = {
        name: tuple(value) if isinstance(value, list) else value for name, value in hyper.items()
    }
    return {name: value for name, value in held.items() if name == always or value != usual[name]}


def _worded(hyper: dict[str, Any]) -> list[str]:
    return [f"{name}={_shown(value)}" for name, value in hyper.items()]


def _spelled(name: str, hyper: dict[str, Any]) -> str:
    """A prior or a supervision with its options: `sparse:gamma=0.8`."""
    options = ",".join(_worded(hyper))
    return f"{name}:{options}" if options else name


def _shown(value: Any) -> str:
    """A hyperparameter in a few digits, numbers that belong together with slashes between them."""
    if isinstance(value, tuple):
        return "/".join(f"{number:.3g}" for number in value)
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


Chunk = tuple[Member, ...]
"""Members that train together."""


def members_told(chunk: Chunk) -> str:
    """What messages call the members of *chunk*: member 3, or members 3 to 7."""
    first, last = chunk[0].id, chunk[-1].id
    return f"member {first}" if first == last else f"members {first} to {last}"
