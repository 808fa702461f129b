# SPDX-License-Identifier: Apache-2.0
"""Exhibits as SVG: the right marks at the right places, whatever the numbers and names."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from unbraid.report.study.figures import NARROW, PAPER, WIDE, draw
from unbraid.studies.finding import Exhibit

WILD = "<b>&\"'x"


class Drawn:
    """A figure read back."""

    def __init__(self, exhibit: Exhibit, width: float = WIDE) -> None:
        self.text = draw(exhibit, width)
        self.root = ET.fromstring(self.text)
        self.count = Counter(one.tag.rpartition("}")[2] for one in self.root.iter())
        self.words = [one.text for one in self.all("text")]

    def all(self, tag: str) -> list[ET.Element]:
        return [one for one in self.root.iter() if one.tag.endswith(f"}}{tag}")]

    def number(self, name: str) -> float:
        return float(self.root.attrib[name])


def rows(*each: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame(each, columns=["x", "y", "group", "low", "high"][: len(each[0])])


def exhibit(form, table: pd.DataFrame, **more) -> Exhibit:
    return Exhibit(form, table, "along", "upwards", "What is seen.", **more)


POINTS = exhibit("points", rows((0.0, 0.0, "a"), (1.0, 2.0, "a"), (0.5, 1.0, "b")))
LINES = exhibit(
    "lines",
    rows(*((x, 2.0 * x, name, x, 3.0 * x) for name in ("a", "b", "c") for x in (1.0, 2.0, 4.0))),
)
BARS = exhibit(
    "bars",
    rows(
        ("one", 1.0, "here", 0.5, 1.5),
        ("two", 2.0, "here", 2.0, 2.0),
        ("one", 4.0, "paper", np.nan, np.nan),
    ),
)
VIOLINS = exhibit(
    "violins",
    rows(*((beta, value, "a") for beta in (16.0, 2.0) for value in (0.1, 0.2, 0.4)), (2.0, 1, "b")),
)
MATRIX = exhibit(
    "matrix",
    pd.DataFrame([[1.0, -0.5], [0.004, np.nan]], index=["r1", "r2"], columns=["c1", "c2"]),
)
ALL = [POINTS, LINES, BARS, VIOLINS, MATRIX]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.form)
def test_a_figure_is_whole_and_stays_inside_itself(one: Exhibit, width: float):
    figure = Drawn(one, width)
    assert figure.root.attrib["aria-label"] == one.caption
    assert figure.root.attrib["role"] == "img"
    assert {"along", "upwards"} <= {*figure.words}
    if one.form != "matrix":
        assert figure.number("width") == width
    for element in figure.root.iter():
        for name, end in (("x", "width"), ("cx", "width"), ("y", "height"), ("cy", "height")):
            assert 0 <= float(element.attrib.get(name, 0)) <= figure.number(end)
        for pair in element.attrib.get("points", "").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= figure.number("width")
            assert 0 <= y <= figure.number("height")


def test_every_point_is_a_dot_at_its_place():
    figure = Drawn(POINTS)
    keys, dots = 2, figure.all("circle")[2:]
    assert figure.count["circle"] == keys + 3
    a, b, middle = ((float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in dots)
    assert middle == pytest.approx(((a[0] + b[0]) / 2, (a[1] + b[1]) / 2), abs=0.11)
    assert a[1] > b[1]  # larger is higher


def test_every_group_is_a_line_with_its_band():
    figure = Drawn(LINES)
    assert (figure.count["polyline"], figure.count["polygon"]) == (3, 3)
    assert figure.count["circle"] == 9
    assert [word for word in figure.words if word in "abc"] == ["a", "b", "c"]
    bare = dataclasses.replace(LINES, table=LINES.table[["x", "y", "group"]])
    assert Drawn(bare).count["polygon"] == 0


def test_bars_are_as_high_as_their_numbers():
    figure = Drawn(BARS)
    bars = figure.all("rect")[1:]  # after the white ground
    heights = [float(bar.attrib["height"]) for bar in bars]
    assert heights == pytest.approx([heights[0], 2 * heights[0], 4 * heights[0]], abs=0.11)
    assert [bar.attrib["fill"] for bar in bars].count(PAPER) == 1
    whiskers = [one for one in figure.all("line") if one.attrib.get("x1") == one.attrib.get("x2")]
    assert len(whiskers) == 1  # no interval is no whisker


def test_among_points_the_paper_is_a_line():
    equal = rows((0.0, 0.0, "paper"), (2.0, 2.0, "paper"), (1.0, 1.5, "a"))
    figure = Drawn(exhibit("points", equal))
    (line,) = figure.all("polyline")
    assert line.attrib["stroke"] == PAPER
    assert figure.count["circle"] == 2 + 1  # two keys, one model


def test_violins_have_a_shape_where_numbers_vary_and_strengths_in_order():
    figure = Drawn(VIOLINS)
    assert figure.count["polygon"] == 2
    assert figure.count["circle"] == 2 + 7
    assert [word for word in figure.words if word in ("2", "16")] == ["2", "16"]
    x = float(figure.all("polygon")[0].attrib["points"].split(",")[0])
    assert x > WIDE / 2  # beta 16 came first, and stands on the right


def test_every_seed_of_a_violin_is_seen_and_its_shape_ends_with_them():
    table = rows(*((1.0, value, "a") for value in (2.0, 2.0, 2.0, 3.0)))
    figure = Drawn(exhibit("violins", table))
    dots = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in figure.all("circle")]
    assert len({*dots}) == 4
    (alone,) = [x for x, y in dots if y == min(y for _, y in dots)]
    assert sorted(x - alone for x, _ in dots) == pytest.approx([-4.5, 0.0, 0.0, 4.5], abs=0.11)
    corners = [one.split(",") for one in figure.all("polygon")[0].attrib["points"].split()]
    ends = [float(y) for _, y in corners]
    assert [min(ends), max(ends)] == pytest.approx(sorted({y for _, y in dots}), abs=0.11)


def test_many_seeds_of_one_value_stay_beside_their_violin():
    table = rows(*((1.0, 0.5, f"g{one}") for one in range(6) for _ in range(50)))
    figure = Drawn(exhibit("violins", table))
    assert figure.count["circle"] == 6 + 300
    places = [float(one.attrib["cx"]) for one in figure.all("circle")[6:]]
    middles = [np.mean(places[at : at + 50]) for at in range(0, 300, 50)]
    reach = max(abs(x - middles[at // 50]) for at, x in enumerate(places))
    assert reach <= min(np.diff(middles)) / 2


def test_a_matrix_shows_its_numbers_and_the_papers():
    figure = Drawn(MATRIX)
    assert figure.count["rect"] == 1 + 4
    assert [word for word in figure.words if re.match(r"[−–\d]", word or "")] == [
        "1.00",
        "−0.50",
        "0.00",
        "–",
    ]
    paper = pd.DataFrame([[0.25]], index=["r2"], columns=["c1"])
    with_paper = Drawn(dataclasses.replace(MATRIX, paper=paper))
    assert [word for word in with_paper.words if word not in figure.words] == [
        "(0.25)",
        "in brackets: the paper",
    ]
    cells = [one.attrib["fill"] for one in figure.all("rect")[1:]]
    assert cells == ["#70aed9", "#f6ccb6", "#feffff", "#f5f7f9"]


def test_shares_in_percent_are_printed_as_the_paper_does():
    table = pd.DataFrame([[37.04, 5.0]], index=["r"], columns=["c1", "c2"])
    paper = pd.DataFrame([[29.000000001, 89.0]], index=["r"], columns=["c1", "c2"])
    figure = Drawn(exhibit("matrix", table, paper=paper))
    assert figure.words[2:6] == ["37.0", "(29)", "5.0", "(89)"]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.form)
def test_names_are_text_whatever_they_hold(one: Exhibit):
    table = one.table.copy()
    if one.form == "matrix":
        table.index = pd.Index([WILD, "r2"])
    else:
        table["group"] = table["group"].replace("a", WILD).replace("here", WILD)
    figure = Drawn(dataclasses.replace(one, table=table, x=WILD, y=WILD, caption=WILD))
    assert figure.words.count(WILD) == 3
    assert "<b>" not in figure.text


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.form)
def test_rounding_errors_do_not_change_a_file(one: Exhibit):
    table = one.table.copy()
    numbers = [name for name in table if table[name].dtype == float]
    table[numbers] = table[numbers] * (1 + 1e-13)
    assert draw(dataclasses.replace(one, table=table)) == draw(one)


@pytest.mark.parametrize("one", ALL[:4], ids=lambda one: one.form)
def test_what_is_not_a_number_is_left_out(one: Exhibit):
    gone = one.table.assign(y=np.nan)
    both = pd.concat([one.table, gone], ignore_index=True)
    assert draw(dataclasses.replace(one, table=both)) == draw(one)
    assert Drawn(dataclasses.replace(one, table=gone)).words == ["There is nothing to draw."]


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show_and_cuts_intervals():
    table = rows(
        (1.0, 10.0, "a", -3.0, 30.0), (2.0, 100.0, "a", 50.0, 200.0), (3.0, -1.0, "a", -2.0, 0.0)
    )
    figure = Drawn(exhibit("lines", table, logarithmic=("y",)))
    assert figure.count["circle"] == 2
    assert "nan" not in figure.text
    assert {"10", "100"} <= {*figure.words}
