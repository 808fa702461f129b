# SPDX-License-Identifier: Apache-2.0
"""Slices that are searches end as the same tables wherever they were interrupted."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.core.failpoints import armed
from unbraid.search.pbt.loop import NoScoresError
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu.surrogate_labels import read_surrogates, write_surrogates
from unbraid.studies.definition import definition, model_steps, models
from unbraid.studies.pool import Pool, SearchSlice, Slice, check_pools
from unbraid.studies.results import Results
from unbraid.studies.run_slices import Ended, run_slices
from unbraid.studies.standing import standing

from . import toy_searches

CPU = torch.device("cpu")
FINAL, BY_MIG, WHOLE = "finals/final-0", "pbt/by-mig", "rpu/whole"
ORDER = [BY_MIG, WHOLE, FINAL]


def results(folder: Path) -> Results:
    return Results(toy_searches.make_study(folder), "small")


def run(found: Results, names: list[str] = ORDER, **options: Any) -> Ended:
    parts = {f"{pool.name}/{one.name}": (pool, one) for pool, one in found.slices()}
    return run_slices(found, [parts[name] for name in names], CPU, quiet=True, **options)


def table(found: Results, name: str) -> pd.DataFrame:
    pool, _, one = name.partition("/")
    return pd.read_parquet(found.folder / found.scale / pool / f"{one}.parquet")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The results of a run that nobody disturbed."""
    found = results(tmp_path_factory.mktemp("undisturbed"))
    assert run(found, [BY_MIG, WHOLE]).made == [BY_MIG, WHOLE]
    assert run(found, [FINAL]).made == [FINAL]
    return found


def test_a_search_ends_as_its_individuals_and_its_winner(whole: Results):
    rows = table(whole, BY_MIG)
    lineage, winners = (rows[rows["row"] == kind] for kind in ("individual", "winner"))
    assert lineage.groupby("epoch").size().tolist() == [5, 5]
    assert set(rows["stage"]) == {"search"}
    assert set(rows["seed"]) == {1}
    (winner,) = winners.to_dict("records")
    best = lineage.loc[lineage["score"].idxmax()]
    assert (winner["epoch"], winner["individual"]) == (best["epoch"], best["individual"])
    assert (winner["score"], winner["strength"]) == (best["score"], best["strength"])
    assert winner["steps"] == (winner["epoch"] + 1) * 320 / winner["batch_size"]
    assert 0 <= winner["mig"] <= 1
    assert lineage["mig"].isna().all()
    assert len(winner["information"]) == 3 * len(winner["factors"])
    assert lineage["information"].isna().all()


def test_a_recursion_tells_of_every_stage(whole: Results):
    rows = table(whole, WHOLE)
    winners = rows[rows["row"] == "winner"]
    stages = list(dict.fromkeys(rows["stage"]))
    assert stages == ["root", "leaf-0/level-2", "final-1"]
    assert winners.groupby("stage").size().to_dict() == {
        "root": 2,
        "leaf-0/level-2": 2,
        "final-1": 1,
    }
    assert winners.groupby("stage")["chosen"].sum().tolist() == [1.0, 1.0, 1.0]
    root, leaf, final = (winners[winners["stage"] == stage] for stage in stages)
    assert root[["mig", "udr"]].notna().to_numpy().all()
    assert leaf[["mig", "udr"]].isna().to_numpy().all()
    assert (final["mig"].notna().all(), final["udr"].isna().all()) == (True, True)
    assert leaf["stage_images"].iloc[0] < root["stage_images"].iloc[0] == 80
    assert leaf["left.x"].max() < 1
    assert leaf["left.y"].notna().all()
    assert root["left.x"].isna().all()
    chosen = root[root["chosen"] == 1].iloc[0]
    assert len(chosen["label_peaks"]) == len(chosen["label_latents"]) == chosen["labels"]
    assert len(chosen["sorted_labels"]) == 200 * chosen["labels"]


