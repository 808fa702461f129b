# SPDX-License-Identifier: Apache-2.0
"""Slices end as the same tables wherever and however often they were interrupted."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

from unbraid.core.errors import DamagedFileError, StoppedError, UnbraidError
from unbraid.core.source_digest import source_digest
from unbraid.population.devices import usual_precision
from unbraid.studies import run_slices as running
from unbraid.studies.pace import Pace
from unbraid.studies.pool import Pool, Slice
from unbraid.studies.results import Results
from unbraid.studies.run_slices import Ended, run_slices
from unbraid.studies.slice_work import SliceWork, device_name
from unbraid.studies.standing import standing
from unbraid.studies.study import Study

from . import toy_study

CPU = torch.device("cpu")
MADE = ["main/beta-1", "main/beta-4", "stages/annealed"]


def run(results: Results, **options: Any) -> Ended:
    return run_slices(results, results.slices(), CPU, quiet=True, **options)


def tables(results: Results) -> dict[str, pd.DataFrame]:
    return {path.stem: pd.read_parquet(path) for path in results.files()}


def assert_same(left: dict[str, pd.DataFrame], right: dict[str, pd.DataFrame]) -> None:
    assert left.keys() == right.keys()
    for name, table in left.items():
        pd.testing.assert_frame_equal(table, right[name], check_exact=True)


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(toy_study.__file__)), str(folder), "study", "run", "toy"]
    options = ["--scale", "small", "--device", "cpu", *words]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(process: subprocess.Popen[str], seen: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and not seen() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert process.poll() is None, process.communicate()


@pytest.fixture
def whole(toy: Study, tmp_path: Path) -> Results:
    """The results of a run that nobody disturbed, in a folder of their own."""
    results = Results(toy, "small", tmp_path / "undisturbed")
    assert run(results).made == MADE
    return results


def test_every_slice_ends_as_a_table(whole: Results):
    found = tables(whole)
    assert sorted(found) == ["annealed", "beta-1", "beta-4"]
    first = found["beta-1"]
    assert first["seed"].tolist() == [0, 1]
    assert first[["mig", "elbo", "elbo.kl", "elbo.reconstruction"]].notna().to_numpy().all()
    assert list(first.columns)[10:13] == ["mig", "elbo", "elbo.dimension_wise_kl"]
    about = whole.about(*whole.slices()[0])
    assert about["versions"].keys() == {"unbraid", "torch", "python", "numpy"}
    assert about["source_sha256"] == source_digest()
    assert about["training_seconds"] > 0
    assert about["scoring_seconds"] > 0
    assert (about["models"], about["model_steps"], about["precision"]) == (
        2,
        40,
        usual_precision(CPU),
    )
    left = [path for path in (whole.folder / ".work").rglob("*") if path.is_file()]
    assert all(path.name.endswith(".lock") for path in left)


def test_a_second_call_finds_all_done(whole: Results):
    before = {path: path.read_bytes() for path in whole.files()}
    ended = run(whole)
    assert (ended.made, list(ended.without_data)) == ([], ["cars/cars"])
    assert {path: path.read_bytes() for path in whole.files()} == before


def test_a_stage_is_what_so_many_steps_alone_give(whole: Results, toy: Study, tmp_path: Path):
    staged = tables(whole)["annealed"]
    assert staged["steps"].tolist() == [5, 5, 10, 10, 20, 20]
    assert staged["seed"].tolist() == [0, 1] * 3
    pool, one = whole.slices()[2]
    for steps in (5, 10):
        short = Pool(pool.name, "", (replace(one, plan={**one.plan, "steps": steps}, stages=()),))
        alone = replace(toy, pools=lambda *_, short=short: (short,))
        results = Results(alone, "small", tmp_path / str(steps))
        run(results)
        expected = staged[staged["steps"] == steps].reset_index(drop=True)
        pd.testing.assert_frame_equal(tables(results)["annealed"], expected, check_exact=True)
    assert staged["total_correlation_sampled"].nunique() == 6
    assert [len(kl) for kl in staged["kl_by_latent"]] == [3] * 6
    factors = staged["factors"][0].tolist()
    assert factors[-2:] == ["x", "y"]
    assert [len(shares) for shares in staged["information"]] == [3 * len(factors)] * 6


@pytest.mark.slow
def test_killed_twice_and_resumed_it_ends_with_the_same_tables(
    toy: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOY_STEPS", "160")
    undisturbed = Results(toy, "small", tmp_path / "undisturbed")
    run(undisturbed)
    results, work = Results(toy, "small"), tmp_path / "work"
    for piece in ("main/beta-1/run/checkpoint/*.safetensors", "stages/annealed/stage-*.parquet"):
        process = start(toy.folder, "--work", str(work))
        wait_for(process, lambda piece=piece: [*(work / "small").glob(piece)])
        process.send_signal(signal.SIGKILL)
        process.communicate()
        states = [one.state for one in standing(results, results.slices(), CPU, work).slices]
        assert "begun" in states
    run(results, work=work)
    assert_same(tables(results), tables(undisturbed))
    assert not [*work.glob("*/*/*")]


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(
    toy: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOY_STEPS", "100000")
    results = Results(toy, "small")
    process = start(toy.folder, "--pool", "main")
    checkpoints = results.folder / ".work" / "small" / "main"
    wait_for(process, lambda: [*checkpoints.glob("beta-1/run/checkpoint/*.safetensors")])
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    last = told.strip().splitlines()[-1]
    assert last.startswith(f"unbraid: stopped; everything so far is in {results.folder}")
    assert last.endswith("Go on with: unbraid study run toy --scale small --device cpu --pool main")
    assert "Traceback" not in told
    assert not results.files()
    first = standing(results, results.slices(), CPU).slices[0]
    assert first.state == "begun"
    assert SliceWork.steps_done(checkpoints / "beta-1") > 0


@pytest.mark.slow
def test_two_processes_share_the_slices(toy: Study, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOY_STEPS", "80")
    results = Results(toy, "small")
    both = [start(toy.folder), start(toy.folder)]
    answers = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    made = [re.findall(r"^Made: (.*)$", out, re.MULTILINE) for out, _ in answers]
    names = [name for lines in made for line in lines for name in line.split(", ")]
    assert sorted(names) == MADE
    assert len(results.table()) == 2 + 2 + 6


def test_a_slice_that_another_process_works_at_is_passed_over(results: Results):
    with running.hold(results, *results.slices()[0]):
        states = [one.state for one in standing(results, results.slices(), CPU).slices]
        assert states == ["at work", "left", "left", "no data"]
        ended = run(results)
    assert ended.elsewhere == MADE[:1]
    assert ended.made == MADE[1:]


def test_a_finished_slice_is_scored_while_the_next_trains(
    results: Results, monkeypatch: pytest.MonkeyPatch
):
    second_trains, waited = threading.Event(), []
    train, finish = SliceWork.train, SliceWork.finish

    def training(self: SliceWork, *given: Any) -> bool:
        if self.slice.name == "beta-4":
            second_trains.set()
        return train(self, *given)

    def finishing(self: SliceWork) -> None:
        if self.slice.name == "beta-1":
            waited.append(second_trains.wait(60))
        finish(self)

    monkeypatch.setattr(SliceWork, "train", training)
    monkeypatch.setattr(SliceWork, "finish", finishing)
    assert run(results).made == MADE
    assert waited == [True]


def test_stopped_while_scoring_it_goes_on_there(
    results: Results, whole: Results, monkeypatch: pytest.MonkeyPatch
):
    finish = SliceWork.finish

    def interrupted(self: SliceWork) -> None:
        self.stop.set()
        finish(self)

    with monkeypatch.context() as patch:
        patch.setattr(SliceWork, "finish", interrupted)
        patch.setattr(running._Running, "_make", _then_ctrl_c(running._Running._make))
        with pytest.raises(StoppedError):
            run(results)
    assert not results.files()
    assert (results.folder / ".work/small/main/beta-1/run/plan.json").is_file()
    run(results)
    assert_same(tables(results), tables(whole))


def _then_ctrl_c(make: Callable[..., bool]) -> Callable[..., bool]:
    def made(self: Any, *given: Any) -> bool:
        make(self, *given)
        raise KeyboardInterrupt

    return made


def test_what_goes_wrong_with_scoring_is_told_and_nothing_is_lost(
    results: Results, whole: Results, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(SliceWork, "finish", lambda self: (_ for _ in ()).throw(UnbraidError("full")))
        with pytest.raises(UnbraidError, match="full"):
            run(results)
    run(results)
    assert_same(tables(results), tables(whole))


def test_no_slice_is_begun_that_would_not_end_in_time(
    results: Results, monkeypatch: pytest.MonkeyPatch
):
    seconds = {"beta-1": 100.0, "beta-4": 20.0, "annealed": 20.0}
    monkeypatch.setattr(Pace, "training", lambda self, pool, one, done=0: seconds[one.name])
    monkeypatch.setattr(Pace, "scoring", lambda self, pool, one: 5.0)
    assert run(results, minutes=0.1).too_long == MADE
    ended = run(results, minutes=1.0)
    assert ended.too_long == MADE[:1]
    assert ended.made == MADE[1:]


def test_a_slice_that_takes_longer_than_a_call_ends_in_several(
    toy: Study, monkeypatch: pytest.MonkeyPatch
):
    """Begun without a limit and stopped, it goes on in calls that are too short for it."""
    monkeypatch.setenv("TOY_STEPS", "40000")
    results = Results(toy, "small")
    monkeypatch.setattr(Pace, "training", lambda self, pool, one, done=0: 1e6)
    assert run(results, minutes=1.0).too_long == MADE
    (results.folder / ".work/small/main/beta-4").mkdir(parents=True)
    steps = []
    for _ in range(2):
        ended = run(results, minutes=1 / 60)
        assert ended.unfinished == ["main/beta-4"]
        steps.append(SliceWork.steps_done(results.folder / ".work/small/main/beta-4"))
    assert 0 < steps[0] < steps[1]


def test_time_that_is_up_leaves_a_checkpoint(
    toy: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOY_STEPS", "200000")
    results = Results(toy, "small")
    monkeypatch.setattr(Pace, "training", lambda self, pool, one, done=0: 0.0)
    monkeypatch.setattr(Pace, "scoring", lambda self, pool, one: 0.0)
    began = time.monotonic()
    ended = run(results, minutes=1 / 60)
    assert time.monotonic() - began < 30
    assert (ended.made, ended.unfinished) == ([], MADE[:1])
    assert SliceWork.steps_done(results.folder / ".work/small/main/beta-1") > 0


def test_slices_that_were_begun_come_first(results: Results, monkeypatch: pytest.MonkeyPatch):
    (results.folder / ".work/small/stages/annealed").mkdir(parents=True)
    order = []
    train = SliceWork.train

    def training(self: SliceWork, *given: Any) -> bool:
        order.append(self.slice.name)
        return train(self, *given)

    monkeypatch.setattr(SliceWork, "train", training)
    run(results)
    assert order == ["annealed", "beta-1", "beta-4"]


def test_work_on_another_version_of_a_slice_is_refused(
    toy: Study, refused, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(running._Running, "_make", _then_ctrl_c(running._Running._make))
        patch.setattr(SliceWork, "finish", lambda self: None)
        with pytest.raises(StoppedError):
            run(Results(toy, "small"))
    monkeypatch.setenv("TOY_STEPS", "24")
    results = Results(toy, "small")
    ((name, _, value),) = refused(run, results)
    assert (name, value) == ("work", str(results.folder / ".work/small/main/beta-1"))
    assert (Path(value) / "run" / "plan.json").is_file()


def test_damage_to_unfinished_work_is_told_with_a_remedy(
    results: Results, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(running._Running, "_make", _then_ctrl_c(running._Running._make))
        patch.setattr(SliceWork, "finish", lambda self: None)
        with pytest.raises(StoppedError):
            run(results)
    work = results.folder / ".work/small/main/beta-1"
    (work / "slice.json").write_text("{}")
    with pytest.raises(DamagedFileError) as caught:
        run(results)
    assert str(caught.value).startswith(f"{work / 'slice.json'} is damaged")
    assert str(caught.value).endswith(f"Remove {work}, and the slice is made from the start.")


def test_what_a_kill_left_of_a_finished_slice_is_removed(whole: Results):
    left = whole.folder / ".work/small/main/beta-1"
    (left / "run").mkdir(parents=True)
    assert run(whole).made == []
    assert not left.exists()


def test_no_room_is_told_before_anything_is_trained(
    results: Results, refused, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    ((name, rule, _),) = refused(run, results)
    assert (name, rule) == ("work", "needs a disk with room for the plan")
    assert not results.files()


def test_a_results_folder_that_cannot_be_made_is_told(toy: Study, tmp_path: Path):
    (tmp_path / "file").write_text("")
    results = Results(toy, "small", tmp_path / "file")
    with pytest.raises(UnbraidError, match="results must be a folder that can be written"):
        run(results)


def test_a_damaged_table_stops_a_run_before_it_trains(whole: Results):
    path = whole.files()[0]
    path.write_bytes(path.read_bytes()[:-20])
    whole.files()[1].unlink()
    with pytest.raises(DamagedFileError):
        run(whole)
    assert len(whole.files()) == 2


def test_diverged_models_keep_their_rows(toy: Study, tmp_path: Path):
    plan = toy_study.SMALL | {"steps": 20, "objective": "beta_vae:beta=1e38", "seeds": 2}
    pools = toy.pools("small", 0)
    one = replace(pools[0].slices[0], plan=plan)
    alone = replace(toy, pools=lambda *_: (Pool("main", "", (one,)),))
    results = Results(alone, "small", tmp_path / "diverged")
    run(results)
    table = results.table()
    assert table["status"].tolist() == ["diverged"] * 2
    assert table[["mig", "elbo"]].isna().to_numpy().all()


def test_a_slice_trained_and_scored_by_different_tasks_has_the_same_table(
    results: Results, tmp_path: Path
):
    """As on a cluster, where scores are made on other cores than models."""
    from unbraid.commands.on_ray import score_slice, train_slice

    def made_by_tasks(pool: Pool, one: Slice) -> Results:
        folder = str(tmp_path / "by tasks")
        given = ("toy", "small", 0, folder, pool.name, one.name, str(tmp_path / "work"))
        trained_on = train_slice(*given, "cpu")
        assert trained_on == device_name(CPU)
        score_slice(*given, False, "another device")
        assert train_slice(*given, "cpu") is None, "it has its table"
        return Results(results.study, "small", folder)

    (part, *_) = results.slices()
    run_slices(results, [part], CPU, quiet=True)
    tasks = made_by_tasks(*part)
    pd.testing.assert_frame_equal(tasks.read(*part), results.read(*part))
    assert tasks.about(*part)["device"] == "another device"
