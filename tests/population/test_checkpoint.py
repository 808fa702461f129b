# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: two are kept, damage is noticed, said and repaired without changing a bit of the
result.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from unbraid.core.errors import DamagedFileError, InputError, UnbraidError
from unbraid.core.files import half_of
from unbraid.core.store import read_json, read_tensors, write_json, write_tensors
from unbraid.population.more_training import extend
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import train_run

CPU = torch.device("cpu")
NEWEST, OLDER = (f"members-00000-00000.step-{step:09d}.safetensors" for step in (20, 10))


def truncate(path: Path) -> str:
    path.write_bytes(path.read_bytes()[:-100])
    return "it cannot be read ("


def flip(path: Path) -> str:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(bytes(content))
    return "its content does not match its checksum."


def empty(path: Path) -> str:
    path.write_bytes(b"")
    return "it cannot be read ("


def trained(new_run, folder: Path, *objective: str, **options) -> RunFolder:
    run = new_run(folder, *objective, **options)
    train_run(run, CPU)
    return run


def test_the_newest_two_are_kept(tmp_path: Path, new_run, save_when_asked):
    run = trained(new_run, tmp_path / "run", checkpoint_seconds=0)
    assert sorted(path.name for path in (run.path / "checkpoint").iterdir()) == [
        OLDER.replace("010", "019"),
        NEWEST,
    ]
    assert [step for step, _ in run.checkpoints(run.chunks()[0]).files()] == [20, 19]


def test_a_quick_run_keeps_halfway_and_end(tmp_path: Path, new_run):
    run = trained(new_run, tmp_path / "run")
    assert sorted(path.name for path in (run.path / "checkpoint").iterdir()) == [OLDER, NEWEST]


@pytest.mark.parametrize("damage", [truncate, flip, empty])
def test_a_damaged_newest_one_is_passed_over_and_said(
    tmp_path: Path, new_run, bits_of, same_bits, damage
):
    run = trained(new_run, tmp_path / "run")
    before = bits_of(run)[0]
    path = run.path / "checkpoint" / NEWEST
    reason = damage(path)
    said: list[str] = []
    assert train_run(run, CPU, warn=said.append).finished
    assert len(said) == 2
    assert said[0].startswith(f"{path} is damaged: {reason}")
    assert said[1] == f"going on from the last good checkpoint, {OLDER}."
    assert same_bits(bits_of(run)[0], before)
    assert sorted(path.name for path in (run.path / "checkpoint").iterdir()) == [
        OLDER,
        NEWEST,
        f"{NEWEST}.damaged",
    ]


def test_with_every_one_damaged_training_starts_again_and_says_so(
    tmp_path: Path, new_run, bits_of, same_bits
):
    run = trained(new_run, tmp_path / "run")
    before = bits_of(run)[0]
    flip(run.path / "checkpoint" / NEWEST)
    flip(run.path / "checkpoint" / OLDER)
    said: list[str] = []
    steps: list[int] = []
    train_run(run, CPU, lambda units, found: steps.append(0 if found else units), said.append)
    assert said == [
        f"{run.path / 'checkpoint' / NEWEST} is damaged: its content does not match its checksum.",
        f"{run.path / 'checkpoint' / OLDER} is damaged: its content does not match its checksum.",
        "no good checkpoint is left for these members; they train again from the start.",
    ]
    assert sum(steps) == 20
    assert same_bits(bits_of(run)[0], before)


def test_a_checkpoint_of_another_plan_is_refused(tmp_path: Path, new_run, bits_of, same_bits):
    run = trained(new_run, tmp_path / "run")
    before = bits_of(run)[0]
    other = trained(new_run, tmp_path / "other", seeds=[4])
    path = run.path / "checkpoint" / NEWEST
    shutil.copy(other.path / "checkpoint" / NEWEST, path)
    found = {one: one.read_bytes() for one in run.path.rglob("*.*et*")}
    assert len(found) == 4, "models and tables"
    said: list[str] = []
    for ask in (lambda: train_run(run, CPU, warn=said.append), lambda: extend(run, 30)):
        with pytest.raises(DamagedFileError) as caught:
            ask()
        assert str(caught.value).startswith(f"{path} belongs to another plan ")
    assert said == []
    assert {one: one.read_bytes() for one in found} == found, "it is good, and of somebody"
    path.unlink()
    train_run(run, CPU)
    assert same_bits(bits_of(run)[0], before)


def test_a_renamed_checkpoint_is_not_taken_for_a_later_step(tmp_path: Path, new_run):
    run = trained(new_run, tmp_path / "run")
    folder = run.path / "checkpoint"
    (folder / OLDER).rename(folder / NEWEST)
    said: list[str] = []
    train_run(run, CPU, warn=said.append)
    assert (
        said[-1] == "no good checkpoint is left for these members; they train again from the start."
    )


