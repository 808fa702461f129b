# SPDX-License-Identifier: Apache-2.0
"""Tables of benchmark results say what the files hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.docs import measured
from tools.docs.generate import FROM_RESULTS

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize("name", list(FROM_RESULTS))
def test_the_committed_results_make_a_table(name: str):
    file, make = FROM_RESULTS[name]
    text = make(json.loads((RESULTS / f"{file}.json").read_text("utf-8")))
    assert len([line for line in text.splitlines() if line.startswith("| ")]) >= 3
    assert "nan" not in text
    assert "None" not in text


def test_speed_on_a_cpu():
    rows = [{"what": "plain", "model_steps_per_second": 10.0, "ratio": 1.0}]
    text = measured.cpu_speed({"rows": rows, "machine": "2 cores", "setting": "a set"})
    assert text.splitlines()[2:] == ["| plain | 10.0 | 1.00 |", "", "2 cores; a set."]


def test_medians_with_the_least_and_the_most():
    row = {
        "data": {"name": "xysquares", "spacing": 8},
        "objective": "ada_gvae",
        "likelihood": "gaussian+box31",
        "latents": 9,
        "strength": {"beta": 0.01},
        "members": 3,
        "steps": 20_000,
        "seconds": 12.3,
        "population": 6,
        "mig": [0.1, 0.5, 0.3],
        "dci": [0.2, 0.2, 0.8],
        "device": "GPU",
        "precision": "bfloat16",
    }
    assert (
        "| xysquares, spacing 8 | `ada_gvae` | `gaussian+box31` | 9 | beta 0.01 | 3 | 20,000 | 12"
        " (6 members) | **0.300** (0.100 to 0.500) | **0.200** (0.200 to 0.800) |"
        in measured.disentangling({"rows": [row]})
    )


def search(kind: str, seed: int, mig: float, setting: str = "wide") -> dict:
    values = {"learning_rate": 0.00123, "beta": 12.0, "batch_size": 32}
    about = {"population": 12, "epochs": 8, "epoch_images": 60_000, "images": 184_320}
    scores = {"mig": mig, "dci": mig + 0.1, "winner": {"values": values}}
    where = {"kind": kind, "setting": setting, "seed": seed, "device": "NVIDIA H200"}
    return where | scores | about


def test_searches_are_compared_by_mean_and_deviation():
    runs = [("random", 1, 0.3), ("pbt", 1, 0.5), ("pbt", 0, 0.4), ("random", 0, 0.3)]
    text = measured.searches_by_mig({"supervised": [search(*run) for run in runs]})
    assert " ".join(text.split()).startswith(
        "Learning rates from 1e-5 to 1e-2, β from 1 to 200; 12 individuals, 8 epochs of 60,000"
        " images each: | seed | "
    )
    assert [line for line in text.splitlines() if line.startswith("| ")][1:] == [
        "| 0 | 0.400 | 0.500 | 0.300 | 0.400 | 0.0012, 12, 32 |",
        "| 1 | 0.500 | 0.600 | 0.300 | 0.400 | 0.0012, 12, 32 |",
        "| mean | **0.450** ± 0.071 | 0.550 ± 0.071 | **0.300** ± 0.000 | 0.400 ± 0.000 |  |",
    ]
    assert "\n184,320 images of dSprites (every second x and y), NVIDIA H200;" in text


def test_settings_have_tables_of_their_own():
    rows = [
        search(kind, seed, 0.4, setting)
        for kind in ("pbt", "random")
        for seed in (0, 1)
        for setting in ("wide", "published")
    ]
    text = measured.searches_by_mig({"supervised": rows})
    assert text.index("drawn as published") < text.index("from 1e-5 to 1e-2")
    assert text.count("| mean |") == 2


def test_stages_stand_in_order_with_what_is_left():
    stage = {"seed": 0, "images": 94, "winner": {"score": 0.7}, "mig": 0.05}
    found, left = {"4": {"x": 0.1, "scale": 0.9}}, {"x": 0.0035, "y": 0.002}
    leaf = {"stage": "leaf-0/level-2", "explained": found, "variance_left": left}
    stages = [
        {**stage, "setting": "low", "stage": "final-0", "explained": {}},
        {**stage, "setting": "low", **leaf},
        {**stage, "setting": "low", "stage": "root", "explained": found},
        {**stage, "setting": "high", "stage": "root", "explained": found},
    ]
    lines = measured.rpu_stages({"stages": stages}).splitlines()
    assert lines[0] == "β from 80 to 437:"
    assert lines[5:7] == ["", "β from 2 to 60:"]
    assert lines[10:] == [
        "| 0 | root | 94 | 0.700 | 0.050 | scale 0.90 |  |",
        "| 0 | leaf-0/level-2 | 94 | 0.700 | 0.050 | scale 0.90 | 0.35%, 0.20% |",
        "| 0 | final-0 | 94 | 0.700 | 0.050 |  |  |",
    ]


def test_speed_of_udr_and_discoveries():
    rows = [{"what": "lasso", "all_groups_s": 0.2, "group_by_group_s": 0.8, "loop_s": None}]
    device = {"machine": "one core", "population": "56 groups", "rows": rows}
    assert "| cpu | lasso | 0.20 s | 0.80 s |  |" in measured.udr_speed({"cpu": device})
    found = [{"title": "factor_1_size", "factor": "scale", "correlation": 0.98}]
    made = {"data": "sprites", "images": 2000, "found": found, "udr": 0.81, "minutes": 14.2}
    made |= {"models": 15, "device": "a CPU"}
    assert (
        "| 2,000 of sprites, a CPU | factor_1_size (scale 0.980) | 0.81 | 14.2 | 15 |"
        in measured.discoveries({"rows": [made]})
    )
