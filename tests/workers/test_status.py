# SPDX-License-Identifier: Apache-2.0
"""What is going on is said as it is: running, stalled, failed and why, done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import unbraid as ub
from unbraid.commands import status as status_module
from unbraid.core import lease_holder
from unbraid.core.errors import UnbraidError
from unbraid.core.lease import take
from unbraid.population.chunk_queue import lease_place
from unbraid.population.run_status import run_status
from unbraid.population.train import train_run
from unbraid.population.training_step import TrainingStep

from .hosts import Hosts
from .runs import DATA, OBJECTIVE, PLAN, end_all, make_run, names, until

CPU = torch.device("cpu")


@pytest.mark.slow
def test_a_run_from_its_plan_to_its_end(hosts: Hosts, tmp_path: Path):
    run = make_run(tmp_path / "run", seeds=3, steps=400)
    before = ub.status(run.path)
    assert before.summary() == (
        f"{run.path}: 0 of 1,200 model-steps (0%)\n  3 chunks: 3 left\n"
        f"Nobody trains it. Go on with: unbraid resume {run.path}"
    )
    words = ("work", str(run.path), "--device", "cpu", "--lease-seconds", "0.6")
    far = hosts.start(*words, said=tmp_path / "far.txt", slow=0.005, machine="far")
    until(lambda: names(run), "a checkpoint")
    until(lambda: run_status(run).rate > 0, "a sign of life with its speed")
    found = run_status(run)
    running = [one for one in found.chunks if one.state == "running"]
    assert running
    assert {one.where for one in running} == {"far (cpu)"}
    assert 0 < found.done < found.total == 1200
    assert found.seconds_left == pytest.approx((found.total - found.done) / found.rate)
    assert " left\n" in ub.status(run.path).summary()
    os.kill(far, signal.SIGSTOP)
    until(lambda: run_status(run).count("stalled") == len(running), "it is silent")
    (first, *_) = [one for one in run_status(run).chunks if one.state == "stalled"]
    assert first.silent > 0.5
    assert f"on far (cpu), no sign of life for {first.silent:.0f}" in ub.status(run.path).summary()
    os.kill(far, signal.SIGKILL)
    hosts.end(far)
    end_all(hosts, [hosts.start(*words, said=tmp_path / "0.txt")], tmp_path)
    after = ub.status(run.path, watch=True)
    assert after.finished
    assert after.summary() == (
        f"{run.path}: 1,200 of 1,200 model-steps (100%)\n  3 chunks: 3 done\n  all is trained"
    )


def test_models_that_diverged_are_told(tmp_path: Path):
    options: dict[str, Any] = {**PLAN, "steps": 20, "learning_rate": [1e-3, 1e9], "device": "cpu"}
    run = ub.train(DATA, OBJECTIVE, out=tmp_path / "run", seeds=2, quiet=True, **options)
    lost = (run.members["status"] == "diverged").sum()
    assert lost > 0
    assert ub.status(run.path).summary().endswith(f"  all is trained; {lost} members diverged")


def failing(monkeypatch: pytest.MonkeyPatch, member: int) -> None:
    real = TrainingStep.step

    def step(self: TrainingStep, state: Any) -> None:
        if self.members[0].id == member and state.step == 3:
            raise ZeroDivisionError("a poisoned objective")
        real(self, state)

    monkeypatch.setattr(TrainingStep, "step", step)


def test_a_chunk_that_fails_is_told_and_keeps_no_other_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = make_run(tmp_path / "run", seeds=4, steps=10)
    with monkeypatch.context() as poisoned:
        failing(poisoned, 1)
        with pytest.raises(UnbraidError) as told:
            ub.work(run.path, device="cpu", quiet=True)
    host = lease_holder.platform.node()
    assert str(told.value) == (
        f"member 1 could not be trained on {host}: ZeroDivisionError: a poisoned objective\n"
        f"All others are. To try again: unbraid work {run.path}"
    )
    found = run_status(run)
    assert [one.state for one in found.chunks] == ["done", "failed", "done", "done"]
    line = f"  failed: member 1, step 0 of 10, on {host}: ZeroDivisionError: a poisoned"
    assert line in ub.status(run.path).summary()
    ub.work(run.path, device="cpu", quiet=True)
    assert run_status(run).finished
    assert not [*run.path.glob("checkpoint/*.json")]


def test_what_others_fail_at_meanwhile_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from unbraid.population.failures import failure_of, write_failure

    run, tried = make_run(tmp_path / "run", seeds=4, steps=10), []
    real = TrainingStep.start

    def start(self: TrainingStep) -> Any:
        tried.append(self.members[0].id)
        if len(tried) == 1:
            failure = failure_of(UnbraidError("no room"))
            write_failure(run.checkpoint_folder, run.chunks()[3], failure)
            time.sleep(1.1)
        return real(self)

    monkeypatch.setattr("unbraid.population.train.workers", lambda device: [device])
    monkeypatch.setattr(TrainingStep, "start", start)
    with pytest.raises(UnbraidError, match=r"member 3 could not be trained on .*: no room"):
        train_run(run, CPU, keep_going=True)
    assert tried == [0, 1, 2]


@pytest.mark.slow
def test_a_search_says_who_trains_it(hosts: Hosts, tmp_path: Path):
    folder = tmp_path / "run"
    words = (
        *("pbt", "sprites:image_size=16,x=10,y=8,scale=1", "beta_vae", "--network", "mlp:hidden=8"),
        *("--latents", "2", "--population", "5", "--models", "2", "--batch-size", "16"),
        *("--epochs", "3", "--epoch-images", "160", "--out", str(folder), "--device", "cpu"),
    )
    process = hosts.start(*words, said=tmp_path / "0.txt", slow=0.01, machine="far")
    until(lambda: (folder / "lineage.parquet").exists(), "an epoch")
    (found,) = ub.status(folder).found
    assert (found.state, found.epochs) == ("running", 3)
    assert found.where.startswith("far (")
    until(lambda: ub.status(folder).finished, "its end")
    assert hosts.end(process) == 0
    assert (
        ub.status(folder).summary() == f"{folder}: 1 of 1 search done\n  done: run, 3 of 3 epochs"
    )


def test_a_study_by_its_name(tmp_path: Path):
    found = ub.status("locatello2019", scale="small", results=tmp_path)
    assert found.summary().startswith("locatello2019 at scale small: 0 of ")
    assert not found.finished
    with pytest.raises(ub.InputError, match=r"Did you mean locatello2019\?"):
        ub.status("locatelo2019")


def test_watching_shows_each_look(tmp_path: Path, monkeypatch, capsys):
    run, looks = make_run(tmp_path / "run", seeds=1, steps=10), []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        train_run(run, CPU)

    monkeypatch.setattr(status_module.time, "sleep", pause)
    assert ub.status(run.path, watch=True).finished
    assert capsys.readouterr().out.count("model-steps") == 1
    assert looks == [5.0]


def test_a_look_leaves_nothing_even_where_it_was_killed(tmp_path: Path):
    """What asks the disk for its time is called like what a killed taker of a lease leaves."""
    run = make_run(tmp_path / "run", seeds=1, steps=10)
    place = lease_place(run.checkpoint_folder, run.chunks()[0])
    run.checkpoint_folder.mkdir()
    one = take(place, lambda path: False, lease_holder.Watch())
    assert one is not None
    assert run_status(run).count("running") == 1
    assert [path.name for path in run.checkpoint_folder.iterdir()] == [place.name]
    program = (
        "import os, sys; from pathlib import Path; from unbraid.core import lease_holder\n"
        "Path.rmdir = lambda own: os._exit(9)\n"
        "place = Path(sys.argv[1]); lease_holder.silence(place, lease_holder.holder(place))"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(place)], check=False)
    assert killed.returncode == 9
    assert len([*run.checkpoint_folder.iterdir()]) == 2
    one.give_back()
    ub.work(run.path, device="cpu", quiet=True)
    assert not [*run.path.rglob("*lease*")]
