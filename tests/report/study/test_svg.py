# SPDX-License-Identifier: Apache-2.0
"""Scales and labels of figures: closed forms and round numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unbraid.report.study.svg import (
    Scale,
    document,
    element,
    group,
    names_below,
    spread,
    text_width,
    wrapped,
)


def test_a_scale_is_linear_or_logarithmic():
    assert Scale(2.0, 4.0, 100.0, 0.0).at(3.0) == 50.0
    assert Scale(1.0, 100.0, 0.0, 200.0, logarithmic=True).at(10.0) == pytest.approx(100.0)


def test_what_lies_beyond_is_drawn_at_the_end():
    scale = Scale(0.0, 1.0, 0.0, 10.0)
    assert [scale.at(value) for value in (-5.0, 7.0)] == [0.0, 10.0]


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    pixels=st.floats(90, 900),
)
@example(low=1.0, width=0.001, pixels=90.0)  # whole steps of a width that is rounded up
def test_ticks_are_few_round_and_inside(low: float, width: float, pixels: float):
    scale = Scale(low, low + width, 0.0, pixels)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= pixels / 45 + 3
    assert all(low - 1e-6 * width <= tick <= low + 1.000001 * width for tick in ticks)
    assert f"{ticks[1] - ticks[0]:.3e}"[0] in "125"


def test_ticks_of_a_logarithmic_axis_are_decades_or_parts_of_them():
    assert Scale(1.0, 1e6, 0.0, 270.0, logarithmic=True).ticks() == [10.0**n for n in range(7)]
    assert Scale(3.0, 15.0, 0.0, 270.0, logarithmic=True).ticks() == [5.0, 10.0]
    assert Scale(3.1, 4.3, 0.0, 135.0, logarithmic=True).ticks() == [3.5, 4.0]


def test_a_scale_has_room_and_begins_at_zero_where_asked():
    assert spread([1.0, 2.0], 0.0, 1.0).low == pytest.approx(0.95)
    assert spread([1.0, 2.0], 0.0, 1.0, zero=True).low == 0.0
    assert spread([-2.0, -1.0], 0.0, 1.0, zero=True).high == 0.0
    assert spread([3.0, 3.0], 0.0, 1.0).low < 3.0 < spread([3.0], 0.0, 1.0).high


def test_long_labels_are_wrapped_and_longer_ones_turned():
    assert wrapped("same data and metric", 1000) == ["same data and metric"]
    lines = wrapped("same data and metric", 80)
    assert "".join(lines).replace(" ", "") == "samedataandmetric"
    assert all(text_width(line) <= 80 for line in lines)
    middles = [("a_long_name", 30.0), ("reconstruction", 90.0)]
    assert not any("rotate" in part for part in names_below(middles, 120, 0.0)[0])
    assert all("rotate" in part for part in names_below(middles, 40, 0.0)[0])


def test_text_and_attributes_are_escaped():
    wild = "<script>&\"'"
    made = document(10, 10, [group([element("text", wild, x=0)], id=wild)], wild)
    root = ET.fromstring(made)
    assert root.attrib["aria-label"] == wild
    (text,) = root.iter("{http://www.w3.org/2000/svg}text")
    assert text.text == wild
    assert "<script" not in made
