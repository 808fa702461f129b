# SPDX-License-Identifier: Apache-2.0
"""`py.typed` is honest: pyright accepts what people write, and sees what is wrong with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
WRONG = """
import unbraid as ub

ub.train("dsprites", ub.BetaVAE(beta="a"), seedz=3)
ub.train("dsprites", 3, steps="many")
ub.BetterVAE
ub.metrics.mgi
run: int = ub.open_run("runs/mine")
"""


def pyright(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Its complaints by file."""
    words = [sys.executable, "-m", "pyright", "-p", str(folder), "--outputjson"]
    shown = subprocess.run(words, capture_output=True, text=True)
    told = json.loads(shown.stdout)
    assert told["summary"]["filesAnalyzed"] > 0, shown.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for one in told["generalDiagnostics"]:
        found.setdefault(Path(one["file"]).name, []).append(one)
    return found


def test_user_code_passes_and_mistakes_are_seen(tmp_path: Path):
    """One run of pyright for both, since it takes seconds to start."""
    for name in ("user_code.py", "user_tables.py"):
        shutil.copy(HERE / name, tmp_path / name)
    (tmp_path / "wrong.py").write_text(WRONG)
    settings = json.loads((HERE / "pyrightconfig.json").read_text())
    settings["include"].append("wrong.py")
    settings |= {"extraPaths": [str(SOURCE)], "venvPath": str(HERE.parents[1])}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    found = pyright(tmp_path)
    wrong = found.pop("wrong.py")
    assert found == {}
    lines = {one["range"]["start"]["line"] for one in wrong if one["severity"] == "error"}
    assert lines == {3, 4, 5, 6, 7}, wrong


def test_user_code_has_no_cast_and_no_ignored_line():
    text = (HERE / "user_code.py").read_text()
    assert "cast(" not in text
    assert "ignore[" not in text
    assert "# type:" not in text
    assert "# pyright:" not in text


@pytest.mark.parametrize("name", ["train", "pbt", "rpu", "discover", "reduce", "perturb"])
def test_the_file_uses_every_command(name: str):
    assert f"ub.{name}(" in (HERE / "user_code.py").read_text()
