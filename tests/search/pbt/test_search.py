# SPDX-License-Identifier: Apache-2.0
"""Searches from start to winner: the same lineage from the same seed however often they are
stopped, and a winner that is kept.
"""

from __future__ import annotations

import gc
import json
import math
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from unbraid.commands.run import open_run
from unbraid.core.errors import DamagedFileError, InputError, UnbraidError
from unbraid.core.store import read_tensors
from unbraid.data import load
from unbraid.metrics import _agreement
from unbraid.population.run_folder import RunFolder
from unbraid.population.training_step import TrainingStep
from unbraid.search.pbt import encode_generation as encoding
from unbraid.search.pbt import generation as generation_module
from unbraid.search.pbt import loop
from unbraid.search.pbt import state as search_state
from unbraid.search.pbt.generation import Generation
from unbraid.search.pbt.judging import Judging
from unbraid.search.pbt.make_search import make_search
from unbraid.search.pbt.search import SearchOutcome, SearchRun
from unbraid.search.pbt.winner import WinnerFiles

from .test_plan import TINY, small_search, unlabelled

CPU = torch.device("cpu")
ALL_DONE = SearchOutcome(True, "all epochs are done")
UDR: dict[str, Any] = {"score": "udr", "models": 2}
"""Without labels, groups as small as can agree."""


def created(
    folder: Path, data: Any = "sprites", objective: Any = "beta_vae", **options: Any
) -> SearchRun:
    return SearchRun.create(
        folder, *small_search(data, objective, **{"first_factor": 1, **options})
    )


def finished(
    folder: Path, data: Any = "sprites", objective: Any = "beta_vae", **options: Any
) -> SearchRun:
    run = created(folder, data, objective, **options)
    assert run.train(CPU) == ALL_DONE
    return run


def winner_tensors(run: SearchRun) -> dict[str, torch.Tensor]:
    winner = run.winner()
    return read_tensors(winner.checkpoints(winner.chunks()[0]).files()[0][1])[0]


def winner_bits(run: SearchRun) -> dict[str, torch.Tensor]:
    """Every tensor of the winner's checkpoint, as bytes."""
    return {
        name: tensor.contiguous().view(-1).view(torch.uint8)
        for name, tensor in winner_tensors(run).items()
    }