def test_a_checkpoint_from_before_members_had_an_age_goes_on_to_the_same_bits(
    tmp_path: Path, new_run, bits_of, same_bits
):
    run = trained(new_run, tmp_path / "run")
    before = bits_of(run)[0]
    folder = run.path / "checkpoint"
    (folder / NEWEST).unlink()
    tensors, about = read_tensors(folder / OLDER)
    assert tensors.pop("age").tolist() == [0]
    write_tensors(folder / OLDER, tensors, about)
    said: list[str] = []
    steps: list[int] = []
    train_run(run, CPU, lambda units, found: steps.append(0 if found else units), said.append)
    assert said == []
    assert sum(steps) == 10, "it went on from the middle"
    assert same_bits(bits_of(run)[0], before)
    assert read_tensors(folder / NEWEST)[0]["age"].tolist() == [0]


def test_good_checkpoints_raise_no_word(tmp_path: Path, new_run):
    run = trained(new_run, tmp_path / "run")
    said: list[str] = []
    train_run(run, CPU, warn=said.append)
    assert said == []


def test_reading_results_names_the_remedy(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run")
    checkpoints = run.checkpoints(run.chunks()[0])
    with pytest.raises(DamagedFileError) as caught:
        checkpoints.newest()
    assert (
        str(caught.value)
        == f"{run.path / 'checkpoint'} holds no checkpoint of member 0. Run `unbraid resume"
        f" {run.path}` to train it again, from the last good one if there is one."
    )
    train_run(run, CPU)
    flip(run.path / "checkpoint" / NEWEST)
    with pytest.raises(DamagedFileError) as caught:
        checkpoints.newest()
    assert (
        str(caught.value)
        == f"{run.path / 'checkpoint' / NEWEST} is damaged: its content does not match its"
        " checksum."
        f" Run `unbraid resume {run.path}` to train it again, from the last good one if there"
        " is one."
    )


def test_leftovers_of_a_killed_write_are_removed(tmp_path: Path, new_run):
    run = trained(new_run, tmp_path / "run")
    leftovers = [run.path / "checkpoint" / name for name in (f".{NEWEST}.1.part", ".tmpHrArx6")]
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    leftovers += [run.path / f".scores.parquet.{ended.pid}.part", run.path / "codes" / ".tmpHrArx6"]
    (run.path / "codes").mkdir()
    for leftover in leftovers:
        leftover.write_bytes(b"half")
    train_run(run, CPU)
    assert not any(leftover.exists() for leftover in leftovers)


def test_halves_of_who_scores_and_encodes_meanwhile_stay(tmp_path: Path, new_run):
    run = trained(new_run, tmp_path / "run")
    codes = run.path / "codes"
    codes.mkdir()
    places = (run.path / "scores.parquet", codes / "member-00000.safetensors")
    halves = [*map(half_of, places), codes / ".tmpHrArx6"]
    for half in halves:
        half.write_bytes(b"half")
    train_run(run, CPU)
    assert [half.read_bytes() for half in halves] == [b"half"] * 3


# Trained runs


def test_a_trained_run_keeps_weights_and_curves_alone(tmp_path: Path, new_run):
    kept = trained(new_run, tmp_path / "kept", "factor_vae", steps=6)
    run = trained(new_run, tmp_path / "run", "factor_vae", steps=6, keep_optimiser=False)
    (file,) = (run.path / "checkpoint").iterdir()
    tensors, about = read_tensors(file)
    assert about["trained"]
    assert sorted(tensors) == ["diverged_at", "history", "model.weights"]
    whole, _ = read_tensors(kept.checkpoints(kept.chunks()[0]).files()[0][1])
    assert all(torch.equal(tensors[name], whole[name]) for name in tensors)
    assert RunFolder.open(run.path).members().equals(kept.members())
    said: list[str] = []
    before = file.read_bytes()
    assert train_run(run, CPU, warn=said.append).finished
    assert said == []
    assert file.read_bytes() == before


def test_a_run_of_earlier_code_keeps_its_states_when_it_is_resumed(tmp_path: Path, new_run):
    run = trained(new_run, tmp_path / "run")
    record = read_json(run.path / "plan.json")
    for name in ("mixed_chunks", "keep_optimiser", "former_digests"):
        del record[name]
    write_json(run.path / "plan.json", record)
    opened = RunFolder.open(run.path)
    assert (opened.mixed_chunks, opened.keep_optimiser) == (False, True)
    train_run(opened, CPU)
    assert [step for step, _ in opened.checkpoints(opened.chunks()[0]).files()] == [20, 10]


def test_a_run_that_kept_its_states_goes_on_to_the_bits_of_a_longer_one(
    tmp_path: Path, new_run, bits_of, same_bits
):
    long = trained(new_run, tmp_path / "long", "beta_tcvae", seeds=2, steps=33)
    run = trained(new_run, tmp_path / "run", "beta_tcvae", seeds=2, steps=20)
    for name in ("scores.parquet", "report.html"):
        (run.path / name).write_bytes(b"of the shorter training")
    extend(run, 33)
    assert not (run.path / "scores.parquet").exists()
    assert not (run.path / "report.html").exists()
    assert not (run.path / "members.parquet").exists()
    run = RunFolder.open(run.path)
    assert run.plan.steps == 33
    done: list[int] = []
    train_run(run, CPU, lambda units, found: done.append(0 if found else units))
    assert sum(done) == 2 * 13
    ours, theirs = bits_of(run), bits_of(long)
    assert all(same_bits(ours[member], theirs[member]) for member in range(2))
    assert run.history().equals(long.history())
    assert RunFolder.open(run.path).members()["steps"].tolist() == [33, 33]


def test_a_run_without_states_cannot_be_trained_on(tmp_path: Path, new_run):
    run = trained(new_run, tmp_path / "run", keep_optimiser=False)
    with pytest.raises(InputError) as caught:
        extend(run, 40)
    assert str(caught.value) == (
        "steps needs a run that kept its optimiser's state; got"
        f" {run.path}, which kept the weights alone. Train it again, by `unbraid train"
        " --keep-optimiser`."
    )
    assert RunFolder.open(run.path).plan.steps == 20
    for steps in (20, 3, True, 21.5):
        with pytest.raises(InputError, match="must be a whole number above the 20 of"):
            extend(run, steps)  # type: ignore[arg-type]


def test_a_checkpoint_of_other_members_is_refused(tmp_path: Path, new_run):
    run = trained(new_run, tmp_path / "run")
    path = run.path / "checkpoint" / NEWEST
    tensors, about = read_tensors(path)
    write_tensors(path, tensors, about | {"members": [3]})
    said: list[str] = []
    train_run(run, CPU, warn=said.append)
    assert said[0] == f"{path} holds other members."


def test_extending_over_a_damaged_newest_state_goes_on_from_the_one_before(
    tmp_path: Path, new_run, bits_of, same_bits
):
    long = trained(new_run, tmp_path / "long", steps=30)
    run = trained(new_run, tmp_path / "run")
    empty(run.path / "checkpoint" / NEWEST)
    extend(run, 30)
    said: list[str] = []
    assert train_run(run, CPU, warn=said.append).finished
    assert said[1] == f"going on from the last good checkpoint, {OLDER}."
    assert same_bits(bits_of(run)[0], bits_of(long)[0])


def test_old_scores_are_gone_before_a_plan_has_more_steps(
    tmp_path: Path, new_run, monkeypatch: pytest.MonkeyPatch
):
    run = trained(new_run, tmp_path / "run")
    (run.path / "scores.parquet").write_bytes(b"of the shorter training")

    def killed(self: RunFolder) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "write_plan", killed)
    with pytest.raises(KeyboardInterrupt):
        extend(run, 30)
    assert not (run.path / "scores.parquet").exists()
    assert RunFolder.open(run.path).plan.steps == 20


