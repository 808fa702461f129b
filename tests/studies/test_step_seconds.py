# SPDX-License-Identifier: Apache-2.0
"""What a training step takes follows from what is trained, and is tried once of each kind."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import unbraid as ub
from unbraid.data import load
from unbraid.objectives.priors import anisotropic
from unbraid.population.devices import usual_precision
from unbraid.studies import step_seconds
from unbraid.studies.pool import Slice
from unbraid.studies.step_seconds import StepSeconds

from .toy_study import SMALL

DATA = load("sprites", **SMALL["data_options"])
ONE = Slice("one", SMALL | {"objective": "beta_vae", "steps": 10}, ("mig",))


def with_plan(**settings: object) -> Slice:
    return replace(ONE, plan={**ONE.plan, **settings})


def test_a_larger_network_takes_longer():
    large = with_plan(network_options={"hidden": 2000}, batch_size=256)
    assert StepSeconds().of(large, DATA) > 5 * StepSeconds().of(ONE, DATA)


def test_it_is_about_what_training_takes(tmp_path: Path):
    """Time of the processor, of which saving and recording take their part too."""
    given: dict[str, Any] = {name: value for name, value in ONE.plan.items() if name != "data"}
    began = time.process_time()
    ub.train("sprites", quiet=True, out=tmp_path / "run", **given | {"steps": 600})
    took = (time.process_time() - began) / 600
    assert took / 4 < StepSeconds().of(ONE, DATA) < 2 * took


def test_every_kind_is_tried_once(monkeypatch: pytest.MonkeyPatch):
    tried = []
    monkeypatch.setattr(
        step_seconds, "_timed", lambda plan, member, dataset: tried.append(member.objective) or 0.5
    )
    steps = StepSeconds()
    both = with_plan(objective=["beta_vae:beta=1,4", "factor_vae:gamma=10"], seeds=2)
    assert steps.of(both, DATA) == 0.5
    assert tried == ["beta_vae", "factor_vae"]
    assert steps.of(ONE, DATA) == 0.5
    assert len(tried) == 2


def test_a_mixed_slice_takes_the_mean_of_its_members(monkeypatch: pytest.MonkeyPatch):
    seconds = {"beta_vae": 0.1, "factor_vae": 0.4}
    monkeypatch.setattr(
        step_seconds, "_timed", lambda plan, member, dataset: seconds[member.objective]
    )
    both = with_plan(objective=["beta_vae:beta=1,4", "factor_vae:gamma=10"])
    assert StepSeconds().of(both, DATA) == pytest.approx((2 * 0.1 + 0.4) / 3)


def test_nothing_is_computed_of_all_samples_and_steps_are_those_of_a_cpu(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(anisotropic, "principal_variances", lambda *_: pytest.fail("of all data"))
    asked = []
    monkeypatch.setattr(
        step_seconds, "_timed", lambda plan, *_: asked.append((plan.precision, plan.members)) or 0.5
    )
    steps = StepSeconds()
    assert steps.of(with_plan(prior=["pca", "pca_learned", "isotropic"]), DATA) == 0.5
    assert {precision for precision, _ in asked} == {usual_precision(torch.device("cpu"))}
    assert [one.prior for one in asked[0][1]] == ["anisotropic", "anisotropic", "isotropic"]
    assert steps.of(with_plan(precision="float32", latents=4), DATA) == 0.5
    assert asked[-1][0] == "float32"


def test_trials_end_soon_and_read_no_data(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(DATA), "fingerprint", lambda data: pytest.fail("all of it is read"))
    monkeypatch.setattr(step_seconds, "_MOST_SECONDS", 0.0)
    steps = StepSeconds()
    first = steps.of(ONE, DATA)
    assert first > 0
    threads = torch.get_num_threads()
    began = time.thread_time()
    assert steps.of(with_plan(latents=7, standardise=True), DATA) == first
    assert time.thread_time() - began < 1
    assert torch.get_num_threads() == threads
