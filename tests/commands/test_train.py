# SPDX-License-Identifier: Apache-2.0
"""The Python door: train, open, score, compare, take the best."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.commands.train import Run, open_run
from unbraid.core.errors import InputError, UnbraidError
from unbraid.core.store import write_table
from unbraid.objectives import OBJECTIVES
from unbraid.population.train import Outcome
from unbraid.scoring.run_scores import stored_scores

SPRITES = {"x": 6, "y": 4, "scale": 2, "image_size": 28}


def small_train(out: Path | None, objective: Any = "beta_vae", **options: Any) -> Run:
    usual: dict[str, Any] = {
        "data_options": SPRITES,
        "network": "mlp",
        "network_options": {"hidden": 16},
        "latents": 3,
        "batch_size": 8,
        "steps": 20,
        "learning_rate": 1e-3,
        "quiet": True,
        "device": "cpu",
    }
    return ub.train("sprites", objective, out=out, **{**usual, **options})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_train(tmp_path_factory.mktemp("run") / "run", ub.BetaVAE(beta=[1, 4]), seeds=2)


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    shutil.copytree(trained.path, tmp_path / "run")
    return open_run(tmp_path / "run", device="cpu")


def refused(make) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


def test_every_public_name_resolves():
    public = {
        "train",
        "open_run",
        "Run",
        "Model",
        "load",
        "DATA",
        "OBJECTIVES",
        "FactorGrid",
        "InputError",
        "UnbraidError",
    }
    packages = {"metrics", "testing", "studies", "report", "codes", "population", "networks"}
    assert public | packages <= set(dir(ub))
    for name in dir(ub):
        getattr(ub, name)
    for name in packages:
        assert getattr(ub, name) is importlib.import_module(f"unbraid.{name}")
    assert ub.train is importlib.import_module("unbraid.commands.train").train
    assert ub.load("sprites", **SPRITES).labelled
    for key in OBJECTIVES:
        cls = OBJECTIVES.load(key)
        assert getattr(ub, cls.__name__) is cls
    assert callable(ub.metrics.mig)
    with pytest.raises(AttributeError, match=r"^module 'unbraid' has no attribute 'BetterVAE'$"):
        _ = ub.BetterVAE


def test_the_version_is_the_packages():
    from importlib.metadata import version

    assert ub.__version__ == version("unbraid")


def test_scores_are_one_row_a_member_beside_its_hyper_parameters(run: Run):
    table = run.score(["sap", "mig"], quiet=True)
    assert table.index.names == ["member", "objective"]
    assert table.index.tolist() == [(member, "beta_vae") for member in range(4)]
    assert list(table.columns) == ["seed", "learning_rate", "beta", "sap", "mig"]
    assert table["beta"].tolist() == [1, 1, 4, 4]
    assert table["seed"].tolist() == [0, 1, 0, 1]
    stored = (
        stored_scores(run.folder)
        .query("quantity == 'score' and metric == 'mig'")
        .sort_values("member")
    )
    assert table["mig"].tolist() == stored["value"].tolist()
    means = table.groupby("beta").mean()
    assert means.index.tolist() == [1.0, 4.0]
    assert means.loc[4.0, "mig"] == pytest.approx(table["mig"].iloc[2:].mean())
    assert run.score("mig", quiet=True)["mig"].tolist() == table["mig"].tolist()


def test_several_representations_are_in_the_index(run: Run):
    table = run.score("mig", representation=["mean", "sampled"], quiet=True)
    assert table.index.names == ["member", "objective", "representation"]
    assert len(table) == 8
    assert list(table.columns) == ["seed", "learning_rate", "beta", "mig"]
    assert (
        table.xs("mean", level="representation")["mig"]
        != table.xs("sampled", level="representation")["mig"]
    ).any()


def test_best_is_the_highest(run: Run):
    table = run.score("mig", quiet=True)
    assert run.best("mig").member.id == table["mig"].argmax()
    stored = stored_scores(run.folder)
    for winner in (3, 1):
        stored["value"] = np.where(stored["member"] == winner, 0.9, 0.1)
        write_table(run.path / "scores.parquet", stored)
        assert run.best("mig").member.id == winner
    assert refused(lambda: run.best("all")) == "metric must be a single one; got 'all'."
    assert refused(lambda: run.best("mgi")).startswith(
        "metric 'mgi' is unknown; did you mean 'mig'?"
    )


def test_a_new_run_takes_the_next_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "sprites-vae-1").mkdir(parents=True)
    run = small_train(None, "vae", steps=2)
    assert run.path == Path("runs/sprites-vae-2")
    assert open_run(run.path).members["status"].tolist() == ["trained"]


def test_resuming_a_finished_run_changes_no_file(run: Run):
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    before = contents()
    assert run.resume(quiet=True) is run
    after = contents()
    before.setdefault(str(run.path / ".lock"), b"")
    assert after == before


def test_an_unfinished_run_is_neither_scored_nor_reported(run: Run):
    for path in [
        *(run.path / "checkpoint").glob("*step-000000020*"),
        run.path / "members.parquet",
        run.path / "history.parquet",
    ]:
        path.unlink()
    message = (
        f"run must be trained to the end; got {run.path}, unfinished. Go on with: unbraid resume"
        f" {run.path}"
    )
    again = open_run(run.path, device="cpu")
    assert refused(lambda: again.score("mig", quiet=True)) == message
    assert refused(again.report) == message
    again.resume(quiet=True)
    assert len(again.score("mig", quiet=True)) == 4


def test_a_stopped_run_says_how_to_go_on(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unbraid.commands.train.train_run", lambda *given: Outcome(False, ()))
    with pytest.raises(UnbraidError) as caught:
        run.resume(quiet=True)
    assert (
        str(caught.value)
        == f"stopped; everything so far is in {run.path}. Go on with: unbraid resume {run.path}"
    )


def test_diverged_members_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    small_train(tmp_path / "run", learning_rate=[1e-3, 1e30], quiet=False)
    lines = capsys.readouterr().err.splitlines()
    assert "1 of 2 members diverged and were frozen: 1." in lines


def test_history_has_the_recorded_curves(run: Run):
    history = run.history
    assert set(history["member"]) == {0, 1, 2, 3}
    assert history["step"].max() == 20
    assert {"reconstruction", "kl", "loss"} <= set(history.columns)


def test_networks_of_convolutions_train_and_encode(tmp_path: Path):
    run = small_train(
        tmp_path / "run", "vae", network="conv_burgess", network_options={}, steps=2, batch_size=4
    )
    assert run.model(0).encode(run.dataset.images([0, 1])).shape == (2, 3)


def test_nothing_is_written_for_a_refused_plan(tmp_path: Path):
    assert (
        refused(lambda: small_train(tmp_path / "run", steps=0))
        == "steps must be a whole number of at least 1; got 0."
    )
    assert list(tmp_path.iterdir()) == []


def test_the_device_is_checked_first(tmp_path: Path):
    message = "device must be auto, cpu, cuda or cuda:NUMBER; got 'tpu'."
    assert refused(lambda: small_train(tmp_path / "run", device="tpu")) == message
    small_train(tmp_path / "run", steps=2)
    assert refused(lambda: open_run(tmp_path / "run", device="tpu")) == message
    assert open_run(tmp_path / "run", device="cpu").device == torch.device("cpu")
