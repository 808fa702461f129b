# SPDX-License-Identifier: Apache-2.0
"""README and docs do what they say: code runs, links lead somewhere, targets exist."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import unbraid as ub
from unbraid.metrics import METRICS
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS
from unbraid.testing.metric_contract import check_metric
from unbraid.testing.prior_contract import check_prior

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]


def test_the_readme_has_at_most_150_lines():
    assert len(README.splitlines()) <= 150


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def executed(code: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that a block of code of ours defines, as those of a module."""
    module = ModuleType("code_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "docs", "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the docs register is gone when the test is over."""
    for registry in (OBJECTIVES, PRIORS):
        monkeypatch.setitem(registry.__dict__, "_all", registry._all)
        monkeypatch.setitem(registry.__dict__, "_registered", dict(registry._registered))


def test_the_quickstart_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    code = README.split("<!-- quickstart -->\n```python\n")[1].split("```")[0]
    assert len(code.splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    assert code.count("steps=100,") == 1
    # After eight steps every model is collapsed still.
    quick = code.replace("steps=100,", "steps=8,")
    quick = quick.replace('best("mig")', 'best("mig", collapsed=True)')
    names = executed(quick, monkeypatch)
    assert names["codes"].shape == (3, 10)
    assert (tmp_path / "runs" / "sprites-beta_vae-1" / "report.html").exists()
    assert "mig" in capsys.readouterr().out


@pytest.mark.usefixtures("forgotten")
def test_the_objective_of_the_readme_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    code = README.split("<!-- snippet -->\n```python\n")[1].split("```")[0]
    objective = executed(code, monkeypatch)["MyVAE"](weight=[0, 2])
    data = {"image_size": 28, "x": 4, "y": 4, "scale": 1}
    out = tmp_path / "run"
    run = ub.train(
        "sprites", objective, data_options=data, steps=2, network="mlp:hidden=8", out=out
    )
    assert run.members["status"].tolist() == ["trained", "trained"]
    assert run.members["weight"].tolist() == [0.0, 2.0]


def test_the_metric_of_the_docs_passes_its_contract(monkeypatch: pytest.MonkeyPatch):
    (code,) = [block for block in python_blocks("docs/extending.md") if "@describe" in block]
    names = executed(code, monkeypatch)
    monkeypatch.setattr(METRICS, "load", lambda name: names[name])
    check_metric("linearity")
    factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    constant = np.column_stack([factors * -2.0, np.ones(4)])
    assert names["linearity"](constant, factors).score == pytest.approx(1.0)


def test_the_dataset_of_the_docs_has_images(monkeypatch: pytest.MonkeyPatch):
    (code,) = [block for block in python_blocks("docs/extending.md") if "class Stripes" in block]
    images = executed(code, monkeypatch)["Stripes"]().images([0, 7])
    assert images.shape == (2, 32, 32, 1)
    assert images[0, 0, :4, 0].tolist() == [0, 255, 0, 255]


@pytest.mark.usefixtures("forgotten")
def test_the_prior_of_the_docs_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (code,) = [block for block in python_blocks("docs/extending.md") if "(Prior)" in block]
    monkeypatch.chdir(tmp_path)
    run = executed(code, monkeypatch)["run"]
    assert run.members["status"].tolist() == ["trained", "trained"]
    assert run.members["label"].is_unique
    check_prior("laplace")


@pytest.mark.parametrize("code", python_blocks("docs/spelling.md"))
def test_the_examples_of_the_spelling_page_hold(code: str):
    test = doctest.DocTestParser().get_doctest(code, {}, "spelling.md", None, None)
    assert doctest.DocTestRunner().run(test).failed == 0
    assert len(test.examples) >= 2


def test_the_spelling_page_has_the_seven_languages():
    sections = (ROOT / "docs" / "spelling.md").read_text("utf-8").split("\n## ")[1:]
    assert len(sections) == 7
    for section in sections:
        assert "\n    unbraid " in section
        assert "\n>>> " in section


def calls(page: Path) -> list[ast.Call]:
    """The calls of `ub.something(...)` in the Python of a page, blocks and running text."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found = [code for code in blocks if ">>>" not in code] + re.findall(r"`(ub\.[^`]+\))`", text)
    return [
        node
        for code in found
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("ub.")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_in_the_docs_calls_what_exists(page: Path):
    for call in calls(page):
        function: Any = ub
        for name in ast.unparse(call.func).split(".")[1:]:
            function = getattr(function, name)
        arguments = [ast.unparse(one) for one in call.args if ast.unparse(one) != "..."]
        given = {one.arg: None for one in call.keywords if one.arg}
        bound = inspect.signature(function).bind_partial(*arguments, **given)
        assert given.keys() <= {*bound.arguments, *bound.kwargs}, ast.unparse(call)


def anchors(page: Path) -> set[str]:
    """The anchors that a forge makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_has_at_most_100_columns(page: Path):
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    prose = re.sub(r"!?\[[^]\n]*\]\([^)\n]*\)|`[^`\n]*`", "", prose)  # links and code may be longer
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "    ", "<!--"))]
    assert [line for line in lines if len(line) > 100] == []


def test_files_named_in_contributing_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = text[text.index("| looking for |") : text.index("## Rules")]
    files = re.findall(r"`([a-z_0-9/]+\.py)`", table)
    assert len(files) >= 12
    assert [file for file in files if not (ROOT / "src" / "unbraid" / file).exists()] == []


def test_make_has_the_targets_that_are_shown():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    shown = set(re.findall(r"make ([a-z-]+)(?:  |`)", text))
    assert {"demo", "test", "docs", "types", "test-slow", "test-gpu"} <= shown
    assert [target for target in shown if f"\n{target}: " not in makefile] == []


def test_the_speed_in_the_readme_is_the_measured_one():
    record = json.loads((ROOT / "benchmarks/results/throughput.json").read_text("utf-8"))
    rows = {row["what"]: row["ratio"] for row in record["rows"]}
    ratio = rows["Unbraid, population of 128, dsprites"]
    assert f"{ratio:.0f} times a plain loop with 128 models" in README


@pytest.mark.parametrize("file", ["CITATION.cff", "README.md"])
def test_the_citation_is_of_this_version(file: str):
    found = re.search(r"^\s*version\s*[:=]\s*\{?([0-9.]+)", (ROOT / file).read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] == ub.__version__
