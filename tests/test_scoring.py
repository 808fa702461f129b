# SPDX-License-Identifier: Apache-2.0
"""Scores of a run: those of the metric on the stored codes, computed once, one complaint for what has no value."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unbraid as ub
from unbraid import scoring
from unbraid.codes.codes import CodeStore
from unbraid.errors import DamagedFileError, InputError
from unbraid.metrics import METRICS
from unbraid.run import Run, open_run
from unbraid.scoring import COLUMNS, check_request, evaluate, score_run, stored_scores
from unbraid.store import write_table

SETTINGS: dict[str, Any] = {
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "batch_size": 8,
    "steps": 20,
    "quiet": True,
    "device": "cpu",
}
SPRITES = {"x": 6, "y": 4, "scale": 2, "image_size": 28}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two β, two seeds; nothing scored."""
    out = tmp_path_factory.mktemp("scoring") / "run"
    return ub.train("sprites", ub.BetaVAE(beta=[1, 4]), data_options=SPRITES, seeds=2, out=out, **SETTINGS)


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    shutil.copytree(trained.path, tmp_path / "run")
    return open_run(tmp_path / "run", device="cpu")


def refused(make) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


def test_scores_are_those_of_the_metric_on_the_stored_codes(run: Run):
    table = score_run(run.folder, ["mig"])
    assert list(table.columns) == COLUMNS
    store = CodeStore(run.folder)
    for member in range(4):
        codes = store.load(member)
        rows = table[table["member"] == member].set_index("quantity")["value"]
        assert rows["score"] == ub.metrics.mig(codes.mean, codes.factors).score


def test_split_metrics_fit_on_the_leading_two_thirds(run: Run):
    table = score_run(run.folder, ["sap"])
    codes = CodeStore(run.folder).load(2)
    cut = codes.train_count
    expected = ub.metrics.sap(codes.mean[:cut], codes.factors[:cut], codes.mean[cut:], codes.factors[cut:])
    found = table[(table["member"] == 2) & (table["quantity"] == "score")]["value"].item()
    assert found == expected.score
    assert cut == 32


def test_only_what_is_missing_is_computed(run: Run, monkeypatch: pytest.MonkeyPatch):
    calls: list[tuple[int, str, str]] = []
    real = scoring._score
    monkeypatch.setattr(scoring, "_score", lambda *given: calls.append(given[:3]) or real(*given))
    monkeypatch.setattr(scoring, "_WORTH_PROCESSES", 10**6)
    first = score_run(run.folder, ["mig", "modularity"])
    assert sorted(calls) == [(m, name, "mean") for m in range(4) for name in ("mig", "modularity")]
    calls.clear()
    told: list[tuple[int, bool]] = []
    again = score_run(run.folder, ["mig", "modularity"], progress=lambda units, found: told.append((units, found)))
    assert calls == []
    assert told == [(8, True)]
    assert again.equals(first)
    stored = stored_scores(run.folder)
    write_table(run.path / "scores.parquet", stored[~((stored["member"] == 2) & (stored["metric"] == "mig"))])
    told.clear()
    mended = score_run(run.folder, ["mig", "modularity"], progress=lambda units, found: told.append((units, found)))
    assert calls == [(2, "mig", "mean")]
    assert told == [(7, True), (1, False)]
    assert mended.drop(columns="seconds").equals(first.drop(columns="seconds"))
    calls.clear()
    score_run(run.folder, ["mig"], ["sampled", "mean"])
    assert sorted(calls) == [(m, "mig", "sampled") for m in range(4)]


def test_every_score_is_on_disk_at_once(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scoring, "_WORTH_PROCESSES", 10**6)
    counts: list[int] = []

    def stop_after_two(units: int, found: bool) -> None:
        counts.append(len(stored_scores(run.folder).groupby(["member", "metric"])))
        if len(counts) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_run(run.folder, ["mig"], progress=stop_after_two)
    assert counts == [0, 1, 2]
    assert len(score_run(run.folder, ["mig"]).query("quantity == 'score'")) == 4


def test_processes_give_the_numbers_that_one_gives(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scoring, "_WORTH_PROCESSES", 10**6)
    here = score_run(run.folder, ["mig"])
    (run.path / "scores.parquet").unlink()
    monkeypatch.setattr(scoring, "_WORTH_PROCESSES", 2)
    there = score_run(run.folder, ["mig"])
    assert there.drop(columns="seconds").equals(here.drop(columns="seconds"))


