# SPDX-License-Identifier: Apache-2.0
"""`train`: sweeps, spellings and options, what is refused, and what a run can be asked."""

from __future__ import annotations

import dataclasses
import importlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import unbraid as ub
from unbraid.codes.codes import CodeStore
from unbraid.commands.run import Run, open_run
from unbraid.commands.score import shown as score_text
from unbraid.core.errors import InputError, StoppedError, UnbraidError
from unbraid.core.files import only_one
from unbraid.core.store import write_table
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS
from unbraid.population import new_folder
from unbraid.population import train as train_module
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import Outcome
from unbraid.scoring.score_table import stored_scores
from unbraid.scoring.while_training import ScoringWhileTraining

from .conftest import DATA, SMALL, SPRITES, WORDS, words_with

ACTIVITY = ("active_latents", "collapsed")


def small_train(out: Path | None, objective: Any = "beta_vae", **options: Any) -> Run:
    return ub.train("sprites", objective, out=out, **{**SMALL, **options})


@pytest.fixture
def opened(run: Path) -> Run:
    return open_run(run, device="cpu")


def test_every_public_name_resolves():
    public = {"train", "open_run", "Run", "Model", "load", "DATA", "OBJECTIVES", "FactorGrid"}
    packages = {"metrics", "testing", "studies", "codes", "population", "networks"}
    assert public | packages <= set(dir(ub))
    for name in dir(ub):
        getattr(ub, name)
    for name in packages:
        assert getattr(ub, name) is importlib.import_module(f"unbraid.{name}")
    assert ub.load("sprites", **SPRITES).labelled
    for registry in (OBJECTIVES, PRIORS):
        for key in registry:
            cls = registry.load(key)
            assert getattr(ub, cls.__name__) is cls
    assert callable(ub.metrics.mig)
    with pytest.raises(AttributeError, match=r"^module 'unbraid' has no attribute 'BetterVAE'$"):
        _ = ub.BetterVAE


def test_the_version_is_the_packages():
    from importlib.metadata import version

    assert ub.__version__ == version("unbraid")


def test_options_go_with_their_objective_in_python_and_on_the_command_line(unbraid, tmp_path):
    spelled = ["vae", "beta_vae:beta=1,linear(0, 4, 5)", "beta_tcvae:beta=10,20"]
    built = [ub.VAE(), ub.BetaVAE(beta=[1, ub.linear(0, 4, 5)]), ub.BetaTCVAE(beta=[10, 20])]
    small = {**SMALL, "steps": 2, "batch_size": 4}
    plans = [
        small_train(tmp_path / f"{number}", objective, **small).folder.plan
        for number, objective in enumerate((built, spelled, ",".join(spelled)))
    ]
    words = (*words_with(steps=2, batch_size=4), "--out", str(tmp_path / "cli"))
    assert unbraid("train", DATA, *spelled, *words, "--learning-rate", "1e-3").code == 0
    plans.append(open_run(tmp_path / "cli").folder.plan)
    wanted = [
        ("vae", {}),
        ("beta_vae", {"beta": 1.0}),
        ("beta_vae", {"beta": "linear(0, 4, 5)"}),
        ("beta_tcvae", {"beta": 10.0}),
        ("beta_tcvae", {"beta": 20.0}),
    ]
    for plan in plans:
        assert [(one.objective, one.hyper) for one in plan.members] == wanted


def test_an_option_that_only_one_objective_has_may_be_a_flag(unbraid, tmp_path: Path):
    words = ("vae", "beta_tcvae", "--beta", "10,20", *words_with(steps=2, batch_size=4))
    assert unbraid("train", DATA, *words, "--out", str(tmp_path / "run")).code == 0
    plan = open_run(tmp_path / "run").folder.plan
    assert [one.hyper.get("beta") for one in plan.members] == [None, 10.0, 20.0]


