# SPDX-License-Identifier: Apache-2.0
"""Figures show every number they are given, where it belongs."""

import math

import numpy as np
import pandas as pd
import pytest

from unbraid.report.figure import ACCENT, TEMPLATE, figure
from unbraid.report.train.figures import (
    curve_range,
    curves_figure,
    latents_figure,
    positions,
    score_range,
    scores_figure,
)
from unbraid.report.train.settings import Setting

from ..pages import drawn


def setting(objective: str, members: tuple[int, ...], colour: str = "#112233") -> Setting:
    return Setting(objective, objective, objective, objective, None, members, colour)


TWO = [setting("a", (0, 1, 2), "#aa0000"), setting("b", (3, 4), "#0000bb")]
NAMES = {number: f"model {number}" for number in range(5)}


def test_objectives_stand_further_apart_than_settings() -> None:
    assert positions([setting("a", (0,)), setting("a", (1,)), setting("b", (2,))]) == [
        0.0,
        1.0,
        2.5,
    ]


def test_every_scored_member_is_a_dot_and_the_median_a_bar() -> None:
    scores = {0: 0.1, 1: 0.4, 2: 0.2, 3: 0.3, 4: math.nan}
    figure = drawn(
        scores_figure(
            scores, TWO, NAMES, title="MIG", ticks=["a", "b"], axis="β", best=1, bounds=(0.0, 1.0)
        )
    )
    bars, dots, ring = figure["data"]
    assert dots["x"] == [-0.26, 0.0, 0.26, 1.24]
    assert dots["y"] == [0.1, 0.4, 0.2, 0.3]
    assert dots["text"] == ["model 0", "model 1", "model 2", "model 3"]
    assert dots["marker"]["color"] == ["#aa0000"] * 3 + ["#0000bb"]
    assert (ring["x"], ring["y"], ring["marker"]["color"]) == ([0.0], [0.4], ACCENT)
    assert bars["x"] == [-0.36, 0.36, None]
    assert bars["y"] == [0.2, 0.2, None]
    assert figure["layout"]["xaxis"]["ticktext"] == ["a", "b"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "β"
    assert figure["layout"]["yaxis"]["range"] == [-0.02, 0.5]


@pytest.mark.parametrize(
    ("values", "bounds", "expected"),
    [
        ([0.05, 0.09], (0.0, 1.0), [-0.004, 0.1]),
        ([0.3], (0.0, 1.0), [-0.02, 0.5]),
        ([0.96], (0.0, 1.0), [-0.04, 1.0]),
        ([0.99, 1.0], (0.0, 1.0), [-0.0416, 1.04]),
        ([-0.9], (-1.0, 1.0), [-1.008, -0.8]),
        ([0.5], (-math.inf, math.inf), None),
        ([-0.2], (0.0, 1.0), None),
        ([math.nan], (0.0, 1.0), None),
    ],
)
def test_score_range(
    values: list[float], bounds: tuple[float, float], expected: list[float] | None
) -> None:
    assert score_range(values, bounds) == expected


def history(members: int, records: int) -> pd.DataFrame:
    rows = [
        (member, step, 100.0 / step + member)
        for member in range(members)
        for step in range(1, records + 1)
    ]
    return pd.DataFrame(rows, columns=["member", "step", "loss"])


def test_curves_have_one_line_per_member_in_its_settings_colour() -> None:
    figure = drawn(curves_figure(history(5, 30), "loss", TWO, NAMES, {4}))
    assert [line["name"] for line in figure["data"]] == [NAMES[number] for number in range(5)]
    assert [line["line"]["color"] for line in figure["data"]] == ["#aa0000"] * 3 + ["#0000bb"] * 2
    assert [line["meta"]["setting"] for line in figure["data"]] == [0, 0, 0, 1, 1]
    assert [line["line"]["dash"] for line in figure["data"]] == ["solid"] * 4 + ["dot"]
    assert figure["data"][2]["x"] == list(range(1, 31))
    assert figure["data"][2]["y"][:3] == [102.0, 52.0, 35.3333]


def test_values_that_are_not_finite_leave_gaps_not_errors() -> None:
    table = history(1, 4)
    table["loss"] = [1.0, np.inf, np.nan, 2.0]
    line = drawn(curves_figure(table, "loss", [setting("a", (0,))], NAMES, set()))["data"][0]
    assert (line["x"], line["y"]) == ([1, 4], [1.0, 2.0])


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    figure = drawn(curves_figure(history(5, 10_000), "loss", TWO, NAMES, set()))
    assert sum(len(line["x"]) for line in figure["data"]) <= 20_000
    assert all(line["x"][-1] == 10_000 for line in figure["data"])


def test_curve_range_leaves_out_the_first_steps_only() -> None:
    steps = np.arange(1, 101)
    low, high = 1.0, 100 / 6  # steps 6..100 are after the first 5 %
    assert curve_range(steps, 100.0 / steps) == [
        0.0,
        pytest.approx(high + 0.06 * (high - low), rel=1e-4),
    ]
    assert curve_range(steps[:0], steps[:0] / 1.0) is None
    assert curve_range(steps, np.full(100, 3.0)) is None
    # From -5 + 10 · 5/99 to 5, and 6 % of that more on either side.
    low = -5 + 50 / 99
    assert curve_range(steps, np.linspace(-5, 5, 100)) == pytest.approx(
        [low - 0.06 * (5 - low), 5 + 0.06 * (5 - low)], rel=1e-4
    )


def test_bars_keep_the_order_given() -> None:
    made = latents_figure([2.5, 0.123456], [3, 0], "#123456", "nats", active={3}, top=5.0)
    bar = drawn(made)["data"][0]
    assert (bar["x"], bar["y"]) == (["latent 3", "latent 0"], [2.5, 0.123456])
    assert bar["marker"]["color"] == ["#123456", "#c9d0d8"]
    assert drawn(made)["layout"]["yaxis"]["range"] == [0.0, 5.2]


def test_bars_of_a_collapsed_model_stay_low() -> None:
    made = latents_figure([1e-5, 1e-6], [1, 0], "#123456", "nats", active=(), top=1e-5)
    assert drawn(made)["layout"]["yaxis"]["range"][1] >= 1.0
    assert drawn(made)["data"][0]["marker"]["color"] == ["#c9d0d8"] * 2


def test_changes_are_laid_over_the_shared_look() -> None:
    made = figure([], x="step", height=99, xaxis={"nticks": 3}, margin_t=34)
    assert drawn(made)["layout"] == {
        "height": 99,
        "margin": {"t": 34},
        "xaxis": {"title": {"text": "step"}, "nticks": 3},
    }
    assert made.layout.template == TEMPLATE
    assert drawn(figure([]))["layout"]["height"] == 270
    assert "height" not in drawn(figure([], height=None))["layout"]


def test_the_axis_of_a_short_training_has_whole_steps() -> None:
    history = pd.DataFrame({"member": [0, 0], "step": [1, 2], "loss": [3.0, 2.0]})
    axis = curves_figure(history, "loss", [setting("a", (0,))], NAMES, set()).layout.xaxis
    assert axis.dtick == 1