def assert_same(left: SearchRun, right: SearchRun) -> None:
    """The same lineage and the same winner, bit for bit."""
    pd.testing.assert_frame_equal(left.lineage, right.lineage, check_exact=True)
    assert left.winner_record() == right.winner_record()
    ours, theirs = winner_bits(left), winner_bits(right)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name
    assert left.winner().plan == right.winner().plan


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts scores by epoch in the place of what the scorer would say, and numbers of active latents
    in the place of what was counted; by default all are.
    """

    def put(scores: list[list[float]], active: list[list[int]] | None = None) -> None:
        counts = active or [[3] * len(row) for row in scores]
        monkeypatch.setattr(Judging, "scores", lambda self: list(scores[self.generation.epoch]))
        monkeypatch.setattr(
            Judging, "active_latents", lambda self: list(counts[self.generation.epoch])
        )

    return put


@pytest.fixture(scope="module")
def by_mig(tmp_path_factory: pytest.TempPathFactory) -> SearchRun:
    return finished(tmp_path_factory.mktemp("mig") / "run", score="mig", epochs=4)


@pytest.fixture(scope="module")
def by_udr(tmp_path_factory: pytest.TempPathFactory) -> SearchRun:
    return finished(tmp_path_factory.mktemp("udr") / "run", **UDR)


# The lineage.


def test_the_lineage_says_who_came_from_whom_with_which_change(by_mig: SearchRun):
    table = by_mig.lineage
    names = [
        "epoch",
        "individual",
        "parent",
        "copied",
        "change",
        "score",
        "diverged",
        "active_latents",
        "collapsed",
        "images",
        "beta",
        "learning_rate",
        "batch_size",
    ]
    assert list(table.columns) == names
    assert table["epoch"].tolist() == [epoch for epoch in range(4) for _ in range(5)]
    assert table["individual"].tolist() == list(range(5)) * 4
    assert table["images"].tolist() == [64 * (epoch + 1) for epoch in table["epoch"]]
    assert not table["diverged"].any()
    first = table[table["epoch"] == 0]
    assert (first["parent"] == -1).all()
    assert not first["copied"].any()
    spaces, copies = by_mig.search.evolved, 0
    for epoch in range(1, 4):
        before = table[table["epoch"] == epoch - 1].set_index("individual")
        now = table[table["epoch"] == epoch]
        assert now["copied"].sum() == 1, "a fifth of five"
        for row in now.to_dict("records"):
            parent = before.loc[row["parent"]]
            if not row["copied"]:
                assert row["parent"] == row["individual"]
                assert row["change"] == ""
                assert all(row[name] == parent[name] for name in spaces)
                continue
            copies += 1
            ranked = before.sort_values(["collapsed", "score"], ascending=[False, True])
            assert row["individual"] == ranked.index[0]
            assert row["parent"] == ranked.index[-1]
            changes = dict(part.split(" ×") for part in row["change"].split(", "))
            assert list(changes) == list(spaces)
            for name, factor in changes.items():
                assert float(factor) in (2.0, 1.2, 0.8, 0.5)
                assert row[name] == spaces[name].move(parent[name], float(factor))
    assert copies == 3


def test_the_same_seed_gives_the_same_search_and_another_one_another(
    by_mig: SearchRun, tmp_path: Path
):
    assert_same(finished(tmp_path / "again", score="mig", epochs=4), by_mig)
    other = finished(tmp_path / "other", score="mig", epochs=4, seed=1)
    assert not other.lineage["score"].equals(by_mig.lineage["score"])
    assert not other.lineage["beta"].equals(by_mig.lineage["beta"])


def test_hyper_parameters_in_effect_are_those_of_the_lineage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: dict[int, dict[int, tuple[float, float, int]]] = {}
    known = Judging.scores

    def watched(self: Judging) -> list[float]:
        generation = self.generation
        rows = seen.setdefault(generation.epoch, {})
        for chunk in generation.chunks:
            betas = chunk.program.kinds[0].objective.beta.tolist()  # type: ignore[attr-defined]
            rates = chunk.program.rate.tolist()  # type: ignore[union-attr]
            for place, beta, rate in zip(chunk.places, betas, rates, strict=True):
                rows[place] = (beta, rate, chunk.program.plan.batch_size)
        return known(self)

    monkeypatch.setattr(Judging, "scores", watched)
    run = created(tmp_path / "run", score="mig", epochs=4)
    assert not run.train(CPU, on_epoch=interrupting_at(2)).finished
    again = SearchRun.open(run.path)
    assert again.train(CPU) == ALL_DONE
    assert again.lineage["copied"].sum() == 3
    for row in again.lineage.to_dict("records"):
        beta, rate, batch = seen[row["epoch"]][row["individual"]]
        assert (beta, rate) == pytest.approx((row["beta"], row["learning_rate"]), rel=1e-6)
        assert batch == row["batch_size"]


def test_copies_go_on_from_the_weights_they_took(tmp_path: Path, script: Callable[..., None]):
    # Nothing moves in the second epoch but by its own gradients: with a rate of 1e-12 weights stay
    # those of the parent.
    script([[0.1, 0.2, 0.9, 0.3, 0.4], [0.5, 0.2, 0.3, 0.3, 0.4]])
    run = created(
        tmp_path / "run",
        score="mig",
        epochs=2,
        hyper={"beta": 1},
        learning_rate=1e-12,
        batch_size=16,
    )
    kept: list[dict[str, torch.Tensor]] = []
    known = Judging.scores

    def watched(self: Judging) -> list[float]:
        generation = self.generation
        kept.append({name: tensor.clone() for name, tensor in generation.rows(range(5)).items()})
        return known(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judging, "scores", watched)
        assert run.train(CPU) == ALL_DONE
    table = run.lineage[run.lineage["epoch"] == 1]
    assert table["parent"].tolist() == [2, 1, 2, 3, 4]
    before, after = kept
    for place, parent in enumerate(table["parent"]):
        torch.testing.assert_close(
            after["model.weights"][place], before["model.weights"][parent], rtol=0, atol=1e-9
        )
        assert int(after["age"][place]) == 8, "four updates an epoch, and Adam counts on"
    assert not torch.allclose(before["model.weights"][0], before["model.weights"][2], atol=1e-3)
    second_moments = [
        name for name in before if name.startswith("model.") and name != "model.weights"
    ]
    assert second_moments
    for name in second_moments:
        assert (after[name][0] != 0).any()


# The winner.


def test_the_best_individual_of_all_epochs_wins(tmp_path: Path, script: Callable[..., None]):
    script([[0.1, 0.2, 0.3, 0.9, 0.4], [0.2, 0.3, 0.3, 0.1, 0.4], [0.2, 0.3, 0.3, 0.1, 0.4]])
    run = finished(tmp_path / "run", score="mig")
    record = run.winner_record()
    assert (record["epoch"], record["individual"], record["score"], record["metric"]) == (
        0,
        3,
        0.9,
        "mig",
    )
    first = run.search.first()
    assert record["values"] == first[3].values
    generation = Generation(
        run.search.plan,
        run.search.generation_models(first, 0),
        run.dataset,
        CPU,
        run.dataset.sampler(CPU),
        epoch=0,
        epochs=3,
        epoch_images=64,
    )
    assert generation.train(threading.Event())
    ((_, trained),) = run.winner().results()
    assert torch.equal(trained.weights, generation.rows([3])["model.weights"])


SCORES = [[0.1, 0.9, 0.3, 0.2, 0.4], [0.9, 0.8, 0.2, 0.3, 0.1], [0.9, 0.9, 0.9, 0.9, 0.9]]
"""In the first epoch those without an active latent have the best, then all have none but one."""
ACTIVE = [[3, 0, 1, 2, 0], [0, 0, 2, 0, 0], [0, 0, 0, 0, 0]]


def test_a_collapsed_individual_neither_wins_nor_is_copied(
    tmp_path: Path, script: Callable[..., None]
):
    script(SCORES, ACTIVE)
    run, told = created(tmp_path / "run", score="mig"), list[dict[str, Any]]()
    assert run.train(CPU, on_epoch=told.append) == ALL_DONE
    record = run.winner_record()
    assert (record["epoch"], record["individual"], record["score"]) == (0, 2, 0.3)
    assert (record["active_latents"], record["collapsed"], run.remark()) == (1, False, "")
    table = run.lineage
    assert table["active_latents"].tolist() == [count for row in ACTIVE for count in row]
    assert table["collapsed"].tolist() == [count == 0 for row in ACTIVE for count in row]
    second, third = (table[table["epoch"] == epoch].set_index("individual") for epoch in (1, 2))
    assert second.index[second["copied"]].tolist() == [4], "the worse of the two collapsed"
    assert second.loc[4, "parent"] == 2
    assert third.loc[third["copied"], "parent"].tolist() == [2], "the only one that is sound"
    assert [(epoch["best"], epoch["collapsed"]) for epoch in told] == [
        (0.3, False),
        (0.2, False),
        (0.9, True),
    ]


def test_where_all_are_collapsed_the_search_goes_on_and_says_so(
    tmp_path: Path, script: Callable[..., None]
):
    script([[0.1, 0.5, 0.3, 0.2, 0.1]] * 3, [[0] * 5] * 3)
    # Scores that stand still would be convergence, were there a model to look at.
    run = finished(tmp_path / "run", score="mig", converged_within=0.1, converged_epochs=1)
    record = run.winner_record()
    assert (record["epoch"], record["score"], record["collapsed"]) == (2, 0.5, True)
    assert "of its 3 latents none is active, and 1 must be" in run.remark()
    assert SearchRun.open(run.path).remark() == run.remark()


def test_scores_with_labels_ask_for_half_of_the_factors_and_others_for_one_latent(tmp_path: Path):
    def least(**options: Any) -> int:
        search, dataset = small_search(
            **{"data_options": {"x": 6, "y": 4, "scale": 3, "image_size": 28}, **options}
        )
        return SearchRun(tmp_path, search, dataset)._least_active()

    assert least(score="mig", latents=10) == least(score="dci:backend=sklearn", latents=3) == 2
    assert least(score="mig", latents=2) == 1
    assert least(score="udr", models=2, latents=10) == least(score="hoyer", latents=10) == 1


def test_the_active_latents_of_an_individual_are_those_of_the_model_that_uses_fewest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    counts = iter([3, 0, 2, 3, 1, 1, 2, 2, 3, 3])
    monkeypatch.setattr(Judging, "_active", lambda self, mean, logvar: next(counts))
    run = finished(tmp_path / "run", **UDR, epochs=1)
    assert sorted(run.lineage["active_latents"]) == [0, 1, 2, 2, 3]
    assert run.winner_record()["active_latents"] > 0


def test_of_equal_scores_the_first_individual_of_the_last_epoch_wins(
    tmp_path: Path, script: Callable[..., None]
):
    script([[0.1, 0.5, 0.5, 0.2, 0.1]] * 3)
    record = finished(tmp_path / "run", score="mig").winner_record()
    assert (record["epoch"], record["individual"]) == (2, 1)


def test_where_lower_is_better_the_lowest_wins_and_the_highest_are_replaced(
    tmp_path: Path, script: Callable[..., None]
):
    script([[0.5, 0.2, 0.9, 0.4, 0.3], [0.5, 0.6, 0.7, 0.05, 0.8], [0.5, 0.6, 0.7, 0.1, 0.8]])
    told: list[dict[str, Any]] = []
    run = created(tmp_path / "run", score="total_correlation")
    assert run.train(CPU, on_epoch=told.append) == ALL_DONE
    assert [epoch["best"] for epoch in told] == [0.2, 0.05, 0.1]
    assert run.winner_record()["score"] == 0.05
    table = run.lineage
    assert table["score"].tolist()[:5] == [0.5, 0.2, 0.9, 0.4, 0.3], "recorded as they are"
    second = table[table["epoch"] == 1].set_index("individual")
    assert second.index[second["copied"]].tolist() == [2]
    assert second.loc[2, "parent"] == 1


@pytest.mark.parametrize("score", ["mig", "total_correlation", "elbo", "sap"])
def test_the_stored_winner_has_the_score_of_the_lineage(score: str, tmp_path: Path):
    run = finished(tmp_path / "run", score=score, epochs=2)
    record, better = run.winner_record(), run.search.scorer.better
    sound = run.lineage[run.lineage["collapsed"] == record["collapsed"]]
    assert record["collapsed"] == run.lineage["collapsed"].all()
    assert better(record["score"]) == max(map(better, sound["score"]))
    row = run.lineage.query(
        f"epoch == {record['epoch']} and individual == {record['individual']}"
    ).iloc[0]
    assert row["score"] == record["score"]
    opened = open_run(run.path, device="cpu")
    assert opened.score(score, quiet=True)[score].tolist() == pytest.approx(
        [record["score"]], rel=1e-6, abs=1e-9
    )


def test_the_winner_of_a_search_without_labels_is_a_group_with_one_setting(by_udr: SearchRun):
    run = open_run(by_udr.path, device="cpu")
    members = run.members
    assert len(members) == 2 == members["seed"].nunique()
    record = by_udr.winner_record()
    for name in ("beta", "learning_rate"):
        assert members[name].tolist() == [record["values"][name]] * 2
    assert run.folder.plan.batch_size == record["values"]["batch_size"]
    assert (members["status"] == "trained").all()
    scores = run.score("udr", quiet=True)["udr"]
    assert scores.mean() == pytest.approx(record["score"], abs=1e-6)
    best = run.best("udr")
    images = run.dataset.images(np.arange(3))
    assert best.encode(images).shape == (3, 3)
    np.testing.assert_allclose(
        best.encode(images), run.model(int(scores.idxmax()[0])).encode(images)
    )


def test_the_winner_has_done_the_updates_of_its_whole_line(
    tmp_path: Path, script: Callable[..., None]
):
    # The last wins by a copy at its end; its batch size may have moved on the way.
    script([[0.9, 0.2, 0.3, 0.1, 0.4], [0.5, 0.2, 0.3, 0.6, 0.4], [0.1, 0.2, 0.3, 0.95, 0.4]])
    for seed in range(20):
        run = finished(
            tmp_path / f"run-{seed}", score="mig", seed=seed, epoch_images=32, learning_rate=1e-3
        )
        table, place, done, sizes = run.lineage.set_index(["epoch", "individual"]), 3, 0, []
        for epoch in (2, 1, 0):
            sizes.append(table.loc[(epoch, place), "batch_size"])
            done += 32 // sizes[-1]
            place = table.loc[(epoch, place), "parent"]
        ((_, trained),) = run.winner().results()
        assert trained.step == 3 * 32 // sizes[0]
        assert int(winner_tensors(run)["age"][0]) + trained.step == done
        if len(set(sizes)) > 1:
            return
    pytest.fail("no line changed its batch size, so that this test shows nothing")


def test_the_winner_has_curves_and_a_report(by_mig: SearchRun):
    run = open_run(by_mig.path, device="cpu")
    record = by_mig.winner_record()
    updates = 64 // record["values"]["batch_size"]
    assert run.history["step"].tolist() == [
        updates * (epoch + 1) for epoch in range(record["epoch"] + 1)
    ]
    assert np.isfinite(run.history["loss"]).all()
    assert run.folder.plan.steps == updates * (record["epoch"] + 1)
    assert run.report().is_file()
    assert not (by_mig.path / "population").exists()


def test_a_finished_search_is_found_done(by_mig: SearchRun):
    leftover = by_mig.path / "population" / "state-000009.safetensors"
    leftover.parent.mkdir()
    leftover.write_bytes(b"what a kill left between storing the winner and clearing up")
    again = SearchRun.open(by_mig.path)
    assert again.finished
    assert again.train(CPU) == SearchOutcome(True, "found done")
    assert not leftover.exists()


# How it ends.


def test_a_search_whose_best_score_stands_still_ends_early(
    tmp_path: Path, script: Callable[..., None]
):
    best = [0.1, 0.5, 0.52, 0.515, 0.51]
    script([[0.0, 0.1, 0.0, 0.05, score] for score in best])
    run = created(
        tmp_path / "run", score="mig", epochs=10, converged_within=0.05, converged_epochs=3
    )
    why = "the best score moved by less than 0.05 in each of 3 epochs"
    assert run.train(CPU) == SearchOutcome(True, why)
    assert run.lineage["epoch"].max() == 4
    assert run.winner_record()["epoch"] == 2


def test_a_search_ends_when_the_time_is_up(tmp_path: Path):
    asked: list[int] = []

    def late() -> bool:
        asked.append(1)
        return len(asked) == 2

    run = created(tmp_path / "run", score="mig", epochs=10)
    assert run.train(CPU, out_of_time=late) == SearchOutcome(True, "the time is up")
    assert run.lineage["epoch"].max() == 1
    assert run.finished


def test_twice_as_many_train_in_the_first_epoch_and_the_best_half_goes_on(tmp_path: Path):
    run = finished(tmp_path / "run", score="mig", first_factor=2)
    table = run.lineage
    assert table.groupby("epoch").size().tolist() == [10, 5, 5]
    first, second = (table[table["epoch"] == epoch].set_index("individual") for epoch in (0, 1))
    kept = first["score"].nlargest(5)
    stay = sorted(kept.index)
    for place, row in second.iterrows():
        if row["copied"]:
            assert stay[int(str(place))] == kept.idxmin()
            assert row["parent"] == kept.idxmax()
        else:
            assert row["parent"] == stay[int(str(place))]
            assert row["beta"] == first.loc[row["parent"], "beta"]


def test_random_search_copies_nobody(tmp_path: Path):
    table = finished(tmp_path / "run", score="mig", share=0).lineage
    assert not table["copied"].any()
    assert (table.query("epoch > 0")["parent"] == table.query("epoch > 0")["individual"]).all()


def test_few_labels_are_all_that_a_search_looks_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = created(tmp_path / "run", score="mig", labels=12)
    seen: set[int] = set()
    known = type(run.dataset).factors
    monkeypatch.setattr(
        type(run.dataset),
        "factors",
        lambda self, indices: seen.update(np.asarray(indices).tolist()) or known(self, indices),
    )
    assert run.train(CPU) == ALL_DONE
    assert len(seen) == 12


# Scores that are none.


def message_of(run: SearchRun, metric: str = "mig") -> str:
    return (
        f"no member of the population has a score after epoch 1: {metric} is NaN for every one, so"
        f" that there is nothing to select by. What trained so far is kept in {run.path}. Start"
        " again with lower learning rates if the models diverged (see lineage.parquet), or with"
        " another score."
    )


@pytest.mark.parametrize("epochs", [1, 3])
def test_no_score_at_all_is_told_and_nothing_is_lost(
    tmp_path: Path, script: Callable[..., None], epochs: int
):
    script([[math.nan] * 5] * 3)
    run = created(tmp_path / "run", score="mig", epochs=epochs)
    with pytest.raises(UnbraidError) as caught:
        run.train(CPU)
    assert str(caught.value) == message_of(run)
    assert not run.finished
    assert run.lineage["score"].isna().tolist() == [True] * 5
    (state,) = (run.path / "population").iterdir()
    told: list[tuple[int, bool]] = []
    with pytest.raises(UnbraidError) as caught:
        SearchRun.open(run.path).train(CPU, lambda images, found: told.append((images, found)))
    assert str(caught.value) == message_of(run)
    assert told == [(5 * 64, True)], "what had trained is not trained again"
    assert state.name == "state-000000.safetensors"
    assert len(SearchRun.open(run.path).lineage) == 5


def test_a_population_that_diverged_has_no_score(tmp_path: Path):
    run = created(tmp_path / "run", score="udr", models=2, learning_rate=1e18)
    with pytest.raises(UnbraidError) as caught:
        run.train(CPU)
    assert str(caught.value) == message_of(run, "udr")
    assert run.lineage["diverged"].all()


def test_scores_that_all_end_later_leave_the_winner_so_far(
    tmp_path: Path, script: Callable[..., None]
):
    script([[0.1, math.nan, 0.2, 0.1, 0.1], [math.nan] * 5])
    run = created(tmp_path / "run", score="mig", epochs=4)
    assert run.train(CPU) == SearchOutcome(True, "no individual has a score any more")
    assert run.winner_record()["score"] == 0.2


def test_individuals_that_diverged_are_replaced_or_told_of(tmp_path: Path):
    told: list[str] = []
    run = created(tmp_path / "random", score="mig", share=0, learning_rate=(1e-3, 1e18))
    assert run.train(CPU, warn=told.append) == ALL_DONE
    last = run.lineage[run.lineage["epoch"] == 2]
    count = int(last["diverged"].sum())
    assert 0 < count < 5
    assert told == [f"{count} of 5 individuals had diverged when the search ended."]
    assert last["score"].isna().tolist() == last["diverged"].tolist()
    run = created(tmp_path / "selected", score="mig", learning_rate=(1e-3, 1e18))
    assert run.train(CPU).finished
    first, second = (
        run.lineage[run.lineage["epoch"] == epoch].set_index("individual") for epoch in (0, 1)
    )
    assert first["diverged"].sum() == count
    assert second["copied"][first["diverged"]].all()
    assert not first.loc[second["parent"], "diverged"].any()


# Stopped and gone on with.


def interrupting_at(call: int) -> Callable[..., Any]:
    """A function that stands for Ctrl-C in its *call*-th call."""
    calls = [0]

    def interrupt(*_: Any) -> bool:
        calls[0] += 1
        if calls[0] == call:
            raise KeyboardInterrupt
        return False

    return interrupt


def stop_in(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int = 2) -> None:
    """Let the *call*-th call of `owner.name` be interrupted before it does anything."""
    known, interrupt = getattr(owner, name), interrupting_at(call)

    def stopped(*given: Any, **named: Any) -> Any:
        interrupt()
        return known(*given, **named)

    monkeypatch.setattr(owner, name, stopped)


WAYS: dict[str, dict[str, Any]] = {
    "middle of the first epoch": {"progress": 9},
    "middle of a later epoch": {"progress": 50},
    "told of an epoch": {"on_epoch": 2},
    "asked for the time": {"out_of_time": 2},
    "scoring": {"patch": (Judging, "scores")},
    "writing the lineage": {"patch": (loop, "write_lineage")},
    "selecting": {"patch": (loop, "next_individuals")},
    "beginning an epoch": {"patch": (loop, "Generation")},
    "storing the winner": {"patch": (WinnerFiles, "store"), "call": 1},
    "writing the winner's tables": {"patch": (RunFolder, "write_tables"), "call": 1},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_search_that_is_stopped_goes_on_to_the_same_bits(
    way: str, by_mig: SearchRun, tmp_path: Path
):
    run = created(tmp_path / "run", score="mig", epochs=4)
    how = dict(WAYS[way])
    with pytest.MonkeyPatch.context() as patch:
        if "patch" in how:
            stop_in(patch, *how.pop("patch"), **how)
            outcome = run.train(CPU)
        else:
            outcome = run.train(CPU, **{name: interrupting_at(call) for name, call in how.items()})
    assert outcome == SearchOutcome(False)
    assert not run.finished
    assert len(list((run.path / "population").iterdir())) == 1
    again = SearchRun.open(run.path)
    assert again.train(CPU) == ALL_DONE
    assert_same(again, by_mig)


FULL = {
    "building a population": ((TrainingStep, "__init__"), "a population of 10 models"),
    "copying": ((generation_module, "_gathered"), "a copy of 1 model"),
    "encoding": ((encoding, "represent"), "the codes of a batch"),
    "comparing": ((_agreement, "agreement_scores"), "the agreement of 10 models"),
}


def test_memory_that_runs_out_while_a_chunk_is_scored_beside_others_costs_no_epoch(
    by_mig: SearchRun, tmp_path: Path
):
    run = created(tmp_path / "run", score="mig", epochs=4)
    known, epochs = encoding.represent, list[int]()

    def run_out(*given: Any, **named: Any) -> Any:
        if epochs:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return known(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "represent", run_out)
        with pytest.raises(UnbraidError, match="no room for the codes of a batch"):
            run.train(CPU, on_epoch=lambda epoch: epochs.append(epoch["epoch"]))
    again, found = SearchRun.open(run.path), list[int]()
    assert again.train(CPU, lambda images, done: found.append(images) if done else None) == ALL_DONE
    first, second = (int((again.lineage["epoch"] == epoch).sum()) for epoch in (0, 1))
    assert found[0] >= (first + second) * again.search.epoch_images, "two epochs were trained"
    assert_same(again, by_mig)


@pytest.mark.parametrize("what", FULL)
def test_a_search_that_runs_out_of_memory_says_so_and_goes_on_to_the_same_bits(
    what: str, by_udr: SearchRun, tmp_path: Path
):
    (owner, name), had_no_room = FULL[what]
    run = created(tmp_path / "run", **UDR)
    known, epochs = getattr(owner, name), list[int]()

    def run_out(*given: Any, **named: Any) -> Any:
        if epochs:  # the first is over
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return known(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, run_out)
        with pytest.raises(UnbraidError) as told:
            run.train(CPU, on_epoch=lambda epoch: epochs.append(epoch["epoch"]))
    assert (
        str(told.value)
        == f"the memory of cpu, which others may use too, has no room for {had_no_room}. Free some"
        " memory and go on with `unbraid resume`, or begin anew with a smaller population,"
        " fewer models or smaller batch sizes."
    )
    assert newest_state(run.path) == 0  # written after the epoch before, when the memory ran out
    seen: list[tuple[int, bool]] = []
    assert (
        SearchRun.open(run.path).train(CPU, lambda images, found: seen.append((images, found)))
        == ALL_DONE
    )
    assert seen[0][0] > 0
    assert_same(SearchRun.open(run.path), by_udr)


def test_while_the_next_population_is_built_only_the_last_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    held: list[int] = []
    built: list[weakref.ref[Generation]] = []

    class Counted(Generation):
        def __init__(self, *given: Any, **named: Any) -> None:
            gc.collect()
            held.append(sum(one() is not None for one in built))
            super().__init__(*given, **named)
            built.append(weakref.ref(self))

    monkeypatch.setattr(loop, "Generation", Counted)
    run = created(tmp_path / "run", **UDR)
    assert run.train(CPU) == ALL_DONE
    assert held == [0] + [1] * (len(held) - 1)
    assert len(held) >= 3


def test_a_search_that_runs_out_of_memory_in_a_step_keeps_the_last_good_state(
    tmp_path: Path, by_udr: SearchRun
):
    run, steps, step = created(tmp_path / "run", **UDR), [0], TrainingStep.step
    assert not run.train(CPU, interrupting_at(16)).finished
    (path,) = (run.path / "population").iterdir()
    stored = path.read_bytes()

    def run_out(self: TrainingStep, state: Any) -> None:
        steps[0] += 1
        if steps[0] == 9:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        step(self, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingStep, "step", run_out)
        with pytest.raises(UnbraidError, match="has no room for a chunk of 1 model"):
            run.train(CPU)
    assert [one.read_bytes() for one in (run.path / "population").iterdir()] == [stored]
    assert run.train(CPU) == ALL_DONE
    assert_same(run, by_udr)


def test_a_search_without_labels_that_is_stopped_again_and_again_ends_the_same(
    by_udr: SearchRun, tmp_path: Path
):
    path = created(tmp_path / "run", **UDR).path
    stops = 0
    while not (outcome := SearchRun.open(path).train(CPU, interrupting_at(16))).finished:
        stops += 1
        assert stops < 50
    assert outcome == ALL_DONE
    assert stops >= 3
    assert_same(SearchRun.open(path), by_udr)


def test_progress_adds_up_to_all_images_however_often_it_stops(tmp_path: Path):
    run = created(tmp_path / "run", score="mig")
    told: list[tuple[int, bool]] = []

    def until(limit: int) -> Callable[[int, bool], None]:
        def progress(images: int, found: bool) -> None:
            told.append((images, found))
            if len(told) == limit:
                raise KeyboardInterrupt

        return progress

    assert not run.train(CPU, until(30)).finished
    seen = sum(images for images, _ in told)
    assert told[0] == (0, True)
    told.clear()
    assert run.train(CPU, until(-1)) == ALL_DONE
    assert told[0] == (seen, True)
    assert sum(images for images, _ in told) == 3 * 5 * 64


def test_states_are_written_as_often_as_wanted_and_two_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_mig: SearchRun
):
    monkeypatch.setattr(search_state, "_LEAST_TRAINING_PER_SAVING", 0)
    run = created(tmp_path / "run", score="mig", epochs=4, checkpoint_seconds=0.0)
    counts: list[int] = []

    def count(_: dict[str, Any]) -> None:
        counts.append(len(list((run.path / "population").glob("*"))))

    assert run.train(CPU, on_epoch=count) == ALL_DONE
    assert max(counts) == 2
    pd.testing.assert_frame_equal(run.lineage, by_mig.lineage, check_exact=True)


def two_states(tmp_path: Path) -> tuple[SearchRun, list[Path]]:
    """A search that was stopped twice, and its two states, the older first."""
    run = created(tmp_path / "run", score="mig", epochs=4)
    assert not run.train(CPU, on_epoch=interrupting_at(1)).finished
    assert not run.train(CPU, on_epoch=interrupting_at(2)).finished
    files = sorted((run.path / "population").iterdir())
    assert [path.name for path in files] == ["state-000000.safetensors", "state-000001.safetensors"]
    return run, files


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def test_a_damaged_state_is_set_aside_and_the_older_one_used(tmp_path: Path, by_mig: SearchRun):
    run, (_, newest) = two_states(tmp_path)
    flip(newest)
    told: list[str] = []
    assert not run.train(CPU, interrupting_at(2), told.append).finished
    assert told == [
        f"{newest} is damaged: its content does not match its checksum. It is set aside."
    ]
    assert newest.with_name(f"{newest.name}.damaged").is_file()
    again = SearchRun.open(run.path)
    assert again.train(CPU) == ALL_DONE
    assert_same(again, by_mig)


def test_without_any_good_state_a_search_begins_again(tmp_path: Path, by_mig: SearchRun):
    run, files = two_states(tmp_path)
    flip(files[0])
    files[1].write_bytes(files[1].read_bytes()[:100])
    told: list[str] = []
    assert run.train(CPU, warn=told.append) == ALL_DONE
    assert len(told) == 2
    assert_same(run, by_mig)


def test_the_state_of_another_search_is_refused(tmp_path: Path):
    run, (_, newest) = two_states(tmp_path)
    other = created(tmp_path / "other", score="mig", epochs=5)
    assert not other.train(CPU, on_epoch=interrupting_at(1)).finished
    (own,) = (other.path / "population").iterdir()
    older = next(path for path in newest.parent.iterdir() if path != newest)
    for path in (newest, older):
        path.write_bytes(own.read_bytes())
    told: list[str] = []
    with pytest.raises(DamagedFileError, match="belongs to another search") as caught:
        run.train(CPU, warn=told.append)
    assert str(newest) in str(caught.value)
    assert f"The same holds for {older.name}." in str(caught.value)
    assert told == [], "nothing was set aside"
    assert sorted(newest.parent.iterdir()) == sorted((newest, older)), "they were good"


KILLED = """
import json, sys, torch
from unbraid.search.pbt import state
from unbraid.search.pbt.make_search import make_search
from unbraid.search.pbt.search import SearchRun
state._LEAST_TRAINING_PER_SAVING = 0
path, options = sys.argv[1], json.loads(sys.argv[2])
made = make_search("sprites", "beta_vae", **options)
run = SearchRun.open(path) if SearchRun.is_search(path) else SearchRun.create(path, *made)
run.train(torch.device("cpu"))
"""


def newest_state(folder: Path) -> int:
    return max(
        (int(path.name[6:12]) for path in (folder / "population").glob("state-*")), default=-1
    )


def place_of(folder: Path) -> tuple[int, int]:
    """Epoch and updates of the newest state, (-1, -1) before there is one."""
    while (newest := newest_state(folder)) >= 0:
        try:
            record = read_tensors(folder / "population" / f"state-{newest:06d}.safetensors")[1]
        except FileNotFoundError:  # cleared away for a newer one in this moment
            continue
        return record["epoch"], max(record["steps"])
    return -1, -1


@pytest.mark.slow
def test_kills_change_no_bit(tmp_path: Path):
    options = {**TINY, "score": "mig", "epoch_images": 400, "checkpoint_seconds": 0.05}
    whole = SearchRun.create(tmp_path / "whole", *make_search("sprites", "beta_vae", **options))
    assert whole.train(CPU) == ALL_DONE
    folder, places = tmp_path / "killed", [(-1, -1)]
    for epoch in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder), json.dumps(options)]
        ) as process:
            deadline = time.monotonic() + 120
            while (
                process.poll() is None
                and place_of(folder) <= max(places[-1], (epoch, 0))
                and time.monotonic() < deadline
            ):
                # Until this process itself has moved on: a kill during start-up would test nothing.
                # States alone do not tell: a process may write one where it began.
                time.sleep(0.01)
            process.kill()
        assert process.returncode == -9, (
            "every kill must meet a living process, or this test shows nothing"
        )
        places.append(place_of(folder))
    assert places == sorted(set(places)), (
        "every process must have gone on from where the one before was killed"
    )
    killed = SearchRun.open(folder)
    assert killed.train(CPU) == ALL_DONE
    assert_same(killed, whole)
    assert not list(folder.rglob("*.part"))


# Folders.


@pytest.fixture
def another_process(tmp_path: Path) -> Iterator[Path]:
    """A folder that another process writes."""
    run = created(tmp_path / "run", score="mig")
    program = "import sys; from pathlib import Path; from unbraid.core.files import only_one\n"
    program += "with only_one(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield run.path
        process.communicate()


def test_two_processes_do_not_train_one_search(another_process: Path):
    with pytest.raises(InputError) as caught:
        SearchRun.open(another_process).train(CPU)
    assert "written by another process" in str(caught.value)


def test_a_search_takes_a_new_or_empty_folder(tmp_path: Path):
    run = created(tmp_path / "deep" / "run", score="mig")
    with pytest.raises(InputError) as caught:
        created(run.path, score="mig")
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("out", "must not hold another run")
    assert f"unbraid resume {run.path}" in problem.remedy
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InputError) as caught:
        created(tmp_path / "full", score="mig")
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("out", "must be a new or empty folder")
    (tmp_path / "file").write_text("here")
    with pytest.raises(InputError) as caught:
        created(tmp_path / "file", score="mig")
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("out", "must be a folder")


def test_what_is_not_there_yet_is_told_with_the_remedy(tmp_path: Path):
    run = created(tmp_path / "run", score="mig")
    assert SearchRun.is_search(run.path)
    assert not SearchRun.is_search(tmp_path)
    with pytest.raises(InputError) as caught:
        _ = run.lineage
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("run", str(run.path))
    assert problem.remedy == f"Go on with: unbraid resume {run.path}"
    with pytest.raises(InputError) as caught:
        run.winner()
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("run", "must be a finished search")
    assert problem.remedy == f"Go on with: unbraid resume {run.path}"
    with pytest.raises(InputError) as caught:
        SearchRun.open(tmp_path)
    (problem,) = caught.value.problems
    rule = "must be a folder made by `unbraid pbt`, with a pbt.json in it"
    assert (problem.name, problem.rule, problem.value) == ("run", rule, str(tmp_path))


def test_an_array_in_memory_is_wanted_again(tmp_path: Path):
    data = unlabelled()
    run = created(tmp_path / "run", data, score="hoyer")
    assert not run.train(CPU, on_epoch=interrupting_at(1)).finished
    again = SearchRun.open(run.path)
    with pytest.raises(InputError) as caught:
        again.train(CPU)
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("data", str(run.path))
    assert f"unbraid.resume('{run.path}', data=" in problem.remedy
    with pytest.raises(InputError) as caught:
        again.use(unlabelled(41))
    assert caught.value.problems[0].rule.startswith(f"must be what {run.path} began with")
    again.use(load(data.images(np.arange(40))))
    assert again.train(CPU) == ALL_DONE
    assert again.winner().plan.data_fingerprint == data.fingerprint()


def copied(run: SearchRun, folder: Path) -> SearchRun:
    return SearchRun.open(shutil.copytree(run.path, folder))


def test_damaged_models_of_a_winner_are_told_with_true_advice(tmp_path: Path, by_mig: SearchRun):
    run = copied(by_mig, tmp_path / "run")
    (path,) = (run.path / "checkpoint").glob("*.safetensors")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    for read in (lambda: run.train(CPU), lambda: run.winner().results()):
        with pytest.raises(DamagedFileError) as told:
            read()
        assert "search again into a new folder" in str(told.value)
        assert "unbraid resume" not in str(told.value)
    path.unlink()
    with pytest.raises(DamagedFileError, match="search again into a new folder"):
        run.train(CPU)


def test_a_damaged_plan_of_a_winner_is_made_again(tmp_path: Path, by_mig: SearchRun):
    run, said = copied(by_mig, tmp_path / "run"), []
    plan = run.path / "plan.json"
    right = plan.read_bytes()
    plan.write_bytes(right[:-40])
    assert run.train(CPU, warn=said.append) == SearchOutcome(True, "found done")
    assert plan.read_bytes() == right
    assert [line.endswith("made again.") for line in said] == [True]


def contents(folder: Path) -> dict[Path, bytes]:
    """All files but locks."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    return {path: path.read_bytes() for path in found}