def test_a_reader_meets_the_file_that_took_the_place_of_the_one_it_listed(
    tmp_path: Path, new_run, monkeypatch: pytest.MonkeyPatch
):
    run = trained(new_run, tmp_path / "run")
    checkpoints = run.checkpoints(run.chunks()[0])
    gone = [(10, run.path / "checkpoint" / "gone.safetensors")]
    listed = iter([gone, checkpoints.files()])
    monkeypatch.setattr(type(checkpoints), "files", lambda self: next(listed))
    assert checkpoints.newest().step == 20


@pytest.mark.parametrize("reads", ["resume", "results"])
def test_a_folder_of_checkpoints_that_may_not_be_read_is_not_empty(
    tmp_path: Path, new_run, monkeypatch, reads: str
):
    run = new_run(tmp_path / "run")
    train_run(run, CPU)
    listdir = os.listdir

    def denied(folder):
        if Path(folder).name == "checkpoint":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", denied)
    with pytest.raises(UnbraidError) as told:
        train_run(run, CPU) if reads == "resume" else run.trained(run.chunks()[0])
    message = f"{run.path / 'checkpoint'} cannot be read: Permission denied. Give "
    assert str(told.value).startswith(message)


@pytest.mark.parametrize("how", ["folder", "loop"])
def test_what_stands_in_the_place_of_the_newest_checkpoint_is_stepped_round(
    tmp_path: Path, new_run, how: str
):
    run = new_run(tmp_path / "run")
    train_run(run, CPU)
    checkpoints, right = run.checkpoints(run.chunks()[0]), run.results()[0][1].weights
    (_, newest), *_ = checkpoints.files()
    newest.unlink()
    newest.mkdir() if how == "folder" else newest.symlink_to(newest)
    with pytest.raises(DamagedFileError, match="Run `unbraid resume"):
        run.trained(run.chunks()[0])
    train_run(run, CPU)
    assert torch.equal(run.results()[0][1].weights, right)
