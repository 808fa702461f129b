# SPDX-License-Identifier: Apache-2.0
"""Plans that name objectives of earlier versions: the same digest, names and training."""

from __future__ import annotations

from dataclasses import fields

import pytest

from unbraid.objectives import OBJECTIVES
from unbraid.objectives.supervision.few_labels import FewLabels
from unbraid.population.former_plans import LABEL_FIELDS, WITH_LABELS
from unbraid.population.member import Member
from unbraid.population.plan import Plan

LABELS = {
    "label_loss": "l2", "label_count": 20, "labeller": "perfect", "label_seed": 0, "label_bins": 5,
    "label_noise": 0.1, "observed_factors": 2, "embedding": "free", "embedding_sigma": 1.0,
    "learn_sigma": "no",
}  # fmt: skip
WEIGHT = {"gamma_sup": 3.0, "annealing": "fixed", "annealing_steps": 10_000}


def former(objective: str, **own: float) -> Member:
    weight = {} if objective == "supervised" else WEIGHT
    return Member(0, objective, {**own, **LABELS, **weight}, 1e-4, 0)


@pytest.mark.parametrize("name", WITH_LABELS)
def test_it_trains_what_it_trained(name: str):
    member = former(name)
    objective = OBJECTIVES.load(WITH_LABELS[name])()
    alone = "yes" if name == "supervised" else "no"
    weight = 1.0 if name == "supervised" else 3.0
    assert member.build() == objective
    assert member.build_supervision() == (
        FewLabels(loss="l2", count=20, weight=weight, alone=alone),
    )


def test_its_names_stay_those_of_the_plan():
    member = former("s2_beta_vae", beta=4.0)
    assert member.label() == ("s2_beta_vae beta=4 label_loss=l2 label_count=20 gamma_sup=3 seed=0")
    assert list(member.settings())[:4] == ["objective", "learning_rate", "beta", "label_loss"]
    assert "supervision" not in member.settings()
    assert member.record() == {
        "id": 0,
        "objective": "s2_beta_vae",
        "hyper": {"beta": 4.0, **LABELS, **WEIGHT},
        "learning_rate": 1e-4,
        "seed": 0,
    }


def test_a_plan_keeps_its_digest(small_plan):
    plan, _ = small_plan("beta_vae")
    record = plan.record() | {"members": [former("s2_beta_vae", beta=4.0).record()]}
    read = Plan.from_record(record)
    assert read.record() == record
    assert read.members[0].current().objective == "beta_vae"


def test_others_are_left_as_they_are():
    member = Member(0, "beta_vae", {"beta": 4.0}, 1e-4, 0)
    assert member.current() is member


def test_every_former_hyperparameter_has_a_name_today():
    known = {item.name for item in fields(FewLabels)}
    assert set(LABEL_FIELDS) == {*LABELS, *WEIGHT}
    assert known - set(LABEL_FIELDS.values()) == {"alone"}
    assert set(LABEL_FIELDS.values()) <= known
