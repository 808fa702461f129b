# SPDX-License-Identifier: Apache-2.0
"""`distances`: what is written where, what is printed, and which data goes with a run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unbraid as ub
from unbraid.analysis.distances.learnt import COLUMNS
from unbraid.commands.distances import printed_members
from unbraid.population.run_folder import RunFolder

from .conftest import SPRITES

QUICK = {"pairs": 30, "quiet": True, "device": "cpu"}


def test_it_measures_writes_and_prints(run: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = ub.distances("xysquares:spacing=8", loss="mse+box3", **QUICK)
    assert made.page == Path("distances/xysquares-mse-box3/distances.html")
    names = ["distances.html", "distances.svg", "importance.csv", "matrices.csv", "order.csv"]
    assert sorted(path.name for path in made.page.parent.iterdir()) == names
    lines = made.summary().splitlines()
    assert lines[0] == "inputs (mse+box3)"
    assert lines[-1] == f"Open in a browser: {made.page}"
    assert "random pairs" in made.summary()
    assert ub.distances(run=run, **QUICK).page == run / "distances-0-mse" / "distances.html"
    own = ub.distances("sprites", data_options=SPRITES, run=run, out=tmp_path / "own", **QUICK)
    assert own.page.parent == tmp_path / "own"


def test_the_command(unbraid, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = unbraid("distances", "xysquares", "--pairs", "30", "--device", "cpu")
    assert answer.code == 0
    assert answer.out.count("undefined") == 6
    page = Path("distances/xysquares-mse/distances.html")
    assert answer.out.endswith(f"\n\nOpen in a browser: {page}\n")
    assert "unbraid distances xysquares --pairs 30" in page.read_text()


def test_nothing_and_other_data_are_refused(run: Path, refused):
    (problem,) = refused(lambda: ub.distances("xysquares", member=1))
    assert (problem.name, problem.value) == ("member", 1)
    (problem,) = refused(ub.distances)
    assert (problem.name, problem.value) == ("distances", "neither")
    (problem,) = refused(lambda: ub.distances("xysquares", run=run))
    assert (problem.name, problem.value) == ("data", "xysquares")
    assert f"must be what {run} was trained on" in problem.rule


@pytest.mark.parametrize("where", ["out", "here", "run"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    run: Path, tmp_path, refused, monkeypatch, where
):
    options = {"out": {"data": "sprites", "out": "d"}, "here": {"data": "sprites"}}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (problem,) = refused(lambda: ub.distances(**options.get(where, {"run": run}), quiet=True))
    place = {"out": "d", "here": "distances/sprites-mse"}.get(where, f"{run}/distances-0-mse")
    assert (problem.name, problem.value) == ("out", place)
    assert problem.rule == "must be a folder that can be written"
    assert problem.remedy == "Choose another: {out=FOLDER}."


def test_of_a_run_whose_models_all_diverged_one_thing_is_said(unbraid, run: Path, monkeypatch):
    table = RunFolder.open(run).members().assign(status="diverged", steps=7)
    monkeypatch.setattr(RunFolder, "members", lambda folder: table)
    answer = unbraid("distances", "--run", str(run), "--device", "cpu")
    assert answer.code == 2
    assert answer.err == (
        "unbraid: --member must be one that did not diverge; got 0, whose loss or gradient was no"
        " finite number at step 7. None is left: train again, into a new folder, with a lower"
        " learning rate.\n"
    )


def test_it_says_what_a_vae_will_see(tmp_path: Path, unbraid, monkeypatch):
    """Of a folder of images with factors, in the terminal, on the page and in Python."""
    monkeypatch.chdir(tmp_path)
    data = ub.load("xysquares")
    indices = np.concatenate([data.grid.traversal(0, axis) for axis in range(6)])
    folder = tmp_path / "my_images"
    folder.mkdir()
    for number, image in enumerate(data.images(indices)):
        Image.fromarray(image).save(folder / f"{number:02d}.png")
    table = pd.DataFrame(data.factors(indices), columns=[*data.factor_names])
    table.insert(0, "file", [f"{number:02d}.png" for number in range(len(indices))])
    table.to_csv(folder / "factors.csv", index=False)
    answer = unbraid("distances", str(folder), "--pairs", "30", "--device", "cpu")
    assert answer.code == 0
    *_, advice, _, _ = answer.out.splitlines()
    assert advice.startswith("A VAE with the loss mse will tell the values of x_R, y_R")
    assert "try mse+box31, which orders x_R" in advice
    (page,) = Path("distances").glob("*/distances.html")
    assert advice in page.read_text()
    assert ub.distances(str(folder), **QUICK).advice == advice


def test_a_folder_without_factors_is_told_one_thing(tmp_path: Path, refused):
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(tmp_path / "one.png")
    Image.fromarray(np.ones((32, 32, 3), np.uint8)).save(tmp_path / "two.png")
    (problem,) = refused(lambda: ub.distances(str(tmp_path), **QUICK))
    assert problem.name == "data"
    assert problem.rule == "needs known factors, whose values are compared"


def test_the_table_of_all_members_fits_a_terminal():
    count = 60
    table = pd.DataFrame({name: np.linspace(0, 1, count) for name in COLUMNS})
    table["means_with_inputs"] = np.nan
    table.insert(0, "member", range(count))
    table.insert(1, "model", ["beta_vae beta=1 prior=mixture:components=6 seed=0"] * count)
    told = printed_members(table)
    lines = told.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 150
    for name in ("overlap", "means", "posteriors", "reconstructions", "undefined", "members.csv"):
        assert name in told
    assert "59 beta_vae beta=1 ..." in told


def test_every_member_stands_in_one_table(run: Path, tmp_path: Path, refused):
    made = ub.distances(run=run, every_member=True, out=tmp_path / "all", **QUICK)
    assert made.members is not None
    members = RunFolder.open(run).plan.members
    assert made.members["model"].tolist() == [one.label() for one in members]
    stored = pd.read_csv(tmp_path / "all" / "members.csv")
    assert stored["member"].tolist() == [one.id for one in members]
    assert "All models" in made.page.read_text()
    assert f"{members[0].id} {members[0].label()}" in made.summary()
    (problem,) = refused(lambda: ub.distances("xysquares", every_member=True))
    assert (problem.name, problem.value) == ("every_member", True)
