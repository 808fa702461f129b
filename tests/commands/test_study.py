# SPDX-License-Identifier: Apache-2.0
"""`unbraid study`: what it lists, runs and checks, and one message for each wrong word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unbraid as ub
from unbraid.commands.list import list as listing
from unbraid.core.registry import Citation
from unbraid.studies import STUDIES
from unbraid.studies.finding import Estimate, Finding
from unbraid.studies.pool import Pool, Slice
from unbraid.studies.study import Study

PLAN: dict[str, Any] = {
    "data": "sprites",
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 3,
    "batch_size": 8,
    "steps": 4,
}
CLAIMS = """
[[claim]]
id = "T-1"
place = "page 1"
statement = "So it is."
paper = "0.7"
source = "text"
measured = "how many models"
pools = ["main"]
[[claim.rule]]
statistic = "models"
side = "above"
threshold = 1
interval = "none"
"""


def pools(scale: str, first_seed: int) -> tuple[Pool, ...]:
    plan = PLAN | {"seeds": [first_seed, first_seed + 1]}
    slices = tuple(Slice(name, plan, ("active_units",)) for name in ("one", "two"))
    return (Pool("main", "a pool", slices), Pool("more", "another", slices[:1]))


def count(table: Any) -> Finding:
    return Finding((Estimate("models", len(table), len(table), len(table), len(table)),))


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Study]:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "claims.toml").write_text(CLAIMS)
    citation = Citation("Nobody", 2026, "A toy")
    study = Study("toy", "whether it runs", citation, tmp_path / "toy", pools, {"T-1": count})
    STUDIES.register("toy", study)
    yield study
    STUDIES._registered.pop("toy")
    STUDIES.__dict__.pop("_all", None)


def test_both_lists_agree(toy: Study, unbraid):
    text = unbraid("study", "list").out
    assert text == unbraid("list", "studies").out == listing("studies") + "\n"
    assert "whether it runs" in text
    assert "options" not in text


def test_slices_are_run_listed_and_checked(toy: Study, unbraid):
    words = ("study", "run", "toy", "--scale", "small", "--device", "cpu")
    listed = unbraid(*words, "--list").out.splitlines()
    assert listed[0].startswith("toy at scale small: 0 of 3 slices done, 3 left, about ")
    assert listed[2].split()[:3] == ["one", "left", "2"]
    assert not (toy.folder / "results").exists()
    answer = unbraid(*words, "--pool", "main", "--slices", "two")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "Made: main/two",
        "toy at scale small: 1 of 1 slices done",
        "These tables speak of 0 of 1 claims. Scale small tests the machinery: its verdicts say"
        " nothing about the paper.",
        "Next:  unbraid study check toy --scale small",
    ]
    before = answer.err.splitlines()[0]
    assert before.startswith("toy at scale small: 0 of 1 slices done, 1 left, about ")
    assert before.endswith(". At this scale 1 of 1 claims can be judged at most.")
    assert [path.stem for path in (toy.folder / "results").rglob("*.parquet")] == ["two"]
    assert "    two  done     2 models, 8 model-steps" in unbraid(*words, "--list").out
    assert unbraid(*words, "--slices", "two").out.splitlines()[0] == "No table was made."
    check = ("study", "check", "toy", "--scale", "small")
    assert unbraid(*check).out.splitlines()[3] == (
        "  1 of 2 slices are made: unbraid study run toy --scale small --pool main"
    )
    both = unbraid(*words, "--pool", "main", "--slices", "one").out
    assert "These tables speak of 1 of 1 claims." in both
    assert unbraid(*check).out.splitlines() == [
        "T-1: reproduced",
        "  So it is. (page 1)",
        "  paper: 0.7",
        "  ours:  models 4 [4, 4] of 4; must be above 1",
        "",
        "1 claims: 1 reproduced, 0 not reproduced, 0 undecided, 0 not run",
        "Scale small tests the machinery: its verdicts say nothing about the paper.",
    ]


def test_what_was_not_run_says_why(toy: Study, unbraid):
    assert unbraid("study", "check", "toy").out.splitlines()[:4] == [
        "T-1: not run",
        "  So it is. (page 1)",
        "  paper: 0.7",
        "  No models of main yet: unbraid study run toy --scale gpu --pool main",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "toi"), "study 'toi' is unknown; did you mean 'toy'?"),
        (("check", "toi"), "study 'toi' is unknown; did you mean 'toy'?"),
        (("report", "toi"), "study 'toi' is unknown; did you mean 'toy'?"),
        (("report", "toy", "--scale", "big"), "scale 'big' is unknown."),
        (("run", "toy", "--scale", "smal"), "scale 'smal' is unknown; did you mean 'small'?"),
        (("check", "toy", "--scale", "big"), "scale 'big' is unknown."),
        (("run", "toy", "--pool", "mian"), "pool 'mian' is unknown; did you mean 'main'?"),
        (("run", "toy", "--slices", "tow"), "slice 'tow' is unknown; did you mean 'two'?"),
        (("run", "toy", "--pool", "more", "--slices", "two"), "slice 'two' is unknown."),
        (("run", "toy", "--minutes", "0"), "--minutes must be a finite number above 0; got 0."),
        (("run", "toy", "--first-seed", "-1"), "--first-seed must be a whole number of at least 0"),
        (
            ("run", "toy", "--first-seed", "100"),
            "--first-seed can be other than 0 with a results folder of its own alone; got 100."
            " Fresh seeds must not mix with those of the study: give --results FOLDER.",
        ),
        (("run", "toy", "--device", "tpu"), "--device must be auto, cpu, cuda or cuda:NUMBER"),
    ],
)
def test_a_wrong_word_is_one_message(toy: Study, unbraid, words, told):
    code, out, err = unbraid("study", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"unbraid: {told}")
    assert len(err.splitlines()) == 1
    assert not (toy.folder / "results").exists()


def test_fresh_seeds_have_a_folder_of_their_own(toy: Study, tmp_path: Path, unbraid):
    fresh = tmp_path / "fresh"
    words = ("study", "run", "toy", "--slices", "two", "--device", "cpu", "--results", str(fresh))
    assert unbraid(*words, "--first-seed", "100").code == 0
    assert ub.studies.table("toy", results=fresh)["seed"].tolist() == [100, 101]
    before = [path.read_bytes() for path in fresh.rglob("*.parquet")]
    code, _, err = unbraid(*words)
    assert code == 2
    assert err.startswith("unbraid: --results must hold tables of seeds from 0 on; got ")
    assert err.endswith("Give the folder's own --first-seed 100, or another --results FOLDER.\n")
    assert [path.read_bytes() for path in fresh.rglob("*.parquet")] == before
    own = str(toy.folder / "results")
    assert unbraid("study", "run", "toy", "--first-seed", "7", "--results", own).code == 2


def test_a_whole_paper_asks_first(toy: Study, unbraid):
    words = ("study", "run", "toy", "--scale", "paper", "--slices", "two", "--device", "cpu")
    code, out, err = unbraid(*words)
    assert (code, out) == (2, "")
    assert err.startswith("unbraid: toy at scale paper is 2 models, 8 model-steps, about ")
    assert "GB of disk at a time" in err
    assert err.endswith("Start it with --yes.\n")
    assert not (toy.folder / "results").exists()
    code, out, err = unbraid(*words, "--yes")
    assert code == 0
    assert "toy at scale paper is 2 models" in err
    assert "Made: main/two" in out


def test_a_limit_that_nothing_fits_says_what_would(toy: Study, unbraid):
    words = ("study", "run", "toy", "--pool", "main", "--slices", "one", "--device", "cpu")
    lines = unbraid(*words, "--minutes", "0.001").out.splitlines()
    assert lines[:2] == ["No table was made.", "Too long for the time limit: main/one"]
    assert lines[2].startswith("The shortest that is left takes about ")


def test_the_page_is_written_where_it_is_asked_for(
    toy: Study, tmp_path: Path, unbraid, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    answer = unbraid("study", "report", "toy", "--scale", "small")
    assert (answer.code, answer.out) == (0, "Open in a browser: toy-small.html\n")
    own = tmp_path / "pages" / "mine.html"
    assert ub.study.report("toy", out=own) == own
    assert ub.study.report("toy", out=own) == own  # written again
    assert "T-1" in own.read_text("utf-8")


def test_no_other_file_is_written_over(toy: Study, tmp_path: Path, unbraid):
    (tmp_path / "notes.html").write_text("mine")
    for out, rule in (
        (tmp_path, "must be a file"),
        (tmp_path / "notes.html" / "page.html", "must lie in a folder"),
        (tmp_path / "notes.html", "must not be a file of another kind"),
    ):
        code, _, err = unbraid("study", "report", "toy", "--out", str(out))
        assert code == 2
        assert (
            err == f"unbraid: --out {rule}; got '{out}'. Give a file, as in --out toy-gpu.html.\n"
        )
    assert (tmp_path / "notes.html").read_text() == "mine"


def test_a_results_folder_that_is_not_there_is_named(toy: Study, unbraid, tmp_path: Path):
    for verb in ("check", "report"):
        code, _, err = unbraid("study", verb, "toy", "--results", str(tmp_path / "typo"))
        assert code == 2
        assert err.startswith(f"unbraid: --results must exist; got '{tmp_path / 'typo'}'")
    assert not (tmp_path / "typo").exists()


def test_python_has_the_same(toy: Study):
    made = ub.study.run("toy", pool="main", device="cpu", quiet=True)
    assert made.summary().startswith("Made: main/one, main/two")
    (judged,) = ub.study.check("toy")
    assert judged.verdict == "reproduced"
