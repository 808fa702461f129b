# SPDX-License-Identifier: Apache-2.0
"""What all studies train, at each scale: pools that are sound and plans that can be trained."""

from __future__ import annotations

import re

import pytest
from tests.studies.worlds import SCALES, Worlds, every_study

from unbraid.core.errors import Problems
from unbraid.scoring.metric_names import metric_names
from unbraid.studies.definition import definition, model_steps, models
from unbraid.studies.pool import Scale, SearchSlice, Slice, check_pools

EVERY = every_study().values()


def study_of(worlds: Worlds) -> str:
    return worlds.study.name


of_every_study = pytest.mark.parametrize("worlds", EVERY, ids=study_of)


@of_every_study
@pytest.mark.parametrize("scale", SCALES)
def test_pools_are_sound_and_their_metrics_known(worlds: Worlds, scale: Scale):
    check_pools(worlds.pools(scale))
    problems = Problems()
    for _, one in worlds.slices(scale):
        assert re.fullmatch("[A-Za-z0-9-]+", one.name)
        assert metric_names(one.metrics, problems, labelled=True) == [*one.metrics]
        assert {*one.sampled} <= {*one.metrics}
        assert [*definition(one).get("measures", {})] == [*one.measures]
    problems.raise_if_any()
    names = [one.name for _, one in worlds.slices(scale) if not isinstance(one, SearchSlice)]
    assert len({*names}) == len(names)


@of_every_study
@pytest.mark.parametrize("scale", SCALES)
def test_claims_name_pools_and_data_that_there_are(worlds: Worlds, scale: Scale):
    trained = worlds.slices("gpu")
    pools = {pool.name for pool, _ in trained}
    assert {name for claim in worlds.claims.values() for name in claim.pools} == pools - {
        *worlds.unclaimed
    }
    assert {pool.name for pool in worlds.pools(scale)} <= pools
    for claim in worlds.claims.values():
        if claim.pools:
            assert {*claim.data} <= {one.data for pool, one in trained if pool.name in claim.pools}


def seeds(one: Slice) -> list[int]:
    return [one.plan["seed"]] if isinstance(one, SearchSlice) else [*one.plan["seeds"]]


def needed(one: Slice) -> str:
    """The slice whose models or labels it needs."""
    return getattr(one, "labels_of", "") or (one.made.after if one.made else "") or ""


@of_every_study
@pytest.mark.parametrize("scale", SCALES)
def test_other_seeds_are_other_models_of_the_same_settings(worlds: Worlds, scale: Scale):
    for (_, one), (_, other) in zip(worlds.slices(scale), worlds.slices(scale, 100), strict=True):
        assert [seed + 100 for seed in seeds(one)] == seeds(other)
        same = {*one.plan} - {"seed", "seeds"}
        assert all(one.plan[name] == other.plan[name] for name in same)
        assert one.name != other.name
        before, after = needed(one), needed(other)
        assert bool(before) == (before != after)
        assert re.sub(r"\d+", "0", before) == re.sub(r"\d+", "0", after)
    check_pools(worlds.study.pools(scale, 100))


@of_every_study
@pytest.mark.parametrize("scale", SCALES)
def test_a_pilot_has_seeds_of_its_own(worlds: Worlds, scale: Scale):
    slices = worlds.slices(scale)
    own, others = (
        {
            seed
            for pool, one in slices
            if pool.name.startswith("pilot") == is_pilot
            for seed in seeds(one)
        }
        for is_pilot in (True, False)
    )
    assert others
    assert not own & others


@of_every_study
@pytest.mark.parametrize("scale", ["small", "gpu"])
def test_every_slice_is_a_plan_with_as_many_models_as_it_says(worlds: Worlds, scale: Scale):
    for _, one in worlds.slices(scale):
        if not isinstance(one, SearchSlice):
            plan, defined = worlds.plan(one), definition(one)
            assert len(plan.members) == models(defined)
            assert plan.steps * len(plan.members) == model_steps(defined)
