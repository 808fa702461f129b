# SPDX-License-Identifier: Apache-2.0
"""Rows and columns of populations of every kind, and what is told of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import unbraid as ub
from unbraid.commands.run import Run
from unbraid.core.errors import InputError
from unbraid.core.store import read_about_table, read_json
from unbraid.report.explore.exploration import Exploration
from unbraid.report.explore.population import Column, Population, Row, merged_columns
from unbraid.report.explore.sources import of_results, open_population
from unbraid.scoring.run_scores import stored_scores
from unbraid.studies import STUDIES
from unbraid.studies.results import Results

from ..conftest import small_train


def column(population: Population, key: str) -> list[object]:
    return [row.values.get(key) for row in population.rows]


def test_a_run_has_a_row_for_each_member(explored: Run):
    found = open_population(explored.path)
    assert [row.key for row in found.rows] == ["0", "1", "2", "3", "4", "5"]
    assert column(found, "beta") == [0.5, 0.5, 0.5, 2, 2, 2]
    assert column(found, "seed") == [0, 1, 2, 0, 1, 2]
    assert len({row.setting for row in found.rows[:3]}) == 1
    assert found.rows[0].setting != found.rows[3].setting
    assert set(found.opened) == {row.key for row in found.rows}
    stored = stored_scores(explored.folder)
    is_score = (stored["quantity"] == "score") & (stored["representation"] == "mean")
    for metric in ("mig", "sap"):
        own = stored[is_score & (stored["metric"] == metric)].sort_values("member")
        assert column(found, metric) == own["value"].tolist()


def test_the_columns_are_those_in_which_models_differ(explored: Run):
    record = open_population(explored.path).record()
    keys = [one["key"] for one in record["columns"]]
    assert keys[:2] == ["beta", "seed"]
    assert {"mig", "sap", "loss", "active_latents"} < set(keys)
    assert not {"objective", "learning_rate", "prior", "steps"} & set(keys)
    better = {one["key"]: one["better"] for one in record["columns"]}
    # Losses of several strengths are on several scales.
    assert (better["mig"], better["loss"], better["reconstruction"]) == ("higher", "none", "lower")
    start = record["start"]
    assert (start["x"], start["y"]) == ("beta", "mig")
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_the_first_model_is_the_best_that_is_not_collapsed(explored: Run):
    found = open_population(explored.path)
    worth = [row for row in found.rows if row.status == "trained"]
    best = max(worth, key=lambda row: row.values["mig"])
    assert found.best == best.key


def test_errors_stand_beside_scores(explored: Run):
    record = open_population(explored.path).record()
    assert "mig" in record["rows"]["errors"]
    assert all(one is None or one >= 0 for one in record["rows"]["errors"]["sap"])


def test_diverged_models_are_shown_and_cannot_be_opened(tmp_path: Path):
    run = small_train(tmp_path / "run", seeds=2, learning_rate=[1e-3, 1e6])
    found = open_population(run.path)
    states = {row.key: row.status for row in found.rows}
    assert [key for key, state in states.items() if state == "diverged"] == ["2", "3"]
    assert set(found.opened) == {"0", "1"}
    record = found.record()
    assert record["rows"]["model"] == [True, True, False, False]
    assert record["rows"]["values"]["loss"][2:] == [None, None]
    assert found.best in ("0", "1")


def test_all_diverged(tmp_path: Path):
    run = small_train(tmp_path / "run", seeds=2, learning_rate=1e6)
    found = open_population(run.path)
    assert found.opened == {}
    assert found.best is None
    assert Exploration(found).record("served", [])["samples"] is None


def test_collapsed_models_are_marked(tmp_path: Path):
    run = small_train(tmp_path / "run", objective=ub.BetaVAE(beta=[1000]), steps=10)  # type: ignore
    found = open_population(run.path)
    assert [row.status for row in found.rows] == ["collapsed"]
    assert any("collapsed" in note for note in found.notes)
    assert set(found.opened) == {"0"}


def test_an_unfinished_run_says_what_to_do(tmp_path: Path, explored: Run):
    from unbraid.population.run_folder import RunFolder

    folder = RunFolder.create(tmp_path / "run", explored.folder.plan, 2, explored.dataset)
    with pytest.raises(InputError, match="unbraid resume"):
        ub.explore(folder.path, wait=False, quiet=True)


def test_a_search_shows_all_individuals_and_opens_its_winner(search: Path):
    found = open_population(search)
    opened = [row for row in found.rows if row.can_be_opened]
    lineage = [row for row in found.rows if not row.can_be_opened]
    assert len(opened) == 2
    assert [row.key for row in opened] == list(found.opened)
    assert {row.name.partition(", epoch ")[2] for row in lineage} == {"1", "2"}
    assert all(row.name.endswith(f", epoch {row.values['epoch']}") for row in lineage)
    assert all(row.values["udr"] is None or math.isfinite(row.values["udr"]) for row in lineage)
    assert any("winner alone" in note for note in found.notes)
    assert found.best in found.opened


def test_the_winner_of_a_search_stands_among_its_individuals_once(search: Path):
    found, record = open_population(search), read_json(search / "winner.json")
    won = f"individual {record['individual']}, epoch {record['epoch'] + 1}"
    assert won not in [row.name for row in found.rows]
    models = [row for row in found.rows if row.name.startswith("winner: ")]
    others = [row for row in found.rows if row not in models]
    assert (len(models), len(others)) == (2, 5 * 2 - 1)
    for row in models:
        assert row.values["epoch"] == record["epoch"] + 1
        assert row.values["images"] > 0  # which the individual alone tells
        assert row.values["udr"] == record["score"]


def test_a_search_is_not_said_to_be_without_scores(search: Path):
    notes = open_population(search).notes
    assert not any("Nothing is scored" in note for note in notes)
    assert any(note.startswith("By udr the search selected") for note in notes)


def test_a_recursion_shows_its_stages(recursion: Path):
    found = open_population(recursion)
    assert set(column(found, "stage")) == {"root", "final-1"}
    assert {key.partition("-winner")[0] for key in found.opened} == {"root", "final-1"}
    assert found.best is not None
    assert found.best.startswith("final-1-winner-")
    assert len({row.key for row in found.rows}) == len(found.rows)


def test_a_discovery_opens_the_model_that_it_describes(discovery: Path):
    found = open_population(discovery)
    assert found.kind == "discover"
    model = read_about_table(discovery / "codes.parquet")["model"]
    assert found.best == f"winner-{model}"
    assert found.best in found.opened
    assert "codes.csv holds what winner:" in found.notes[0]


def test_a_study_shows_its_table():
    results = Results(STUDIES.load("locatello2019"), "gpu")
    found = of_results(results)
    table = results.table()
    assert len(found.rows) == len(table)
    assert column(found, "mig") == pytest.approx(table["mig"].tolist(), nan_ok=True)
    assert found.opened == {}
    assert any("--keep-models" in note for note in found.notes)
    record = Exploration(found).record("served", [])
    assert len({one["colour"] for one in record["settings"]}) == len(record["settings"])
    assert record["samples"] is None


def test_values_that_json_has_not_are_none():
    row = Row("0", "a", "s", "#000", 0, "trained", {"x": float("nan"), "y": float("inf"), "z": 1})
    other = Row("1", "b", "s", "#000", 1, "trained", {"x": 2.0, "y": 3.0, "z": 2})
    columns = [Column(name, name, "score") for name in "xyz"]
    record = Population("t", "train", "d", columns, [row, other]).record()
    assert record["rows"]["values"] == {"x": [None, 2.0], "y": [None, 3.0], "z": [1, 2]}


def test_merged_columns_keep_the_first_of_a_key_and_the_order_of_groups():
    a = [Column("mig", "MIG", "score"), Column("beta", "β", "setting")]
    b = [Column("beta", "other", "setting"), Column("kl", "kl", "training")]
    found = merged_columns([a, b])
    assert [(one.key, one.label) for one in found] == [("beta", "β"), ("mig", "MIG"), ("kl", "kl")]


def test_a_study_that_kept_its_models_opens_them(tmp_path: Path):
    import torch

    from unbraid.codes.codes import CodeStore
    from unbraid.metrics import mig
    from unbraid.studies.run_slices import run_slices

    from ...studies.toy_study import make_study

    results = Results(make_study(tmp_path / "toy"), "small", tmp_path / "results")
    parts = [part for part in results.slices() if not part[0].needs]
    run_slices(results, parts, torch.device("cpu"), quiet=True, keep_models=True)
    found = of_results(results)
    table = results.table()
    last = table.groupby(["pool", "slice"])["steps"].transform("max") == table["steps"]
    assert [row.key in found.opened for row in found.rows] == last.tolist()
    for place, row in enumerate(found.rows):
        if row.key in found.opened:
            run, member = found.opened[row.key]
            one, codes = table.iloc[place], CodeStore(run).load(member)
            built = run.plan.members[member]
            assert (built.seed, built.objective) == (one["seed"], one["objective"])
            if math.isfinite(one["mig"]):
                assert mig(codes.mean, codes.factors).score == pytest.approx(one["mig"])


def test_a_term_of_a_loss_is_no_metric_of_its_name(tmp_path: Path):
    run = small_train(tmp_path / "run", objective="beta_tcvae", seeds=2)
    run.score("total_correlation", quiet=True, errors="none")
    found = open_population(run.path)
    keys = [one.key for one in found.columns]
    assert len(keys) == len(set(keys))
    last = run.history.groupby("member")["total_correlation"].last().tolist()
    assert column(found, "total_correlation in training") == pytest.approx(last)
    stored = stored_scores(run.folder)
    is_score = (stored["metric"] == "total_correlation") & (stored["quantity"] == "score")
    assert (
        column(found, "total_correlation")
        == stored[is_score].sort_values("member")["value"].tolist()
    )
