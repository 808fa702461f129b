# SPDX-License-Identifier: Apache-2.0
"""Leftovers of killed commands: known by their names or their note, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.core.begun import NOTE, before_record, holds_anything, leftovers, remove_leftovers
from unbraid.core.store import write_json


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed(folder: Path) -> None:
    """As a kill within `before_record` leaves a folder."""
    write_json(folder / NOTE, {"record": "plan.json", "files": ["images.npy"]})
    for name in ("images.npy", ".plan.json.12.part", ".tmpaB3xYz", ".lock"):
        (folder / name).write_text("x")


def test_halves_and_noted_files_are_leftovers_and_can_be_removed(tmp_path: Path):
    killed(tmp_path)
    assert not holds_anything(tmp_path)
    remove_leftovers(tmp_path)
    assert names(tmp_path) == {".lock"}


def test_other_files_are_kept_and_count(tmp_path: Path):
    killed(tmp_path)
    (tmp_path / "indices.npy").write_text("mine")
    assert holds_anything(tmp_path)
    remove_leftovers(tmp_path)
    assert names(tmp_path) == {".lock", "indices.npy"}


@pytest.mark.parametrize("note", [None, "{}"])
def test_a_file_without_a_good_note_is_no_leftover(tmp_path: Path, note: str | None):
    (tmp_path / "images.npy").write_text("mine")
    if note is not None:
        (tmp_path / NOTE).write_text(note)
    assert holds_anything(tmp_path)
    assert tmp_path / "images.npy" not in leftovers(tmp_path)


def test_what_is_noted_belongs_to_the_record_once_that_is_written(tmp_path: Path):
    killed(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == {".lock", "images.npy", "plan.json"}


def test_a_note_names_no_file_outside_its_folder(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").write_text("mine")
    write_json(tmp_path / "folder" / NOTE, {"record": "plan.json", "files": ["../other"]})
    remove_leftovers(tmp_path / "folder")
    assert names(tmp_path) == {"folder", "other"}


def test_a_failure_leaves_nothing_and_a_success_leaves_the_files(tmp_path: Path):
    def interrupted() -> None:
        with before_record(tmp_path, "plan.json", "images.npy"):
            (tmp_path / "images.npy").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == set()
    with before_record(tmp_path, "plan.json", "images.npy"):
        for name in ("images.npy", "plan.json"):
            (tmp_path / name).write_text("x")
    assert names(tmp_path) == {"images.npy", "plan.json"}
