# SPDX-License-Identifier: Apache-2.0
"""Scores of a run: those of the metric on the stored codes, computed once, complaints."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unbraid as ub
from unbraid.codes.codes import CodeStore
from unbraid.commands.run import Run, open_run
from unbraid.core.errors import DamagedFileError, InputError
from unbraid.core.registry import Citation
from unbraid.core.store import read_table, write_table
from unbraid.metrics import METRICS, Hoyer, describe, hoyer
from unbraid.metrics._resampled import STANDARD_ERROR
from unbraid.scoring import metric_inputs, run_scores, score_table
from unbraid.scoring.collapse import ACTIVE
from unbraid.scoring.metric_inputs import COLUMNS, MetricInputs, evaluate
from unbraid.scoring.run_scores import check_request, count_scores, score_run
from unbraid.scoring.score_table import ScoreTable, stored_scores

from .conftest import SETTINGS, SPRITES


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two β, two seeds; nothing scored."""
    out = tmp_path_factory.mktemp("scoring") / "run"
    return ub.train(
        "sprites", ub.BetaVAE(beta=[1, 4]), data_options=SPRITES, seeds=2, out=out, **SETTINGS
    )


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    shutil.copytree(trained.path, tmp_path / "run")
    return open_run(tmp_path / "run", device="cpu")


def test_scores_are_those_of_the_metric_on_the_stored_codes(run: Run):
    table = score_run(run.folder, ["mig"])
    assert list(table.columns) == COLUMNS
    store = CodeStore(run.folder)
    for member in range(4):
        codes = store.load(member)
        rows = table[table["member"] == member].set_index("quantity")["value"]
        assert rows["score"] == ub.metrics.mig(codes.mean, codes.factors).score


def test_split_names_fit_on_the_leading_two_thirds(run: Run):
    table = score_run(run.folder, ["sap"])
    codes = CodeStore(run.folder).load(2)
    cut = codes.train_count
    expected = ub.metrics.sap(
        codes.mean[:cut], codes.factors[:cut], codes.mean[cut:], codes.factors[cut:]
    )
    found = table[(table["member"] == 2) & (table["quantity"] == "score")]["value"].item()
    assert found == expected.score
    assert cut == 32


def test_only_what_is_missing_is_computed(run: Run, monkeypatch: pytest.MonkeyPatch):
    calls: list[tuple[int, str, str]] = []
    real = metric_inputs.score_task

    def noted(
        task: metric_inputs.Task, inputs: list[MetricInputs], done: metric_inputs.GpuPart | None
    ) -> metric_inputs.Outcome:
        calls.append((task.members[0], task.metric, task.representation))
        return real(task, inputs, done)

    monkeypatch.setattr(metric_inputs, "score_task", noted)
    first = score_run(run.folder, ["mig", "modularity"])
    assert sorted(calls) == [(m, name, "mean") for m in range(4) for name in ("mig", "modularity")]
    calls.clear()
    units_done: list[tuple[int, bool]] = []
    again = score_run(
        run.folder,
        ["mig", "modularity"],
        progress=lambda units, found: units_done.append((units, found)),
    )
    assert calls == []
    assert units_done == [(8, True)]
    assert again.equals(first)
    stored = stored_scores(run.folder)
    write_table(
        run.path / "scores.parquet",
        stored[~((stored["member"] == 2) & (stored["metric"] == "mig"))],
    )
    units_done.clear()
    mended = score_run(
        run.folder,
        ["mig", "modularity"],
        progress=lambda units, found: units_done.append((units, found)),
    )
    assert calls == [(2, "mig", "mean")]
    assert units_done == [(7, True), (1, False)]
    assert mended.drop(columns="seconds").equals(first.drop(columns="seconds"))
    calls.clear()
    score_run(run.folder, ["mig"], ["sampled", "mean"])
    assert sorted(calls) == [(m, "mig", "sampled") for m in range(4)]


def test_a_score_with_its_standard_error_counts_once(run: Run):
    units_done: list[tuple[int, bool]] = []

    def note(units: int, found: bool) -> None:
        units_done.append((units, found))

    score_run(run.folder, ["mig", "modularity"], progress=note, errors="cheap")
    assert sum(units for units, _ in units_done) == count_scores(4, ["mig", "modularity"], ["mean"])
    stored = stored_scores(run.folder)
    write_table(
        run.path / "scores.parquet",
        stored[(stored["member"] != 2) | (stored["quantity"] != STANDARD_ERROR)],
    )
    units_done.clear()
    score_run(run.folder, ["mig", "modularity"], progress=note, errors="cheap")
    assert units_done[0] == (6, True), "what lacks its error alone is done when that is there"
    assert sum(units for units, _ in units_done) == 8


