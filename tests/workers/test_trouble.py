# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around workers: full disks, broken machines, slow writes, others at work."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import unbraid as ub
from unbraid.core import files
from unbraid.core.errors import UnbraidError
from unbraid.core.files import only_one
from unbraid.core.lease import Lease, leases_of
from unbraid.population import chunk_training, failures, train
from unbraid.population.chunk_queue import lease_place
from unbraid.population.run_folder import RunFolder
from unbraid.population.run_status import run_status
from unbraid.population.train import train_run
from unbraid.population.training_step import TrainingStep
from unbraid.search.pbt.make_search import make_search
from unbraid.search.pbt.search import SearchRun

from .runs import make_run, names, until

CPU = torch.device("cpu")


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are trained one after the other."""
    monkeypatch.setattr(train, "workers", lambda device: [device])


def failing(monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], object]) -> None:
    """Training fails at members of which *fails* says so."""
    real = TrainingStep.start

    def start(self: TrainingStep) -> Any:
        if fails(self.members[0].id):
            raise ZeroDivisionError("a broken GPU")
        return real(self)

    monkeypatch.setattr(TrainingStep, "start", start)


def test_what_waits_to_be_written_when_a_lease_is_lost_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_worker: None
):
    """The disk is slow; meanwhile the chunk is taken over, and the loser notices."""
    run = make_run(tmp_path / "run", seeds=1, steps=100_000)
    stop, given_back, waited = threading.Event(), threading.Event(), threading.Event()
    real_check, real_back = chunk_training.check_still_there, Lease.give_back

    def slow_disk(folder: Path) -> None:
        if threading.current_thread().name.startswith("unbraid-save") and not waited.is_set():
            (lease,) = leases_of(run.checkpoint_folder / "members-00000-00000.step-0.safetensors")
            os.rename(lease.place / lease.name, lease.place / "ffff-1-1-far")
            lease.beat()
            given_back.wait(1.0)
            stop.set()
            waited.set()
        real_check(folder)

    def give_back(self: Lease) -> None:
        real_back(self)
        given_back.set()

    monkeypatch.setattr(chunk_training, "check_still_there", slow_disk)
    monkeypatch.setattr(Lease, "give_back", give_back)
    assert not train_run(run, CPU, stop=stop).finished
    assert waited.is_set()
    assert not names(run), "of a chunk that another process trains"


@pytest.mark.parametrize("steps", [10, 1], ids=["halfway", "at its end"])
def test_a_full_disk_stops_the_worker_and_is_no_chunk_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_worker: None, steps: int
):
    run = make_run(tmp_path / "run", seeds=3, steps=steps)
    real = files.put_in_place

    def full(beside: Path, path: Path) -> None:
        if path.suffix == ".safetensors":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(beside, path)

    monkeypatch.setattr(files, "put_in_place", full)
    with pytest.raises(UnbraidError, match=r"the disk at .* is full; free some room") as told:
        train_run(run, CPU, keep_going=True)
    assert str(told.value).count("is full") == 1
    assert {one.state for one in run_status(run).chunks} == {"left"}


def test_what_fails_on_another_machine_is_tried_on_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_worker: None
):
    """One node with a broken GPU must not end a run that all others could train."""
    run = make_run(tmp_path / "run", seeds=4, steps=10)
    begun: list[int] = []

    def broken_elsewhere(member: int) -> None:
        begun.append(member)
        if len(begun) == 1:
            with monkeypatch.context() as far:
                far.setattr(failures.platform, "node", lambda: "far")
                for chunk in run.chunks()[1:3]:
                    found = failures.failure_of(UnbraidError("no GPU"))
                    failures.write_failure(run.checkpoint_folder, chunk, found)
            time.sleep(1.1)

    failing(monkeypatch, broken_elsewhere)
    assert train_run(run, CPU, keep_going=True).finished
    assert sorted(begun) == [0, 1, 2, 3]
    assert begun[1] == 3, "first what nobody has failed at"
    assert not [*run.path.glob("checkpoint/*.json")]


def test_a_failure_that_another_machine_has_mended_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_worker: None
):
    run = make_run(tmp_path / "run", seeds=2, steps=10)
    other = RunFolder.open(run.path, run.dataset)
    at: list[int] = []

    def broken_here(member: int) -> bool:
        at.append(member)
        if at == [0, 1]:  # another machine trains the one that failed here
            train_run(other, CPU, only=frozenset({0}))
        return at == [0]

    failing(monkeypatch, broken_here)
    assert train_run(run, CPU, keep_going=True).finished
    assert run_status(run).finished
    assert run_status(run).diverged == 0


def test_failures_are_told_once_for_each_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_worker: None
):
    run = make_run(tmp_path / "run", seeds=3, steps=10)
    host = failures.platform.node()
    failing(monkeypatch, lambda member: True)
    with pytest.raises(UnbraidError) as told:
        train_run(run, CPU, keep_going=True)
    assert str(told.value) == (
        f"member 0, member 1, member 2 could not be trained on {host}: ZeroDivisionError: a broken"
        f" GPU\nTo try again: unbraid work {run.path}"
    )


def test_a_folder_that_fails_keeps_no_other_from_being_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_worker: None
):
    runs = [make_run(tmp_path / name, seeds=1, steps=10) for name in ("first", "second")]
    begun: list[int] = []
    failing(monkeypatch, lambda member: begun.append(member) or len(begun) == 1)
    with pytest.raises(UnbraidError, match=r"a broken GPU\nTo try again: .*first$"):
        ub.work([run.path for run in runs], device="cpu", quiet=True)
    assert [run_status(run).finished for run in runs] == [False, True]
    assert ub.work([run.path for run in runs], device="cpu", quiet=True).summary() == "\n".join(
        [*(f"Nothing is left to train: {run.path}" for run in runs)]
        + [f"Next:  unbraid resume {run.path}" for run in runs]
    )


@pytest.mark.parametrize("only", [None, frozenset({0})], ids=["a worker", "a task on Ray"])
def test_one_of_many_waits_for_who_holds_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only: frozenset[int] | None
):
    """And is not refused, as many that begin at once on a slow disk would be."""
    monkeypatch.setattr(train, "_PATIENCE", 0.05)
    run = make_run(tmp_path / "run", seeds=1, steps=10)
    with only_one(run.path):
        how = {"only": only, "keep_going": only is None}
        worker = threading.Thread(target=train_run, args=(run, CPU), kwargs=how)
        worker.start()
        time.sleep(0.5)
        assert worker.is_alive()
        assert not names(run)
    worker.join(60)
    assert run_status(run).finished


@pytest.mark.slow
def test_workers_take_first_what_nobody_searches(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """As the docs say: several processes with the same list of searches."""
    plan, dataset = make_search(
        "sprites",
        "beta_vae",
        data_options={"image_size": 16, "x": 6, "y": 4, "scale": 1},
        network="mlp",
        network_options={"hidden": 8},
        latents=2,
        population=5,
        models=2,
        batch_size=16,
        epochs=1,
        epoch_images=32,
    )
    first, second = (SearchRun.create(tmp_path / name, plan, dataset) for name in "ab")
    folders = [first.path, second.path]
    worker = threading.Thread(target=ub.work, args=(folders,))
    with only_one(first.path):  # as whoever trains it does
        worker.start()
        until(lambda: ub.status(second.path).finished, "the end of the second")
        assert worker.is_alive()
        assert not ub.status(first.path).finished
        time.sleep(2.2)
    worker.join(60)
    assert ub.status(first.path).finished
    assert capfd.readouterr().err.count(" at most on ") == 2, "once for each that it trained"


def test_a_damaged_file_that_another_process_sets_aside_first_is_out_of_the_way(tmp_path: Path):
    path = tmp_path / "members.safetensors"
    path.write_bytes(b"damaged")
    files.set_aside(path)
    files.set_aside(path)
    assert [one.name for one in tmp_path.iterdir()] == ["members.safetensors.damaged"]


@pytest.mark.parametrize("verb", [ub.work, ub.resume])
def test_who_dies_with_a_chunk_just_trained_leaves_nothing_stalled(
    tmp_path: Path, verb: Callable[..., object]
):
    """Before its lease was given back: nobody will take a chunk that is trained."""
    run = make_run(tmp_path / "run", seeds=2, steps=10)
    ub.work(run.path, device="cpu", quiet=True)
    place = lease_place(run.checkpoint_folder, run.chunks()[0])
    program = "import os, sys; from pathlib import Path; from unbraid.core.lease import *\n"
    program += "take(Path(sys.argv[1]), bool, Watch(), own_halves=True); os._exit(9)"
    subprocess.run([sys.executable, "-c", program, str(place)], check=False)
    assert place.is_dir()
    assert ub.status(run.path, watch=True).finished
    verb(run.path, device="cpu", quiet=True)
    assert not place.exists()
    assert run_status(run).finished