@pytest.mark.parametrize("lost", [("plan.json",), ("plan.json", "winner.json")])
def test_a_search_whose_winner_lost_its_records_is_not_searched_again(
    tmp_path: Path, by_mig: SearchRun, lost: tuple[str, ...]
):
    run, said = copied(by_mig, tmp_path / "run"), []
    before = contents(run.path)
    for name in lost:
        (run.path / name).unlink()
    again = SearchRun.open(run.path)
    done = again.train(CPU, warn=said.append, out_of_time=lambda: True)
    assert done == SearchOutcome(True, "found done")
    assert contents(run.path) == before
    assert [line.endswith("made again.") for line in said] == [True]


def test_a_search_that_was_killed_while_its_winner_was_stored_is_not_searched_again(
    tmp_path: Path, by_mig: SearchRun
):
    run = copied(by_mig, tmp_path / "run")
    before = contents(run.path)
    for name in ("plan.json", "winner.json", "members.parquet", "history.parquet"):
        (run.path / name).unlink()
    assert run.train(CPU, out_of_time=lambda: True) == SearchOutcome(True, "found done")
    assert contents(run.path) == before
    # Torn models are no winner: then it is searched again, to the same bits.
    for name in ("plan.json", "winner.json"):
        (run.path / name).unlink()
    (path,) = (run.path / "checkpoint").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert run.train(CPU) == ALL_DONE
    assert_same(run, by_mig)


