# SPDX-License-Identifier: Apache-2.0
"""The sentences of a discovery follow its numbers, at their ends and in the singular too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.report.discover.words import (
    doubtful_sentence,
    duration,
    found_sentence,
    last_rise,
    percent,
    remedies,
    share_sentence,
    short_name,
    sure_sentence,
    sure_word,
    table_columns,
    unexplained_sentence,
)
from unbraid.search.discover.findings import Certainty

from .test_discovery_page import discovery, factor, grey


def test_columns_of_equal_titles_differ() -> None:
    found = discovery(
        factors=(factor("size", grey("scale"), 0), factor("size", grey("scale"), 1)),
        doubtful=(factor("大きさ", grey("x"), 7),),
    )
    columns = table_columns(found)[2:]
    assert [column.name for column in columns] == ["factor_1_size", "factor_2_size", "doubtful_1"]
    assert [column.meaning for column in columns[:2]] == ["size", "size (2)"]
    assert (
        found_sentence(found)
        == "Two things that vary in your 2,000 images were found: size, size (2)."
    )


def test_of_models_that_cannot_draw_yet_one_thing_is_said() -> None:
    found = discovery(
        factors=(),
        doubtful=(factor("size", grey("scale"), 0),),
        explained=0.02,
        best_by_epoch=(0.3, 0.0, 0.0, 0.0, 0.0, 0.0),
    )
    said = found_sentence(found)
    assert (
        said
        == "Nothing can be said yet: the models have not learned to draw your 2,000 images. They"
        " need more time."
    )
    assert doubtful_sentence(found) == ""
    lines = remedies(found)
    assert (
        lines[0]
        == "It was far too short: the models had just begun to learn. Let it run several times as"
        " long."
    )
    assert not any("More time alone" in line or "too many ways" in line for line in lines)
    assert any("More time alone" in line for line in remedies(replace(found, explained=0.2)))


@pytest.mark.parametrize(
    ("seen", "others", "word", "start"),
    [
        (4, 4, "All agree", "4 of 4 other models"),
        (3, 4, "Most agree", "3 of 4 other models"),
        (2, 4, "Half agree", "2 of 4 other models"),
        (1, 4, "Few agree", "1 of 4 other models"),
        (0, 4, "None agrees", "None of 4 other models"),
        (1, 1, "The other agrees", "1 of 1 other model,"),
        (0, 1, "The other does not", "0 of 1 other model,"),
        (0, 0, "Not checked", "No other model"),
    ],
)
def test_how_sure(seen: int, others: int, word: str, start: str) -> None:
    certainty = Certainty(0.5, seen, others)
    assert sure_word(certainty) == word
    assert sure_sentence(certainty).startswith(start)


def test_shares_in_words() -> None:
    assert share_sentence(-0.01) == "Next to nothing of all that varies in the images hangs on it."
    assert (
        share_sentence(0.004)
        == "Not knowing it loses less than 1% of all that varies in the images. What is lost with"
        " different factors overlaps."
    )
    assert unexplained_sentence(-3.0).endswith("all of it is left unexplained.")
    assert unexplained_sentence(0.97).endswith(
        "about 97% of all that varies in your images: little is left unexplained (3%)."
    )
    assert "little" in unexplained_sentence(1.0)
    assert [duration(value) for value in (0.001, 1.2, 119.0, 600.0)] == [
        "1 second",
        "1 minute",
        "119 minutes",
        "10 hours",
    ]


@given(st.floats(0, 1))
def test_percent_never_rounds_to_nothing_or_all(share: float) -> None:
    assert (percent(share) == "0%") == (share == 0)
    assert (percent(share) == "100%") == (share == 1)


@given(st.text(min_size=1, max_size=80), st.integers(8, 40))
def test_short_names_keep_both_ends(name: str, most: int) -> None:
    short = short_name(name, most)
    assert len(short) == min(len(name), most)
    assert (short == name) == (len(name) <= most) or "…" in name
    assert short[0] == name[0]
    assert short[-4:] == name[-4:]


def test_advice_follows_the_numbers() -> None:
    assert last_rise((0.1, 0.2)) is None
    assert last_rise((0.1, 0.2, 0.5, 0.6, 0.7, 0.9)) == pytest.approx(0.3)
    assert last_rise((0.5, float("nan"), 0.4, 0.3)) == 0.0
    rising = remedies(discovery(best_by_epoch=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6)))
    assert rising[0].startswith("It may have been too short")
    flat = remedies(discovery(best_by_epoch=(0.5, 0.7, 0.7, 0.7)))
    assert flat[-1].startswith("More time alone may change little")
    assert not any("few" in line and "images are" in line for line in flat)
    assert len(flat) == 3
