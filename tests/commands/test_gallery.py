# SPDX-License-Identifier: Apache-2.0
"""`gallery`: a line for each statement, and where the page may go."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import unbraid as ub
from unbraid.report.gallery import statements
from unbraid.report.gallery.statements import STATEMENTS, Verdict

QUICK = STATEMENTS[1]


def test_the_command_says_a_line_for_each(unbraid, tmp_path: Path, monkeypatch):
    fails = replace(QUICK, title="Mine", verdict=lambda found: Verdict(False, (), "number 5"))
    monkeypatch.setattr(statements, "STATEMENTS", [QUICK, fails])
    monkeypatch.chdir(tmp_path)
    answer = unbraid("gallery", "--seed", "4")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith(f"holds  {QUICK.title}: ")
    assert lines[1] == "FAILS  Mine: number 5"
    assert lines[-2].startswith("1 of 2 statements hold")
    page = Path("gallery/gallery.html")
    assert lines[-1] == f"Open in a browser: {page}"
    assert "unbraid gallery --seed 4" in page.read_text()
    assert unbraid("gallery").code == 0, "its own page is written anew"


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"seed": "lucky"}, "seed", "lucky"),
        ({"seed": -1}, "seed", -1),
        ({"out": "file"}, "out", "file"),
        ({"out": "file/deeper"}, "out", "file/deeper"),
        ({"out": "mine"}, "out", "mine"),
    ],
)
def test_bad_requests_compute_and_write_nothing(
    tmp_path, monkeypatch, contents, refused, options, name, value
):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("mine").mkdir()
    Path("mine/gallery.html").write_text("<p>my own images</p>")
    before = contents(tmp_path)

    def never(seed: int) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr(statements, "STATEMENTS", [replace(QUICK, compute=never)])
    (problem,) = refused(lambda: ub.gallery(**options))
    assert (problem.name, problem.value) == (name, value)
    assert contents(tmp_path) == before


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, refused, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (problem,) = refused(lambda: ub.gallery(out=tmp_path / "g", quiet=True))
    assert (problem.name, problem.rule) == ("out", "must be a folder that can be written")
