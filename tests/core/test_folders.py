# SPDX-License-Identifier: Apache-2.0
"""Which folders there are, and which files make them so."""

import errno
import os
from pathlib import Path

import pytest

from unbraid.core.errors import InputError, UnbraidError
from unbraid.core.folders import (
    PAGES,
    RECORDS,
    check_kind,
    check_not_above,
    check_writable,
    given_path,
    kind_of,
    meant,
    next_folder,
    record_path,
)


@pytest.mark.parametrize(
    ("kind", "file"),
    [(kind.name, file) for kind in RECORDS.values() for file in (kind.record, *kind.former)],
)
def test_a_folder_is_of_the_kind_of_its_record_under_its_new_and_its_former_name(
    kind, file, tmp_path
):
    (tmp_path / file).write_text("{}")
    assert kind_of(tmp_path) == kind
    assert record_path(tmp_path, kind) == tmp_path / file


def test_without_a_record_the_new_name_is_the_one_to_write(tmp_path):
    assert record_path(tmp_path, "pbt") == tmp_path / "pbt.json"
    assert kind_of(tmp_path) is None


def test_a_finished_search_is_a_search_though_it_holds_a_run(tmp_path):
    for name in ("plan.json", "pbt.json"):
        (tmp_path / name).write_text("{}")
    assert kind_of(tmp_path) == "pbt"


def test_a_folder_without_a_record_is_refused(tmp_path):
    with pytest.raises(InputError) as refused:
        check_kind(tmp_path, "resume")
    (problem,) = refused.value.problems
    assert (problem.name, problem.value) == ("folder", str(tmp_path))


def test_a_folder_of_runs_names_them_and_what_to_type(tmp_path):
    for number in range(10):
        (tmp_path / f"run {number}").mkdir()
        (tmp_path / f"run {number}" / "plan.json").write_text("{}")
    (tmp_path / "notes").mkdir()
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InputError) as refused:
        check_kind(tmp_path, "resume")
    (problem,) = refused.value.problems
    assert (problem.name, problem.value) == ("folder", str(tmp_path))
    assert problem.remedy.startswith("It holds run 0, run 1, run 2, ")
    assert problem.remedy.endswith(f"run 7, ...: unbraid resume '{tmp_path / 'run 0'}'")
    check_not_above(tmp_path / "run 0", "resume")
    check_not_above(tmp_path / "nowhere", "resume")


def test_a_recursion_that_lost_its_record_is_no_folder_of_runs(tmp_path):
    for name in ("root", "leaf-0", "final-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").write_text("{}")
    check_not_above(tmp_path, "resume")
    with pytest.raises(InputError) as refused:
        check_kind(tmp_path, "resume")
    assert "must hold one of" in refused.value.problems[0].rule


def test_a_folder_in_it_that_cannot_be_read_is_passed_over(tmp_path, monkeypatch):
    usual = Path.lstat

    def denied(self):
        if "lost+found" in self.parts:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return usual(self)

    for name in ("lost+found", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(Path, "lstat", denied)
    check_not_above(tmp_path, "resume")
    (tmp_path / "run" / "plan.json").write_text("{}")
    with pytest.raises(InputError) as refused:
        check_not_above(tmp_path, "resume")
    assert refused.value.problems[0].remedy.startswith("It holds run: ")


def test_pages_are_called_by_their_command():
    assert {verb: page for verb, page in PAGES.items() if page != f"{verb}.html"} == {
        "train": "report.html"
    }


def test_the_next_folder_is_the_first_that_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert next_folder("a/b c") == Path("runs/a-b-c-1")
    Path("cuts/x-1").mkdir(parents=True)
    assert next_folder("x", "cuts") == Path("cuts/x-2")


def test_a_home_is_written_out_and_other_paths_are_refused_by_name(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert given_path("out", "~/x") == Path("/home/me/x")
    assert given_path("out", "a/~x") == Path("a/~x")
    for text, rule in (
        ("~nobody_of_that_name/x", "must begin with ~ only where that is somebody's home"),
        ("bad\udcff", "must be a path whose name is text in UTF-8"),
    ):
        with pytest.raises(InputError) as caught:
            given_path("out", text)
        (problem,) = caught.value.problems
        assert (problem.name, problem.rule) == ("out", rule)
        str(problem).encode()


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    check_writable("out", tmp_path / "new" / "deeper")
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    for folder, rule in (
        (tmp_path / "file", "must be a folder"),
        (tmp_path / "file" / "x", "must be a folder"),
        (tmp_path / "new", "must be a folder that can be written"),
        (tmp_path / ("a" * 300), "must be a folder that can be made"),
    ):
        with pytest.raises(InputError) as caught:
            check_writable("out", folder)
        assert [problem.rule for problem in caught.value.problems] == [rule]


def test_an_unreadable_folder_is_not_an_empty_one(tmp_path, monkeypatch):
    def denied(self):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "lstat", denied)
    with pytest.raises(UnbraidError) as told:
        kind_of(tmp_path)
    assert str(told.value).startswith(f"{tmp_path} cannot be read: Permission denied. Give ")


def test_a_folder_beside_it_with_nearly_its_name_is_offered(tmp_path):
    for name in ("first", "second", "dsprites-beta_vae-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "frist.csv").write_text("")
    with pytest.raises(InputError, match=f"must exist; got '{tmp_path / 'frist'}'. Did you mean"):
        check_kind(tmp_path / "frist", "resume")
    assert meant(tmp_path / "frist") == f"Did you mean {tmp_path / 'first'}?"
    assert meant(tmp_path / "dsprites-vae-1") == f"Did you mean {tmp_path / 'dsprites-beta_vae-1'}?"
    assert meant(tmp_path / "third") == ""
    assert meant(tmp_path / "no" / "where") == ""
