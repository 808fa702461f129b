# SPDX-License-Identifier: Apache-2.0
"""Pools of Estermann et al. 2020: what is compared has seen as many images."""

from __future__ import annotations

import pytest

from unbraid.data import load
from unbraid.search.pbt.make_search import make_search
from unbraid.studies.definition import definition, model_steps
from unbraid.studies.estermann2020.pools import ARMS, FEW, RPU, SUPERVISED, pools
from unbraid.studies.pool import Pool, SearchSlice, check_pools

SCALES = ("small", "gpu", "paper")


def pool(scale: str, name: str) -> Pool:
    return next(one for one in pools(scale, 0) if one.name == name)  # pyright: ignore


@pytest.mark.parametrize("scale", SCALES)
def test_every_slice_can_be_defined(scale: str):
    every = pools(scale, 0)  # pyright: ignore
    check_pools(every)
    assert all(model_steps(definition(one)) > 0 for each in every for one in each.slices)


@pytest.mark.parametrize("scale", SCALES)
def test_every_arm_sees_as_many_images(scale: str):
    steps = {model_steps(definition(one)) for one in pool(scale, SUPERVISED).slices}
    assert len(pool(scale, SUPERVISED).slices) == len(ARMS) * (2 if scale == "small" else 5)
    assert len(steps) == 1


@pytest.mark.parametrize("scale", SCALES)
def test_a_model_with_few_labels_sees_as_many_images_as_one_of_a_search(scale: str):
    search, (few,) = pool(scale, SUPERVISED).slices[0], pool(scale, FEW).slices
    images = search.plan["epochs"] * search.plan["epoch_images"]
    assert few.plan["steps"] * few.plan.get("batch_size", 64) == pytest.approx(images, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_published_draws_leave_models_that_live_and_a_large_beta_among_them(seed: int):
    """Of so few individuals chance may draw none; the paper's 56 always have some."""
    (one,) = [each for each in pool("gpu", RPU).slices if each.name == f"dsprites-seed-{seed}"]
    given = {name: one.plan[name] for name in ("population", "first_factor", "seed")}
    given |= {name: one.plan[name] for name in ("learning_rate", "hyper", "batch_size")}
    tiny = load("sprites", x=4, y=4, scale=1, shape=1, image_size=16)
    search, _ = make_search(tiny, "beta_tcvae", score="udr", network="mlp", **given)
    drawn = [each.values for each in search.first()]
    live = [values["beta"] for values in drawn if values["learning_rate"] < 0.01]
    assert len(drawn) == 30
    assert len(live) >= 10
    assert max(live) >= 80


def test_finals_have_the_settings_of_the_recursion_whose_labels_they_use():
    """But for how many leaf-runs they use, and what a variant changes."""
    every = {f"{one.name}/{own.name}": own for one in pools("gpu", 0) for own in one.slices}
    changed = {"leaf_runs", "final_labels", "final_epochs"}
    finals = [one for one in every.values() if isinstance(one, SearchSlice) and one.labels_of]
    assert len(finals) == 60
    for one in finals:
        source = every[one.labels_of].plan
        assert {key for key in one.plan if one.plan[key] != source.get(key)} <= changed
