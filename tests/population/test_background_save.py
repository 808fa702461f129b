# SPDX-License-Identifier: Apache-2.0
"""Saves in the background hold what the state was when they were asked for, in order, and tell what
went wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from unbraid.core.errors import UnbraidError
from unbraid.population import checkpoint
from unbraid.population.background_save import BackgroundSave
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import train_run

CPU = torch.device("cpu")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_what_is_written_is_the_state_of_the_moment_however_late_it_is_written(pool):
    save, go, written = BackgroundSave(pool), threading.Event(), {}

    def write(tensors, step):
        assert go.wait(10)
        written[step] = tensors["a"].tolist()

    state = {"a": torch.tensor([1.0, 2.0])}
    save(state, 7, write)
    state["a"] += 10.0  # training goes on
    assert save.busy
    assert written == {}
    go.set()
    save.wait()
    assert not save.busy
    assert written == {7: [1.0, 2.0]}
    assert save.seconds > 0


def test_the_next_save_waits_for_the_one_before(pool):
    save, order = BackgroundSave(pool), []
    for step in range(5):
        save({"a": torch.zeros(1)}, step, lambda tensors, step: order.append(step))
    save.wait()
    assert order == [0, 1, 2, 3, 4]


def test_what_goes_wrong_is_raised_by_the_next_save_and_by_waiting(pool):
    save = BackgroundSave(pool)

    def full(tensors, step):
        raise UnbraidError("the disk is full")

    save({"a": torch.zeros(1)}, 0, full)
    with pytest.raises(UnbraidError, match="the disk is full"):
        save({"a": torch.zeros(1)}, 1, full)
    with pytest.raises(UnbraidError, match="the disk is full"):
        save.wait()


@pytest.mark.parametrize("fails_at", [10, 20])
def test_a_disk_that_is_full_ends_the_training_with_its_message(
    tmp_path: Path, new_run, monkeypatch: pytest.MonkeyPatch, fails_at: int
):
    """Halfway, where training goes on beside the write, and at the end."""
    real = checkpoint.write_tensors

    def write(path, tensors, about):
        if about["step"] == fails_at:
            raise UnbraidError("the disk is full")
        real(path, tensors, about)

    monkeypatch.setattr(checkpoint, "write_tensors", write)
    run = new_run(tmp_path / "run")
    with pytest.raises(UnbraidError, match="the disk is full"):
        train_run(run, CPU)
    assert not (run.path / "members.parquet").exists()
    monkeypatch.undo()
    assert train_run(RunFolder.open(run.path), CPU).finished


@pytest.mark.gpu
def test_on_a_gpu_the_copy_stands_between_two_steps_of_the_queue(pool):
    """The state is changed by kernels that are in the queue already when the copy is asked for."""
    save, written = BackgroundSave(pool), {}
    state = {"a": torch.zeros(2**24, device="cuda")}
    for step in range(20):
        state["a"] += 1.0
        if step % 5 == 4:
            save(state, step + 1, lambda tensors, step: written.update({step: tensors["a"]}))
    save.wait()
    for step, tensor in written.items():
        assert tensor.device.type == "cpu"
        assert tensor.unique().tolist() == [float(step)]
    assert list(written) == [5, 10, 15, 20]