def test_an_option_that_several_objectives_have_is_refused(unbraid, tmp_path, refused):
    (problem,) = refused(
        lambda: small_train(tmp_path / "run", ["factor_vae", "annealed_vae"], hyper={"gamma": 10})
    )
    assert (problem.name, problem.value) == ("gamma", 10)
    assert "belongs to factor_vae and to annealed_vae" in problem.rule
    assert problem.remedy == "Say it for each: factor_vae:gamma=10 annealed_vae:gamma=10"
    answer = unbraid("train", DATA, "beta_vae,beta_tcvae", "--beta", "1,4")
    assert answer.code == 2
    assert answer.err.startswith("unbraid: --beta belongs to beta_vae and to beta_tcvae, ")
    assert answer.err.endswith("Say it for each: beta_vae:beta=1,4 beta_tcvae:beta=1,4\n")
    assert not (tmp_path / "run").exists()


def test_an_option_is_given_once(tmp_path, refused):
    (problem,) = refused(
        lambda: small_train(tmp_path / "run", ["vae", "factor_vae:gamma=10"], hyper={"gamma": 5})
    )
    assert (problem.name, problem.value) == ("gamma", 5)


def test_the_objective_may_be_left_out_before_its_options(unbraid, tmp_path: Path):
    words = ("--beta", "1,4", *words_with(steps=2), "--out", str(tmp_path / "run"))
    assert unbraid("train", DATA, *words).code == 0
    plan = open_run(tmp_path / "run").folder.plan
    assert [member.hyper["beta"] for member in plan.members] == [1.0, 4.0]


def test_priors_schedules_and_conventions_from_the_shell(unbraid, tmp_path: Path):
    words = (
        *("--prior", "isotropic,sparse:gamma=0.5,spike=0.1", "--standardise"),
        *("--convention", "mean", "--seeds", "1", "--beta", "0.01,linear(0, 0.02, 5)"),
        *("--learning-rate", "cosine(1e-3, 0, 2),1e-4", "--likelihood", "laplace+box3"),
        *("--network", "mlp:hidden=8", "--steps", "2", "--batch-size", "4", "--latents", "2"),
    )
    answer = unbraid("train", DATA, "beta_vae", *words, "--out", str(tmp_path / "run"))
    assert answer.code == 0, answer.err
    plan = RunFolder.open(tmp_path / "run").plan
    found = [
        (one.given["beta"], one.prior, one.prior_hyper, one.learning_rate) for one in plan.members
    ]
    assert found == [
        (beta, prior, options, rate)
        for beta in (0.01, "linear(0, 0.02, 5)")
        for prior, options in (("isotropic", {}), ("sparse", {"gamma": 0.5, "spike": 0.1}))
        for rate in ("cosine(0.001, 0, 2)", 1e-4)
    ]
    assert plan.likelihood == "laplace+box3"
    assert set(plan.standardise) == {"mean", "std"}


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (("sprite:x=6", "vae"), "dataset 'sprite'", "did you mean 'sprites'?"),
        (("sprites:z=3", "vae"), "sprites option 'z'", "Known: channels, "),
        (("nowhere/at/all", "vae"), "data ", "got 'nowhere/at/all', which does not exist."),
        ((DATA, "beta_va"), "objective 'beta_va'", "did you mean 'beta_vae'?"),
        ((DATA, "beta_vae", "--betta", "4"), "option 'betta'", "did you mean 'beta'?"),
        ((DATA, "beta_vae", "--stepz", "4"), "option 'stepz'", "did you mean 'steps'?"),
        ((DATA, "beta_vae:betta=4"), "beta_vae option 'betta'", "did you mean 'beta'?"),
        ((DATA, "beta_vae", "--beta", "1,-4"), "beta_vae: beta ", "got -4."),
        ((DATA, "beta_vae", "--beta", "x"), "beta_vae: beta ", "got 'x'."),
        ((DATA, "beta_vae", "--beta", "linear(0, 4)"), "beta_vae: beta ", "got linear(0, 4), "),
        ((DATA, "vae", "--learning-rate", "cosine(0, 0, 9)"), "--learning-rate ", "got cosine(0, "),
        ((DATA, "vae", "--seeds", "2,2"), "--seeds ", "got [2, 2]."),
        ((DATA, "vae", "--steps", "soon"), "--steps ", "got 'soon'."),
        ((DATA, "vae", "--latents", "5,9"), "--latents ", "got '5,9'. Train a run for each."),
        ((DATA, "vae", "--network", "cnn"), "network 'cnn'", "Known: conv_"),
        ((DATA, "vae", "--prior", "sparse:gama=1"), "sparse option 'gama'", "mean 'gamma'?"),
        ((DATA, "vae", "--prior", ","), "--prior ", "got []."),
        ((DATA, "vae", "--convention", "median"), "--convention ", "got 'median'."),
        ((DATA, "vae", "--device", "tpu"), "--device ", "got 'tpu'."),
        ((DATA, "vae", "--where", ""), "--where ", "got ''."),
    ],
)
def test_a_bad_plan_is_one_message_and_nothing_written(
    unbraid, tmp_path: Path, monkeypatch, words: tuple[str, ...], name: str, value: str
):
    monkeypatch.chdir(tmp_path)
    answer = unbraid("train", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"unbraid: {name}")
    assert value in answer.err
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def with_a_text_file(folder: Path) -> str:
    (folder / "notes.txt").write_text("mine")
    return "got 'notes.txt'"


