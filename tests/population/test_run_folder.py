# SPDX-License-Identifier: Apache-2.0
"""Run folders: refused where they would overwrite or not fit, opened again with the same data or
not at all.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.core.errors import DamagedFileError, InputError
from unbraid.population import new_folder
from unbraid.population.new_folder import bytes_needed
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import train_run

CPU = torch.device("cpu")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(make) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


def test_another_run_is_not_overwritten(tmp_path: Path, new_run):
    new_run(tmp_path / "run")
    before = contents(tmp_path)
    assert (
        refused(lambda: new_run(tmp_path / "run"))
        == f"out must not hold another run; got '{tmp_path / 'run'}'."
        f" Go on with `unbraid resume {tmp_path / 'run'}` or choose another folder."
    )
    assert contents(tmp_path) == before


def test_a_folder_with_anything_in_it_is_not_used(tmp_path: Path, new_run):
    (tmp_path / "thesis.txt").write_text("mine")
    assert (
        refused(lambda: new_run(tmp_path))
        == f"out must be a new or empty folder; got '{tmp_path}'. Choose another folder."
    )
    assert contents(tmp_path) == {"thesis.txt": b"mine"}


def test_halves_of_a_killed_beginning_do_not_stand_in_the_way(tmp_path: Path, new_run):
    (tmp_path / ".plan.json.123.part").write_text("{")
    new_run(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "plan.json"}


def test_a_file_is_not_a_folder(tmp_path: Path, new_run):
    (tmp_path / "file").write_text("mine")
    assert (
        refused(lambda: new_run(tmp_path / "file"))
        == f"out must be a folder; got '{tmp_path / 'file'}'. Choose another name."
    )
    assert contents(tmp_path) == {"file": b"mine"}


def test_an_empty_folder_is_used(tmp_path: Path, new_run):
    assert new_run(tmp_path).path == tmp_path
    assert set(contents(tmp_path)) == {"plan.json", ".lock"}


def test_a_full_disk_is_noticed_before_anything_is_written(
    tmp_path: Path, new_run, small_plan, monkeypatch: pytest.MonkeyPatch
):
    needed = bytes_needed(*small_plan(seeds=3))
    monkeypatch.setattr(
        new_folder.shutil, "disk_usage", lambda path: SimpleNamespace(free=needed - 1)
    )
    free = f"{(needed - 1) / 1e9:.3f}"
    assert (
        refused(lambda: new_run(tmp_path / "a" / "run", seeds=3))
        == f"out needs a disk with room for the plan; got {free} GB free at {tmp_path},"
        f" {needed / 1e9:.3f} GB needed for 3 members. Free some room, or train fewer members."
    )
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(new_folder.shutil, "disk_usage", lambda path: SimpleNamespace(free=needed))
    new_run(tmp_path / "a" / "run", seeds=3)


@pytest.mark.parametrize(
    "objective", ["beta_vae", "factor_vae", "control_vae", "qlae", ["vae", "ada_gvae"]]
)
def test_the_estimate_covers_a_finished_run(tmp_path: Path, new_run, objective: str):
    from unbraid.codes.codes import CodeStore

    needed, used = [], []
    for keep in (True, False):
        how = {"steps": 2, "log_every": 1, "keep_optimiser": keep}
        run = new_run(tmp_path / str(keep), objective, **how)
        train_run(run, CPU)
        CodeStore(run).encode(CPU)
        used.append(sum(len(content) for content in contents(run.path).values()))
        needed.append(bytes_needed(run.plan, run.dataset, keep_optimiser=keep))
    assert used[0] < needed[0] < 1.5 * used[0] + 11_000_000  # ten of them for the report
    assert used[1] < needed[1]


def test_room_is_asked_for_what_stays_and_for_those_that_train(
    small_plan, monkeypatch: pytest.MonkeyPatch
):
    """Discriminators and running means are gone when a run is trained that need not be kept."""
    monkeypatch.setattr(new_folder, "cores", lambda: 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    needed = [
        bytes_needed(*small_plan("factor_vae", seeds=seeds), keep_optimiser=keep)
        for keep, seeds in ((True, 60), (False, 2), (False, 60))
    ]
    (plan, dataset), states = small_plan("factor_vae"), 12 * 5_000_000
    weights = 4 * plan.layout(plan.members[0], dataset).size
    assert needed[0] > 60 * 2 * states, "two states of each stay"
    assert 2 * 3 * states < needed[1] < 2 * 3.1 * states + 11_000_000, "of the two that train"
    one = (needed[2] - needed[1]) / 58
    assert weights < one < 2 * weights + 100_000, "of each further one its weights stay, and codes"


def test_room_for_as_many_processes_and_gpus_as_train_together(
    small_plan, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(new_folder, "cores", lambda: 2)
    plan, dataset = small_plan("factor_vae", seeds=40)

    def training(chunk_size: int, gpus: int, processes: int) -> int:
        """How many members' states there is room for."""
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        how: dict[str, Any] = {"keep_optimiser": False, "processes": processes}
        return round(bytes_needed(plan, dataset, chunk_size, **how) / (3 * 12 * 5_000_000))

    assert [training(1, 0, 1), training(1, 0, 4), training(6, 1, 1)] == [2, 8, 6]
    assert [training(6, 2, 3), training(8, 4, 2)] == [36, 40]


