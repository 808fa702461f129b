# SPDX-License-Identifier: Apache-2.0
"""rPU-VAE from root to final population: every stage in its folder, labels with their images, the
same end after any stop.
"""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unbraid.codes.encode import encode_run
from unbraid.commands.run import open_run
from unbraid.core.errors import InputError
from unbraid.core.files import only_one
from unbraid.core.store import read_json
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.data.subset import Subset
from unbraid.search.pbt.loop import NoScoresError
from unbraid.search.pbt.search import SearchOutcome, SearchRun
from unbraid.search.reduce import reduction
from unbraid.search.reduce.reduction import NO_PEAKS, Reduction, ReductionRule, reduce
from unbraid.search.rpu import labelling
from unbraid.search.rpu.labelling import Labelling
from unbraid.search.rpu.plan import RecursionPlan, make_recursion
from unbraid.search.rpu.recursion import Recursion
from unbraid.search.rpu.stages import SAME_LABELS, Stage, StageKind
from unbraid.search.rpu.surrogate_labels import read_surrogates

from ..pbt.test_search import interrupting_at

CPU = torch.device("cpu")
ROOM: dict[str, Any] = {"x": 10, "y": 8, "scale": 1, "image_size": 16}
EAGER = ReductionRule(chance=None, peak_deviations=0.5, fewest_images=3, separation=4, more_than=2)
"""Finds parts in the codes of models that hardly trained."""
QUICK: dict[str, Any] = {
    "network": "mlp",
    "network_options": {"hidden": 32},
    "latents": 3,
    "population": 5,
    "models": 2,
    "epochs": 1,
    "epoch_images": 320,
    "leaf_images": 160,
    "hyper": {"beta": "0.2..0.5"},
    "learning_rate": "5e-3..1e-2",
    "batch_size": 16,
    "leaf_runs": 2,
    "levels": 3,
    "final_first_factor": 2,
    "reduction": EAGER,
    "seed": 1,
}


def quick(data: Any = "sprites", **options: Any) -> tuple[RecursionPlan, Dataset]:
    wanted = {**QUICK, **options}
    if data == "sprites":
        wanted.setdefault("data_options", ROOM)
    return make_recursion(data, "beta_vae", **wanted)


def train(stage: Stage, run: SearchRun) -> SearchOutcome:
    return run.train(CPU)


def summary(run: Recursion) -> list[dict[str, Any]]:
    return read_json(run.path / "summary.json")["stages"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recursion, list[Stage], list[str]]:
    """A finished recursion of two leaf-runs and every final, its stages, and what it said."""
    run = Recursion.create(tmp_path_factory.mktemp("rpu") / "run", *quick(every_final=True))
    told: list[str] = []
    stages = run.train(CPU, train, told.append)
    assert stages is not None
    return run, stages, told


# Stages and folders.


def test_stages_come_in_order_each_in_its_folder(done: tuple[Recursion, list[Stage], list[str]]):
    run, stages, told = done
    names = [stage.name for stage in stages]
    assert names[0] == "root"
    assert names[-3:] == ["final-0", "final-1", "final-2"]
    leaves = names[1:-3]
    assert {"leaf-0/level-2", "leaf-1/level-2"} <= set(leaves)
    assert leaves == sorted(leaves)
    assert run.finished
    trained = [stage for stage in stages if stage.images]
    assert sum(stage.kind is StageKind.LEAF for stage in trained) >= 2, (
        "parts must have been searched, or this shows nothing"
    )
    for stage in stages:
        assert SearchRun.is_search(run.path / stage.name) == bool(stage.images)
        if stage.images:
            search = SearchRun.open(run.path / stage.name)
            assert search.finished
            assert search.winner_record()["score"] == stage.score
    assert [(stage.name, search.path) for stage, search in run.searches()] == [
        (stage.name, run.path / stage.name) for stage in trained
    ]
    # A leaf-run ends with the stage that says why, or with the last level.
    for number in (0, 1):
        own = [stage for stage in stages if (stage.kind, stage.leaf) == (StageKind.LEAF, number)]
        assert all(not stage.ended for stage in own[:-1])
        assert own[-1].ended or own[-1].level == 3
    assert (
        told[0] == f"root: 80 images, {len(stages[0].active)} active latents, agreement"
        f" {stages[0].score:.3f}"
    )


