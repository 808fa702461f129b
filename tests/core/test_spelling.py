# SPDX-License-Identifier: Apache-2.0
"""Words of a command line to values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.core.spelling import as_number, as_numbers, as_source, parse_extra_options, split_list


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a,b", ["a", "b"]), (" a , ,b,", ["a", "b"]), ("", []), (",", []), ("one", ["one"])],
)
def test_lists(text: str, parts: list[str]):
    assert split_list(text) == parts


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-3", -3), ("3.0", 3.0), ("1e-4", 1e-4), ("three", "three"), ("", "")],
)
def test_numbers(text: str, value: Any):
    found = as_number(text)
    assert found == value
    assert type(found) is type(value)


@given(st.integers())
def test_whole_numbers_of_any_size_stay_whole(number: int):
    assert as_number(str(number)) == number


@given(st.floats(allow_nan=False))
def test_floats_keep_every_bit(number: float):
    assert as_number(repr(number)) == number


def test_nan_stays_nan_for_the_plan_to_refuse():
    assert math.isnan(as_number("nan"))


def test_lists_of_numbers():
    assert as_numbers("1,4,16") == [1, 4, 16]
    assert as_numbers("4") == 4
    assert as_numbers("4", always_list=True) == [4]
    assert as_numbers("4,", always_list=True) == [4]
    assert as_numbers("") == []
    assert as_numbers("1,x") == [1, "x"]


def test_sources(tmp_path: Path):
    assert as_source("sprites") == ("sprites", {})
    assert as_source("sprites:x=16, y=8") == ("sprites", {"x": "16", "y": "8"})
    assert as_source("sprites:") == ("sprites", {})
    assert as_source("a:b/my.npz:images=images") == ("a:b/my.npz", {"images": "images"})
    assert as_source("data:path=a=b") == ("data", {"path": "a=b"})
    odd = tmp_path / "run:x=1"
    odd.mkdir()
    assert as_source(str(odd)) == (str(odd), {})


@pytest.mark.parametrize("part", ["x", "=3"])
def test_options_without_key_or_value_are_refused(part: str):
    with pytest.raises(InputError) as caught:
        as_source(f"sprites:{part}")
    assert (
        str(caught.value)
        == f"option of sprites must be written key=value; got '{part}'. For example sprites:key=3."
    )


def test_options_of_an_objective():
    assert parse_extra_options([], ["vae"]) == {}
    words = ["--beta", "1,4", "--lambda-od=5", "--gamma", "-1"]
    assert parse_extra_options(words, ["beta_vae"]) == {"beta": [1, 4], "lambda_od": 5, "gamma": -1}
    assert parse_extra_options(["--beta="], ["beta_vae"]) == {"beta": []}


def test_an_option_without_a_value_is_refused():
    with pytest.raises(InputError) as caught:
        parse_extra_options(["--beta"], ["vae", "beta_vae"])
    assert (
        str(caught.value)
        == "option --beta needs a value; got nothing. Options of vae, beta_vae: unbraid list"
        " objectives."
    )


@pytest.mark.parametrize("word", ["4", "-b", "--"])
def test_a_word_too_many_is_refused(word: str):
    with pytest.raises(InputError) as caught:
        parse_extra_options(["--beta", "1", word], ["beta_vae"])
    assert (
        str(caught.value)
        == f"command line has a word too many; got '{word}'. Lists are written with commas and no"
        " blanks: --beta 1,4."
    )