def test_a_column_of_numbers_and_schedules_is_words_to_the_last_digit(tmp_path: Path, new_run):
    import unbraid as ub

    priors = [
        "isotropic",
        ub.Sparse(gamma=[0.1, "linear(0, 1, 9)"]),
        ub.Anisotropic(variances=(2.0, 1.0, 0.5)),
    ]  # type: ignore[attr-defined]
    run = new_run(
        tmp_path / "run", ub.BetaVAE(beta=[1 / 3, "linear(0, 4, 9)", 4]), prior=priors, steps=2
    )
    train_run(run, CPU)
    table = run.members()
    assert table["beta"].tolist()[::4] == ["0.3333333333333333", "linear(0, 4, 9)", "4"]
    assert table["prior"].tolist()[:4] == ["isotropic", "sparse", "sparse", "anisotropic"]
    assert table["prior_gamma"].tolist()[1:3] == ["0.1", "linear(0, 1, 9)"]
    assert table["prior_gamma"].isna().tolist() == [True, False, False, True] * 3
    assert table["prior_variances"].tolist()[3] == "2/1/0.5"
    assert table["prior_scale"].tolist()[3] == 1.0
    assert table["label"].is_unique
    assert table["label"].tolist()[:4] == [
        "beta_vae beta=0.333333 seed=0",
        "beta_vae beta=0.333333 prior=sparse:gamma=0.1 seed=0",
        "beta_vae beta=0.333333 prior=sparse:gamma=linear(0, 1, 9) seed=0",
        "beta_vae beta=0.333333 prior=anisotropic:variances=2/1/0.5 seed=0",
    ]
    again = RunFolder.open(run.path)
    assert [member.label() for member in again.plan.members] == table["label"].tolist()


def test_weights_as_they_were_given_stand_beside_the_converted_ones(tmp_path: Path, new_run):
    run = new_run(
        tmp_path / "run",
        "beta_vae",
        hyper={"beta": [0.01, "linear(0, 0.1, 9)"]},
        convention="mean",
        steps=2,
    )
    train_run(run, CPU)
    table = run.members()
    assert table["beta_given"].tolist() == ["0.01", "linear(0, 0.1, 9)"]
    assert float(table["beta"].iloc[0]) == 0.01 * 784 / 3


def test_what_is_not_a_run_is_refused(tmp_path: Path):
    rule = "must be a folder made by `unbraid train`, with a plan.json in it"
    for path, expected in ((tmp_path, rule), (tmp_path / "missing", "must exist")):
        with pytest.raises(InputError) as told:
            RunFolder.open(path)
        (problem,) = told.value.problems
        assert (problem.name, problem.rule, problem.value) == ("run", expected, str(path))