def test_the_summary_says_what_the_stages_say(done: tuple[Recursion, list[Stage], list[str]]):
    run, stages, _ = done
    rows = summary(run)
    assert [row["name"] for row in rows] == [stage.name for stage in stages]
    for row, stage in zip(rows, stages, strict=True):
        assert row["score"] == (None if math.isnan(stage.score) else stage.score)
        assert (row["images"], tuple(row["active"]), row["ended"]) == (
            stage.images,
            stage.active,
            stage.ended,
        )


def test_searches_of_all_stages_are_what_the_plan_asks_for(
    done: tuple[Recursion, list[Stage], list[str]],
):
    run, _, _ = done
    plan, seeds = run.plan, set()
    for stage, search in run.searches():
        own = search.search
        if stage.kind is StageKind.FINAL:
            assert (own.population, own.epochs, own.models, own.rule.first_factor) == (5, 1, 1, 2)
            assert own.scorer.metric == "surrogates"
            assert len(search.dataset) == 80
            assert search.lineage.groupby("epoch").size().tolist() == [10]
            final_seed = own.seed
        else:
            assert (own.population, own.epochs, own.models, own.scorer.metric) == (5, 1, 2, "udr")
            assert own.epoch_images == (320 if stage.kind is StageKind.ROOT else 160)
            seeds.add(own.seed)
        assert own.evolved == plan.root.evolved
    assert len(seeds) == sum(stage.kind is not StageKind.FINAL for stage, _ in run.searches())
    assert final_seed not in seeds
    assert (
        open_run(run.path / "final-2", device="cpu").score("mig", quiet=True)["mig"].notna().all()
    )


# Which images, and whose labels.


def check_parts(run: Recursion, stages: list[Stage]) -> None:
    """Every level holds the images that the level before was reduced to, and the labels that its
    own model gives them.
    """
    whole = run.dataset
    parts: dict[str, np.ndarray] = {"root": np.arange(len(whole))}
    found: dict[str, Labelling] = {}
    for stage in stages:
        if stage.kind is StageKind.FINAL or not stage.images:
            continue
        if stage.kind is StageKind.LEAF:
            first = stage.level == 2
            before = "root" if first else f"leaf-{stage.leaf}/level-{stage.level - 1}"
            rank = stage.leaf if first else 0
            values = found[before].values
            candidates = len(reduce(values, 0, run.plan.reduction).candidates)
            parts[stage.name] = parts[before][
                reduce(values, rank % candidates, run.plan.reduction).indices
            ]
            np.testing.assert_array_equal(
                np.load(run.path / f"{stage.name}.npy"), parts[stage.name]
            )
        here = parts[stage.name]
        assert stage.images == len(here)
        search = next(search for one, search in run.searches() if one.name == stage.name)
        np.testing.assert_array_equal(
            search.dataset.images(np.arange(len(here))), whole.images(here)
        )
        one = found[stage.name] = Labelling.load(search.path / "labels.safetensors")
        assert one.latents == stage.active
        assert one.values.shape == (len(here), len(one.latents))
        direct = (
            open_run(search.path, data=search.dataset, device="cpu")
            .model(one.model)
            .encode(whole.images(here))
        )
        np.testing.assert_allclose(one.values, direct[:, list(one.latents)], rtol=1e-4, atol=1e-5)
    for count in run.plan.finals():
        leaves = read_surrogates(run.path / f"final-{count}" / "surrogates.safetensors")
        assert len(leaves) == max(1, count)
        for number, leaf in enumerate(leaves):
            names = ["root"]
            if count:
                own = [
                    stage
                    for stage in stages
                    if (stage.kind, stage.leaf) == (StageKind.LEAF, number) and not stage.ended
                ]
                names += [stage.name for stage in own]
            assert len(leaf) == len(names)
            for labels, name in zip(leaf, names, strict=True):
                np.testing.assert_array_equal(labels.indices, parts[name])
                np.testing.assert_array_equal(labels.values, found[name].values)


def test_labels_of_every_level_belong_to_its_images(done: tuple[Recursion, list[Stage], list[str]]):
    run, stages, _ = done
    check_parts(run, stages)