def test_a_final_population_has_the_labels_of_its_recursion(whole: Results):
    (leaf,) = read_surrogates(whole.labels(WHOLE))
    rows = table(whole, FINAL)
    assert set(rows["stage"]) == {"final-0"}
    assert len(leaf) == 2
    assert (leaf[0].values.shape[0], len(leaf[0].confirmed)) == (80, leaf[0].values.shape[1])
    # The same seeds with other labels: fresh models are the same, and what follows is not.
    both = [rows, table(whole, WHOLE).query("stage == 'final-1'")]
    first, other = (one[(one["epoch"] == 0) & (one["row"] == "individual")] for one in both)
    assert first["strength"].tolist() == other["strength"].tolist()
    assert first["score"].tolist() != other["score"].tolist()


def test_without_the_labels_a_final_population_waits(tmp_path: Path):
    found = results(tmp_path)
    ended = run(found, [FINAL])
    assert not ended.made
    assert "needs the labels that its recursion leaves" in ended.without_data[FINAL]
    assert ended.without_data[FINAL].endswith("; make rpu/whole first")
    states = {one.name: one.state for one in standing(found, found.slices(), CPU).slices}
    assert states == {"final-0": "no data", "by-mig": "left", "whole": "left"}


def test_labels_that_did_not_come_along_with_the_tables_are_told(whole: Results, tmp_path: Path):
    found = results(tmp_path)
    shutil.copytree(whole.folder / "small" / "rpu", found.folder / "small" / "rpu")
    why = run(found, [FINAL]).without_data[FINAL]
    assert "made elsewhere" in why
    assert "whole.parquet" in why
    shutil.copytree(whole.folder / ".labels", found.folder / ".labels")
    assert run(found, [FINAL]).made == [FINAL]
    pd.testing.assert_frame_equal(table(found, FINAL), table(whole, FINAL), check_exact=True)