def with_mixed_sizes(folder: Path) -> str:
    Image.fromarray(np.zeros((32, 32), dtype=np.uint8)).save(folder / "13.png")
    return "'13.png' of 32x32 pixels"


def with_a_truncated_image(folder: Path) -> str:
    path = folder / "5.png"
    path.write_bytes(path.read_bytes()[:200])
    return "5.png must be a whole, readable image"


@pytest.mark.parametrize("spoil", [with_a_text_file, with_mixed_sizes, with_a_truncated_image])
def test_a_bad_folder_of_images_is_named(
    unbraid, image_folder: Path, tmp_path: Path, contents, spoil: Callable[[Path], str]
):
    message = spoil(image_folder)
    before = contents(tmp_path)
    answer = unbraid("train", str(image_folder), "vae", "--out", str(tmp_path / "run"), *WORDS)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert contents(tmp_path) == before


def test_a_bad_npz_is_named(unbraid, tmp_path: Path, contents):
    pixels = np.zeros((6, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "keys.npz", photos=pixels)
    np.savez(tmp_path / "short.npz", images=pixels, factors=np.arange(5))
    before = contents(tmp_path)
    out = ("vae", "--out", str(tmp_path / "run"), *WORDS)
    answer = unbraid("train", str(tmp_path / "keys.npz"), *out)
    assert answer.code == 2
    assert answer.err.startswith(f"unbraid: {tmp_path / 'keys.npz'} must hold 'images'; got the")
    answer = unbraid("train", str(tmp_path / "short.npz"), *out)
    assert answer.code == 2
    assert "; got 5 rows. " in answer.err
    assert contents(tmp_path) == before
    assert unbraid("train", f"{tmp_path / 'keys.npz'}:images=photos", *out).code == 0


def test_a_flipped_bit_in_the_directory_of_an_npz_is_one_message(tmp_path: Path):
    path = tmp_path / "bad.npz"
    np.savez(path, images=np.zeros((4, 28, 28), np.uint8))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02")] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"bad\.npz must be a complete"):
        ub.load(path)


def test_a_folder_with_another_run_is_left_alone(run: Path, contents, refused):
    before = contents(run)
    (problem,) = refused(lambda: small_train(run))
    assert (problem.name, problem.value) == ("out", str(run))
    assert f"unbraid resume {run}" in problem.remedy
    assert contents(run) == before


def test_a_disk_without_room_is_noticed_before_training(tmp_path: Path, monkeypatch, refused):
    usage = SimpleNamespace(free=2_000_000)
    monkeypatch.setattr(new_folder.shutil, "disk_usage", lambda path: usage)
    (problem,) = refused(lambda: small_train(tmp_path / "run", "vae", seeds=2))
    assert problem.name == "out"
    assert str(problem.value).startswith(f"0.002 GB free at {tmp_path}, 0.01")
    assert str(problem.value).endswith(" GB needed for 2 members")
    assert list(tmp_path.iterdir()) == []


def test_a_diverged_member_is_counted_and_named(unbraid, tmp_path: Path):
    words = ("--learning-rate", "1e-3,1e30", "--out", str(tmp_path / "run"), *WORDS)
    answer = unbraid("train", DATA, "vae", *words)
    assert answer.code == 0
    assert "1 of 2 members diverged and was frozen: 1." in answer.err.splitlines()
    assert answer.out.splitlines()[0] == f"Trained 1 of 2 models: {tmp_path / 'run'}"


def test_training_on_a_part_says_how_large_it_is(tmp_path: Path):
    run = small_train(tmp_path / "run", "vae", where="x < 3 and scale == 1")
    assert run.summary().startswith("Trained on 12 of 48 images: x < 3 and scale == 1\n")
    assert "12 of 48 images; scores are of all" in run.report().read_text()


def test_a_new_run_takes_the_next_free_folder(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "sprites-vae-1").mkdir(parents=True)
    run = small_train(None, "vae", steps=2)
    assert run.path == Path("runs/sprites-vae-2")
    assert open_run(run.path).members["status"].tolist() == ["trained"]


def test_a_plan_alone_is_made_and_trained_by_others(tmp_path: Path, unbraid):
    out = str(tmp_path / "run")
    answer = unbraid("train", DATA, "vae", *WORDS, "--processes", "2", "--no-begin", "--out", out)
    assert (answer.code, answer.out) == (0, f"Planned: {out}\nNext:  unbraid work {out}\n")
    run = open_run(out, device="cpu")
    assert run.members[["status", "steps"]].values.tolist() == [["unfinished", 0]]
    assert run.history.empty
    assert not run.failure
    assert unbraid("status", out).code == 0
    answer = unbraid("work", out, "--device", "cpu")
    assert answer.code == 0
    assert f"Nobody has trained {out} yet: it is planned for CPUs from now on." in answer.err
    assert open_run(out).members["status"].tolist() == ["trained"]


def test_networks_of_convolutions_train_and_encode(tmp_path: Path):
    small = {"network": "conv_burgess", "network_options": {}, "steps": 2, "batch_size": 4}
    run = small_train(tmp_path / "run", "vae", **small)
    assert run.model(0).encode(run.dataset.images([0, 1])).shape == (2, 3)


def test_the_device_is_checked_first(tmp_path: Path, run: Path, refused):
    (problem,) = refused(lambda: small_train(tmp_path / "new", device="tpu", steps=0))
    assert (problem.name, problem.value) == ("device", "tpu")
    (problem,) = refused(lambda: open_run(run, device="tpu"))
    assert (problem.name, problem.value) == ("device", "tpu")
    assert open_run(run, device="cpu").device == torch.device("cpu")
    assert not (tmp_path / "new").exists()


def test_scores_are_one_row_per_member_beside_its_hyperparameters(opened: Run):
    table = opened.score(["sap", "mig"], quiet=True)
    assert table.index.names == ["member", "objective"]
    assert table.index.tolist() == [(member, "beta_vae") for member in range(4)]
    scores = ["sap", "sap_se", "mig", "mig_se"]
    assert list(table.columns) == ["seed", "learning_rate", "beta", *ACTIVITY, *scores]
    assert table["beta"].tolist() == [1, 1, 4, 4]
    assert table["seed"].tolist() == [0, 1, 0, 1]
    stored = (
        stored_scores(opened.folder)
        .query("quantity == 'score' and metric == 'mig'")
        .sort_values("member")
    )
    assert table["mig"].tolist() == stored["value"].tolist()
    means = table.groupby("beta").mean()
    assert means.index.tolist() == [1.0, 4.0]
    assert means.loc[4.0, "mig"] == pytest.approx(table["mig"].iloc[2:].mean())
    assert opened.score("mig", quiet=True)["mig"].tolist() == table["mig"].tolist()


@pytest.mark.slow
def test_scores_asked_for_in_training_are_those_of_scoring_afterwards(
    opened: Run, unbraid, tmp_path: Path
):
    expected = opened.score("mig,sap", quiet=True)
    told = small_train(tmp_path / "python", ub.BetaVAE(beta=[1, 4]), seeds=2, score=["mig", "sap"])
    assert set(stored_scores(told.folder)["metric"]) == {"mig", "sap", ACTIVITY[0]}
    pd.testing.assert_frame_equal(told.score("mig,sap", quiet=True), expected)
    words = ("beta_vae", "--beta", "1,4", "--seeds", "2", *WORDS, "--learning-rate", "1e-3")
    out = tmp_path / "cli"
    answer = unbraid("train", DATA, *words, "--score", "mig,sap", "--out", str(out))
    assert answer.code == 0
    again = unbraid("score", str(out), "--metrics", "mig,sap")
    assert answer.out == f"Trained 4 of 4 models: {out}\n\n{again.out}"
    assert open_run(out).score("mig,sap", quiet=True).equals(expected)


def test_bad_metrics_are_refused_before_training(unbraid, tmp_path: Path, refused):
    out = tmp_path / "run"
    problems = refused(lambda: small_train(out, score="mig,scap"))
    assert [(one.name, one.value) for one in problems] == [("metric", "scap")]
    problems = refused(lambda: small_train(out, score=[]))
    assert [(one.name, one.rule) for one in problems] == [("score", "needs at least one name")]
    np.save(tmp_path / "images.npy", np.zeros((9, 28, 28), np.uint8))
    answer = unbraid(
        "train", str(tmp_path / "images.npy"), "vae", *WORDS, "--score", "mig", "--out", str(out)
    )
    assert answer.code == 2
    assert "has no factors, and mig compares codes with factors" in answer.err
    assert "--score unsupervised" in answer.err
    assert not out.exists()


def test_chunks_are_scored_while_others_train_where_that_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    done: list[tuple[int, ...]] = []
    real_done = ScoringWhileTraining.chunk_done

    def chunk_done(self, chunk) -> None:
        done.append(tuple(member.id for member in chunk))
        real_done(self, chunk)

    monkeypatch.setattr(ScoringWhileTraining, "pays", staticmethod(lambda device: True))
    monkeypatch.setattr(ScoringWhileTraining, "chunk_done", chunk_done)
    run = small_train(tmp_path / "run", seeds=2, score="mig", quiet=False)
    lines = capsys.readouterr().err.splitlines()
    (at,) = (place for place, line in enumerate(lines) if line.startswith("training: "))
    assert lines[at + 1] == "scoring: the models trained last", "a pause is not without a word"
    assert sorted(done) == [(0,), (1,)]
    assert set(stored_scores(run.folder)["member"]) == {0, 1}


@pytest.mark.parametrize("beside", [True, False])
def test_who_stops_a_training_to_be_scored_is_told_both_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
):
    monkeypatch.setattr(ScoringWhileTraining, "pays", staticmethod(lambda device: beside))
    monkeypatch.setattr(train_module, "train_run", lambda *given: Outcome(False, ()))
    out = tmp_path / "stopped"
    with pytest.raises(StoppedError) as told:
        small_train(out, seeds=2, score=["mig", "sap"])
    assert str(told.value).endswith(
        f" Go on with: unbraid resume {out}, then score: unbraid score {out} --metrics mig,sap"
    )
    assert not (out / "scores.parquet").exists()


