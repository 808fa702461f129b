# SPDX-License-Identifier: Apache-2.0
"""How long a search will take, before it starts."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
import torch

from unbraid.core.errors import UnbraidError
from unbraid.search.pbt import forecast
from unbraid.search.pbt.forecast import Pace, at_most, seconds, trial
from unbraid.search.pbt.generation import Generation
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu import forecast as of_recursion
from unbraid.search.rpu.plan import make_recursion

from .test_plan import TINY, small_search

CPU = torch.device("cpu")


def test_all_epochs_of_all_individuals_count():
    search, _ = small_search(population=6, epochs=4, first_factor=2)
    assert seconds(search, Pace(1.0, 0.5)) == (12 + 3 * 6) * 1.5


@pytest.mark.parametrize("options", [{"score": "mig"}, {"score": "udr", "models": 2}])
def test_a_trial_measures_training_and_scoring_of_every_batch_size(options, tmp_path, monkeypatch):
    search, dataset = small_search(population=6, epoch_images=128, **options)
    sizes, ended = [], Generation.train

    def train(self, *given):
        sizes.append(self.chunks[0].program.plan.batch_size)
        return ended(self, *given)

    monkeypatch.setattr(Generation, "train", train)
    pace = trial(search, dataset, CPU, tmp_path)
    assert {*sizes} == {search.batch_size(one.values) for one in search.first()} == {8, 16}
    assert pace.training > 0
    assert pace.scoring > 0


def test_an_epoch_of_more_images_takes_longer_in_proportion(tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "_rate", lambda generation, most: 1000.0)
    monkeypatch.setattr(forecast, "_scoring_seconds", lambda *_: 0.0)
    search, dataset = small_search(score="mig", epoch_images=640, population=5, epochs=3)
    one = 0.64  # 640 images of one model
    assert at_most(search, dataset, CPU, tmp_path) == pytest.approx(one * 5 * (2 + 2))


def test_what_cannot_be_tried_is_unknown(tmp_path, monkeypatch):
    def full(*_):
        raise UnbraidError("no memory")

    monkeypatch.setattr(forecast, "trial", full)
    search, dataset = small_search(score="mig")
    assert math.isnan(at_most(search, dataset, CPU, tmp_path))


def test_a_recursion_counts_every_stage(monkeypatch):
    tiny = {name: value for name, value in TINY.items() if name != "epochs"}
    options = tiny | {"epochs": 4, "models": 2, "population": 5, "leaf_images": 32}
    plan, dataset = make_recursion("sprites", "beta_vae", **options, every_final=True, leaf_runs=2)
    told = iter([Pace(2.0, 1.0), Pace(0.5, 0.5)])
    monkeypatch.setattr(of_recursion, "trial", lambda *_: next(told))
    root, leaf = 20 * 3.0, 20 * (2.0 * 32 / 64 + 1.0)
    final = 5 * (2 + 3) * 1.0
    assert of_recursion.at_most(plan, dataset, CPU) == root + 2 * 2 * leaf + 3 * final


@pytest.mark.slow
def test_a_search_keeps_to_what_was_told(tmp_path: Path):
    """Loosely: this machine may have other work. On a quiet one it is within a fifth."""
    options = {"score": "mig", "epoch_images": 3_000, "epochs": 4, "population": 6}
    search, dataset = small_search(network_options={"hidden": 256}, **options)
    told = at_most(search, dataset, CPU, tmp_path)
    began = time.monotonic()
    SearchRun.create(tmp_path / "run", search, dataset).train(CPU)
    assert 0.4 < (time.monotonic() - began) / told < 2.5
