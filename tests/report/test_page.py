# SPDX-License-Identifier: Apache-2.0
"""How any page is written: from the files of its slice, with figures that JSON can hold."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import plotly.graph_objects as go
import pytest

from unbraid.report import page as module
from unbraid.report.figure import figure, line
from unbraid.report.page import is_page, is_whole_page, render_page, write_page

from .pages import Page, assert_sound

HOME = Path(module.__file__).parent
SLICES = [
    *("crossings", "data", "discover", "distances", "explore", "gallery"),
    *("pbt", "reduce", "rpu", "study", "train"),
]
CONTEXT = {
    "title": "Theory",
    "summary": "",
    "sections": [
        {
            "key": "one",
            "title": "One",
            "text": "A < B",
            "panels": [{"figure": "a", "heading": "A", "caption": "B"}],
            "holds": True,
            "seconds": "1",
            "numbers": [("n", "1")],
            "call": "",
            "papers": [],
        }
    ],
    "command": "",
}


def test_a_slice_has_a_context_and_a_template() -> None:
    assert sorted(path.parent.name for path in HOME.glob("*/page.html.j2")) == SLICES
    assert sorted(path.parent.name for path in HOME.glob("*/context.py")) == SLICES


def test_templates_and_styles_are_part_of_the_package() -> None:
    root = HOME.parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["unbraid"]
    packed = {path for pattern in patterns for path in HOME.parent.glob(pattern)}
    parts = {path for path in HOME.rglob("*") if path.suffix in (".j2", ".css", ".js")}
    assert len(parts) > 2 * len(SLICES) - 1
    assert parts <= packed


def test_the_look_is_written_once(tmp_path: Path) -> None:
    shown = {**CONTEXT, "figures": {"a": figure([line([0, 1], [2, 3], "n", "#000000")], x="t")}}
    path = write_page(tmp_path / "page.html", "gallery", shown)
    assert is_page(path, "gallery")
    assert not is_page(path, "data")
    page = Page(path)
    assert_sound(page, "gallery")
    assert page.template["layout"]["font"]["size"] == 12.5
    assert page.figures["a"]["layout"] == {"height": 270, "xaxis": {"title": {"text": "t"}}}
    assert "A < B" in page.text


def test_a_page_is_whole_as_it_was_written_and_made_from_what_it_was(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", "gallery", CONTEXT, "3f")
    assert is_whole_page(page, "3f")
    assert not is_whole_page(page, "40"), "it was copied from elsewhere"
    whole = page.read_bytes()
    page.write_bytes(whole.replace(b"made from: 3f", b"made from: 40"))
    assert not is_whole_page(page, "40"), "that does not make it another's"
    page.write_bytes(whole[:-1])
    assert not is_whole_page(page, "3f")
    page.unlink()
    assert not is_whole_page(page, "3f")


def test_pages_of_earlier_versions_do_not_say_what_they_were_made_from(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", "gallery", CONTEXT)
    assert is_whole_page(page, "3f")
    page.write_text(render_page("gallery", CONTEXT), "utf-8")  # nor had a checksum
    assert is_whole_page(page, "3f")


def test_a_number_that_a_browser_cannot_read_is_refused() -> None:
    wrong = go.Figure(go.Scatter(x=[0.0], y=[float("nan")]))
    with pytest.raises(ValueError, match="not JSON compliant"):
        render_page("gallery", {**CONTEXT, "figures": {"a": wrong}})


def test_sentences_for_the_terminal_do_without_plotly() -> None:
    code = (
        "import sys; from unbraid.report.discover import words; from unbraid.report.reduce import"
        " words; from unbraid.report import page; assert 'plotly' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_a_killed_report_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "render_page", lambda verb, context: "page")
    half = tmp_path / f".report.html.{2**22 + 1}.part"  # above any process's number
    half.write_text("half")
    write_page(tmp_path / "report.html", "train", {})
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
