# SPDX-License-Identifier: Apache-2.0
"""Requests of searches: every bad one refused in full, good ones recorded so that they can be
repeated.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import unbraid as ub
from unbraid.core.errors import InputError
from unbraid.core.store import digest
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.objectives import OBJECTIVES
from unbraid.search.pbt.exploit import Rule, epoch_seed
from unbraid.search.pbt.make_search import make_search
from unbraid.search.pbt.plan import FORMAT, SearchPlan
from unbraid.search.pbt.scorer import Scorer
from unbraid.search.pbt.search_space import SearchDimension

SPRITES: dict[str, Any] = {"x": 6, "y": 4, "scale": 1, "image_size": 16}
TINY: dict[str, Any] = {
    "data_options": SPRITES,
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "population": 5,
    "epochs": 3,
    "epoch_images": 64,
    "hyper": {"beta": "1..4"},
    "learning_rate": "1e-3..1e-2",
    "batch_size": (8, 16),
}


def small_search(
    data: Any = "sprites", objective: Any = "beta_vae", **options: Any
) -> tuple[SearchPlan, Dataset]:
    """A search that takes less than a second."""
    wanted = {**TINY, **options}
    if data != "sprites" or isinstance(data, Dataset):
        wanted.pop("data_options")
    return make_search(data, objective, **wanted)


def refusal(
    data: Any = "sprites", objective: Any = "beta_vae", **options: Any
) -> list[tuple[str, str]]:
    """Name and rule of everything that is wrong."""
    with pytest.raises(InputError) as caught:
        small_search(data, objective, **options)
    return [(problem.name, problem.rule) for problem in caught.value.problems]


def unlabelled(count: int = 40) -> Dataset:
    return load(np.random.default_rng(0).integers(0, 256, (count, 16, 16), dtype=np.uint8))


TWO_ENDS = "must be two numbers above 0, the smaller first, as in 1e-4..3e-3"
AT_LEAST = "must be a whole number of at least"
NO_FACTORS = ("score", "cannot be mig, since the data has no factors to compare codes with")
ALONE: list[tuple[dict[str, Any], str, str]] = [
    ({"population": 3}, "population", "must be a whole number of at least 5"),
    ({"population": 4}, "population", "must be a whole number of at least 5"),
    ({"population": 5.0}, "population", "must be a whole number of at least 5"),
    ({"population": 20000}, "population", "must be at most 10000"),
    ({"epochs": 0}, "epochs", "must be a whole number of at least 1"),
    ({"epochs": 10001}, "epochs", "must be at most 10000"),
    ({"epoch_images": 0}, "epoch_images", "must be a whole number of at least 1"),
    ({"seed": -1}, "seed", "must be a whole number of at least 0"),
    ({"seed": 2147483648}, "seed", "must be at most 2147483647"),
    ({"score": "mg"}, "metric", "is unknown"),
    ({"score": "usual"}, "score", "must be a single metric"),
    ({"score": 7}, "score", "must be the name of a metric"),
    ({"score": "mig:bin=3"}, "option of mig", "is unknown"),
    ({"score": "mig:bins=1"}, "bins", "must be a whole number of at least 2"),
    ({"score": "udr:method=kendall"}, "method", "is unknown"),
    ({"score": "udr:compat=disentanglement_lib"}, "option of udr in a search", "is unknown"),
    ({"score": "mig", "points": 5}, "points", "must be a whole number of at least 10"),
    (
        {"score": "mig", "labels": 20, "points": 20},
        "points",
        "is the number of labelled images where that is given",
    ),
    ({"together": 0}, "together", "must be a whole number of at least 1"),
    ({"score": "mig", "labels": 5}, "labels", "must be all, or a whole number of at least 10"),
    ({"score": "mig", "labels": "some"}, "labels", "must be all, or a whole number of at least 10"),
    ({"score": "mig", "labels": True}, "labels", "must be all, or a whole number of at least 10"),
    ({"score": "mig", "labels": 25}, "labels", "must be at most the 24 images of the data"),
    ({"score": "udr", "labels": 20}, "labels", "are not used by udr"),
    ({"score": "elbo", "labels": 20}, "labels", "are not used by elbo"),
    ({"score": "udr", "models": 1}, "models", f"{AT_LEAST} 2 for the score udr"),
    ({"score": "mig", "models": 0}, "models", f"{AT_LEAST} 1 for the score mig"),
    ({"score": "mig", "models": True}, "models", f"{AT_LEAST} 1 for the score mig"),
    ({"hyper": {"gamma": 3}}, "option of beta_vae", "is unknown"),
    ({"hyper": {"beta": "-1..4"}}, "beta", TWO_ENDS),
    ({"hyper": {"beta": "1.."}}, "beta", TWO_ENDS),
    ({"hyper": {"beta": "4..1"}}, "beta", TWO_ENDS),
    ({"hyper": {"beta": "1,-2"}}, "beta", "must be a list of numbers above 0 to evolve"),
    ({"hyper": {"beta": -1}}, "beta_vae: beta", "must be at least 0"),
    ({"hyper": {"beta": "much"}}, "beta_vae: beta", "must be a number"),
    ({"learning_rate": "1e-3..1e-4"}, "learning_rate", TWO_ENDS),
    ({"learning_rate": 0}, "learning_rate", "must be a finite number above 0"),
    ({"batch_size": "1..64"}, "batch_size", "must lie in 2 to 100000"),
    ({"batch_size": (8, 200000)}, "batch_size", "must lie in 2 to 100000"),
    ({"batch_size": "8.5,16"}, "batch_size", "must be whole numbers"),
    ({"batch_size": 1}, "batch_size", "must be a whole number of at least 2"),
    ({"share": 0.7}, "share", "must lie in 0 to 0.5"),
    ({"share": -0.1}, "share", "must lie in 0 to 0.5"),
    ({"share": math.nan}, "share", "must lie in 0 to 0.5"),
    ({"first_factor": 0}, "first_factor", "must be a whole number from 1 to 16"),
    ({"factors": ()}, "factors", "must be numbers above 0"),
    ({"factors": -2.0}, "factors", "must be numbers above 0"),
    ({"converged_within": -0.1}, "converged_within", "must be a number of at least 0"),
    ({"converged_within": "soon"}, "converged_within", "must be a number of at least 0"),
    ({"converged_epochs": 0}, "converged_epochs", "must be a whole number of at least 1"),
    ({"convention": "mean"}, "convention", "must be sum in a search, whose weights move"),
    ({"latents": 0}, "latents", "must be a whole number of at least 1"),
    ({"network": "ml", "network_options": None}, "network", "is unknown"),
]


@pytest.mark.parametrize(
    ("options", "name", "rule"), ALONE, ids=[repr(options)[1:-1] for options, *_ in ALONE]
)
def test_each_bad_value_is_refused_by_name(options: dict[str, Any], name: str, rule: str):
    assert refusal(**options) == [(name, rule)]


def test_a_score_without_factors_comes_with_a_remedy():
    with pytest.raises(InputError) as caught:
        small_search(unlabelled(), score="mig")
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == NO_FACTORS
    assert problem.value == "mig"
    assert "udr" in problem.remedy


def test_ranges_beyond_what_an_objective_allows_are_refused():
    found = refusal("sprites", "info_vae", hyper={"alpha": "0.5..2"})
    assert found == [("info_vae: alpha", "must be at most 1")]


def test_what_members_cannot_differ_in_does_not_evolve():
    together = "cannot evolve, since members that differ in it cannot train together"
    found = refusal("sprites", "iwae", hyper={"importance_samples": "1,2"})
    assert found == [("importance_samples", together)]
    found = refusal("sprites", "annealed_vae", hyper={"ramp": "linear,cyclic"})
    assert found == [("ramp", "must be a list of numbers above 0 to evolve")]


def test_hyperparameters_of_a_made_objective_are_set_in_it():
    found = refusal("sprites", ub.BetaVAE(), hyper={"beta": 1})
    assert found == [("hyper", "goes to an objective given by name")]
    found = refusal("sprites", 7, hyper={})
    assert found == [("objective", "must be an objective or its name")]


def test_everything_wrong_with_a_request_is_said_at_once():
    wrong = {
        **{"score": "mig", "labels": 5, "models": 0, "population": 3, "epochs": 0, "share": 0.7},
        **{"first_factor": 0, "seed": -1, "hyper": {"gamma": 1, "beta": "1..", "tau": 2}},
        **{"learning_rate": "3..1", "batch_size": "1..8", "converged_within": -1, "latents": 0},
        **{"network": "ml", "network_options": None, "likelihood": "poison"},
    }
    assert [name for name, _ in refusal(unlabelled(), "beta_vae", **wrong)] == [
        *("option of beta_vae", "option of beta_vae", "beta", "learning_rate", "batch_size"),
        *("population", "share", "first_factor", "epochs", "seed", "converged_within", "score"),
        *("models", "labels", "network", "latents", "likelihood"),
    ]


def test_unknown_data_and_objective_do_not_hide_the_rest():
    found = refusal("sprite", "beta_va", data_options={}, population=2, latents=0)
    assert [name for name, _ in found] == ["dataset", "objective", "population", "latents"]


def test_usual_settings():
    search, dataset = make_search("sprites", data_options=SPRITES, network="mlp")
    assert (search.population, search.epochs, search.seed, search.models) == (16, 30, 0, 5)
    assert search.scorer == Scorer("udr", 1_000, 5, 0)
    assert search.rule == Rule(0.2, (2.0, 1.2, 0.8, 0.5), 1)
    assert (search.converged_within, search.converged_epochs) == (0.005, 6)
    assert search.epoch_images == 10_000  # more than the 24 images of the data
    assert search.evolved == {
        "beta": SearchDimension(1, 60),
        "learning_rate": SearchDimension(1e-4, 3e-3),
        "batch_size": SearchDimension(32, 256, (32, 64, 128, 256), keeps_to_list=True, whole=True),
    }
    assert search.plan.members[0].objective == "beta_tcvae"
    assert len(dataset) == 24
    assert search.trained_models == 80


def test_with_labels_an_individual_is_one_model_and_no_epoch_is_spared():
    search, _ = small_search(score="mig")
    assert search.scorer == Scorer("mig", 50_000, 1, 0)
    assert search.converged_within == 0.0
    search, _ = small_search(score="mig", labels=np.int64(12), models=np.int64(3), seed=7)
    assert search.scorer == Scorer("mig", 12, 3, 7)
    assert search.converged_within == 0.0, (
        "convergence is the rule of searches without labels, however many models there are"
    )


def test_with_labels_the_usual_population_is_the_published_one():
    search, _ = make_search("sprites", data_options=SPRITES, network="mlp", score="mig")
    assert (search.population, search.epochs, search.rule.first_factor, search.trained_models) == (
        28,
        26,
        2,
        56,
    )
    search, _ = make_search(
        "sprites",
        data_options=SPRITES,
        network="mlp",
        score="mig",
        population=6,
        epochs=4,
        first_factor=1,
    )
    assert (search.population, search.epochs, search.rule.first_factor) == (6, 4, 1)


def test_an_epoch_is_a_pass_over_the_data_where_that_is_longer():
    search, dataset = make_search(
        "sprites", data_options={"x": 40, "y": 30, "scale": 9, "image_size": 16}, network="mlp"
    )
    assert search.epoch_images == len(dataset) == 10_800


def test_single_values_do_not_evolve():
    search, _ = small_search(hyper={"beta": 4}, learning_rate=1e-3, batch_size=16)
    assert search.evolved == {}
    assert search.settings({}) == {"learning_rate": 1e-3, "batch_size": 16, "beta": 4.0}
    search, _ = small_search(
        hyper={"beta": 4}, learning_rate="linear(1e-3, 1e-4, 50)", batch_size="8,16"
    )
    assert list(search.evolved) == ["batch_size"]
    assert search.members(0, {"batch_size": 8}, 0)[0].learning_rate == "linear(0.001, 0.0001, 50)"
    assert search.batch_size({"batch_size": 8}) == 8


def test_lists_in_a_made_objective_evolve_and_the_rest_stays():
    search, _ = small_search(
        "sprites", ub.AnnealedVAE(max_capacity=[5, 25], gamma=7.0, ramp="cyclic"), hyper=None
    )
    assert list(search.evolved) == ["max_capacity", "learning_rate", "batch_size"]
    (member,) = search.members(
        0, {"max_capacity": 25.0, "learning_rate": 1e-3, "batch_size": 8}, 0
    )[:1]
    assert member.hyper["max_capacity"] == 25.0
    assert (member.hyper["gamma"], member.hyper["ramp"]) == (7.0, "cyclic")


def test_published_ranges_can_be_asked_for():
    search, _ = small_search(
        hyper={"beta": "published"}, learning_rate="published", batch_size="published"
    )
    assert search.evolved["beta"].low == 1
    assert math.isinf(search.evolved["beta"].high)
    assert len(search.evolved["learning_rate"].listed) == 30
    assert search.plan.batch_size == 1024
    again = SearchPlan.from_record(json.loads(json.dumps(search.record())))
    assert again == search


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_every_objective_can_be_searched_and_its_strength_evolves(name: str):
    search, _ = small_search("sprites", name, hyper=None, score="mig")
    strength = OBJECTIVES.load(name).strength
    assert list(search.evolved) == [
        *([strength] if strength else []),
        "learning_rate",
        "batch_size",
    ]
    for individual in search.first():
        for member in search.members(0, individual.values, 0):
            assert member.build().key == name


def test_a_search_survives_its_record():
    search, _ = small_search(
        score="udr:method=spearman",
        models=3,
        first_factor=2,
        factors=[3, 0.5],
        share=0,
        converged_within=0.1,
        seed=5,
    )
    record = json.loads(json.dumps(search.record()))
    again = SearchPlan.from_record(record)
    assert again == search
    assert digest(again.record()) == digest(record)
    assert again.first() == search.first()
    for changed in (
        replace(search, population=6),
        replace(search, seed=6),
        replace(search, rule=replace(search.rule, share=0.2)),
        replace(search, scorer=replace(search.scorer, models=4)),
        replace(search, evolved={**search.evolved, "beta": SearchDimension(1, 5)}),
    ):
        assert digest(changed.record()) != digest(record)


def test_searches_of_another_format_are_refused():
    record = {**small_search()[0].record(), "format": 9}
    with pytest.raises(InputError) as caught:
        SearchPlan.from_record(record)
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule, problem.value) == ("format", f"must be {FORMAT}", 9)


def test_models_of_a_group_differ_in_their_seeds_alone_and_keep_them_by_place():
    search, _ = small_search(score="udr", models=3)
    values = {"beta": 2.0, "learning_rate": 2e-3, "batch_size": 8}
    members = search.members(1, values, 0)
    assert [member.id for member in members] == [0, 1, 2]
    assert [member.hyper for member in members] == [{"beta": 2.0}] * 3
    assert [member.learning_rate for member in members] == [2e-3] * 3
    everyone = [member.seed for place in range(5) for member in search.members(place, values, 0)]
    assert len(set(everyone)) == 15
    later = [member.seed for place in range(5) for member in search.members(place, values, 1)]
    assert not set(later) & set(everyone), "a copy must not repeat the batches of what it copies"
    assert later == [epoch_seed(seed, 1) for seed in everyone]
    other, _ = small_search(score="udr", models=3, seed=1)
    assert not {
        member.seed for place in range(5) for member in other.members(place, values, 0)
    } & set(everyone)


def test_the_first_epoch_has_the_individuals_that_were_asked_for():
    search, _ = small_search(score="mig", first_factor=2)
    first = search.first()
    assert len(first) == 10 == search.trained_models
    assert all(individual.parent == -1 and not individual.copied for individual in first)
    assert all(
        1 <= individual.values["beta"] <= 4 and individual.values["batch_size"] in (8, 16)
        for individual in first
    )
    models = search.generation_models(first, 0)
    assert [model.batch_size for model in models] == [
        individual.values["batch_size"] for individual in first
    ]


@pytest.mark.parametrize("score", ["mig", "dci", "udr"])
def test_a_score_can_look_at_fewer_images(score):
    search, dataset = small_search(score=score, points=12)
    assert len(search.scorer.sample(dataset)) == 12
    assert SearchPlan.from_record(json.loads(json.dumps(search.record()))) == search
