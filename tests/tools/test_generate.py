# SPDX-License-Identifier: Apache-2.0
"""`make docs` writes what is generated; with CHECK=1 it names what is stale and the remedy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tools.docs.__main__ import main
from tools.docs.generate import FROM_CODE, FROM_RESULTS, NAMES, stale
from unbraid.commands.list import KINDS, registry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The docs and the results they show, to be spoilt."""
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path / "benchmarks" / "results")
    (tmp_path / NAMES).parent.mkdir(parents=True)
    shutil.copy(ROOT / NAMES, tmp_path / NAMES)
    return tmp_path


@pytest.mark.slow  # `make test` has asked it before: tools.docs --check
def test_the_docs_are_current():
    found = [f"{file} {why}" for file, why in stale(ROOT).items()]
    assert not found, f"{' '.join(found)} Fix with: make docs"


def test_every_block_is_shown_somewhere():
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    for name in (*FROM_CODE, *FROM_RESULTS):
        assert f"<!-- {name}: generated -->" in text, name


def test_every_registered_name_is_in_a_table():
    pages = (
        "priors.md",
        "supervision.md",
        "networks.md",
        "data.md",
        "objectives/README.md",
        "metrics/README.md",
        "studies/README.md",
    )
    text = "\n".join((ROOT / "docs" / page).read_text("utf-8") for page in pages)
    for kind in KINDS:
        for name in registry(kind).built_in:
            assert f"\n| [`{name}`](" in text, (kind, name)


def test_what_is_stale_is_named_with_the_remedy(copy: Path, capsys: pytest.CaptureFixture[str]):
    readme, old = copy / "README.md", (copy / "README.md").read_text("utf-8")
    readme.write_text(old.replace("| study | claims |", "| study | claim |"), "utf-8")
    (copy / "docs/metrics/mig.md").unlink()
    (copy / "docs/metrics/gone.md").write_text("of a metric that is no more", "utf-8")
    (copy / "docs/studies/locatello2019/LOC-GONE.svg").write_text("<svg/>", "utf-8")
    assert main(["--check"], copy) == 1
    assert capsys.readouterr().err.splitlines() == [
        "docs/metrics/mig.md is missing.",
        "README.md is out of date.",
        "docs/metrics/gone.md describes nothing that exists.",
        "docs/studies/locatello2019/LOC-GONE.svg describes nothing that exists.",
        "Fix with: make docs",
    ]
    assert main([], copy) == 0
    assert main(["--check"], copy) == 0
    assert readme.read_text("utf-8") == old
    assert not (copy / "docs/metrics/gone.md").exists()


def test_a_metric_without_measured_scores_is_named(copy: Path, capsys: pytest.CaptureFixture[str]):
    file = copy / "benchmarks" / "results" / "metric_behaviour.json"
    record = json.loads(file.read_text("utf-8"))
    del record["scores"]["mig"]
    file.write_text(json.dumps(record), "utf-8")
    for words in (["--check"], []):
        assert main(words, copy) == 1
        assert capsys.readouterr().err == (
            "benchmarks/results/metric_behaviour.json has no scores of the metric 'mig', which its"
            " page shows. Fix with: python benchmarks/metric_behaviour.py mig && make docs\n"
        )


def test_missing_results_are_named(copy: Path, capsys: pytest.CaptureFixture[str]):
    (copy / "benchmarks/results/discover.json").unlink()
    assert main(["--check"], copy) == 1
    assert capsys.readouterr().err.startswith("benchmarks/results/discover.json is missing")