def test_what_is_computed_is_on_disk_when_scoring_is_stopped(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    counts: list[int] = []

    def stop_after_two(units: int, found: bool) -> None:
        counts.append(len(stored_scores(run.folder).groupby(["member", "metric"])))
        if len(counts) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_run(run.folder, ["mig"], progress=stop_after_two)
    assert counts[:2] == [0, 1], "the first score is written at once"
    assert len(stored_scores(run.folder).groupby(["member", "metric"])) == 2
    assert len(score_run(run.folder, ["mig"]).query("quantity == 'score'")) == 4


def test_the_table_is_written_again_when_that_takes_little_of_the_time(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    clock = [0.0]
    written: list[tuple[float, int]] = []

    def write(path: Path, table: Any, about: Any) -> None:
        written.append((clock[0], len(table)))
        clock[0] += 1.0

    monkeypatch.setattr(score_table.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(score_table, "write_table", write)
    with ScoreTable(run.folder, stored_scores(run.folder)) as table:
        for member in range(60):
            table.add([(member, "mig", "mean", "score", 0.5, 1.0, 1)])
            clock[0] += 1.0
    # One second to write, twenty to wait; the last rows at the end.
    assert written == [(0.0, 1), (21.0, 21), (42.0, 41), (63.0, 60)]


def test_models_compared_are_those_that_differ_by_their_seed(run: Run):
    table = score_run(run.folder, ["udr"])
    store = CodeStore(run.folder)
    for group in ((0, 1), (2, 3)):
        codes = [store.load(member) for member in group]
        expected = ub.metrics.udr(
            np.stack([c.mean for c in codes]), np.stack([c.kl_per_latent() for c in codes])
        ).per_model
        found = table[table["member"].isin(group)].sort_values("member")["value"].tolist()
        assert found == pytest.approx(expected.tolist(), abs=1e-9)


def test_a_lone_model_cannot_be_compared(tmp_path: Path):
    run = ub.train("sprites", "vae", data_options=SPRITES, out=tmp_path / "run", **SETTINGS)
    said: list[str] = []
    assert len(score_run(run.folder, ["udr"], warn=said.append)) == 0
    assert said == [
        "member 0: udr has no value: udr compares models that differ only by their seed and needs"
        " at least two; got 1. Train with more seeds."
    ]


def test_scores_of_an_earlier_revision_are_computed_anew(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(METRICS.load("mig").__dict__, "revision", 1)
    monkeypatch.setitem(METRICS.load("modularity").__dict__, "revision", 1)
    first = score_run(run.folder, ["mig", "modularity"])
    stored = stored_scores(run.folder)
    old = stored.assign(value=7.0).drop(columns="revision")
    write_table(run.path / "scores.parquet", old)
    assert stored_scores(run.folder)["revision"].tolist() == [1] * len(old), (
        "tables without revisions hold the first"
    )
    monkeypatch.setitem(METRICS.load("mig").__dict__, "revision", 3)
    assert set(stored_scores(run.folder)["metric"]) == {"modularity", ACTIVE}
    mended = score_run(run.folder, ["mig", "modularity"])
    by_metric = mended.set_index(["metric", "member", "quantity"])["value"]
    assert by_metric["modularity"].unique().tolist() == [7.0]
    assert (
        by_metric["mig"].tolist()
        == first.set_index(["metric", "member", "quantity"])["value"]["mig"].tolist()
    )


def test_processes_give_the_numbers_that_one_gives(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    here = score_run(run.folder, ["mig"])
    (run.path / "scores.parquet").unlink()
    monkeypatch.setattr(metric_inputs, "WORTH_PROCESSES", 2)
    monkeypatch.setattr(metric_inputs, "START_SECONDS", 0.0)
    there = score_run(run.folder, ["mig"])
    assert there.drop(columns="seconds").equals(here.drop(columns="seconds"))


def test_a_metric_of_this_program_is_scored_where_others_go_to_processes(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    """Its name, and a function that no other process can import."""

    @describe(label="Mine", needs="codes", citation=Citation("I", 2026, "Mine"), result=Hoyer)
    def mine(codes: Any) -> Any:
        """The score of codes that only this program knows."""
        return hoyer(codes)

    monkeypatch.setitem(METRICS._registered, "mine", mine)
    monkeypatch.delitem(METRICS.__dict__, "_all", raising=False)
    monkeypatch.setattr(metric_inputs, "WORTH_PROCESSES", 2)
    monkeypatch.setattr(metric_inputs, "START_SECONDS", 0.0)
    table = run.score(["mine", "hoyer"], quiet=True)
    assert len(table) == 4
    assert table["mine"].tolist() == table["hoyer"].tolist()
    METRICS.__dict__.pop("_all")


def test_all_stands_for_every_metric_once(run: Run):
    assert check_request(run.folder, ["all"], ["mean"]) == sorted(METRICS)
    assert check_request(run.folder, ["mig", "all", "mig"], ["mean"]) == [
        "mig",
        *(n for n in sorted(METRICS) if n != "mig"),
    ]


def test_every_problem_of_a_request_at_once(run: Run, refused):
    assert refused(check_request, run.folder, ["mgi", "mig", "dcy"], ["mean", "median"]) == [
        ("metric", "is unknown", "mgi"),
        ("metric", "is unknown", "dcy"),
        ("representation", "is unknown", "median"),
    ]
    assert refused(check_request, run.folder, [], []) == [
        ("metrics", "needs at least one name", "[]"),
        ("representation", "needs at least one name", "[]"),
    ]


def test_a_score_without_a_value_is_reported_and_the_others_stay(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    real = metric_inputs.evaluate

    def failing(name: str, given: MetricInputs) -> Any:
        if np.array_equal(given.codes, CodeStore(run.folder).load(1).mean):
            raise InputError("codes must vary; got constants.")
        return real(name, given)

    monkeypatch.setattr(metric_inputs, "evaluate", failing)
    said: list[str] = []
    table = score_run(run.folder, ["mig"], warn=said.append)
    assert said == ["member 1: mig has no value: codes must vary; got constants."]
    assert sorted(set(table["member"])) == [0, 2, 3]
    monkeypatch.setattr(metric_inputs, "evaluate", real)
    assert sorted(set(score_run(run.folder, ["mig"])["member"])) == [0, 1, 2, 3]


def test_a_damaged_table_of_scores_names_the_remedy(run: Run):
    score_run(run.folder, ["mig"])
    path = run.path / "scores.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(
        DamagedFileError, match=r" Remove it and score again; the codes are kept\.$"
    ) as caught:
        score_run(run.folder, ["mig"])
    assert str(caught.value).startswith(f"{path} is damaged: it cannot be read (")


def test_scores_of_another_run_are_refused(run: Run):
    run.score("mig", quiet=True)
    path, about = run.path / "scores.parquet", {"plan": "another", "table": "scores.parquet"}
    table = read_table(path)
    write_table(path, table, about)
    with pytest.raises(DamagedFileError) as told:
        run.score("mig", quiet=True)
    assert str(told.value) == (
        f"{path} was made for another plan. Remove it and score again; the codes are kept."
    )
    write_table(path, table)  # as earlier versions did
    assert "mig" in run.score("mig", quiet=True)


def test_unlabelled_data_has_unsupervised_scores_only(tmp_path: Path, refused):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    run = ub.train(pixels, "vae", out=tmp_path / "run", **SETTINGS)
    assert refused(run.score, ["mig", "hoyer", "sap"], quiet=True) == [
        ("metrics", "must do without factors", "['mig', 'sap']")
    ]
    assert not (run.path / "scores.parquet").exists()
    table = run.score("unsupervised", quiet=True)
    assert {"hoyer", "elbo", "active_units", "total_correlation"} <= set(table.columns)
    assert run.best("total_correlation", collapsed=True).member.id == 0


def test_diverged_members_are_left_out(tmp_path: Path):
    out = tmp_path / "run"
    run = ub.train(
        "sprites", "vae", data_options=SPRITES, learning_rate=[1e30, 1e-3], out=out, **SETTINGS
    )
    assert run.members["status"].tolist() == ["diverged", "trained"]
    said: list[str] = []
    score_run(run.folder, ["mig"], warn=said.append)
    assert said == [], "a member without codes worth scoring is not even tried"
    table = run.score("mig", quiet=True)
    assert table.index.tolist() == [(1, "vae")]
    assert run.best("mig", collapsed=True).member.id == 1


def test_a_run_of_diverged_members_has_no_scores_and_no_best(tmp_path: Path):
    run = ub.train(
        "sprites", "vae", data_options=SPRITES, learning_rate=1e30, out=tmp_path / "run", **SETTINGS
    )
    for ask in (lambda: run.score(["mig", "sap"], quiet=True), lambda: run.best("mig")):
        with pytest.raises(InputError, match=f"^every member of {run.path} diverged"):
            ask()


@pytest.mark.parametrize("name", ["beta_vae_score", "factor_vae_score", "dci", "modularity"])
def test_metrics_that_compare_factors_need_two(name, refused):
    codes = np.random.default_rng(0).normal(size=(60, 3))
    one = np.stack([np.arange(60) % 4, np.zeros(60, int)], axis=1)
    assert refused(evaluate, name, MetricInputs(codes, 40, one)) == [
        (name, "compares factors and needs at least two that vary", "1")
    ]
    assert evaluate("mig", MetricInputs(codes, 40, one)).score < 0.5


def test_what_a_killed_scoring_left_is_removed(run: Run):
    half = run.path / f".scores.parquet.{2**22 + 1}.part"  # above any process's number
    half.write_text("half")
    run.score("mig", quiet=True)
    assert not half.exists()


def test_stored_scores_are_read_where_nothing_can_be_written(run: Run, monkeypatch):
    table = run.score(["mig", "udr"], quiet=True)

    def denied(*given: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(run_scores, "only_one", denied)
    for name in ("write_table", "remove_halves"):
        monkeypatch.setattr(score_table, name, denied)
    pd.testing.assert_frame_equal(run.score(["mig", "udr"], quiet=True), table)
    with pytest.raises(PermissionError):
        run.score("sap", quiet=True)
