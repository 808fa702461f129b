# SPDX-License-Identifier: Apache-2.0
"""A step that becomes another, as a captured one does: nothing that training reads is of before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, fields, replace
from typing import Any

import pytest
import torch

from unbraid.core.errors import UnbraidError
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.hyper import is_number
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.supervision import SUPERVISIONS
from unbraid.population.member import Member
from unbraid.population.plan import Plan
from unbraid.population.training_step import TrainingStep

CPU = torch.device("cpu")
NOT_READ = ("members", "plan", "layout", "auxiliary_layout", "dataset", "_drawn")
"""Of a step and its kinds: the same in both, names of people's, or made anew."""
PLANS: dict[str, dict[str, Any]] = {
    **{name: {"objective": name} for name in OBJECTIVES.built_in},
    **{f"prior {name}": {"objective": "vae", "prior": name} for name in PRIORS.built_in},
    "pairs": {"objective": "vae", "supervision": "pairs"},
    "kinds": {"objective": ["beta_vae", "factor_vae", "control_vae"]},
}


def held(one: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor and plain value that *one* holds, in objects of this package too, by its way."""
    if isinstance(one, torch.Tensor | int | float | str | None):
        yield path, one
    elif isinstance(one, dict | list | tuple):
        named = one if isinstance(one, dict) else dict(enumerate(one))
        for name, part in named.items():
            yield from held(part, f"{path}.{name}")
    elif type(one).__module__.startswith("unbraid.") and hasattr(one, "__dict__"):
        read = {name: part for name, part in vars(one).items() if name not in NOT_READ}
        yield from held(read, path)


def differing(one: TrainingStep, other: TrainingStep) -> list[str]:
    """What two steps hold that is not the same."""
    theirs = dict(held(other))
    assert theirs.keys() == dict(held(one)).keys()
    return [
        path
        for path, value in held(one)
        if not (
            torch.equal(value, theirs[path])
            if isinstance(value, torch.Tensor)
            else value == theirs[path]
        )
    ]


def moved_number(item: Field[Any], value: Any, allowed: Callable[..., Any]) -> Any:
    """Another value of a hyperparameter that may differ between members of a kind."""
    if not is_number(item):
        is_vector = item.metadata["kind"] == "vector"
        return tuple(2.0 * number for number in value) if is_vector else value
    for other in (1.5 * value, 0.5 * value, value + 1, 0.5):
        whole = round(other) if item.metadata["whole"] else other
        try:
            allowed(**{item.name: whole})
        except UnbraidError:
            continue
        if whole != value:
            return whole
    raise AssertionError(f"no other value of {item.name}")


def moved(member: Member) -> Member:
    """The same with every number another."""
    changed: dict[str, Any] = {"seed": member.seed + 9, "learning_rate": 2e-2}
    for registry, key, name in (
        (OBJECTIVES, member.objective, "hyper"),
        (PRIORS, member.prior, "prior_hyper"),
        (SUPERVISIONS, member.supervision, "supervision_hyper"),
    ):
        if key:
            cls, hyper = registry.load(key), getattr(member, name)
            changed[name] = {
                item.name: moved_number(item, hyper[item.name], cls) for item in fields(cls)
            }
    return replace(member, **changed)


def step_of(made: tuple[Plan, Any], members: list[Member]) -> TrainingStep:
    plan, dataset = made
    return TrainingStep(replace(plan, members=tuple(members)), members, dataset, CPU)


@pytest.mark.parametrize("what", PLANS)
def test_a_step_that_becomes_another_holds_all_that_the_other_holds(small_plan, what: str):
    made = small_plan(seeds=2, **PLANS[what])
    members = list(made[0].members)
    step, other = step_of(made, members), step_of(made, [moved(member) for member in members])
    before = differing(step, other)
    count = sum(is_number(item) for item in fields(members[0].build()))
    assert len(before) >= 2 + count, "the other must differ in seed, rate and every number"
    assert step.can_become(other)
    step.become(other)
    assert differing(step, other) == []


@pytest.mark.parametrize(
    "field",
    [
        *({"batch_size": 4}, {"log_every": 7}, {"amsgrad": True}, {"where": "x < 2"}),
        *({"precision": "bfloat16"}, {"latents": 4}, {"likelihood": "gaussian"}, {"steps": 40}),
    ],
    ids=str,
)
def test_a_step_of_another_plan_is_never_become(small_plan, field: dict[str, Any]):
    plan, dataset = small_plan(seeds=2)
    step = TrainingStep(plan, plan.members, dataset, CPU)
    other = TrainingStep(replace(plan, **field), plan.members, dataset, CPU)
    assert not step.can_become(other)


def test_labels_and_other_kinds_cannot_be_become(small_plan):
    labelled = small_plan(seeds=2, supervision="labels:count=8")
    step = step_of(labelled, list(labelled[0].members))
    assert not step.can_become(step), "which images are labelled is no number of a member's"
    made = small_plan(seeds=2)
    members = list(made[0].members)
    step = step_of(made, members)
    scheduled = [replace(one, hyper={"beta": "linear(0, 4, 9)"}) for one in members]
    for others in (members[:1], scheduled, [replace(one, objective="vae") for one in members]):
        hyper = [replace(one, hyper={} if one.objective == "vae" else one.hyper) for one in others]
        assert not step.can_become(step_of(made, hyper))