def test_several_representations_are_in_the_index(opened: Run):
    table = opened.score("mig", representation=["mean", "sampled"], quiet=True)
    assert table.index.names == ["member", "objective", "representation"]
    assert len(table) == 8
    scores = ["mig", "mig_se"]
    assert list(table.columns) == ["seed", "learning_rate", "beta", *ACTIVITY, *scores]
    assert (
        table.xs("mean", level="representation")["mig"]
        != table.xs("sampled", level="representation")["mig"]
    ).any()


def test_best_is_the_highest(opened: Run, refused):
    table = opened.score("mig", quiet=True)
    assert opened.best("mig", collapsed=True).member.id == table["mig"].argmax()
    stored = stored_scores(opened.folder)
    for winner in (3, 1):
        stored["value"] = np.where(stored["member"] == winner, 0.9, 0.1)
        stored.loc[stored["quantity"] == "count", "value"] = 3  # active latents
        write_table(opened.path / "scores.parquet", stored)
        assert opened.best("mig").member.id == winner
    for metric in ("all", "mgi"):
        (problem,) = refused(lambda metric=metric: opened.best(metric))
        assert (problem.name, problem.value) == ("metric", metric)


def test_without_a_metric_the_best_is_chosen_in_a_way_that_is_trusted(
    opened: Run, refused, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from unbraid.studies.finding import Estimate
    from unbraid.studies.locatello2019 import choosing

    good = Estimate("ELBO", 0.87, 0.76, 0.98, 180)
    known = choosing.Choice("ELBO", good, {"a": 0.9, "b": 0.84})
    no_better_on_b = replace(known, by_data={"a": 0.9, "b": 0.4})
    for nothing in (None, no_better_on_b, replace(known, quantile=replace(good, low=0.6))):
        monkeypatch.setattr(choosing, "best_choice_known", lambda nothing=nothing: nothing)
        (problem,) = refused(opened.best)
        assert (problem.name, problem.value) == ("metric", None)
        assert "run.best('udr')" in problem.remedy
        assert ("better than 87%" in problem.remedy) == (nothing is not None)
    monkeypatch.setattr(choosing, "best_choice_known", lambda: known)
    table = opened.score(["elbo", "udr", "active_units"], quiet=True)
    winner = opened.best(collapsed=True).member.id
    assert winner == table.reset_index().set_index("member")["elbo"].idxmax()
    assert "better than 87% [76% to 98%] of all models" in capsys.readouterr().err


def test_a_collapsed_model_is_best_only_where_that_is_asked_for(opened: Run, refused):
    opened.score("mig", errors="none", quiet=True)
    stored = stored_scores(opened.folder)
    counts = stored["quantity"] == "count"
    stored.loc[stored["quantity"] == "score", "value"] = [0.4, 0.3, 0.2, 0.1]
    stored.loc[counts, "value"] = [0, 1, 2, 3]  # of three factors that vary half are two
    write_table(opened.path / "scores.parquet", stored)
    table = opened.score("mig", quiet=True)
    assert table["active_latents"].tolist() == [0, 1, 2, 3]
    assert table["collapsed"].tolist() == [True, True, False, False]
    assert opened.best("mig").member.id == 2
    assert opened.best("mig", collapsed=True).member.id == 0
    _few, remark = table.attrs["remarks"]
    assert remark.startswith("Collapsed: 2 of 4 models")
    assert "0 (0), 1 (1); fewer than half of the 3 factors" in remark
    shown = score_text("score", table, {"folder": opened.path})
    assert [line.split()[0] for line in shown.splitlines()[2:6]] == ["2", "3", "0", "1"]
    assert remark in shown
    assert "Sorted by mig, the highest first, collapsed models last." in shown
    stored.loc[counts, "value"] = 3
    write_table(opened.path / "scores.parquet", stored)
    shown = score_text("score", opened.score("mig", quiet=True), {"folder": opened.path})
    assert "collapsed" not in shown.splitlines()[0]
    assert "Sorted by mig, the highest first." in shown
    stored.loc[counts, "value"] = 0
    stored.loc[stored["quantity"] == "score", "value"] = [0.1, 0.3, 0.2, 0.4]
    write_table(opened.path / "scores.parquet", stored)
    shown = score_text("score", opened.score("mig", quiet=True), {"folder": opened.path})
    assert [line.split()[0] for line in shown.splitlines()[2:6]] == ["0", "1", "2", "3"]
    assert "collapsed" in shown.splitlines()[0]
    assert "Sorted by member: all are collapsed, so none counts as best." in shown
    (problem,) = refused(lambda: opened.best("mig"))
    assert (problem.name, problem.rule) == ("best", "needs a model that is not collapsed")


def test_two_scorings_at_once_do_not_lose_each_other(opened: Run):
    with (
        only_one(opened.path, ".scores.lock"),
        pytest.raises(InputError, match="is being written by another process"),
    ):
        opened.score("mig", quiet=True)
    assert len(opened.score("mig", quiet=True)) == 4


def test_history_has_the_recorded_curves(opened: Run):
    history = opened.history
    assert set(history["member"]) == {0, 1, 2, 3}
    assert history["step"].max() == 20
    assert {"reconstruction", "kl", "loss"} <= set(history.columns)


def test_weights_of_an_earlier_step_are_never_scored_as_final(opened: Run, refused):
    final = opened.score("mig", quiet=True)["mig"].tolist()
    chunk = opened.folder.chunks()[0]
    opened.folder.checkpoints(chunk).files()[0][1].unlink()  # leaves the halfway checkpoint
    (opened.path / "scores.parquet").unlink()
    shutil.rmtree(opened.path / "codes")
    again = open_run(opened.path, device="cpu")
    for ask in (
        lambda: again.score("mig", quiet=True),
        again.report,
        lambda: again.model(0),
        lambda: CodeStore(again.folder).encode(torch.device("cpu")),
    ):
        (problem,) = refused(ask)
        assert (problem.name, problem.rule) == ("run", "must be trained to the end")
        assert f"unbraid resume {opened.path}" in problem.remedy
    assert again.resume(quiet=True).score("mig", quiet=True)["mig"].tolist() == final


def test_an_unreadable_file_is_not_taken_for_a_damaged_one(opened: Run, monkeypatch):
    checkpoints = opened.folder.checkpoints(opened.folder.chunks()[0])
    before = checkpoints.files()

    def busy(*args, **options):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("safetensors.safe_open", busy)
    with pytest.raises(UnbraidError, match=r"cannot be read: Too many open files\."):
        checkpoints.load(torch.device("cpu"), print)
    assert checkpoints.files() == before


def test_a_stopped_run_says_how_to_go_on(opened: Run, monkeypatch):
    monkeypatch.setattr("unbraid.population.train.train_run", lambda *given: Outcome(False, ()))
    with pytest.raises(StoppedError) as caught:
        opened.resume(quiet=True)
    assert f"unbraid resume {opened.path}" in str(caught.value)


def test_a_hyperparameter_is_no_parameter():
    with pytest.raises(ub.InputError) as caught:
        ub.train("sprites", beta=4)  # type: ignore[call-arg]
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("parameter of train", "beta")
    assert "BetaVAE(beta=[1, 4])" in problem.remedy


def test_a_report_goes_where_it_is_told(run, tmp_path, unbraid, refused):
    opened = ub.open_run(run, device="cpu")
    before = {path.name for path in run.iterdir()}
    assert opened.report(tmp_path / "pages") == tmp_path / "pages" / "report.html"
    code, out, _ = unbraid("report", str(run), "--out", str(tmp_path / "pages" / "mine.html"))
    assert (code, out) == (0, f"Open in a browser: {tmp_path / 'pages' / 'mine.html'}\n")
    assert {path.name for path in run.iterdir()} == before
    opened.report(tmp_path / "pages" / "mine.html")  # its own page may be written over
    (tmp_path / "thesis.html").write_text("mine")
    (problem,) = refused(lambda: opened.report(tmp_path / "thesis.html"))
    rule = "must be a new .html file, or an earlier page of this kind"
    assert (problem.name, problem.rule) == ("out", rule)


def test_a_home_after_an_equals_sign_is_meant(tmp_path, monkeypatch, unbraid):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert unbraid("train", DATA, "--out=~/made", *WORDS).code == 0
    assert (tmp_path / "made" / "plan.json").is_file()
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("~nobody_of_that_name/y.npz", "data must begin with ~ only where that is somebody's home"),
        ("/" + "a" * 300, f"/{'a' * 300} cannot be read: File name too long. "),
        ("./bad\udcff", "data must be a path whose name is text in UTF-8; got "),
    ],
)
def test_paths_that_can_be_no_data_are_refused_in_one_message(unbraid, tmp_path, data, told):
    code, _, err = unbraid("train", data, "--steps", "2", "--out", str(tmp_path / "o"))
    assert code == 2
    assert err.startswith(f"unbraid: {told}")
    assert not (tmp_path / "o").exists()