def test_leaf_runs_begin_with_different_parts(done: tuple[Recursion, list[Stage], list[str]]):
    run, _, _ = done
    first, second = (np.load(run.path / f"leaf-{number}/level-2.npy") for number in (0, 1))
    assert not set(first) & set(second)


def test_parts_of_a_subset_are_places_in_that_subset(tmp_path: Path):
    whole = load("sprites", x=10, y=10, scale=1, image_size=16)
    np.save(tmp_path / "backwards.npy", np.arange(95, 15, -1))
    data = Subset(whole, tmp_path / "backwards.npy")
    run = Recursion.create(tmp_path / "run", *quick(data, leaf_runs=1, seed=0))
    stages = run.train(CPU, train)
    assert stages is not None
    assert sum(stage.images > 0 and stage.kind is StageKind.LEAF for stage in stages) >= 1
    check_parts(run, stages)
    # Opened again without being given the data: its subset, and the parts of that, are loaded by
    # what the plans say.
    again = Recursion.open(run.path)
    np.testing.assert_array_equal(
        again.dataset.images(np.arange(80)), whole.images(np.arange(95, 15, -1))
    )
    part = SearchRun.open(run.path / "leaf-0/level-2").dataset
    places = np.load(run.path / "leaf-0/level-2.npy")
    np.testing.assert_array_equal(part.images(np.arange(len(places))), data.images(places))


def test_the_final_score_is_the_gap_with_those_labels(
    done: tuple[Recursion, list[Stage], list[str]],
):
    from unbraid.search.rpu.surrogate_labels import surrogate_gaps

    run, stages, _ = done
    every = np.arange(80)
    for count in (0, 1, 2):
        final = run.final(count)
        mean, _ = encode_run(final.winner(), CPU, every)
        leaves = read_surrogates(final.path / "surrogates.safetensors")
        score = next(stage.score for stage in stages if stage.name == f"final-{count}")
        assert surrogate_gaps(mean[0], every, leaves) == pytest.approx(score, abs=1e-9)


# Stopped and gone on with.


def stages_named(run: Recursion) -> list[str]:
    return [row["name"] for row in summary(run) if row["images"]]


@pytest.mark.parametrize(
    "partly",
    [
        pytest.param(False, marks=pytest.mark.slow, id="before a stage"),
        pytest.param(True, id="within a stage"),
    ],
)
def test_a_recursion_stopped_at_every_stage_ends_the_same(
    partly: bool, done: tuple[Recursion, list[Stage], list[str]], tmp_path: Path
):
    whole, stages, _ = done
    path = Recursion.create(tmp_path / "run", *quick(every_final=True)).path
    stopped: list[str] = []

    def train_or_stop(stage: Stage, run: SearchRun) -> SearchOutcome:
        if stage.name in stopped:
            return run.train(CPU)
        stopped.append(stage.name)
        return run.train(CPU, interrupting_at(15)) if partly else SearchOutcome(False)

    found = None
    while found is None:
        count = len(stopped)
        again = Recursion.open(path)
        found = again.train(CPU, train_or_stop)
        assert found is not None or len(stopped) == count + 1
        assert again.finished == (found is not None)
    assert stopped == stages_named(whole)
    assert [replace(one, score=0.0) for one in found] == [replace(one, score=0.0) for one in stages]
    assert summary(again) == summary(whole)
    for name in stopped:
        ours, theirs = SearchRun.open(path / name), SearchRun.open(whole.path / name)
        assert ours.lineage.equals(theirs.lineage)
        assert ours.winner_record() == theirs.winner_record()


def test_a_finished_recursion_trains_nothing(done: tuple[Recursion, list[Stage], list[str]]):
    run, stages, _ = done
    before = (run.path / "summary.json").read_bytes()
    found = Recursion.open(run.path).train(
        CPU, lambda stage, search: pytest.fail(f"trained {stage.name} again")
    )
    assert found is not None
    assert [one.name for one in found] == [one.name for one in stages]
    assert (run.path / "summary.json").read_bytes() == before


def test_two_processes_do_not_train_one_recursion(tmp_path: Path):
    run = Recursion.create(tmp_path / "run", *quick())
    with only_one(run.path), pytest.raises(InputError) as caught:
        run.train(CPU, train)
    assert "written by another process" in str(caught.value)


