# SPDX-License-Identifier: Apache-2.0
"""Which folders there are, and which files make them so."""

from pathlib import Path

import pytest

from unbraid.core.errors import InputError
from unbraid.core.folders import PAGES, RECORDS, check_kind, kind_of, next_folder, record_path


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
        check_kind(tmp_path)
    (problem,) = refused.value.problems
    assert (problem.name, problem.value) == ("folder", str(tmp_path))


def test_pages_are_called_by_their_command():
    assert {verb: page for verb, page in PAGES.items() if page != f"{verb}.html"} == {
        "train": "report.html"
    }


def test_the_next_folder_is_the_first_that_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert next_folder("a/b c") == Path("runs/a-b-c-1")
    Path("cuts/x-1").mkdir(parents=True)
    assert next_folder("x", "cuts") == Path("cuts/x-2")