def test_a_path_of_too_many_folders_is_refused(refused, tmp_path):
    out = Path(*["a"] * 1500)
    (problem,) = refused(lambda: ub.train("sprites", out=tmp_path / out, **SMALL))
    assert (problem.name, problem.rule) == ("out", "must be a folder that can be made")


def test_the_report_of_a_run_that_cannot_be_written_names_the_option(run, monkeypatch, refused):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (problem,) = refused(lambda: ub.open_run(run, device="cpu").report())
    assert (problem.name, problem.rule) == ("run", "must be a folder that can be written")
    assert problem.remedy == "Write the page elsewhere: {out=FOLDER}."


@pytest.mark.parametrize("more", [(), ("--score", "mig")])
def test_a_run_whose_models_all_diverged_fails_and_says_what_to_change(unbraid, tmp_path, more):
    out = str(tmp_path / "run")
    words = ("--learning-rate", "1e30", "--out", out, *WORDS, *more)
    for answer in (unbraid("train", DATA, "vae", *words), unbraid("resume", out)):
        assert answer.code == 1
        assert answer.out == ""
        line = answer.err.splitlines()[-1]
        assert line.startswith(f"unbraid: every model of {out} diverged, the first at step ")
        assert line.endswith("with a lower learning rate, such as 0.0001; it was 1e+30.")