def test_halves_that_a_killed_one_left_are_removed(tmp_path: Path):
    run = Recursion.create(tmp_path / "run", *quick())
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    places = (run.path / "summary.json", run.path / "root" / "labels.safetensors")
    halves = [place.with_name(f".{place.name}.{ended.pid}.part") for place in places]
    (run.path / "root").mkdir()
    for half in halves:
        half.write_bytes(b"half")
    assert run.train(CPU, lambda stage, search: SearchOutcome(False)) is None
    assert not any(half.exists() for half in halves)


# How it ends.


def test_without_leaf_runs_the_labels_of_the_root_are_used(
    tmp_path: Path, done: tuple[Recursion, list[Stage], list[str]]
):
    run = Recursion.create(tmp_path / "run", *quick(leaf_runs=0))
    stages = run.train(CPU, train)
    assert stages is not None
    assert [stage.name for stage in stages] == ["root", "final-0"]
    check_parts(run, stages)
    # The same root and final as in the recursion that went on to leaf-runs.
    rows = {row["name"]: row for row in summary(done[0])}
    assert summary(run) == [rows["root"], rows["final-0"]]


def test_a_root_that_fails_ends_the_recursion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(labelling, "FAILED_BELOW", 0.99)
    run, told = Recursion.create(tmp_path / "run", *quick()), []
    stages = run.train(CPU, train, told.append)
    assert stages is not None
    (root,) = stages
    assert root.ended == f"the models do not agree on anything (best score {root.score:.3f})"
    assert told == [
        f"root: 80 images, {root.ended}",
        "the root found nothing that could serve as labels: there is no final population to train.",
    ]
    assert run.finished
    assert [row["name"] for row in summary(run)] == ["root"]
    assert run.train(CPU, lambda stage, search: pytest.fail("trained again")) == stages


def test_a_root_without_active_latents_ends_the_recursion(tmp_path: Path):
    run = Recursion.create(tmp_path / "run", *quick(active_nats=1e6))
    stages = run.train(CPU, train)
    assert stages is not None
    (root,) = stages
    assert root.active == ()
    assert root.ended == "no latent of the best model carries more than 1e+06 nat"


def test_a_leaf_run_that_cannot_begin_leaves_the_labels_of_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stops(labels: Any, index: int, rule: ReductionRule) -> Reduction:
        return replace(
            reduce(labels, 0, rule),
            indices=np.empty(0, dtype=np.int64),
            stopped=NO_PEAKS,
            candidates=(),
        )

    monkeypatch.setattr(reduction, "reduce", stops)
    run, told = Recursion.create(tmp_path / "run", *quick()), []
    stages = run.train(CPU, train, told.append)
    assert stages is not None
    assert [stage.name for stage in stages] == [
        "root",
        "leaf-0/level-2",
        "leaf-1/level-2",
        "final-2",
    ]
    assert [stage.ended for stage in stages[1:3]] == [NO_PEAKS, NO_PEAKS]
    assert told[1:3] == [f"leaf-0/level-2: {NO_PEAKS}", f"leaf-1/level-2: {NO_PEAKS}"]
    leaves = read_surrogates(run.path / "final-2" / "surrogates.safetensors")
    assert [len(leaf) for leaf in leaves] == [1, 1]
    assert summary(run)[1]["score"] is None


def test_finals_with_the_same_labels_are_trained_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stops(labels: Any, index: int, rule: ReductionRule) -> Reduction:
        return replace(
            reduce(labels, 0, rule),
            indices=np.empty(0, dtype=np.int64),
            stopped=NO_PEAKS,
            candidates=(),
        )

    trained: list[str] = []

    def noted(stage: Stage, search: SearchRun) -> SearchOutcome:
        trained.append(stage.name)
        return train(stage, search)

    monkeypatch.setattr(reduction, "reduce", stops)
    run, told = Recursion.create(tmp_path / "run", *quick(every_final=True)), []
    (run.path / ".final-1.part").mkdir()  # as a copy that was killed leaves it
    stages = run.train(CPU, noted, told.append)
    assert stages is not None
    assert trained == ["root", "final-0"]
    assert told[-2:] == [
        f"final-{count}: the same as final-0: no leaf-run had found other labels"
        for count in (1, 2)
    ]
    assert [stage.ended for stage in stages[-3:]] == ["", SAME_LABELS, SAME_LABELS]
    again = run.train(CPU, noted, told.append)
    assert again is not None
    assert [stage.ended for stage in again] == [stage.ended for stage in stages], (
        "as often as it is resumed"
    )
    assert stages[-1].score == stages[-3].score
    assert run.final(2).winner_record() == run.final(0).winner_record()
    assert not (run.path / ".final-1.part").exists()
    assert [stage.name for stage, _ in run.searches()] == [
        "root",
        "final-0",
        "final-1",
        "final-2",
    ]


