# SPDX-License-Identifier: Apache-2.0
"""How long a slice takes: by those most like it on the same device, else by a guess."""

from __future__ import annotations

import pytest
import torch

from unbraid.population.devices import device_name
from unbraid.studies import pace
from unbraid.studies.pace import Pace
from unbraid.studies.results import Results

from .test_results import rows

CPU = torch.device("cpu")


def wrote(results: Results, place: int, training: float, scoring: float, device: str = "") -> None:
    pool, one = results.slices()[place]
    told = {"device": device or device_name(CPU), "models": 2, "model_steps": 40}
    told |= {"training_seconds": training, "scoring_seconds": scoring}
    results.write(pool, one, rows(pool.name, one.name), told)


def test_a_slice_takes_what_its_like_took(results: Results):
    wrote(results, 0, 80.0, 6.0)
    second = results.slices()[1]
    found = Pace(results, CPU)
    assert found.training(*second) == pytest.approx(80.0)
    assert found.training(*second, steps_done=30) == pytest.approx(20.0)
    assert found.scoring(*second) == pytest.approx(6.0)


def test_those_of_its_pool_count_before_others(results: Results):
    wrote(results, 2, 8.0, 3.0)
    staged = Pace(results, CPU)
    assert staged.training(*results.slices()[1]) == pytest.approx(8.0)
    assert staged.scoring(*results.slices()[1]) == pytest.approx(1.0)  # three stages were scored
    wrote(results, 0, 80.0, 6.0)
    assert Pace(results, CPU).training(*results.slices()[1]) == pytest.approx(80.0)


def test_another_device_says_nothing(results: Results, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pace, "cores", lambda: 2)
    wrote(results, 0, 80.0, 6.0, "another machine")
    found = Pace(results, CPU)
    assert found.training(*results.slices()[1]) == pytest.approx(40 / 20)
    assert found.scoring(*results.slices()[1]) == pytest.approx(10.0)