def test_where_the_learning_rate_is_low_the_weights_are_named(run, monkeypatch):
    opened = ub.open_run(run, device="cpu")
    assert opened.failure == ""
    lost = opened.members.assign(status="diverged", steps=[5, 3, 4, 9])
    monkeypatch.setattr(Run, "members", lost)
    plan, members = opened.folder.plan, opened.folder.plan.members
    low = tuple(dataclasses.replace(one, learning_rate=1e-5) for one in members)
    opened.folder.plan = dataclasses.replace(plan, members=low, precision="float32")
    assert "diverged, the first at step 3: " in opened.failure
    assert opened.failure.endswith(
        "The learning rate of 1e-05 is low already. Train again, into a new folder, with other"
        " weights (beta 1.0, beta 4.0), or look at the data."
    )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"hyper": "beta"}, "hyper"),
        ({"data_options": "x=3"}, "data_options"),
        ({"out": 3}, "out"),
        ({"device": 0}, "device"),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(refused, options: Any, name: str):
    (problem,) = refused(lambda: ub.train("sprites", "vae", **{**SMALL, **options}))
    assert problem.name == name


def test_questions_of_another_type_are_refused_by_name(opened: Run, refused):
    asked: list[tuple[Callable[[], Any], str]] = [
        (lambda: opened.model(1.0), "member"),  # pyright: ignore[reportArgumentType]
        (lambda: opened.best(["mig"]), "metric"),  # pyright: ignore[reportArgumentType]
        (lambda: opened.best(3), "metric"),  # pyright: ignore[reportArgumentType]
        (lambda: opened.score(None), "metrics"),  # pyright: ignore[reportArgumentType]
        (lambda: open_run(None), "run"),  # pyright: ignore[reportArgumentType]
    ]
    for ask, name in asked:
        (problem,) = refused(ask)
        assert problem.name == name


