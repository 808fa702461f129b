# SPDX-License-Identifier: Apache-2.0
"""The generated tables of docs/search.md say what the results' files hold."""

from __future__ import annotations

from unbraid import search_pages


def row(kind: str, seed: int, mig: float) -> dict:
    values = {"learning_rate": 0.00123, "beta": 12.0, "batch_size": 32}
    about = {"population": 12, "epochs": 8, "epoch_pictures": 60_000, "pictures": 184_320, "device": "NVIDIA H200"}
    return {"kind": kind, "seed": seed, "mig": mig, "dci": 0.5, "seconds": 26.4, "winner": {"values": values}, **about}


def test_supervised_searches_are_compared_by_mean_and_deviation():
    rows = [row("random", 1, 0.3), row("pbt", 1, 0.5), row("pbt", 0, 0.4), row("random", 0, 0.3)]
    lines = search_pages.supervised({"supervised": rows}).splitlines()
    assert lines[2] == "| population-based | 0 | 0.400 | 0.500 | 0.0012, 12, 32 | 26 |"
    assert lines[4].startswith("| random | 0 | 0.300 |")
    assert lines[6] == "| **population-based, mean** | | **0.450** ± 0.071 | | | |"
    assert lines[7] == "| **random, mean** | | **0.300** ± 0.000 | | | |"
    assert lines[-1].startswith("12 individuals, 8 epochs of 60,000 pictures each, 184,320 pictures of dSprites")


def test_stages_stand_in_order_with_what_is_left():
    stage = {"seed": 0, "pictures": 94, "winner": {"score": 0.7}, "mig": 0.05, "explained": {"4": {"x": 0.1, "scale": 0.9}}}
    stages = [
        {**stage, "stage": "final-0", "explained": {}},
        {**stage, "stage": "leaf-0/level-2", "variance_left": {"x": 0.0035, "y": 0.002}},
        {**stage, "stage": "root"},
    ]
    lines = search_pages.recursion({"stages": stages}).splitlines()[2:]
    assert lines == [
        "| 0 | root | 94 | 0.700 | 0.050 | scale 0.90 |  |",
        "| 0 | leaf-0/level-2 | 94 | 0.700 | 0.050 | scale 0.90 | 0.35%, 0.20% |",
        "| 0 | final-0 | 94 | 0.700 | 0.050 |  |  |",
    ]


def test_speed_of_udr_and_discoveries():
    rows = [{"what": "lasso", "all_groups_s": 0.2, "group_by_group_s": 0.8, "loop_s": None}]
    text = search_pages.udr_speed({"cpu": {"machine": "one core", "population": "56 groups", "rows": rows}})
    assert "| cpu | lasso | 0.20 s | 0.80 s |  |" in text
    found = [{"title": "factor_1_size", "factor": "scale", "correlation": 0.98}]
    made = {"data": "sprites", "pictures": 2000, "found": found, "udr": 0.81, "minutes": 14.2, "models": 15, "device": "a CPU"}
    assert "| 2,000 of sprites | factor_1_size (scale 0.980) | 0.81 | 14.2 | 15 |" in search_pages.discoveries({"rows": [made]})
