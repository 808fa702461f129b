# SPDX-License-Identifier: Apache-2.0
"""The loop: a member alone and among others has the same bits on a CPU, and so has one that was
stopped and went on.
"""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

import unbraid as ub
from unbraid.core.errors import InputError, UnbraidError
from unbraid.core.files import only_one
from unbraid.objectives import OBJECTIVES, factor_vae
from unbraid.population import chunk_training
from unbraid.population import train as train_module
from unbraid.population.background_save import BackgroundSave
from unbraid.population.run_folder import RunFolder
from unbraid.population.state import State
from unbraid.population.train import Outcome, train_run
from unbraid.population.training_step import TrainingStep

CPU = torch.device("cpu")


class Halt(Exception):
    """Raised by a progress report, as a process that ends would leave things."""


def halting_after(steps: int):
    done = 0

    def progress(model_steps: int, found_done: bool) -> None:
        nonlocal done
        done += 0 if found_done else model_steps
        if done >= steps:
            raise Halt

    return progress


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_a_member_alone_has_the_bits_it_has_among_eight(
    tmp_path: Path, new_run, bits_of, same_bits, objective: str, monkeypatch
):
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    together = new_run(tmp_path / "eight", objective, seeds=8, steps=12, log_every=3)
    assert train_run(together, CPU) == Outcome(True, ())
    alone = new_run(tmp_path / "one", objective, seeds=[5], steps=12, log_every=3)
    train_run(alone, CPU)
    eight, (one,) = bits_of(together), bits_of(alone).values()
    assert same_bits(one, eight[5])
    assert not same_bits(one, eight[4])
    history = together.history()
    pd.testing.assert_frame_equal(
        history[history["member"] == 5].drop(columns="member").reset_index(drop=True),
        alone.history().drop(columns="member"),
    )


def test_neighbours_of_a_diverged_member_have_the_bits_of_a_run_without_it(
    tmp_path: Path, new_run, bits_of, same_bits
):
    mixed = new_run(tmp_path / "mixed", seeds=2, learning_rate=[1e-3, 1e30], steps=30, log_every=1)
    outcome = train_run(mixed, CPU)
    assert outcome.finished
    assert sorted(outcome.diverged) == [2, 3]
    healthy = new_run(tmp_path / "healthy", seeds=2, learning_rate=1e-3, steps=30, log_every=1)
    assert train_run(healthy, CPU) == Outcome(True, ())
    left, right = bits_of(mixed), bits_of(healthy)
    assert same_bits(left[0], right[0])
    assert same_bits(left[1], right[1])
    members = mixed.members()
    assert members["status"].tolist() == ["trained", "trained", "diverged", "diverged"]
    assert members["steps"].tolist() == [30, 30, 1, 1]
    history = mixed.history()
    assert history.groupby("member")["step"].max().to_dict() == {0: 30, 1: 30, 2: 1, 3: 1}
    assert not history.isna().any().any()
    for chunk, trained in mixed.results():
        assert torch.isfinite(trained.weights).all(), chunk