def test_opening_gives_the_plan_and_data_back(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run", ub.BetaVAE(beta=[1, 4]), chunk_size=2)
    again = RunFolder.open(tmp_path / "run")
    assert again.plan == run.plan
    assert again.chunk_size == 2
    assert again.dataset.fingerprint() == run.dataset.fingerprint()
    assert again.layout(again.plan.members[1]) == run.layout(run.plan.members[1])


def test_a_damaged_plan_is_said(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run")
    whole = (run.path / "plan.json").read_text()
    (run.path / "plan.json").write_text(whole.replace('"latents": 3', '"latents": 4'))
    with pytest.raises(DamagedFileError) as caught:
        RunFolder.open(run.path)
    told, _, remedy = str(caught.value).partition(" Put ")
    assert remedy
    assert told == f"{run.path / 'plan.json'} is damaged: its content does not match its checksum."
    (run.path / "plan.json").write_text(whole[:100])
    with pytest.raises(DamagedFileError) as caught:
        RunFolder.open(run.path)
    assert (
        str(caught.value)
        == f"{run.path / 'plan.json'} is damaged: it is not a whole record (JSONDecodeError)."
        " Put a copy of it back; without one, train again into a new folder."
    )


def test_data_that_changed_since_is_refused(tmp_path: Path, new_run):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 28, 28), dtype=np.uint8)
    file = tmp_path / "mine.npz"
    np.savez(file, images=pixels)
    run = new_run(tmp_path / "run", data=str(file), steps=2, log_every=1)
    train_run(run, CPU)
    assert RunFolder.open(run.path).dataset.fingerprint() == run.plan.data_fingerprint
    pixels[3, 5, 5] ^= 1
    np.savez(file, images=pixels)
    for use in (
        lambda: RunFolder.open(run.path).dataset,
        lambda: train_run(RunFolder.open(run.path), CPU),
    ):
        with pytest.raises(InputError) as caught:
            use()
        (problem,) = caught.value.problems
        rule = f"must be what {run.path} began with, to the last pixel and label"
        assert (problem.name, problem.rule) == ("data", rule)
        assert str(file) in str(problem.value)
        assert "{data=NEW_PLACE}" in problem.remedy


def test_an_array_in_memory_must_be_given_again(tmp_path: Path, new_run):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 28, 28), dtype=np.uint8)
    run = new_run(tmp_path / "run", data=pixels, steps=2, log_every=1)
    train_run(run, CPU)
    opened = ub.open_run(run.path)
    assert (
        refused(lambda: opened.dataset)
        == f"{run.path} was trained on an array in memory; pass it again, loaded as it was: "
        f"unbraid.open_run('{run.path}', data=unbraid.load(array, ...))."
    )
    assert len(ub.open_run(run.path, data=pixels).dataset) == 12
    assert refused(lambda: ub.open_run(run.path, data=255 - pixels)).startswith(
        f"data must be what {run.path} began with"
    )


@pytest.mark.parametrize("table", ["members", "history"])
def test_a_missing_or_damaged_table_is_made_again(tmp_path: Path, new_run, table: str):
    run = new_run(tmp_path / "run", seeds=2)
    train_run(run, CPU)
    path = run.path / f"{table}.parquet"
    before = path.read_bytes()
    path.unlink()
    getattr(run, table)()
    assert path.read_bytes() == before
    path.write_bytes(before[:-30])
    getattr(run, table)()
    assert path.read_bytes() == before


def test_tables_of_another_run_or_place_are_made_again(tmp_path: Path, new_run):
    one, other = (new_run(tmp_path / str(seeds), seeds=seeds) for seeds in (1, 2))
    for run in (one, other):
        train_run(run, CPU)
    right = contents(one.path)
    shutil.copy(other.path / "members.parquet", one.path / "members.parquet")
    shutil.copy(one.path / "members.parquet", other.path / "history.parquet")
    assert len(one.members()) == 1
    assert "loss" in other.history()
    assert contents(one.path) == right


def test_a_run_folder_can_be_moved(tmp_path: Path, new_run):
    run = new_run(tmp_path / "run", seeds=2, steps=4, log_every=1)
    train_run(run, CPU)
    shutil.move(run.path, tmp_path / "moved")
    moved = RunFolder.open(tmp_path / "moved")
    assert train_run(moved, CPU).finished
    assert moved.members()["status"].tolist() == ["trained", "trained"]


def test_a_discovery_names_the_run_that_it_has(tmp_path):
    (tmp_path / "discover.json").write_text("{}")
    for runs, other in (("recursion/root", "models"), ("models", "recursion")):
        (tmp_path / runs).mkdir(parents=True)
        with pytest.raises(InputError) as told:
            RunFolder.open(tmp_path)
        (problem,) = told.value.problems
        assert str(tmp_path / runs) in problem.remedy
        assert str(tmp_path / other) not in problem.remedy


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("search.json", "It holds a search that is not finished. Go on with: unbraid resume {0}"),
        (
            "recursion.json",
            (
                "It holds a recursion; its runs are the folders in it, such as {0}/root. If"
                " unfinished: unbraid resume {0}"
            ),
        ),
        (
            "discovery.json",
            ("It holds a discovery that has no models yet. Go on with: unbraid resume {0}"),
        ),
    ],
)
def test_a_folder_that_holds_more_than_a_run_says_where_to_look(tmp_path, name, remedy):
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError) as told:
        RunFolder.open(tmp_path)
    rule = (
        f"run must be a folder made by `unbraid train`, with a plan.json in it; got '{tmp_path}'."
    )
    assert str(told.value) == f"{rule} {remedy.format(tmp_path)}"
