# SPDX-License-Identifier: Apache-2.0
"""The README does what it says: its tables are those of the registry, its commands exist, its
quickstart runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from unbraid.commands.command_line import app
from unbraid.commands.list import KINDS
from unbraid.core.errors import InputError, UnbraidError
from unbraid.metrics import METRICS
from unbraid.readme import SPEED_FILE, fill, refresh
from unbraid.testing.metric_contract import check_metric

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tables_are_current():
    assert refresh(ROOT / "README.md", check=True).endswith("is up to date.")


def test_every_registered_name_is_in_its_table():
    for kind, registry in KINDS.items():
        block = re.search(rf"<!-- {kind}: generated -->\n(.*?)<!-- end -->", TEXT, re.DOTALL)
        assert block, kind
        for name in registry:
            assert f"[`{name}`](src/" in block[1], name


def test_table_links_lead_to_files():
    for path in re.findall(r"\]\((src/[^)]+|docs/[^)]+|CONTRIBUTING.md)\)", TEXT):
        assert (ROOT / path).exists(), path


def test_an_old_table_is_noticed_and_mended(tmp_path: Path):
    old = tmp_path / "README.md"
    old.write_text("<!-- metrics: generated -->\nold\n<!-- end -->\n", encoding="utf-8")
    with pytest.raises(UnbraidError, match=r"README.md is out of date; run `unbraid readme`\.$"):
        refresh(old, check=True)
    assert "old" in old.read_text(encoding="utf-8")
    refresh(old)
    assert "`mig`" in old.read_text(encoding="utf-8")
    assert refresh(old, check=True).endswith("is up to date.")


def test_a_missing_readme_is_said(tmp_path: Path):
    with pytest.raises(
        InputError,
        match=r"^README must be in the current folder; got '.*'\. Run this in the repository\.$",
    ):
        refresh(tmp_path / "README.md")


def test_the_speed_table_comes_from_the_benchmark_file(tmp_path: Path):
    record = {
        "rows": [{"what": "plain", "model_steps_per_second": 10.0, "ratio": 1.0}],
        "machine": "2 cores",
        "setting": "a set",
    }
    (tmp_path / SPEED_FILE.parent).mkdir(parents=True)
    (tmp_path / SPEED_FILE).write_text(json.dumps(record), encoding="utf-8")
    filled = fill("<!-- speed: generated -->\n<!-- end -->", tmp_path)
    assert "| plain | 10.0 | 1.00 |" in filled
    assert "2 cores; a set." in filled


@pytest.mark.parametrize("page", ["README.md", "docs/data.md"])
def test_the_commands_it_shows_exist_and_take_the_options_shown(page: str):
    words = {" ".join(path): command for path, command in all_commands(typer.main.get_command(app))}
    lines = re.findall(
        r"^    unbraid (.+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(lines) >= 10
    for line in lines:
        name = max((known for known in words if line.startswith(known)), key=len, default="")
        assert name, line
        extra = {"--beta", "--gamma"} if name == "train" else set()
        known = {option for parameter in words[name].params for option in parameter.opts} | extra
        shown = set(re.findall(r"(?<= )--[a-z-]+", re.sub(r'".*?"|#.*', "", line)))
        assert shown <= known, line


def all_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from all_commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_make_has_the_targets_it_shows():
    for target in ("demo", "test"):
        assert f"make {target}" in TEXT
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_quickstart_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    block = re.search(r"<!-- quickstart -->\n```python\n(.*?)```", TEXT, re.DOTALL)
    assert block
    assert len(block[1].splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(block[1], "README quickstart", "exec"), names)
    assert names["codes"].shape == (3, 10)  # type: ignore[attr-defined]
    assert (tmp_path / "runs" / "sprites-beta_vae-1" / "report.html").exists()
    assert "mig" in capsys.readouterr().out


@pytest.mark.parametrize("number", [0, 1])
def test_the_snippets_for_own_things_run(number: int, monkeypatch: pytest.MonkeyPatch):
    blocks = re.findall(r"```python\n(from dataclasses.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {"__name__": "readme_snippet"}
    exec(compile(blocks[number], "README snippet", "exec", dont_inherit=True), names)
    if number == 0:
        assert names["MyVAE"](weight=[1, 2]).sweep()[1].weight == 2.0  # type: ignore[operator]
    else:
        monkeypatch.setattr(METRICS, "load", lambda name: names[name])
        check_metric("linearity")
        factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        constant = np.column_stack([factors * -2.0, np.ones(4)])
        assert names["linearity"](constant, factors).score == pytest.approx(1.0)  # type: ignore[operator]
        assert names["Stripes"]().images([0, 7]).shape == (2, 32, 32, 1)  # type: ignore[operator]