@pytest.mark.parametrize(
    ("point", "times"),
    [
        ("stage.done", 2),
        pytest.param("stage.done", 1, marks=pytest.mark.slow),
        pytest.param("generation.replaced", 1, marks=pytest.mark.slow),
        pytest.param("generation.replaced", 3, marks=pytest.mark.slow),
        pytest.param("labels.stored", 1, marks=pytest.mark.slow),
        pytest.param("labels.stored", 2, marks=pytest.mark.slow),
        pytest.param("slice.scored", 1, marks=pytest.mark.slow),
        pytest.param("slice.trained", 1, marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_boundary_it_ends_with_the_same_table(
    whole: Results, tmp_path: Path, point: str, times: int
):
    """Also with labels that a kill left, and twice in the same stage."""

    class Killed(BaseException):
        pass

    def kill(name: str) -> None:
        nonlocal times
        times -= name == point
        if name == point and not times:
            raise Killed

    found = results(tmp_path)
    with pytest.raises(Killed), armed(kill):
        run(found, [WHOLE])
    assert not found.files()
    run(found, [WHOLE])
    pd.testing.assert_frame_equal(table(found, WHOLE), table(whole, WHOLE), check_exact=True)
    assert not [*(tmp_path / "results" / ".work").glob("*/rpu/whole")]


def test_stopped_in_an_epoch_it_goes_on_to_the_same_table(
    whole: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found, train = results(tmp_path), SearchRun.train

    def stopped(self: SearchRun, *given: Any, stop: threading.Event, **options: Any) -> Any:
        def on_epoch(epoch: dict[str, Any]) -> None:
            stop.set()

        return train(self, *given, stop=stop, on_epoch=on_epoch, **options)

    with monkeypatch.context() as patch:
        patch.setattr(SearchRun, "train", stopped)
        with pytest.raises(BaseException, match="stopped"):
            run(found, [BY_MIG])
    begun = {one.name: one for one in standing(found, found.slices(), CPU).slices}["by-mig"]
    assert begun.state == "begun"
    run(found, [BY_MIG])
    pd.testing.assert_frame_equal(table(found, BY_MIG), table(whole, BY_MIG), check_exact=True)


def test_a_search_in_which_all_diverge_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(self: SearchRun, *given: Any, **options: Any) -> Any:
        raise NoScoresError("all diverged")

    monkeypatch.setattr(SearchRun, "train", fail)
    found = results(tmp_path)
    assert run(found, [BY_MIG]).made == [BY_MIG]
    rows = found.table()
    assert rows["row"].tolist() == ["none"]
    assert "all diverged" in found.about(*found.slices()[1])["complaints"]


def test_a_root_that_found_nothing_leaves_no_labels_and_the_final_says_so(tmp_path: Path):
    found = results(tmp_path)
    path = found.labels(WHOLE)
    path.parent.mkdir(parents=True)
    write_surrogates(path, [])
    assert run(found, [FINAL]).made == [FINAL]
    assert table(found, FINAL)["row"].tolist() == ["none"]
    assert "found nothing" in found.about(*found.slices()[0])["complaints"][0]


def test_a_recursion_in_which_all_diverge_leaves_no_labels_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(self: SearchRun, *given: Any, **options: Any) -> Any:
        raise NoScoresError("all diverged")

    monkeypatch.setattr(SearchRun, "train", fail)
    found = results(tmp_path)
    assert run(found, [WHOLE]).made == [WHOLE]
    assert run(found, [FINAL]).made == [FINAL]
    for name in (WHOLE, FINAL):
        assert table(found, name)["row"].tolist() == ["none"]


# What a search costs, and what it follows from.


def search(**options: Any) -> SearchSlice:
    return SearchSlice("one", toy_searches.SMALL | {"seed": 0, "score": "mig"} | options, ("mig",))


def test_the_precision_counts_where_it_is_asked_for():
    told = [definition(search(**given))["options"]["precision"]
            for given in ({}, {"precision": "bfloat16"})]  # fmt: skip
    assert told == ["auto", "bfloat16"]


def test_costs_are_known_without_data():
    one = definition(search(first_factor=2, epochs=4))
    assert (models(one), model_steps(one)) == (1, 5 * (2 + 3) * 320 // 64)
    groups = definition(search(score="udr", models=3, epochs=4))
    assert (models(groups), model_steps(groups)) == (3, 5 * 3 * 4 * 320 // 64)
    plan = toy_searches.RECURSION | {"seed": 0, "leaf_runs": 3, "levels": 3, "every_final": True}
    whole = definition(SearchSlice("one", plan, ("mig",), kind="rpu"))
    root, leaves, finals = 10 * 2 * 320, 6 * 10 * 2 * 160, 4 * 5 * (2 + 1) * 320
    assert model_steps(whole) == (root + leaves + finals) // 64


def test_what_numbers_follow_from_counts():
    here = definition(search())
    assert here == definition(search(checkpoint_seconds=9.0, points=None))
    for other in ({"points": 100}, {"seed": 1}, {"hyper": {"beta": "1..2"}}, {"latents": 4}):
        assert definition(search(**other)) != here
    assert definition(replace(search(), metrics=("dci",))) != here
    with pytest.raises(InputError, match="populaton"):
        definition(search(populaton=5))


@pytest.mark.parametrize(
    ("slices", "name"),
    [
        ((SearchSlice("a", {"data": "sprites"}, ()),), "search of slice a"),
        ((replace(search(), kind="final", labels_of="p/b"),), "labels_of of slice one"),
        ((replace(search(), labels_of="p/b"),), "labels_of of slice one"),
        ((replace(search(), stages=(3,)),), "search of slice one"),
        ((Slice("b", {}, ()), replace(search(), kind="final", labels_of="p/b")), "labels_of of"),
    ],
)
def test_a_search_that_cannot_be_made_is_refused(slices: tuple[Slice, ...], name: str):
    with pytest.raises(InputError) as caught:
        check_pools([Pool("p", "", slices)])
    assert any(problem.name.startswith(name) for problem in caught.value.problems)
