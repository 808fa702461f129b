# SPDX-License-Identifier: Apache-2.0
"""Folders made by earlier code open, resume, score and report, and come to the same numbers.

They were made with commit 9842173 of this project by `make_folders.py`, and then moved: the paths
that some of them hold lead nowhere. What the code of that commit made of them is in
`expected.json`. Numbers may differ by rounding; on the kind of processor that made them, by none.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from unbraid.scoring.collapse import ACTIVE

from . import observing
from .observing import CASES, PERTURBED, differences

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "expected.json").read_text("utf-8"))
EXPECTED: dict[str, Any] = observing.in_todays_names(RECORDED)
SAME_BITS = observing.machine() == EXPECTED["machine"]
TABLES = {".parquet": pd.read_parquet, ".csv": pd.read_csv}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where copies of the folders lie, since going on with them changes them."""
    return Path(shutil.copytree(HERE / "folders", tmp_path / "folders"))


def check(found: Any, expected: Any, relative: float = 1e-5) -> None:
    found = observing.in_todays_names(found)
    told = list(differences(found, expected, 1e-5 if SAME_BITS else relative, bits=SAME_BITS))
    assert not told, "\n".join(told)


@pytest.mark.parametrize("name", CASES)
def test_a_folder_of_earlier_code_comes_to_the_same_numbers(name: str, home: Path) -> None:
    case, expected = CASES[name], EXPECTED["folders"][name]
    with observing.small_discriminators(case.units):
        observing.resume(name, home)
        if case.finished:
            check_unchanged(home / name, HERE / "folders" / name)
        observing.score(name, home)
        check(observing.observe(name, home), expected, case.relative)
        # Now what was stored of codes and scores is made again, from the weights.
        for run in case.runs:
            shutil.rmtree(home / name / run / "codes")
            (home / name / run / "scores.parquet").unlink()
        observing.score(name, home)
        expected = without_others(expected, case.metrics.split(","))
        check(observing.observe(name, home), expected, case.relative)
        pages = observing.report(name, home)
    for page in pages:
        assert page.read_text("utf-8").lower().startswith("<!doctype html>")


def check_unchanged(folder: Path, was: Path) -> None:
    """Every file that was there is there, the same but for how tables are packed."""
    files = [path.relative_to(was) for path in sorted(was.rglob("*")) if path.is_file()]
    assert files
    for file in files:
        if file.suffix in TABLES:
            one, other = (TABLES[file.suffix](where / file) for where in (folder, was))
            other = other.rename(columns=observing.RENAMED)
            if "metric" in one:  # active latents are counted with every score since
                one = one[one["metric"] != ACTIVE].reset_index(drop=True)
            pd.testing.assert_frame_equal(one, other, check_exact=SAME_BITS, rtol=1e-5, atol=1e-7)
        else:
            assert (folder / file).read_bytes() == (was / file).read_bytes(), file


def without_others(expected: dict[str, Any], metrics: list[str]) -> dict[str, Any]:
    """The record without scores that were not asked for, which a search had stored."""
    scores = {
        run: {metric: values for metric, values in by_metric.items() if metric in metrics}
        for run, by_metric in expected["scores"].items()
    }
    return {**expected, "scores": scores}


def test_perturbed_data_of_earlier_code_is_the_same_and_can_be_trained_on(home: Path) -> None:
    check(observing.perturbed_data(home / PERTURBED), EXPECTED["folders"][PERTURBED])
    short = ("--steps", "2", "--network", "mlp:hidden=2", "--device", "cpu")
    observing.unbraid("train", home / PERTURBED, "beta_vae", *short, "--out", home / "new")
    assert (home / "new" / "members.parquet").is_file()


def test_what_was_recorded_is_worth_comparing() -> None:
    """Models that learned nothing, or an empty table, would be equal whatever happens to them."""
    folders = EXPECTED["folders"]
    assert folders.keys() == {*CASES, PERTURBED} == {path.name for path in HERE.glob("folders/*")}
    stages = {name: folders[name]["stages"] for name in folders if "stages" in folders[name]}
    assert [row["name"] for row in stages["rpu_finished"]] == ["root", "leaf-0/level-2", "final-1"]
    assert all(row["images"] and row["score"] > 0 for row in stages["rpu_finished"])
    assert stages["rpu_interrupted"] == stages["rpu_finished"]
    assert any(column.startswith("factor_1") for column in folders["discover_finished"]["codes"])
    runs = [folders[name]["runs"]["."] for name in CASES if name.startswith("run_")]
    assert len({kind for run in runs for kind in run["members"]["objective"]}) == 14
    assert all(max(run["weights"][one]["std"] for one in run["weights"]) > 0 for run in runs)
    # The winners of searches that were stopped came up after that.
    assert folders["pbt_interrupted"]["runs"]["."]["winner"]["epoch"] == 2
    last = folders["discover_interrupted"]["runs"]["recursion/final-1"]
    assert last["winner"]["epoch"] == 3


CHANGES: dict[str, Any] = {
    "/weights/0/mean: 0.5 instead of": lambda run: run["weights"]["0"].update(mean=0.5),
    "/weights/3/sha256: '0' instead": lambda run: run["weights"]["3"].update(sha256="0"),
    "/weights/2/parts/7: ": lambda run: run["weights"]["2"]["parts"].__setitem__(7, 0.1),
    "/weights: ['0', '1'": lambda run: run["weights"].pop("6"),
    "/members/status/1: 'left'": lambda run: run["members"]["status"].__setitem__(1, "left"),
    "/members/seed: 8 values": lambda run: run["members"]["seed"].append(1),
}


@pytest.mark.parametrize("told", CHANGES)
def test_a_difference_is_told(told: str) -> None:
    expected = EXPECTED["folders"]["run_finished"]["runs"]["."]
    changed = json.loads(json.dumps(expected))
    assert not list(differences(changed, expected, bits=True))
    CHANGES[told](changed)
    (line,) = differences(changed, expected, bits=True)
    assert line.startswith(told)
