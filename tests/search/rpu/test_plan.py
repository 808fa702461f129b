# SPDX-License-Identifier: Apache-2.0
"""Requests for a recursion: what is refused, what is usual, what stays in the record."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from unbraid.core.errors import InputError
from unbraid.search.reduce.reduction import ReductionRule
from unbraid.search.rpu.plan import PUBLISHED, RecursionPlan, make_recursion

from .test_recursion import ROOM, quick

LEAST_5 = "must be a whole number of at least 5"
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"leaf_runs": -1}, "leaf_runs", "must be a whole number of at least 0"),
    ({"leaf_runs": 33}, "leaf_runs", "must be at most 32"),
    ({"levels": 0}, "levels", "must be a whole number of at least 1"),
    (
        {"levels": 1},
        "levels",
        "must be at least 2 for leaf-runs, since the root's labels are the first",
    ),
    ({"leaf_images": 0}, "leaf_images", "must be a whole number of at least 1"),
    ({"final_first_factor": 0}, "final_first_factor", "must be a whole number of at least 1"),
    ({"final_epochs": 0}, "final_epochs", "must be a whole number of at least 1"),
    ({"final_population": 4}, "final_population", LEAST_5),
    ({"population": 4}, "population", LEAST_5),
    ({"active_nats": -1}, "active_nats", "must be a number of at least 0"),
    ({"active_nats": math.nan}, "active_nats", "must be a number of at least 0"),
    ({"active_nats": True}, "active_nats", "must be a number of at least 0"),
    ({"score": "mig"}, "score", "must be udr, since a recursion has no labels"),
    ({"models": 1}, "models", "must be a whole number of at least 2 for the score udr"),
    ({"reduction": "published"}, "reduction", "must be a ReductionRule"),
    (
        {"reduction": ReductionRule(fewest_images=1)},
        "reduction",
        "must keep at least 2 images (fewest_images)",
    ),
]


@pytest.mark.parametrize(
    ("options", "name", "rule"), BAD, ids=[repr(options)[1:-1] for options, *_ in BAD]
)
def test_a_bad_request_is_refused_by_name(options: dict[str, Any], name: str, rule: str) -> None:
    with pytest.raises(InputError) as caught:
        quick(**options)
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == (name, rule)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        quick(leaf_runs=-1, final_epochs=0, epochs=0, latents=0)
    names = [problem.name for problem in caught.value.problems]
    assert names == ["leaf_runs", "epochs", "latents", "final_epochs"]


def test_a_plan_survives_its_record() -> None:
    plan, _ = quick(every_final=True, active_nats=0.5, final_population=7, final_epochs=4)
    assert RecursionPlan.from_record(json.loads(json.dumps(plan.record()))) == plan
    assert plan.finals() == [0, 1, 2]


def test_settings_by_default() -> None:
    plan, _ = make_recursion("sprites", data_options=ROOM, network="mlp", population=8, epochs=9)
    assert (plan.leaf_runs, plan.levels, plan.leaf_images, plan.active_nats) == (3, 3, 10_000, 1.0)
    assert (plan.final_population, plan.final_epochs, plan.final_first_factor) == (8, 9, 2)
    assert plan.reduction == PUBLISHED
    assert plan.reduction.chance is None
    assert plan.finals() == [3]


def test_stages_are_planned_in_the_order_in_which_they_train() -> None:
    plan, _ = quick(leaf_runs=2, levels=3, every_final=True)
    assert [stage.name for stage in plan.stages()] == [
        *("root", "leaf-0/level-2", "leaf-0/level-3", "leaf-1/level-2", "leaf-1/level-3"),
        *("final-0", "final-1", "final-2"),
    ]
