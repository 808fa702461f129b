# SPDX-License-Identifier: Apache-2.0
"""Documents of studies: verdicts and figures from tables, and code in the docs that runs."""

from __future__ import annotations

import importlib
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import unbraid as ub
from tools.docs import DocsError, study_pages
from unbraid.studies import STUDIES
from unbraid.studies.results import Results
from unbraid.studies.verdicts import judge

from ..studies.locatello2019_tables import FIVE
from ..studies.locatello2019_world import world, write_world
from .test_readme import ROOT, executed

README = (ROOT / "docs/studies/README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """The files of the study as they would be with tables of models that never were."""
    results = Results(STUDIES.load("locatello2019"), "gpu", tmp_path_factory.mktemp("world"))
    write_world(results, False)
    table = results.table()
    known, names = study_pages.found, study_pages.names
    study_pages.names = lambda: ["locatello2019"]
    study_pages.found = lambda name: (results, table, judged)  # type: ignore[assignment]
    judged = judge(results, table)
    try:
        return study_pages.files() | {Path("README.md"): study_pages.reproductions()}
    finally:
        study_pages.found, study_pages.names = known, names


def test_every_claim_has_a_section_with_its_verdict(made: dict[Path, str]):
    text = made[Path("docs/studies/locatello2019.md")]
    found = re.findall(r"^## (LOC-\w+)\n\n\*\*(.+?)\*\*: (.+)$", text, re.MULTILINE)
    claims = STUDIES.load("locatello2019").claims
    assert [(name, place) for name, _, place in found] == [(one.id, one.place) for one in claims]
    rows = re.findall(r"^\| \[(LOC-\w+)\]\(#\w[\w-]+\) \| ([a-z ]+) \|", text, re.MULTILINE)
    assert rows == [(name, verdict) for name, verdict, _ in found]
    assert dict(rows)["LOC-K1"] == "not reproduced"
    assert dict(rows)["LOC-F3l"] == "not run"
    assert "Not run. Needs the published file of cars3d." in text


def test_the_readme_counts_the_verdicts_of_the_page(made: dict[Path, str]):
    text = made[Path("docs/studies/locatello2019.md")]
    verdicts = re.findall(r"^\*\*([a-z ]+)\*\*: ", text, re.MULTILINE)
    counts = [
        verdicts.count(one) for one in ("reproduced", "not reproduced", "undecided", "not run")
    ]
    first = made[Path("README.md")].splitlines()[2]
    assert first.endswith(f"| {' | '.join(map(str, [18, *counts]))} |")
    assert first.startswith("| [Locatello et al. 2019](docs/studies/locatello2019.md), ")
    assert counts[1] >= 6


def test_figures_are_files_that_the_page_shows(made: dict[Path, str]):
    text = made[Path("docs/studies/locatello2019.md")]
    shown = re.findall(r"!\[[^]]+\]\(([^)]+\.svg)\)", text)
    here = [file for file in made if file.parent.name == "locatello2019"]
    drawn = [str(file.relative_to("docs/studies")) for file in here if file.suffix == ".svg"]
    assert shown == drawn
    assert len(drawn) == 1 + 16  # the answer first
    for file in drawn:
        figure = made[Path("docs/studies", file)]
        assert ET.fromstring(figure).tag == "{http://www.w3.org/2000/svg}svg"
        assert len(re.findall(r"https?://", figure)) == 1  # the name space


def test_a_page_has_the_date_of_its_tables_alone(made: dict[Path, str]):
    text = made[Path("docs/studies/locatello2019.md")]
    assert {*re.findall(r"\d{4}-\d\d-\d\d", text)} == {"2026-11-16"}


def test_prose_is_wrapped_and_cells_keep_to_their_column(made: dict[Path, str]):
    lines = made[Path("docs/studies/locatello2019.md")].splitlines()
    prose = [line for line in lines if not line.startswith(("|", "    ", "![", "<!--", "["))]
    assert [line for line in prose if len(line) > 100] == []
    for line in lines:
        if line.startswith("| "):
            assert line.count(" | ") in (1, 2, 3, 6), line


def test_findings_are_computed_once():
    assert study_pages.found("locatello2019") is study_pages.found("locatello2019")


def test_tables_that_cannot_be_read_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "results/gpu/main").mkdir(parents=True)
    (tmp_path / "results/gpu/main/x.parquet").write_bytes(b"torn")
    study = STUDIES.load("locatello2019")
    monkeypatch.setattr(
        study_pages, "Results", lambda *_: Results(study, "gpu", tmp_path / "results")
    )
    with pytest.raises(DocsError, match=r"the tables of study locatello2019 cannot .*x\.parquet"):
        study_pages.found.__wrapped__("locatello2019")


def test_three_questions_are_answered_in_five_lines_each(monkeypatch: pytest.MonkeyPatch):
    first, *blocks = re.findall(r"<!-- questions? -->\n```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 3
    assert all(len((first + block).replace("\n\n", "\n").splitlines()) <= 5 for block in blocks)
    monkeypatch.setattr(ub.studies, "table", lambda name: world())
    ratio, found, place = (
        executed(first + block, monkeypatch)[name]
        for block, name in zip(blocks, ("ratio", "found", "place"), strict=True)
    )
    assert {*ratio.index} == {*found.index} == {*place.index} == {*FIVE}
    # Settings decide almost all of Scream-dSprites in this table, and little of Noisy-dSprites.
    assert 0 < ratio["scream_dsprites"] < ratio["noisy_dsprites"]
    assert (found.abs() < 0.4).all()  # UDR is noise
    assert place["dsprites"] == 1.0
    assert (place >= 1).all()


def test_all_columns_are_described():
    rows = README[README.index("| column |") : README.index("A metric that a pool")]
    for column in world().columns:
        score = column.partition(".")[0].removesuffix("_sampled")
        assert f"`{column}`" in rows or score in ub.metrics.METRICS, column


@pytest.mark.slow
def test_the_study_of_the_docs_runs_and_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "your_package" / "you2026"
    home.mkdir(parents=True)
    own = README[README.index("## Write one") :]
    blocks = re.findall(r"`([\w.]+)`[^`]*?\n\n```(?:toml|python)\n(.*?)```", own, re.DOTALL)
    assert [name for name, _ in blocks] == ["claims.toml", "pools.py", "analysis.py", "__init__.py"]
    for name, text in blocks:
        (home / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    study = importlib.import_module("your_package.you2026").STUDY
    monkeypatch.setitem(STUDIES.__dict__, "_registered", {"you2026": study})
    monkeypatch.delitem(STUDIES.__dict__, "_all", raising=False)
    (before,) = ub.study.check("you2026", scale="small")
    assert (before.verdict, before.finding) == ("not run", None)
    ub.study.run("you2026", scale="small", device="cpu", quiet=True)
    (judged,) = ub.study.check("you2026", scale="small")
    assert judged.verdict == "reproduced"
    page = ub.study.report("you2026", scale="small", out=tmp_path / "page.html")
    assert "YOU-1" in page.read_text("utf-8")
    for name in [name for name in sys.modules if name.startswith("your_package")]:
        monkeypatch.delitem(sys.modules, name)
