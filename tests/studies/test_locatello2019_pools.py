# SPDX-License-Identifier: Apache-2.0
"""What the study of Locatello et al. 2019 trains, at each scale."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.studies.locatello2019_tables import WORLDS
from tests.studies.worlds import SCALES

from unbraid.population.plan import Plan, make_plan
from unbraid.studies.locatello2019.pools import STEPS, STRENGTHS
from unbraid.studies.pool import Slice

pool, plan_of = WORLDS.pool, WORLDS.plan


def settings(one: Slice) -> Counter:
    """How many seeds each objective and strength has."""
    found = Counter()
    for member in plan_of(one).members:
        name = STRENGTHS[member.objective][0]
        found[member.objective, member.hyper[name]] += 1
    return found


EVERY = Counter({(name, value): 1 for name, (_, values) in STRENGTHS.items() for value in values})


def test_strengths_are_those_that_objectives_sweep():
    from unbraid.objectives import OBJECTIVES

    for name, (hyper, values) in STRENGTHS.items():
        assert OBJECTIVES.load(name).strength == hyper
        assert len(values) == 6
        assert list(values) == sorted(values)


def test_the_main_pool_of_a_gpu_is_the_whole_grid_in_slices_of_sixty():
    slices = pool("gpu", "main").slices
    assert len(slices) == 18
    seeds = {"dsprites": 10}
    for data in dict.fromkeys(one.plan["data"] for one in slices):
        own = [one for one in slices if one.plan["data"] == data]
        whole = sum((settings(one) for one in own), Counter())
        assert whole == Counter({key: seeds.get(data, 5) for key in EVERY})
        assert all(settings(one).total() == 60 for one in own)
        assert ("downstream" in own[0].metrics) == (data == "dsprites")
    assert list(dict.fromkeys(one.plan["data"] for one in slices)) == [
        *("dsprites", "color_dsprites", "noisy_dsprites", "shapes3d_drawn", "scream_dsprites")
    ]


def test_data_with_published_files_need_them():
    for name in ("cars3d", "smallnorb", "shapes3d"):
        for scale in ("gpu", "paper"):
            found = pool(scale, name)
            assert found.needs == (name,)
            assert {one.plan["data"] for one in found.slices} == {name}
    assert sum((settings(one) for one in pool("gpu", "cars3d").slices), Counter()) == Counter(
        {key: 5 for key in EVERY}
    )


def test_the_paper_scale_is_the_whole_study():
    pools = [one for one in WORLDS.pools("paper") if one.name != "burgess"]
    slices = [one for each in pools for one in each.slices]
    assert len({one.plan["data"] for one in slices}) == 7
    assert len(slices) == 7 * 36
    assert all(len(one.plan["seeds"]) == 50 for one in slices)
    assert settings(slices[0]).total() == 50
    for one in slices:
        updates = 150_000 if "factor_vae" in one.plan["objective"][0] else 300_000
        assert one.plan["steps"] == updates
    assert {*slices[0].plan} == {*pool("gpu", "main").slices[0].plan}


def test_the_small_scale_can_be_judged():
    """Weakest and strongest settings of all objectives, on one small data set."""
    whole = sum((settings(one) for one in pool("small", "main").slices), Counter())
    assert {*whole.values()} == {3}
    for name, (_, values) in STRENGTHS.items():
        assert {(name, values[0]), (name, values[-1])} <= {*whole}
    for _, one in WORLDS.slices("small"):
        assert make_plan(**one.plan)[0].data == "sprites"


def annealed(plan: Plan) -> list:
    return [one.build() for one in plan.members if one.objective == "annealed_vae"]


@pytest.mark.parametrize("scale", SCALES)
def test_the_capacity_is_reached_in_time(scale):
    for each in WORLDS.pools(scale):
        for one in each.slices[:3] + each.slices[-3:]:
            plan = plan_of(one)
            for objective in annealed(plan):
                assert objective.remarks(plan.steps) == []
                share = 1 if each.name == "burgess" else 3
                assert objective.ramp_steps == plan.steps // share
                assert objective.gamma == 1000.0


def test_the_stages_of_the_capacity_are_two_and_a_half_nats_apart():
    capacity, position = pool("gpu", "burgess").slices
    assert capacity.stages == tuple(range(10_000, 100_000, 10_000))
    assert capacity.latents
    assert len(capacity.plan["seeds"]) == len(position.plan["seeds"]) == 10
    (objective, *_) = annealed(plan_of(capacity))
    assert objective.max_capacity == 25.0
    plan, dataset = make_plan(**position.plan)
    assert (dataset.grid.names, dataset.grid.sizes) == (("x", "y"), (32, 32))
    assert {one.hyper["beta"] for one in plan.members} == {1.0, 150.0}


@pytest.mark.parametrize("data", ["dsprites", "color_dsprites", "noisy_dsprites", "shapes3d_drawn"])
def test_plans_of_drawn_data_are_accepted(data):
    one = next(each for each in pool("gpu", "main").slices if each.plan["data"] == data)
    plan = make_plan(**one.plan)[0]
    assert (len(plan.members), plan.steps, plan.latents) == (60, STEPS, 10)


def test_plans_of_scream_dsprites_are_accepted_with_the_painting(shared, monkeypatch):
    monkeypatch.setenv("UNBRAID_DATA", str(shared / "data" / "scream"))
    assert len(make_plan(**pool("gpu", "main").slices[-1].plan)[0].members) == 60
