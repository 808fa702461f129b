# SPDX-License-Identifier: Apache-2.0
"""The sentences of a discovery follow its numbers, at their ends and in the singular too."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.report.discover.words import (
    doubtful_sentence,
    duration,
    found_sentence,
    larger_side,
    last_rise,
    lost_pixels,
    percent,
    remedies,
    short_name,
    sure_sentence,
    sure_word,
    table_columns,
    titled,
    unexplained_sentence,
)
from unbraid.search.discover.findings import Certainty

from .test_context import discovery, factor, grey


def test_columns_of_equal_titles_differ() -> None:
    found = discovery(
        factors=(factor("size", grey("scale"), 0), factor("size", grey("scale"), 1)),
        doubtful=(factor("大きさ", grey("x"), 7),),
    )
    columns = table_columns(found)[2:]
    assert [column.name for column in columns] == [
        *("factor_1_size", "factor_2_size"),
        "doubtful_1_大きさ",  # as people name latents, in any script
    ]
    assert [column.meaning for column in columns[:2]] == ["size", "size (2)"]
    assert (
        found_sentence(found)
        == "Two things that vary in your 2,000 images were found: size, size (2)."
    )


def test_no_two_things_have_the_same_name() -> None:
    """Be they confirmed or doubtful, or named like a number by people."""
    found = discovery(
        factors=(factor("size", grey("scale"), 0), factor("size (2)", grey("scale"), 1)),
        doubtful=(factor("size", grey("x"), 7),),
    )
    sized = [title for _, title in titled(found.doubtful, found.factors)]
    assert sized == ["size (3)"]
    meanings = [column.meaning for column in table_columns(found)[2:]]
    assert meanings[:2] == ["size", "size (2)"]
    assert meanings[2].startswith("size (3); not confirmed by other models")


def test_of_collapsed_groups_nothing_counts_as_found() -> None:
    found = discovery(factors=(), doubtful=(factor("size", grey("scale"), 0),), collapsed=True)
    assert found_sentence(found) == (
        "Nothing counts as found in your 2,000 images: every group of models was collapsed. They"
        " need more time."
    )
    assert doubtful_sentence(found) == ""
    assert remedies(found)[0] == "hardly begun"
    (column,) = table_columns(found)[2:]
    assert column.name == "doubtful_1_size"
    assert "every group was collapsed" in column.meaning


def test_of_models_that_cannot_draw_yet_one_thing_is_said() -> None:
    found = discovery(
        factors=(),
        doubtful=(factor("size", grey("scale"), 0),),
        explained=0.02,
        best_by_epoch=(0.3, 0.0, 0.0, 0.0, 0.0, 0.0),
    )
    assert found_sentence(found).startswith("Nothing can be said yet")
    assert doubtful_sentence(found) == ""
    assert remedies(found) == ["hardly begun", "small things", "kinds and turns"]
    learned = remedies(replace(found, explained=0.2))
    assert learned == ["too varied", "small things", "kinds and turns", "settled"]


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
        (0, 0, "Not checked", "There was no other model"),
    ],
)
def test_how_sure(seen: int, others: int, word: str, start: str) -> None:
    certainty = Certainty(0.5, seen, others)
    assert sure_word(certainty) == word
    assert sure_sentence(certainty).startswith(start)


@pytest.mark.parametrize(
    ("explained", "parts"),
    [
        (-3.0, ["almost none"]),
        (0.97, ["about 97%", "Little is left", "3%"]),
        (1.0, ["100%", "Little is left"]),
        (0.5, ["about 50%", "the other 50%"]),
        (float("nan"), ["could not be measured"]),
    ],
)
def test_what_is_left_unexplained(explained: float, parts: list[str]) -> None:
    assert all(part in unexplained_sentence(explained) for part in parts)


def test_times_have_the_unit_that_suits_them() -> None:
    said = [duration(minutes) for minutes in (0.001, 1.2, 119.0, 600.0)]
    assert said == ["1 second", "1 minute", "119 minutes", "10 hours"]


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
    always = ["small things", "kinds and turns"]
    for changes, names in (
        ({"best_by_epoch": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)}, ["still rising", *always]),
        ({"best_by_epoch": (0.5, 0.7, 0.7, 0.7)}, [*always, "settled"]),
        ({"best_by_epoch": (0.5, 0.7)}, ["short", *always]),
        ({"images": 999, "best_by_epoch": (0.5,)}, ["short", "few images", *always]),
        ({"resized_from": (480, 640), "best_by_epoch": (0.5,)}, ["short", "resized", *always]),
        ({"explained": 0.4, "best_by_epoch": (0.5,)}, ["short", "too varied", *always]),
    ):
        assert remedies(discovery(**changes)) == names
    resized = discovery(resized_from=(480, 640))
    assert (lost_pixels(resized), larger_side(resized)) == (40, 64)


def test_the_page_has_words_for_every_reason() -> None:
    source = (files("unbraid.report") / "discover" / "page.html.j2").read_text(encoding="utf-8")
    assert re.findall(r'name == "([a-z ]+)"', source) == [
        "hardly begun", "short", "still rising", "resized", "few images", "too varied",
        "small things", "kinds and turns",
    ]  # fmt: skip
    assert "{% else %}More time alone" in source  # settled
