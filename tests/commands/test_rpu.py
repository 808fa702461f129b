# SPDX-License-Identifier: Apache-2.0
"""`rpu`: stages, final populations, the page and the summary, and what Ctrl-C leaves."""

from __future__ import annotations

import pytest
import torch

import unbraid as ub
from unbraid.commands.rpu import RpuResult
from unbraid.commands.run import Run
from unbraid.core.errors import StoppedError
from unbraid.report.page import is_page
from unbraid.search.rpu.plan import make_recursion
from unbraid.search.rpu.recursion import Recursion
from unbraid.search.rpu.stages import Stage, StageKind

from .test_pbt import DATA, SMALL, WORDS

ROOT_ALONE = {"leaf_runs": 0, "levels": 1, "models": 2, "active_nats": 0.0, **SMALL}


def test_stages_and_final_populations(tmp_path):
    made = ub.rpu(
        "sprites",
        "beta_tcvae",
        out=tmp_path / "run",
        leaf_runs=1,
        levels=2,
        models=2,
        every_final=True,
        active_nats=0.0,
        leaf_images=64,
        **SMALL,
    )
    names = [stage.name for stage in made.stages]
    assert names[0] == "root"
    table = made.table()
    assert table["stage"].tolist() == names
    if names[-1] == "final-1":
        assert table.set_index("stage").loc["final-0", "mig"] == pytest.approx(
            made.final(0).winner.score("mig", quiet=True)["mig"].iloc[0]
        )
    (tmp_path / "run" / "rpu.html").unlink()
    again = ub.resume(tmp_path / "run", device="cpu", quiet=True)
    assert isinstance(again, RpuResult)
    assert [stage.name for stage in again.stages] == names
    assert is_page(tmp_path / "run" / "rpu.html", "rpu")


def test_without_final_populations_no_winners_are_scored(tmp_path, capsys):
    given = {**ROOT_ALONE, "active_nats": 1e6, "quiet": False}
    made = ub.rpu("sprites", "beta_tcvae", out=tmp_path / "run", **given)
    assert [stage.name for stage in made.stages] == ["root"]
    said = capsys.readouterr().err
    assert "writing pages" in said
    assert "final winners" not in said


def test_it_ends_with_a_page_and_a_summary(unbraid, tmp_path):
    made = ub.rpu("sprites", "beta_tcvae", out=tmp_path / "run", **ROOT_ALONE)
    assert is_page(tmp_path / "run" / "rpu.html", "rpu")
    assert (tmp_path / "run" / "rpu.json").is_file()
    root, final = made.stages
    (scores,) = made.final_scores.values()
    mig, dci = f"{scores['mig']:.4f}", f"{scores['dci']:.4f}"
    lines = made.summary().splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["stage", "images", "score", "active", "mig", "dci", "ended"],
        ["root", "24", f"{root.score:.4f}", f"{len(root.active)}", *root.ended.split()],
        ["final-0", "24", f"{final.score:.4f}", mig, dci],
    ]
    remarks = [search.remark() for _, search in made.recursion.searches()]
    told = [f"{stage.name}: {one}" for stage, one in zip(made.stages, remarks, strict=True) if one]
    assert told, "so short a training learns nothing"
    assert lines[3:] == [
        *told,
        "Every stage is a search of its own, with a pbt.html in its folder.",
        f"Open in a browser: {tmp_path / 'run' / 'rpu.html'}",
        f"Next:  unbraid report {tmp_path / 'run' / 'final-0'}",
    ]
    again = unbraid("resume", str(tmp_path / "run"), "--device", "cpu")
    assert (again.code, again.out) == (0, made.summary() + "\n")


@pytest.mark.parametrize(
    "ended",
    [
        "Variance explained: no combination of the best intervals of all latents is large enough.",
        f"the models do not agree on anything (best score 0.053) {'and so on ' * 20}",
        "",
    ],
)
def test_a_summary_fits_120_columns(tmp_path, ended):
    class Scored(RpuResult):
        final_scores = {31: {"mig": 0.25, "dci": float("nan")}}  # noqa: RUF012  (read alone)

    plan, dataset = make_recursion(
        "sprites", data_options=DATA, leaf_runs=31, levels=10, network="mlp"
    )
    many = {"images": 10**9}
    stages = [
        Stage(StageKind.ROOT, score=0.9, active=(0, 1), **many),
        Stage(StageKind.LEAF, leaf=31, level=10, score=0.05, ended=ended, **many),
        Stage(StageKind.LEAF, leaf=30, level=10, ended=ended),
        Stage(StageKind.FINAL, leaf_runs=31, score=0.75, **many),
    ]
    made = Scored(Recursion(tmp_path, plan, dataset), stages, torch.device("cpu"))
    table = made.summary().splitlines()[: len(stages) + 1]
    assert max(map(len, table)) <= 120
    assert table[1].split() == ["root", "1,000,000,000", "0.9000", "2"]
    assert table[4].split() == ["final-31", "1,000,000,000", "0.7500", "0.2500"]
    assert table[3].split()[0] == "leaf-30/level-10"
    words = ended.partition(":")[0].split()
    assert table[2].split()[4 : 4 + min(5, len(words))] == words[:5]


def test_ctrl_c_while_final_winners_are_scored_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*given, **named):
        raise StoppedError("stopped; the scores so far are kept. The same command goes on.")

    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Run, "score", interrupted)
        with pytest.raises(StoppedError) as caught:
            ub.rpu("sprites", "beta_tcvae", out=path, **ROOT_ALONE)
    assert f"unbraid resume {path}" in str(caught.value)
    again = ub.resume(path, device="cpu", quiet=True)
    assert isinstance(again, RpuResult)
    assert (path / "rpu.html").is_file()
    page = (path / "root" / "pbt.html").read_text()
    assert 'href="../rpu.html"' in page
    assert "gap with surrogate labels" in (path / "final-0" / "pbt.html").read_text()
    table = again.table()
    assert table["active"].isna().tolist() == [False, True], "a final has no labels of its own"


def test_the_command(unbraid, tmp_path):
    out = tmp_path / "run"
    words = ("--models", "2", "--leaf-runs", "0", "--levels", "1", "--beta", "1..8")
    answer = unbraid("rpu", *WORDS, *words, "--out", str(out))
    assert answer.code == 0, answer.err
    assert answer.out.split()[:4] == ["stage", "images", "score", "active"]
    assert answer.out.splitlines()[-1].startswith(f"Next:  unbraid report {out}/")
    assert '"command": "unbraid rpu sprites' in (out / "rpu.json").read_text()


def test_bad_levels_are_refused(tmp_path, refused):
    found = refused(lambda: ub.rpu("sprites", out=tmp_path / "run", **{**SMALL, "levels": 1}))
    assert [(one.name, one.value) for one in found] == [("levels", 1)]
    assert not (tmp_path / "run").exists()
