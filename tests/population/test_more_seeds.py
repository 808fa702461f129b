# SPDX-License-Identifier: Apache-2.0
"""More seeds for a run: what is there stays to the byte, and what comes is what a run of so many
seeds would have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import unbraid as ub
from unbraid.core.errors import InputError, UnreadableRecordError
from unbraid.core.store import read_json, write_json
from unbraid.population import devices
from unbraid.population.more_training import grow
from unbraid.population.run_folder import Growth, RunFolder
from unbraid.scoring.run_scores import stored_scores

CPU = torch.device("cpu")
OPTIONS: dict[str, Any] = {
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "hyper": {"beta": [1, 2]},
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 3,
    "batch_size": 8,
    "steps": 12,
    "learning_rate": 1e-3,
    "device": "cpu",
    "quiet": True,
}


def trained(out: Path, seeds: Any, **options: Any) -> ub.Run:
    return ub.train("sprites", "beta_vae", seeds=seeds, out=out, **{**OPTIONS, **options})


def files(run: Path) -> dict[str, bytes]:
    """Models and codes of a run."""
    found = [*(run / "checkpoint").iterdir(), *(run / "codes").iterdir()]
    return {str(path.relative_to(run)): path.read_bytes() for path in found}


def chunks(run: RunFolder) -> list[list[int]]:
    """Members that train together, by their ids."""
    return [[member.id for member in chunk] for chunk in run.chunks()]


def by_setting(run: ub.Run) -> dict[tuple[float, int], torch.Tensor]:
    """Weights of every member by its beta and seed."""
    return {
        (member.hyper["beta"], member.seed): torch.cat(
            [part.flatten() for part in run.folder.member_weights(member.id).values()]
        )
        for member in run.folder.plan.members
    }


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> ub.Run:
    """A run that was planned with three seeds."""
    run = trained(tmp_path_factory.mktemp("seeds") / "three", 3)
    run.score("mig,udr", quiet=True)
    return run


def test_a_run_that_is_given_seeds_equals_one_that_had_them(tmp_path: Path, three: ub.Run):
    run = trained(tmp_path / "run", 1)
    before = run.score("mig,udr,active_units", quiet=True)
    kept, scores = files(run.path), pd.read_parquet(run.path / "scores.parquet")
    run.report()
    assert ub.resume(run.path, seeds=3, device="cpu", quiet=True).path == run.path
    again = ub.open_run(run.path, device="cpu")
    members = again.folder.plan.members
    assert [member.id for member in members] == list(range(6))
    assert [(member.hyper["beta"], member.seed) for member in members] == [
        *((1, 0), (2, 0)),
        *((1, 1), (1, 2), (2, 1), (2, 2)),
    ]
    assert files(run.path).items() >= kept.items(), "what was there stays to the byte"
    ours, theirs = by_setting(again), by_setting(three)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert not (run.path / "report.html").exists(), "it would show fewer models than there are"
    # Scores that are kept are not computed again; those of compared models have others now.
    table = pd.read_parquet(run.path / "scores.parquet")
    pd.testing.assert_frame_equal(table, scores)
    assert set(stored_scores(again.folder)["metric"]) == set(scores["metric"]) - {"udr"}
    page = again.report().read_text("utf-8")
    assert "4 of 6 models have no score yet" in page
    assert "Every model collapsed" in page
    assert "the best model" not in page.partition("What to try next")[2]
    whole = again.score("mig,udr,active_units", quiet=True)
    assert whole.loc[before.index, "mig"].tolist() == before["mig"].tolist()
    keys = ["beta", "seed"]
    one, other = (
        run.score("mig,udr", quiet=True).reset_index().set_index(keys)[["mig", "udr"]].sort_index()
        for run in (again, three)
    )
    pd.testing.assert_frame_equal(one, other)
    assert "6 models trained" in again.report().read_text("utf-8")


def test_killed_between_the_new_plan_and_training_it_goes_on(tmp_path: Path, three: ub.Run):
    run = trained(tmp_path / "run", 1)
    kept = files(run.path)
    grow(RunFolder.open(run.path), 3, CPU)  # and nothing after it
    with pytest.raises(InputError) as caught:
        ub.open_run(run.path, device="cpu").score("mig", quiet=True)
    assert caught.value.problems[0].rule == "must be trained to the end"
    # Both the command that was killed and a plain one go on.
    again = ub.resume(run.path, seeds=3, device="cpu", quiet=True)
    assert files(run.path).items() >= kept.items()
    ours, theirs = by_setting(again), by_setting(three)
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    assert len(again.members) == 6


def test_seeds_come_twice_with_steps_between_and_members_that_train_together(tmp_path: Path):
    run = trained(tmp_path / "run", 1, keep_optimiser=True)
    run.folder.chunk_size = 2
    run.folder.write_plan()
    run = ub.open_run(run.path, device="cpu").resume(seeds=2, quiet=True)
    run = ub.open_run(run.path, device="cpu").resume(steps=20, seeds=3, quiet=True)
    assert chunks(run.folder) == [[0, 1], [2], [3], [4], [5]], "what comes as a CPU trains it"
    assert chunks(RunFolder.open(run.path)) == chunks(run.folder)
    longer = trained(tmp_path / "other", 3, steps=20)
    ours, theirs = by_setting(run), by_setting(longer)
    assert ours.keys() == theirs.keys()
    for key, weights in ours.items():
        np.testing.assert_allclose(weights, theirs[key], rtol=1e-4, atol=1e-5)
    assert run.score("mig", quiet=True)["mig"].notna().all()


def test_files_of_a_new_member_are_not_taken_from_the_old_plan(tmp_path: Path):
    run = trained(tmp_path / "run", 1)
    codes = run.path / "codes"
    old = (codes / "member-00000.safetensors").read_bytes()
    run.resume(seeds=2, quiet=True)
    new = (codes / "member-00002.safetensors").read_bytes()
    (codes / "member-00002.safetensors").write_bytes(old)
    run.resume(quiet=True)
    assert (codes / "member-00002.safetensors").read_bytes() == new


@pytest.mark.parametrize("seeds", [2, 0, -1, 2.0, True, "4", 10**9])
def test_fewer_and_odd_numbers_are_refused_and_change_nothing(three: ub.Run, seeds: Any):
    plan = (three.path / "plan.json").read_bytes()
    with pytest.raises(InputError) as caught:
        ub.open_run(three.path, device="cpu").resume(seeds=seeds, quiet=True)
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("seeds", seeds)
    assert (three.path / "plan.json").read_bytes() == plan


def test_listed_seeds_are_refused(tmp_path: Path):
    run = trained(tmp_path / "run", [5, 9])
    with pytest.raises(InputError) as caught:
        run.resume(seeds=4)
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == (
        "seeds",
        "needs a run whose seeds were given by their number",
    )
    assert "5, 9" in str(problem.value)


def test_new_members_train_in_chunks_of_their_own_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = trained(tmp_path / "run", 1)
    folder, gpu = RunFolder.open(run.path), torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda place: (10**10, 10**10))
    monkeypatch.setattr(devices, "uses_kernels", lambda place: True)
    grow(folder, 12, gpu)
    assert chunks(folder) == [[0], [1], list(range(2, 24))]
    grow(folder, 14, CPU)
    assert chunks(folder) == [[0], [1], list(range(2, 24)), [24], [25], [26], [27]]
    assert chunks(RunFolder.open(run.path)) == chunks(folder)
    assert [one.chunk_size for one in folder.grown] == [22, 1]


def grown_record(run: Path, seeds: int = 3) -> dict[str, Any]:
    """plan.json of *run* once it has more seeds."""
    grow(RunFolder.open(run), seeds, CPU)
    return read_json(run / "plan.json")


def test_members_that_an_earlier_version_added_keep_chunks_of_the_first_size(tmp_path: Path):
    run = trained(tmp_path / "run", 1)
    record = grown_record(run.path) | {"chunk_size": 2}
    record["grown"] = [one[:2] for one in record["grown"]]
    write_json(run.path / "plan.json", record)
    found = RunFolder.open(run.path)
    assert chunks(found) == [[0, 1], [2, 3], [4, 5]]
    assert found.grown == (Growth(record["grown"][0][0], 2, 2),)
    found.write_plan()
    assert chunks(RunFolder.open(run.path)) == chunks(found)


@pytest.mark.parametrize("numbers", [(0, 1), (6, 1), (2, 0), (-1, 1)])
def test_a_plan_with_other_numbers_of_members_is_not_read(tmp_path: Path, numbers: tuple[int, int]):
    run = trained(tmp_path / "run", 1)
    record = grown_record(run.path)
    record["grown"][0][1:] = numbers
    write_json(run.path / "plan.json", record)
    with pytest.raises(UnreadableRecordError) as caught:
        RunFolder.open(run.path)
    assert caught.value.problems[0].name == ("grown" if numbers[1] else "chunk_size")


# Opened twice.


def assert_changed(ask: Any, run: Path) -> None:
    """The run has other steps or seeds than when it was opened, which is said."""
    with pytest.raises(InputError) as caught:
        ask()
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("run", "must have the plan with which it was opened")
    assert str(run) in str(problem.value)
    assert problem.remedy.startswith("Open it again")


def whole(run: Path) -> dict[str, bytes]:
    """All files of a run but locks."""
    found = [path for path in run.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.parametrize("more", [{"seeds": 3}, {"steps": 18}])
@pytest.mark.parametrize("less", [{"seeds": 2}, {"steps": 16}, {}])
def test_who_opened_a_run_before_it_had_more_changes_nothing(
    tmp_path: Path, more: dict[str, int], less: dict[str, int]
):
    path = trained(tmp_path / "run", 1, keep_optimiser=True).path
    one, other = (ub.open_run(path, device="cpu") for _ in range(2))
    other.resume(**more, quiet=True)
    other.score("mig", quiet=True)
    before = whole(path)
    assert_changed(lambda: one.resume(**less, quiet=True), path)
    assert_changed(lambda: one.score("mig", quiet=True), path)
    assert whole(path) == before
    again = ub.open_run(path, device="cpu")
    assert len(again.score("mig", quiet=True)) == len(other.members)
