# SPDX-License-Identifier: Apache-2.0
"""Scoring while others train: numbers as afterwards, and whatever fails is left to then."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import unbraid as ub
from unbraid.codes.codes import CodeStore
from unbraid.commands.run import Run, open_run
from unbraid.core.errors import UnbraidError
from unbraid.population import devices
from unbraid.scoring import while_training
from unbraid.scoring.collapse import ACTIVE
from unbraid.scoring.run_scores import score_run
from unbraid.scoring.score_table import stored_scores
from unbraid.scoring.while_training import ScoringWhileTraining

from .conftest import SETTINGS, SPRITES

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two models, encoded and not scored."""
    out = tmp_path_factory.mktemp("scoring") / "run"
    return ub.train("sprites", "vae", data_options=SPRITES, seeds=2, out=out, **SETTINGS)


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    """The same before it was encoded."""
    shutil.copytree(trained.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "codes")
    return open_run(tmp_path / "run", device="cpu")


def numbers(table: Any) -> list[tuple[Any, ...]]:
    columns = ["member", "metric", "representation", "quantity", "value", "revision"]
    return sorted(table[columns].itertuples(index=False, name=None))


def test_numbers_are_those_of_scoring_afterwards(run: Run, trained: Run, tmp_path: Path):
    names = ["mig", "dci", "udr"]
    scoring = ScoringWhileTraining(run.folder, names, CPU)
    for chunk in run.folder.chunks():
        scoring.chunk_done(chunk)
    scoring.finish()
    found = stored_scores(run.folder)
    assert set(found["metric"]) == {"mig", "dci", ACTIVE}  # udr waits for all models
    shutil.copytree(trained.path, tmp_path / "later")
    later = open_run(tmp_path / "later", device="cpu")
    found = found[found["metric"] != ACTIVE]
    assert numbers(found) == numbers(score_run(later.folder, ["mig", "dci"]))
    assert set(score_run(run.folder, names)["metric"]) == set(names)


def test_only_the_chunk_that_is_done_is_encoded_and_scored(run: Run):
    first, second = run.folder.chunks()
    scoring = ScoringWhileTraining(run.folder, ["mig"], CPU)
    scoring.chunk_done(first)
    scoring.finish()
    assert CodeStore(run.folder).missing() == list(second)
    assert set(stored_scores(run.folder)["member"]) == {first[0].id}


def test_a_diverged_member_has_no_score(run: Run, monkeypatch: pytest.MonkeyPatch):
    real = run.folder.trained

    def one_diverged(chunk):
        state = real(chunk)
        state.diverged_at[:] = 3 if chunk[0].id == 0 else -1
        return state

    monkeypatch.setattr(run.folder, "trained", one_diverged)
    scoring = ScoringWhileTraining(run.folder, ["mig"], CPU)
    for chunk in run.folder.chunks():
        scoring.chunk_done(chunk)
    scoring.finish()
    assert set(stored_scores(run.folder)["member"]) == {1}


def test_what_fails_is_left_to_later(run: Run, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def encode(*given, **options):
        calls.append(options["chunk"])
        raise UnbraidError("no memory")

    monkeypatch.setattr(while_training.CodeStore, "encode", encode)
    scoring = ScoringWhileTraining(run.folder, ["mig"], CPU)
    for chunk in run.folder.chunks():
        scoring.chunk_done(chunk)
    scoring.finish()
    assert calls == run.folder.chunks()
    assert not len(stored_scores(run.folder))


def test_stopped_it_leaves_what_is_queued(run: Run, monkeypatch: pytest.MonkeyPatch):
    scored, ended, begun = [], [], threading.Event()

    def score(folder, names, kinds, members, progress, warn, device, errors):
        scored.append(members)
        begun.set()
        try:
            while True:
                progress(1, False)
        finally:
            ended.append(members)

    monkeypatch.setattr(while_training, "score_members", score)
    scoring = ScoringWhileTraining(run.folder, ["mig"], CPU)
    for chunk in run.folder.chunks():
        scoring.chunk_done(chunk)
    assert begun.wait(60)
    scoring.stop()
    assert scored == ended == [[0]]


def test_a_cpu_has_no_cores_to_spare():
    assert not ScoringWhileTraining.pays(CPU)


@pytest.mark.gpu
def test_numbers_are_the_same_beside_training_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scored: list[list[int]] = []
    real = while_training.score_members

    def score(run, names, kinds, members, *rest):
        real(run, names, kinds, members, *rest)
        scored.append(list(members))

    monkeypatch.setattr(devices, "chunk_size", lambda *given: 2)  # the rest trains meanwhile
    monkeypatch.setattr(while_training, "score_members", score)
    monkeypatch.setattr(ScoringWhileTraining, "pays", staticmethod(lambda device: True))
    size = {"x": 16, "y": 16}
    run = ub.train(
        "sprites",
        ub.BetaVAE(beta=[1, 4]),
        data_options=size,
        seeds=3,
        steps=600,
        out=tmp_path / "run",
        device="cuda",
        quiet=True,
        score="usual",
    )
    assert sorted(scored) == [[0, 1], [2, 3], [4, 5]]
    later = shutil.copytree(run.path, tmp_path / "later")
    shutil.rmtree(later / "codes")
    (later / "scores.parquet").unlink()
    again = open_run(later, device="cuda")
    again.score("usual", quiet=True)
    assert numbers(stored_scores(run.folder)) == numbers(stored_scores(again.folder))
