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
from unbraid.core.spelling import (
    as_named,
    as_number,
    as_numbers,
    as_source,
    as_value,
    parse_extra_options,
    split_list,
    split_names,
)


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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tripod", "tripod"),
        ("5", 5),
        ("1e-3", 1e-3),
        ("True", True),
        ("false", False),
        ("null", None),
        ("10,20", [10, 20]),
        ("1..60", "1..60"),
        ("1,linear(0, 4, 1000)", [1, "linear(0, 4, 1000)"]),
        ("", []),
    ],
)
def test_values_of_options(text: str, value: Any):
    assert as_value(text) == value


def test_names_with_options():
    spelled = (
        "vae,factor_vae:gamma=10,20,beta_vae:beta=1,linear(0, 4, 9),dci:backend=sklearn,seed=1"
    )
    parts = ["vae", "factor_vae:gamma=10,20", "beta_vae:beta=1,linear(0, 4, 9)"]
    assert split_names(spelled) == [*parts, "dci:backend=sklearn,seed=1"]
    assert as_named(parts[2]) == ("beta_vae", {"beta": [1, "linear(0, 4, 9)"]})
    assert as_named("infomec:pruning=tripod,standardise=true") == (
        "infomec",
        {"pruning": "tripod", "standardise": True},
    )


@pytest.mark.parametrize("part", ["x", "=3"])
def test_options_without_key_or_value_are_refused(part: str):
    with pytest.raises(InputError) as caught:
        as_source(f"sprites:{part}")
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("option of sprites", part)


def test_options_of_an_objective():
    assert parse_extra_options([]) == {}
    words = ["--beta", "1,4", "--lambda-od=5", "--gamma", "-1"]
    assert parse_extra_options(words) == {"beta": [1, 4], "lambda_od": 5, "gamma": -1}
    for without in (["--beta="], ["--beta"]):
        assert parse_extra_options(without) == {"beta": []}
    assert parse_extra_options(["--beta", "--gamma", "3"]) == {"beta": [], "gamma": 3}


@pytest.mark.parametrize(
    ("words", "name", "rule"),
    [
        (["--beta", "1", "--beta=4"], "option --beta", "may be given once"),
        (["--beta", "1", "4"], "command line", "has a word too many"),
        (["--beta", "1", "-b"], "command line", "has a word too many"),
        (["--beta", "1", "--"], "command line", "has a word too many"),
    ],
)
def test_bad_words_are_refused(words: list[str], name: str, rule: str):
    with pytest.raises(InputError) as caught:
        parse_extra_options(words)
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == (name, rule)