def test_a_leaf_run_without_scores_ends_there(tmp_path: Path):
    def without_scores(stage: Stage, search: SearchRun) -> SearchOutcome:
        if stage.kind is StageKind.LEAF and stage.leaf == 0:
            raise NoScoresError("no member of the population has a score")
        return train(stage, search)

    run = Recursion.create(tmp_path / "run", *quick())
    stages = run.train(CPU, without_scores)
    assert stages is not None
    first = next(stage for stage in stages if stage.name == "leaf-0/level-2")
    assert first.ended == "no model had a score"
    assert stages[-1].name == "final-2"


def test_leaf_runs_take_the_parts_in_turn_where_there_are_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []

    def two_parts(labels: Any, index: int, rule: ReductionRule) -> Reduction:
        found = reduce(
            np.repeat([0.0, 1.0, 2.0, 3.0], len(labels) // 4) + np.linspace(0.0, 0.1, len(labels)),
            0,
            ReductionRule(),
        )
        assert len(found.candidates) == 2
        asked.append(index)
        return replace(found, indices=found.images(index))

    monkeypatch.setattr(reduction, "reduce", two_parts)
    run = Recursion.create(tmp_path / "run", *quick(leaf_runs=3, levels=2))
    stages = run.train(CPU, train)
    assert stages is not None
    assert asked == [0, 0, 1, 0, 0]
    parts = [np.load(run.path / f"leaf-{number}/level-2.npy").tolist() for number in range(3)]
    assert parts == [list(range(20, 40)), list(range(40, 60)), list(range(20, 40))]
    seeds = {SearchRun.open(run.path / f"leaf-{number}/level-2").search.seed for number in range(3)}
    assert len(seeds) == 3, "the same part is searched again with other models"


# Folders and data.


def test_folders_are_checked(tmp_path: Path, done: tuple[Recursion, list[Stage], list[str]]):
    assert Recursion.is_recursion(done[0].path)
    assert not Recursion.is_recursion(tmp_path)
    with pytest.raises(InputError) as caught:
        Recursion.open(tmp_path)
    (problem,) = caught.value.problems
    rule = "must be a folder made by `unbraid rpu`, with a rpu.json in it"
    assert (problem.name, problem.rule, problem.value) == ("run", rule, str(tmp_path))
    with pytest.raises(InputError) as caught:
        Recursion.create(done[0].path, *quick())
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("out", str(done[0].path))
    assert f"unbraid resume {done[0].path}" in problem.remedy


def test_data_in_memory_is_wanted_again(
    tmp_path: Path, done: tuple[Recursion, list[Stage], list[str]]
):
    images = load("sprites", **ROOM).images(np.arange(80))
    data = load(images)
    run = Recursion.create(tmp_path / "run", *quick(data, leaf_runs=1))

    def only_root(stage: Stage, search: SearchRun) -> SearchOutcome:
        return search.train(CPU) if stage.kind is StageKind.ROOT else SearchOutcome(False)

    assert run.train(CPU, only_root) is None
    again = Recursion.open(run.path)
    with pytest.raises(InputError) as caught:
        again.train(CPU, train)
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("data", str(run.path))
    assert f"unbraid.resume('{run.path}', data=" in problem.remedy
    again.use(load(images.copy()))
    stages = again.train(CPU, train)
    assert stages is not None
    check_parts(again, stages)


def test_a_second_recursion_into_a_folder_is_refused_before_it_writes(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    with only_one(folder), pytest.raises(InputError, match="is being written by another process"):
        Recursion.create(folder, *quick())
    assert not Recursion.is_recursion(folder)
