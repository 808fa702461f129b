# SPDX-License-Identifier: Apache-2.0
"""How long a slice takes: by those like it on the same device, else by its steps and scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from unbraid.population.devices import device_name
from unbraid.studies.data_at_hand import DataAtHand
from unbraid.studies.pace import Pace
from unbraid.studies.results import Results
from unbraid.studies.step_seconds import StepSeconds

from .test_results import rows

CPU = torch.device("cpu")


def wrote(results: Results, place: int, training: float, scoring: float, device: str = "") -> None:
    pool, one = results.slices()[place]
    told = {"device": device or device_name(CPU), "models": 2, "model_steps": 40}
    told |= {"training_seconds": training, "scoring_seconds": scoring}
    results.write(pool, one, rows(pool.name, one.name), told)


def pace(results: Results, tmp_path: Path, device: torch.device = CPU) -> Pace:
    return Pace(results, device, DataAtHand(results, tmp_path))


def test_a_slice_takes_what_its_like_took(results: Results, tmp_path: Path):
    wrote(results, 0, 80.0, 6.0)
    second = results.slices()[1]
    found = pace(results, tmp_path)
    assert found.training(*second) == pytest.approx(80.0)
    assert found.training(*second, steps_done=30) == pytest.approx(20.0)
    assert found.scoring(*second) == pytest.approx(6.0)


def test_other_networks_and_objectives_say_nothing_on_a_cpu(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(StepSeconds, "of", lambda steps, one, dataset: 0.5)
    monkeypatch.setattr("unbraid.studies.pace.cores", lambda: 2)
    wrote(results, 2, 8.0, 3.0)
    assert pace(results, tmp_path).training(*results.slices()[0]) == pytest.approx(40 * 0.5 / 2)
    wrote(results, 0, 80.0, 6.0, "another machine")
    assert pace(results, tmp_path).training(*results.slices()[1]) == pytest.approx(40 * 0.5 / 2)


def test_data_that_are_not_here_are_guessed(results: Results, tmp_path: Path):
    pool, cars = results.slices()[3]
    assert pool.needs
    found = pace(results, tmp_path)
    assert found.training(pool, cars) > 0
    assert found.scoring(pool, cars) > 0


def test_scores_take_longer_with_boosted_trees(results: Results, tmp_path: Path):
    pool, one = results.slices()[0]
    found = pace(results, tmp_path)
    more = found.scoring(pool, replace(one, metrics=("dci",)))
    assert more > found.scoring(pool, one) > 0
