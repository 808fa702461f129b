# SPDX-License-Identifier: Apache-2.0
"""`resume`: any kind of folder, moved data, damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import unbraid as ub
from unbraid.commands.resume import resume
from unbraid.core.folders import PERTURBED, RECORDS
from unbraid.core.store import write_json

from .conftest import SMALL


def test_a_finished_run_is_left_as_it_is(run: Path, contents):
    before = contents(run)
    opened = resume(run, device="cpu", quiet=True)
    assert isinstance(opened, ub.Run)
    assert contents(run) == before


def test_an_unfinished_run_is_neither_scored_nor_reported_before(run: Path, refused):
    for path in [
        *(run / "checkpoint").glob("*step-000000020*"),
        run / "members.parquet",
        run / "history.parquet",
    ]:
        path.unlink()
    again = ub.open_run(run, device="cpu")
    for ask in (lambda: again.score("mig", quiet=True), again.report):
        (problem,) = refused(ask)
        assert (problem.name, problem.rule) == ("run", "must be trained to the end")
    opened = resume(run, device="cpu", quiet=True)
    assert isinstance(opened, ub.Run)
    assert len(opened.score("mig", quiet=True)) == 4


@pytest.mark.parametrize("kind", [name for name in RECORDS if name != "train"])
def test_options_of_moved_data_are_read_alike(tmp_path: Path, monkeypatch, kind: str):
    write_json(tmp_path / RECORDS[kind].record, {})
    given: list[object] = []
    monkeypatch.setattr(
        f"unbraid.commands.{kind}.resume_folder", lambda *words: given.extend(words)
    )
    resume(tmp_path, data="there.npz:resize=64", device="cpu", quiet=True)
    assert given == [tmp_path, "there.npz:resize=64", "cpu", True]


def test_a_run_whose_data_was_moved_is_given_the_place(unbraid, tmp_path: Path):
    images = np.random.default_rng(0).integers(0, 256, (12, 20, 20), dtype=np.uint8)
    here, there, out = tmp_path / "here.npz", tmp_path / "there.npz", str(tmp_path / "run")
    np.savez(here, images=images, factors=np.arange(12) % 4)
    ub.train(here, "vae", out=out, **{**SMALL, "data_options": {"resize": 28}})
    here.rename(there)
    gone = unbraid("report", out)
    assert gone.code == 2
    assert "give its new place with --data NEW_PLACE" in gone.err
    assert unbraid("report", out, "--data", f"{there}:resize=32").code == 2
    # Its options need not be repeated, and may be.
    assert unbraid("report", out, "--data", str(there)).code == 0
    moved = ("--data", f"{there}:resize=28")
    assert unbraid("score", out, "--metrics", "mig", *moved).code == 0
    assert unbraid("resume", out, *moved).code == 0


def test_options_of_an_array_need_not_be_repeated(tmp_path: Path, refused):
    images = np.random.default_rng(0).integers(0, 256, (12, 20, 20), dtype=np.uint8)
    labels = np.arange(12) % 4
    data = ub.load(images, resize=28, factors=labels, factor_names=["kind"])
    run = ub.train(data, "vae", out=tmp_path / "run", **{**SMALL, "data_options": {}})
    (problem,) = refused(lambda: ub.open_run(run.path, data=images))
    assert problem.name == "data", "labels in memory must be given again"
    again = ub.load(images, resize=28, factors=labels, factor_names=["kind"])
    assert ub.open_run(run.path, data=again).dataset.factor_names == ("kind",)


@pytest.mark.parametrize("kind", [name for name in RECORDS if name != "train"])
@pytest.mark.parametrize("name", ["steps", "seeds"])
def test_more_of_a_search_is_refused(unbraid, tmp_path: Path, kind: str, name: str):
    write_json(tmp_path / RECORDS[kind].record, {})
    answer = unbraid("resume", str(tmp_path), f"--{name}", "7")
    rule = f"--{name} can be given for a run of `unbraid train` alone; got 7."
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"unbraid: {rule}")


def test_more_seeds_by_the_command_line(unbraid, run: Path):
    assert unbraid("report", str(run)).code == 0
    answer = unbraid("resume", str(run), "--seeds", "3", "--device", "cpu")
    assert (answer.code, answer.out.splitlines()[0]) == (0, f"Trained 6 of 6 models: {run}")
    assert not (run / "report.html").exists()
    assert "report.html told of what was there before, and is removed." in answer.err
    assert f"Afterwards: unbraid report {run}" in answer.err
    for word in ("1", "two", "3,4"):
        answer = unbraid("resume", str(run), "--seeds", word)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.count("\n") == 1


def test_what_is_no_such_folder_is_refused(unbraid, tmp_path: Path):
    answer = unbraid("resume", str(tmp_path))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("unbraid: folder must hold one of discover.json, rpu.json, ")
    for command in ("score", "report"):
        answer = unbraid(command, str(tmp_path))
        assert (answer.code, answer.out) == (2, "")
        assert f"got '{tmp_path}'. " in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ask", "name"), [(resume, "folder"), (ub.open_run, "run")])
def test_a_folder_that_does_not_exist_is_called_so(tmp_path: Path, refused, ask, name: str):
    (tmp_path / "file").touch()
    for given, rule in (("none", "must exist"), ("file", "must be a folder")):
        (problem,) = refused(lambda given=given: ask(tmp_path / given))
        assert (problem.name, problem.rule) == (name, rule)
        assert problem.value == str(tmp_path / given)


@pytest.mark.parametrize("ask", [resume, ub.open_run])
def test_perturbed_data_is_called_so(tmp_path: Path, refused, ask):
    (tmp_path / PERTURBED).write_text("{}")
    (problem,) = refused(lambda: ask(tmp_path))
    assert f"unbraid train {tmp_path}" in problem.remedy


def test_stopped_before_training_says_how_to_go_on(unbraid, run: Path, monkeypatch):
    def stop(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unbraid.commands.train.resume_folder", stop)
    answer = unbraid("resume", str(run))
    assert answer.code == 130
    assert answer.err.endswith(f"unbraid resume {run}\n")


@pytest.mark.parametrize("command", ["score", "resume", "report"])
def test_a_damaged_plan_is_code_one(unbraid, run: Path, contents, command: str):
    path = run / "plan.json"
    path.write_text(path.read_text().replace('"steps": 20', '"steps": 21'))
    before = contents(run)
    message = f"unbraid: {path} is damaged: its content does not match its checksum. Put a copy"
    answer = unbraid(command, str(run))
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert answer.err.startswith(message)
    assert contents(run) == before


def test_a_damaged_checkpoint_is_passed_over_and_said(unbraid, run: Path):
    path = run / "checkpoint" / "members-00001-00001.step-000000020.safetensors"
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[-50] ^= 1
    path.write_bytes(bytes(spoiled))
    damaged = f"{path} is damaged: its content does not match its checksum."
    answer = unbraid("report", str(run))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"unbraid: {damaged} Run `unbraid resume {run}`")
    answer = unbraid("resume", str(run))
    assert answer.code == 0
    assert answer.err.splitlines()[:2] == [
        damaged,
        "no good checkpoint is left for these members; they train again from the start.",
    ]
    assert answer.out.splitlines()[0] == f"Trained 4 of 4 models: {run}"
    assert path.read_bytes() == whole


def test_a_kept_run_trains_on_with_more_steps(unbraid, tmp_path: Path):
    out = str(tmp_path / "run")
    ub.train("sprites", "vae", out=out, keep_optimiser=True, **SMALL)
    answer = unbraid("resume", out, "--steps", "30")
    assert answer.code == 0
    assert answer.out.splitlines()[0].startswith("Trained ")
    assert ub.open_run(out).members["steps"].unique().tolist() == [30]
    assert unbraid("resume", out, "--steps", "30").code == 0, "the same command goes on"
    assert ub.open_run(out, device="cpu").score("mig", quiet=True)["mig"].notna().all()


def test_more_steps_are_refused_where_there_is_nothing_to_go_on_from(
    unbraid, run: Path, tmp_path: Path
):
    answer = unbraid("resume", str(run), "--steps", "30")
    assert answer.code == 2
    assert answer.err.strip().endswith("Train it again, by `unbraid train --keep-optimiser`.")
    write_json(tmp_path / RECORDS["pbt"].record, {})
    answer = unbraid("resume", str(tmp_path), "--steps", "30")
    assert answer.code == 2
    assert "--steps can be given for a run of `unbraid train` alone" in answer.err