def test_where_the_lineage_is_lost_too_it_is_told_and_nothing_changes(
    tmp_path: Path, by_mig: SearchRun
):
    run = copied(by_mig, tmp_path / "run")
    for name in ("plan.json", "winner.json", "lineage.parquet"):
        (run.path / name).unlink()
    before = contents(run.path)
    with pytest.raises(DamagedFileError) as told:
        SearchRun.open(run.path).train(CPU, out_of_time=lambda: True)
    remedy = "Put a copy of it back, or search again into a new folder."
    assert str(told.value) == f"{run.path / 'lineage.parquet'} is missing. {remedy}"
    assert contents(run.path) == before


def test_a_winner_that_was_trained_on_is_found_done(tmp_path: Path, by_mig: SearchRun):
    run, said = copied(by_mig, tmp_path / "run"), []
    record = run.winner_record()
    for more in (3, 5):
        winner = open_run(run.path, device="cpu")
        steps = winner.folder.plan.steps + more
        winner.resume(steps=steps, quiet=True)
        again = SearchRun.open(run.path)
        assert again.train(CPU, warn=said.append) == SearchOutcome(True, "found done")
    assert again.winner().plan.steps == steps == by_mig.winner().plan.steps + 8
    assert said == []
    (run.path / "winner.json").write_text("{}")
    assert again.train(CPU, warn=said.append) == SearchOutcome(True, "found done")
    assert again.winner_record() == record
    assert said == [f"{run.path / 'winner.json'} could not be used; it was made again."]
