# SPDX-License-Identifier: Apache-2.0
"""The demo: everything it does at toy length, and (slow) its promise on fresh seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.codes.codes import CodeStore
from unbraid.commands import demo
from unbraid.core.errors import InputError
from unbraid.metrics.mig import mig
from unbraid.scoring.metric_names import USUAL


def test_the_demo_trains_scores_reports_and_says_what_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(demo, "STEPS", 3)
    monkeypatch.setattr(demo, "DATA", {**demo.DATA, "x": 4, "y": 3, "scale": 2})
    run = demo.demo(out=tmp_path / "run", seeds=2)
    said = capsys.readouterr().out
    assert len(run.members) == 2 * len(demo.BETAS)
    assert str((tmp_path / "run" / "report.html").resolve()) in said
    assert (tmp_path / "run" / "report.html").stat().st_size > 100_000
    for words in ("MIG", "wins:", "of 2 seeds", "What to try next", "--metrics all"):
        assert words in said
    assert set(run.score(quiet=True).columns) >= set(USUAL)


def test_bad_seeds_are_refused_before_anything_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(InputError) as refused:
        demo.demo(out=tmp_path / "run", seeds=0)
    (problem,) = refused.value.problems
    assert (problem.name, problem.value) == ("seeds", 0)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [[11, 12, 13], [21, 22, 23]])
def test_the_promise_holds_on_fresh_seeds(tmp_path: Path, seeds: list[int]):
    run = demo.demo(out=tmp_path / "run", seeds=seeds)
    scores = run.score("mig", quiet=True)
    winner = scores.groupby("beta")["mig"].median().idxmax()
    winning = scores[scores["beta"] == winner]["mig"]
    assert sum(winning >= demo.SUCCESS) >= 2
    codes = CodeStore(run.folder).load(run.best("mig").member.id)
    shares = mig(codes.mean, codes.factors).mutual_information
    assert len(set(shares.argmax(axis=0))) == shares.shape[1], "one latent per factor"