def test_a_device_of_torch_is_a_device(opened: Run):
    assert open_run(opened.path, device=torch.device("cpu")).device.type == "cpu"  # pyright: ignore[reportArgumentType]


def test_images_that_are_all_the_same_are_told(unbraid, tmp_path):
    np.save(tmp_path / "same.npy", np.full((20, 28, 28), 7, np.uint8))
    words = (*words_with(steps=2, batch_size=4), "--out", str(tmp_path / "run"))
    answer = unbraid("train", str(tmp_path / "same.npy"), *words)
    assert answer.code == 0, answer.err
    assert "20 images that are all the same" in answer.err


def test_a_diverged_model_is_not_given(opened: Run, refused, monkeypatch):
    table = opened.members
    table.loc[table["member"] == 0, ["status", "steps"]] = ["diverged", 5]
    monkeypatch.setattr(type(opened.folder), "members", lambda folder: table)
    (problem,) = refused(lambda: opened.model(0))
    assert (problem.name, problem.rule) == ("member", "must be one that did not diverge")
    assert problem.value == "0, whose loss or gradient was no finite number at step 5"
    assert problem.remedy == "Choose another, such as {member=1}."
    assert opened.model(1).member.id == 1


def test_what_is_no_name_of_one_metric_is_refused_by_its_own_name(opened: Run, refused):
    for name in ("", " ", "mig,sap", "usual", None, ["mig"]):
        (problem,) = refused(lambda name=name: opened.best(name))
        assert (problem.name, problem.value) == ("metric", name)


def test_a_run_says_how_many_models_it_has(opened: Run, tmp_path: Path):
    assert repr(opened) == f"<Run {opened.path}: 4 models on sprites>"
    one = small_train(tmp_path / "one", "vae", steps=2)
    assert repr(one) == f"<Run {one.path}: 1 model on sprites>"
