# SPDX-License-Identifier: Apache-2.0
"""What the study of Michlo et al. 2023 trains, at each scale."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.studies.michlo2023_tables import WORLDS

from unbraid.studies.definition import definition, model_steps, models
from unbraid.studies.michlo2023 import STUDY
from unbraid.studies.michlo2023.models import KINDS
from unbraid.studies.michlo2023.pools import ARMS, COLLAPSE, EIGHT_BETAS, PUBLISHED, in_sums
from unbraid.studies.pool import Slice

pool, plan_of = WORLDS.pool, WORLDS.plan


def settings(slices: tuple[Slice, ...]) -> Counter:
    """How many seeds each objective has at each weight of its KL, in sums."""
    found = Counter()
    for one in slices:
        for member in plan_of(one).members:
            found[one.name.partition("-seeds")[0], member.objective, member.hyper["beta"]] += 1
    return found


def test_figure_9_is_every_spacing_with_both_objectives_and_betas():
    found = settings(pool("gpu", "spacings").slices)
    assert len(found) == 8 * 2 * 2
    assert {*found.values()} == {5}
    sums = sorted({beta for _, _, beta in found})
    assert sums == pytest.approx([0.001 * 12288 / 9, 0.00316 * 12288 / 9])
    spacings = [one.plan["data_options"]["spacing"] for one in pool("gpu", "spacings").slices]
    assert spacings == [*range(1, 9)]


def test_figure_11_is_forty_models_of_the_published_length():
    slices = pool("gpu", "blur").slices
    assert sum(models(definition(one)) for one in slices) == 40
    assert {one.plan["steps"] for one in slices} == {57_600}
    by_loss = Counter(one.plan["likelihood"] for one in slices for _ in plan_of(one).members)
    assert by_loss == {"gaussian": 20, "gaussian+box31": 20}
    assert {one.plan["latents"] for one in slices} == {25}


def test_figure_6_is_the_whole_grid():
    slices = pool("gpu", "betas").slices
    assert sum(models(definition(one)) for one in slices) == 3 * 8 * 2 * 2
    for one in slices:
        data, latents = one.plan["data"], one.plan["latents"]
        for kind in KINDS:
            own = [each for each in plan_of(one).members if each.objective == kind]
            expected = [in_sums(beta, data, latents) for beta in EIGHT_BETAS]
            assert [member.hyper["beta"] for member in own] == pytest.approx(expected)
    for name in PUBLISHED:
        assert pool("gpu", name).needs == (name,)
        assert len(pool("gpu", name).slices) == 2


def test_published_settings_are_the_authors():
    for one in (
        each for name in ("spacings", "blur", "betas") for each in pool("gpu", name).slices
    ):
        plan = plan_of(one)
        assert (plan.batch_size, plan.network, plan.initialisation) == (
            *(256, "conv_burgess"),
            "xavier_normal",
        )
        assert {member.learning_rate for member in plan.members} == {1e-3}
        assert plan.standardise
        for member in plan.members:
            for pairs in member.build_supervision():
                assert (pairs.divergence, pairs.threshold) == ("symmetric_kl", 0.5)
                assert (pairs.average, pairs.rule) == ("arithmetic", "locatello")


def test_the_arms_change_one_thing_each():
    slices = {one.name.partition("-")[0]: one for one in pool("gpu", COLLAPSE).slices}
    assert [*slices] == [*ARMS]
    about = {}
    for arm, one in slices.items():
        plan = plan_of(one)
        (first, *_) = plan.members
        (pairs,) = first.build_supervision()
        about[arm] = {
            "rate": first.learning_rate,
            "start": plan.initialisation,
            "latents": plan.latents,
            "weight": round(first.hyper["beta"], 6),
            "average": pairs.average,
            "divergence": pairs.divergence,
            "likelihood": plan.likelihood,
        }
        assert len(plan.members) == 20
        assert one.plan["data"] == "xysquares"
    base = about.pop("published")
    assert base == {
        **{"rate": 1e-3, "start": "", "latents": 25, "average": "arithmetic"},
        **{"weight": round(0.0316 * 12288 / 25, 6), "divergence": "symmetric_kl"},
        "likelihood": "gaussian+box31",
    }
    for arm, own in about.items():
        assert [name for name in base if own[name] != base[name]] == [arm]


def test_the_paper_scale_is_the_papers():
    steps = {
        one.name: {each.plan["steps"] for each in one.slices} for one in STUDY.pools("paper", 0)
    }
    assert steps["spacings"] == steps["blur"] == {57_600}
    assert steps["betas"] == {115_200}
    assert {*PUBLISHED} <= {*steps}


def test_the_study_takes_as_long_as_its_readme_says():
    """Model-steps at batch 64, a pair counted twice: 14,000 a second on an H200."""
    minutes = Counter()
    for each, one in WORLDS.slices("gpu"):
        members = plan_of(one).members
        pairs = sum(2 if member.build_supervision() else 1 for member in members) / len(members)
        minutes[each.name] += model_steps(definition(one)) * 4 * pairs / 14_000 / 60
    there = sum(value for name, value in minutes.items() if name not in PUBLISHED)
    assert 70 < there < 90
    text = (STUDY.folder / "README.md").read_text()
    assert "about 80 minutes" in text