def test_all_stands_for_every_metric_once(run: Run):
    assert check_request(run.folder, ["all"], ["mean"]) == sorted(METRICS)
    assert check_request(run.folder, ["mig", "all", "mig"], ["mean"]) == ["mig", *(n for n in sorted(METRICS) if n != "mig")]


def test_every_problem_of_a_request_at_once(run: Run):
    known = ", ".join(sorted(METRICS))
    assert refused(lambda: check_request(run.folder, ["mgi", "mig", "dcy"], ["mean", "median"])).splitlines() == [
        f"metric 'mgi' is unknown; did you mean 'mig'? Known: {known}.",
        f"metric 'dcy' is unknown; did you mean 'dci'? Known: {known}.",
        "representation 'median' is unknown; did you mean 'mean'? Known: mean, sampled.",
    ]
    assert refused(lambda: check_request(run.folder, [], ["mean"])) == f"metrics needs at least one name; got []. Known: {known}."


def test_a_score_without_a_value_is_told_and_the_others_stay(run: Run, monkeypatch: pytest.MonkeyPatch):
    real = scoring.evaluate

    def failing(name: str, codes: Any, factors: Any, train: int) -> Any:
        if np.array_equal(codes, CodeStore(run.folder).load(1).mean):
            raise InputError("codes must vary; got constants.")
        return real(name, codes, factors, train)

    monkeypatch.setattr(scoring, "evaluate", failing)
    monkeypatch.setattr(scoring, "_WORTH_PROCESSES", 10**6)
    said: list[str] = []
    table = score_run(run.folder, ["mig"], warn=said.append)
    assert said == ["member 1: mig has no value: codes must vary; got constants."]
    assert sorted(set(table["member"])) == [0, 2, 3]
    monkeypatch.setattr(scoring, "evaluate", real)
    assert sorted(set(score_run(run.folder, ["mig"])["member"])) == [0, 1, 2, 3]


def test_a_damaged_table_of_scores_names_the_remedy(run: Run):
    score_run(run.folder, ["mig"])
    path = run.path / "scores.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DamagedFileError, match=r" Remove it and score again; the codes are kept\.$") as caught:
        score_run(run.folder, ["mig"])
    assert str(caught.value).startswith(f"{path} is damaged: it cannot be read (")


def test_unlabelled_data_has_no_such_scores(tmp_path: Path):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    run = ub.train(pixels, "vae", out=tmp_path / "run", **SETTINGS)
    assert refused(lambda: run.score(["mig", "sap"], quiet=True)) == (
        f"the data of {run.path} has no factors, and mig, sap compare codes with factors. "
        "Give factors when loading the data (factors=...) to score such a run."
    )
    assert not (run.path / "scores.parquet").exists()


def test_diverged_members_are_left_out(tmp_path: Path):
    out = tmp_path / "run"
    run = ub.train("sprites", "vae", data_options=SPRITES, learning_rate=[1e30, 1e-3], out=out, **SETTINGS)
    assert run.members["status"].tolist() == ["diverged", "trained"]
    said: list[str] = []
    score_run(run.folder, ["mig"], warn=said.append)
    assert said == [], "a member without codes worth scoring is not even tried"
    table = run.score("mig", quiet=True)
    assert table.index.tolist() == [(1, "vae")]
    assert run.best("mig").member.id == 1


def test_a_run_of_diverged_members_has_no_scores_and_no_best(tmp_path: Path):
    run = ub.train("sprites", "vae", data_options=SPRITES, learning_rate=1e30, out=tmp_path / "run", **SETTINGS)
    message = f"every member of {run.path} diverged; there is nothing to score. Train with a lower learning rate."
    assert refused(lambda: run.score(["mig", "sap"], quiet=True)) == message
    assert refused(lambda: run.best("mig")) == message


@pytest.mark.parametrize("name", ["beta_vae_score", "factor_vae_score", "dci", "modularity"])
def test_metrics_that_compare_factors_need_two(name):
    codes = np.random.default_rng(0).normal(size=(60, 3))
    one = np.stack([np.arange(60) % 4, np.zeros(60, int)], axis=1)
    with pytest.raises(InputError) as caught:
        evaluate(name, codes, one, 40)
    assert str(caught.value) == (
        f"{name} compares factors and needs at least two that vary; got 1. With a single one every model would be perfect."
    )
    assert evaluate("mig", codes, one, 40).score < 0.5