def test_a_huge_beta_diverges_alone(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run", ub.BetaVAE(beta=[4, 1e38]), steps=20)
    assert train_run(run, CPU).diverged == (1,)
    assert run.members()["status"].tolist() == ["trained", "diverged"]


def test_resuming_a_run_whose_members_all_diverged_does_nothing(
    tmp_path: Path, new_run, bits_of, same_bits
):
    run = new_run(tmp_path / "run", learning_rate=1e30)
    assert train_run(run, CPU) == Outcome(True, (0,))
    before, done = bits_of(run)[0], []
    assert train_run(run, CPU, lambda units, found: done.append((units, found))) == Outcome(
        True, (0,)
    )
    assert same_bits(before, bits_of(run)[0])
    assert all(found for _, found in done)
    assert sum(units for units, _ in done) == 20


def test_training_ends_when_every_member_has_diverged(tmp_path: Path, new_run):
    run, stepped = new_run(tmp_path / "run", learning_rate=1e30, steps=5000, seeds=2), []
    train_run(run, CPU, lambda units, found: stepped.append(0 if found else units))
    assert 0 < sum(stepped) < 2 * 500
    assert all(result.step < 500 for _, result in run.results())


def test_members_and_history_tables(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run", ub.BetaVAE(beta=[1, 4]), seeds=[9], steps=22, log_every=5)
    counted = []
    train_run(run, CPU, lambda units, found: counted.append((units, found)))
    assert sum(units for units, _ in counted) == 44
    assert sum(units for units, found in counted if not found) == 44
    assert run.members().to_dict("list") == {
        "member": [0, 1],
        "label": ["beta_vae beta=1 seed=9", "beta_vae beta=4 seed=9"],
        "objective": ["beta_vae", "beta_vae"],
        "seed": [9, 9],
        "learning_rate": [1e-3, 1e-3],
        "beta": [1.0, 4.0],
        "status": ["trained", "trained"],
        "steps": [22, 22],
    }
    history = run.history()
    assert list(history.columns) == ["member", "step", "reconstruction", "kl", "loss"]
    assert history["step"].tolist() == [5, 10, 15, 20] * 2
    # loss = reconstruction + beta KL survives averaging
    beta = history["member"].map({0: 1.0, 1: 4.0})
    pd.testing.assert_series_equal(
        history["loss"],
        history["reconstruction"] + beta * history["kl"],
        rtol=1e-5,
        check_names=False,
        check_dtype=False,
    )
    state = run.results()[0][1]
    assert torch.equal(
        torch.tensor(history[history["member"] == 0].iloc[:, 2:].to_numpy()), state.history[0]
    )


@pytest.mark.parametrize(
    ("objective", "steps", "halt"),
    [("beta_tcvae", 40, 27), ("annealed_vae", 40, 3), ("factor_vae", 6, 4)],
)
def test_a_stopped_run_ends_with_the_same_bits(
    tmp_path: Path,
    new_run,
    bits_of,
    same_bits,
    save_when_asked,
    objective: str,
    steps: int,
    halt: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    whole = new_run(tmp_path / "whole", objective, steps=steps, log_every=4)
    train_run(whole, CPU)
    broken = new_run(tmp_path / "broken", objective, steps=steps, log_every=4, checkpoint_seconds=0)
    with pytest.raises(Halt):
        train_run(broken, CPU, halting_after(halt))
    reached = [step for step, _ in broken.checkpoints(broken.chunks()[0]).files()]
    assert reached == [halt - 1, halt - 2]
    again = RunFolder.open(tmp_path / "broken")
    done = []
    assert train_run(again, CPU, lambda units, found: done.append((units, found))).finished
    assert done[0] == (halt - 1, True)
    assert sum(units for units, _ in done) == steps
    assert same_bits(bits_of(again)[0], bits_of(whole)[0])
    pd.testing.assert_frame_equal(again.history(), whole.history())


@pytest.mark.parametrize(
    ("seconds", "saved"),
    [
        (0.0, [1, 31, 50, 80, 100]),
        (20.0, [20, 50, 80, 100]),
        (40.0, [40, 50, 90, 100]),
        (1e6, [50, 100]),
    ],
)
def test_saving_takes_no_more_than_a_tenth_of_the_time(
    tmp_path: Path, new_run, monkeypatch: pytest.MonkeyPatch, seconds: float, saved: list
):
    """By a clock on which a step takes a second and writing a checkpoint three."""
    clock, real, steps = [0.0], TrainingStep.step, []

    def step(self: TrainingStep, state) -> None:
        real(self, state)
        clock[0] += 1.0

    class Noted(BackgroundSave):
        def __call__(self, tensors, step, write) -> None:
            steps.append(step)
            self.seconds = 3.0

    monkeypatch.setattr(TrainingStep, "step", step)
    monkeypatch.setattr(chunk_training, "BackgroundSave", Noted)
    monkeypatch.setattr(chunk_training, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    train_run(new_run(tmp_path / "run", steps=100, checkpoint_seconds=seconds), CPU)
    assert steps == saved


def test_too_little_memory_on_the_device_is_told_with_a_remedy(
    tmp_path: Path, new_run, monkeypatch: pytest.MonkeyPatch
):
    def full(self: TrainingStep, state) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(TrainingStep, "step", full)
    run = new_run(tmp_path / "run", seeds=3, chunk_size=3)
    with pytest.raises(UnbraidError) as caught:
        train_run(run, CPU)
    assert (
        str(caught.value)
        == "the memory of cpu, which others may use too, has no room for 3 members that train"
        " together. Nothing saved is lost: free some memory and run `unbraid resume"
        f" {run.path}`, or start again with a smaller batch size."
    )


def test_ctrl_c_writes_a_checkpoint_and_says_unfinished(
    tmp_path: Path, new_run, bits_of, same_bits, monkeypatch: pytest.MonkeyPatch
):
    whole = new_run(tmp_path / "whole", seeds=3, steps=60)
    train_run(whole, CPU)
    begun = threading.Event()
    real_wait, real_step = train_module.wait, TrainingStep.step

    def slow_step(self: TrainingStep, state) -> None:
        begun.wait(10) if state.step == 7 else None
        real_step(self, state)
        if state.step == 7:
            stopped.wait(10)

    stopped = threading.Event()

    def interrupted(*args, **kwargs):
        begun.set()
        real_wait(args[0], timeout=0.2)
        threading.Timer(0.1, stopped.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingStep, "step", slow_step)
    monkeypatch.setattr(train_module, "wait", interrupted)
    run = new_run(tmp_path / "run", seeds=3, steps=60)
    assert train_run(run, CPU) == Outcome(False, ())
    assert not (run.path / "members.parquet").exists()
    steps = [run.checkpoints(chunk).files() for chunk in run.chunks()]
    assert any(files and files[0][0] < 60 for files in steps), (
        "the interruption came too late to show anything"
    )
    monkeypatch.undo()
    assert train_run(run, CPU).finished
    left, right = bits_of(run), bits_of(whole)
    assert all(same_bits(left[k], right[k]) for k in range(3))


def test_a_failing_chunk_stops_the_others_and_its_error_comes_out(
    tmp_path: Path, new_run, monkeypatch: pytest.MonkeyPatch
):
    real = TrainingStep.step

    def failing(self: TrainingStep, state) -> None:
        if self.members[0].id == 0 and state.step == 2:
            raise RuntimeError("no memory")
        real(self, state)

    monkeypatch.setattr(TrainingStep, "step", failing)
    run = new_run(tmp_path / "run", seeds=4, steps=100_000)
    with pytest.raises(RuntimeError, match=r"^no memory$"):
        train_run(run, CPU)


def test_a_second_process_is_refused(tmp_path: Path, new_run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(train_module, "_PATIENCE", 0.05)
    run = new_run(tmp_path / "run")
    with only_one(run.path), pytest.raises(InputError) as caught:
        train_run(run, CPU)
    assert (
        str(caught.value)
        == f"{run.path} is being written by another process; wait for it to end or stop it."
    )


def ids(run: RunFolder) -> list[list[int]]:
    return [[member.id for member in chunk] for chunk in run.chunks()]


def test_chunks_hold_members_of_several_kinds_that_share_their_passes(tmp_path: Path, new_run):
    iwae = ub.IWAE(importance_samples=2)  # type: ignore[attr-defined]
    objectives = ["vae", "ada_gvae", "beta_vae", iwae, "ada_mlvae"]
    run = new_run(tmp_path / "run", objectives, chunk_size=4, seeds=3)
    # Pairs, and several latents an image, have chunks of their own; all are of equal size.
    assert ids(run) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14]]
    larger = RunFolder(run.path, run.plan, 6, run.dataset)
    assert ids(larger) == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 12, 13, 14], [9, 10, 11]]


def test_kinds_stand_together_however_members_were_ordered(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run", ["vae", "beta_vae"], seeds=2)
    members = tuple(run.plan.members[place] for place in (0, 2, 1, 3))
    mixed = RunFolder(run.path, dataclasses.replace(run.plan, members=members), 8, run.dataset)
    assert ids(mixed) == [[0, 1, 2, 3]]


def test_runs_of_earlier_versions_keep_their_chunks(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run", ["vae", "beta_vae", "dip_vae_i"], chunk_size=2, seeds=3)
    former = RunFolder(run.path, run.plan, 2, run.dataset, mixed_chunks=False)
    assert ids(former) == [[0, 1], [2], [3, 4], [5], [6, 7], [8]]


def test_a_run_of_larger_chunks_trains_resumes_and_lists_every_member(
    tmp_path: Path, new_run, bits_of, same_bits, save_when_asked
):
    whole = new_run(tmp_path / "whole", chunk_size=3, seeds=3, steps=24, log_every=4)
    train_run(whole, CPU)
    broken = new_run(
        tmp_path / "broken", chunk_size=3, seeds=3, steps=24, log_every=4, checkpoint_seconds=0
    )
    with pytest.raises(Halt):
        train_run(broken, CPU, halting_after(30))
    again = RunFolder.open(broken.path)
    assert again.members()["status"].tolist() == ["unfinished"] * 3
    assert again.members()["steps"].tolist() == [9] * 3
    assert again.history().groupby("member")["step"].max().tolist() == [8] * 3
    train_run(again, CPU)
    assert again.members()["status"].tolist() == ["trained"] * 3
    left, right = bits_of(again), bits_of(whole)
    assert all(same_bits(left[k], right[k]) for k in range(3))


def test_bfloat16_trains_and_differs_from_float32(tmp_path: Path, new_run):
    losses = {}
    for precision in ("float32", "bfloat16"):
        run = new_run(tmp_path / precision, precision=precision, steps=20)
        assert train_run(run, CPU) == Outcome(True, ())
        losses[precision] = run.history()["loss"]
    pd.testing.assert_series_equal(losses["bfloat16"], losses["float32"], rtol=0.02)
    assert not losses["bfloat16"].equals(losses["float32"])


def test_every_worker_takes_chunks_and_places_change_no_bit(
    tmp_path: Path, new_run, bits_of, same_bits, monkeypatch: pytest.MonkeyPatch
):
    """As several GPUs would: each worker has a device of its own and takes the next chunk."""
    alone = new_run(tmp_path / "alone", seeds=6, chunk_size=2)
    monkeypatch.setattr(train_module, "workers", lambda device: [device])
    train_run(alone, CPU)
    run = new_run(tmp_path / "run", seeds=6, chunk_size=2)
    monkeypatch.setattr(train_module, "workers", lambda device: [device] * 3)
    taken, real, together = [], TrainingStep.start, threading.Barrier(3, timeout=20)

    def start(self: TrainingStep) -> State:
        together.wait()  # three workers are here at the same time
        taken.append((threading.current_thread().name, [one.id for one in self.members]))
        return real(self)

    monkeypatch.setattr(TrainingStep, "start", start)
    done: list[tuple[int, ...]] = []
    assert train_run(
        run, CPU, chunk_done=lambda chunk: done.append(tuple(one.id for one in chunk))
    ).finished
    assert len({thread for thread, _ in taken}) == 3
    assert sorted(ids for _, ids in taken) == [[0, 1], [2, 3], [4, 5]]
    assert sorted(done) == [(0, 1), (2, 3), (4, 5)]
    left, right = bits_of(run), bits_of(alone)
    assert all(same_bits(left[member], right[member]) for member in range(6))


def test_chunks_that_were_done_before_are_told_too(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run", seeds=2, keep_optimiser=False)
    train_run(run, CPU)
    done: list[int] = []
    train_run(run, CPU, chunk_done=lambda chunk: done.extend(one.id for one in chunk))
    assert sorted(done) == [0, 1]


def test_what_goes_wrong_with_a_chunk_that_is_done_comes_out(tmp_path: Path, new_run):
    def fail(chunk) -> None:
        raise UnbraidError("no room for scores")

    run = new_run(tmp_path / "run")
    with pytest.raises(UnbraidError, match="no room for scores"):
        train_run(run, CPU, chunk_done=fail)
    with pytest.raises(UnbraidError, match="no room for scores"):
        train_run(run, CPU, chunk_done=fail)


def test_another_thread_can_stop_it_at_a_checkpoint(
    tmp_path: Path, new_run, bits_of, same_bits, save_when_asked
):
    whole, run = (new_run(tmp_path / name, steps=40) for name in ("whole", "stopped"))
    train_run(whole, CPU)
    stop = threading.Event()

    def at_once(model_steps: int, found_done: bool) -> None:
        stop.set()

    assert not train_run(run, CPU, at_once, stop=stop).finished
    (chunk,) = run.chunks()
    assert 0 < run.checkpoints(chunk).files()[0][0] < 40
    assert train_run(run, CPU).finished
    assert all(same_bits(bits_of(run)[one], bits_of(whole)[one]) for one in bits_of(whole))


@pytest.mark.parametrize("again", [False, True])
def test_a_run_moved_while_it_trains_stops_and_is_not_made_again(
    tmp_path: Path, new_run, again: bool
):
    run, moved = new_run(tmp_path / "run"), tmp_path / "moved"

    def move(model_steps: int, found_done: bool) -> None:
        if not moved.exists():
            run.path.rename(moved)
            if again:  # somebody makes a folder of that name
                run.path.mkdir()

    with pytest.raises(UnbraidError) as told:
        train_run(run, CPU, move)
    assert str(told.value).startswith(f"{run.path} was moved or removed while it was written")
    assert [*tmp_path.glob("run/*")] == []
    assert run.path.exists() == again
    assert train_run(RunFolder.open(moved), CPU) == Outcome(True, ())


def test_training_ends_where_every_member_has_diverged(tmp_path: Path):
    run = ub.train(
        *("sprites", "vae"),
        **{"data_options": {"image_size": 28, "x": 4, "y": 2, "scale": 1}, "network": "mlp"},
        **{"network_options": {"hidden": 8}, "latents": 2, "batch_size": 4, "steps": 5_000},
        **{"seeds": 2, "learning_rate": 1e30, "out": tmp_path / "run", "quiet": True},
        device="cpu",
    )
    assert run.members["status"].tolist() == ["diverged", "diverged"]
    assert max(found.step for _, found in run.folder.results()) < 100
