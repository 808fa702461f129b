# SPDX-License-Identifier: Apache-2.0
"""A slice is defined by what its numbers follow from, however it is spelled."""

from __future__ import annotations

from dataclasses import replace

import pytest

import unbraid as ub
from unbraid.analysis.distances import learnt
from unbraid.population import defaults
from unbraid.scoring import metric_names
from unbraid.studies import definition as definitions
from unbraid.studies.definition import definition, model_steps, models
from unbraid.studies.pool import Slice

ONE = Slice("one", {"data": "sprites", "objective": "beta_vae:beta=1,4", "seeds": 3}, ("mig",))


def with_plan(**settings: object) -> Slice:
    return replace(ONE, plan={**ONE.plan, **settings})


@pytest.mark.parametrize(
    "same",
    [
        with_plan(objective=ub.BetaVAE(beta=[1, 4])),
        with_plan(objective=["beta_vae:beta=1", "beta_vae:beta=4"]),
        with_plan(objective="beta_vae", hyper={"beta": [1, 4]}),
        with_plan(seeds=[0, 1, 2]),
        with_plan(steps=defaults.STEPS, network="conv_burgess", learning_rate=1e-4),
        with_plan(checkpoint_seconds=5.0, log_every=7),
        replace(ONE, name="another"),
    ],
)
def test_the_spelling_does_not_count(same: Slice):
    assert definition(same) == definition(ONE)


@pytest.mark.parametrize(
    ("other", "key"),
    [
        (with_plan(seeds=[1, 2, 3]), "seeds"),
        (with_plan(steps=10), "steps"),
        (with_plan(objective="beta_vae:beta=1,5"), "objective"),
        (with_plan(data="dsprites"), "data"),
        (with_plan(data_options={"x": 4}), "data_options"),
        (with_plan(precision="float32"), "precision"),
        (replace(ONE, metrics=("mig", "sap")), "metrics"),
        (replace(ONE, stages=(5,)), "stages"),
        (replace(ONE, latents=True), "by_latent"),
    ],
)
def test_what_numbers_follow_from_counts(other: Slice, key: str):
    ours, theirs = definition(ONE), definition(other)
    assert [name for name in ours if ours[name] != theirs[name]] == [key]


@pytest.mark.parametrize(
    ("other", "key", "value"),
    [
        (replace(ONE, measures=("distances",)), "measures", {"distances": learnt.REVISION}),
        (replace(ONE, settings=("x",)), "settings", ["x"]),
        (with_plan(initialisation="xavier_normal"), "initialisation", "xavier_normal"),
    ],
)
def test_what_came_later_is_told_where_it_is_used(other: Slice, key: str, value: object):
    """So that tables made before keep their definition."""
    ours, theirs = definition(ONE), definition(other)
    assert key not in ours
    assert theirs == {**ours, key: value}


def test_sampled_metrics_are_measured_of_means_too():
    found = definition(replace(ONE, sampled=("total_correlation",)))
    assert list(found["metrics"]) == ["mig", "total_correlation"]
    assert found["sampled"] == ["total_correlation"]


def test_a_new_revision_of_a_metric_is_another_definition(monkeypatch: pytest.MonkeyPatch):
    before = definition(ONE)
    assert before["metrics"] == {"mig": metric_names.revision("mig")}
    monkeypatch.setattr(definitions, "revision", lambda name: 99)
    assert definition(ONE)["metrics"] == {"mig": 99}


def test_models_are_counted_without_training():
    both = with_plan(learning_rate=[1e-4, 1e-3], steps=10)
    assert (models(definition(both)), model_steps(definition(both))) == (12, 120)


def test_the_data_need_not_be_there():
    assert definition(with_plan(data="cars3d"))["data"] == "cars3d"


def test_all_mistakes_are_told_at_once(refused):
    wrong = replace(with_plan(stepz=3, objective="beta_vea", seeds=0), metrics=("mgi",))
    names = [name for name, _, _ in refused(definition, wrong)]
    assert names == ["setting of slice one", "objective", "seeds", "metric"]
