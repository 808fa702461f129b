# SPDX-License-Identifier: Apache-2.0
"""The generated tables of docs/search.md say what the results' files hold."""

from __future__ import annotations

from unbraid import search_pages


def row(kind: str, seed: int, mig: float, setting: str = "wide") -> dict:
    values = {"learning_rate": 0.00123, "beta": 12.0, "batch_size": 32}
    about = {
        "population": 12,
        "epochs": 8,
        "epoch_images": 60_000,
        "images": 184_320,
        "device": "NVIDIA H200",
    }
    scores = {"mig": mig, "dci": mig + 0.1, "winner": {"values": values}}
    return {"kind": kind, "setting": setting, "seed": seed, **scores, **about}


def test_supervised_searches_are_compared_by_mean_and_deviation():
    rows = [row("random", 1, 0.3), row("pbt", 1, 0.5), row("pbt", 0, 0.4), row("random", 0, 0.3)]
    assert search_pages.supervised({"supervised": rows}).splitlines() == [
        (
            "Learning rates from 1e-5 to 1e-2, β from 1 to 200; 12 individuals, 8 epochs of 60,000"
            " images each:"
        ),
        "",
        (
            "| seed | population-based: MIG | DCI | random: MIG | DCI | winner's learning rate, β,"
            " batch |"
        ),
        "|---|---|---|---|---|---|",
        "| 0 | 0.400 | 0.500 | 0.300 | 0.400 | 0.0012, 12, 32 |",
        "| 1 | 0.500 | 0.600 | 0.300 | 0.400 | 0.0012, 12, 32 |",
        "| mean | **0.450** ± 0.071 | 0.550 ± 0.071 | **0.300** ± 0.000 | 0.400 ± 0.000 | |",
        "",
        (
            "184,320 images of dSprites (every second x and y), NVIDIA H200; ± is the standard"
            " deviation over seeds."
        ),
    ]


def test_settings_have_tables_of_their_own():
    rows = [
        row(kind, seed, 0.4, setting)
        for kind in ("pbt", "random")
        for seed in (0, 1)
        for setting in ("wide", "published")
    ]
    text = search_pages.supervised({"supervised": rows})
    assert text.index("drawn as published") < text.index("from 1e-5 to 1e-2")
    assert text.count("| mean |") == 2


def test_stages_stand_in_order_with_what_is_left():
    stage = {
        "seed": 0,
        "images": 94,
        "winner": {"score": 0.7},
        "mig": 0.05,
        "explained": {"4": {"x": 0.1, "scale": 0.9}},
    }
    stages = [
        {**stage, "setting": "low", "stage": "final-0", "explained": {}},
        {
            **stage,
            "setting": "low",
            "stage": "leaf-0/level-2",
            "variance_left": {"x": 0.0035, "y": 0.002},
        },
        {**stage, "setting": "low", "stage": "root"},
        {**stage, "setting": "high", "stage": "root"},
    ]
    lines = search_pages.recursion({"stages": stages}).splitlines()
    assert lines[0] == "β from 80 to 437:"
    assert lines[5:7] == ["", "β from 2 to 60:"]
    assert lines[10:] == [
        "| 0 | root | 94 | 0.700 | 0.050 | scale 0.90 |  |",
        "| 0 | leaf-0/level-2 | 94 | 0.700 | 0.050 | scale 0.90 | 0.35%, 0.20% |",
        "| 0 | final-0 | 94 | 0.700 | 0.050 |  |  |",
    ]


def test_speed_of_udr_and_discoveries():
    rows = [{"what": "lasso", "all_groups_s": 0.2, "group_by_group_s": 0.8, "loop_s": None}]
    text = search_pages.udr_speed(
        {"cpu": {"machine": "one core", "population": "56 groups", "rows": rows}}
    )
    assert "| cpu | lasso | 0.20 s | 0.80 s |  |" in text
    found = [{"title": "factor_1_size", "factor": "scale", "correlation": 0.98}]
    made = {
        "data": "sprites",
        "images": 2000,
        "found": found,
        "udr": 0.81,
        "minutes": 14.2,
        "models": 15,
        "device": "a CPU",
    }
    assert (
        "| 2,000 of sprites, a CPU | factor_1_size (scale 0.980) | 0.81 | 14.2 | 15 |"
        in search_pages.discoveries({"rows": [made]})
    )
