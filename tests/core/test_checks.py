# SPDX-License-Identifier: Apache-2.0
"""Checks of options: what counts as a number, what is refused by name, all problems at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unbraid.core import checks
from unbraid.core.errors import InputError, Problems


@pytest.mark.parametrize(
    ("value", "whole", "real", "finite"),
    [
        (3, True, True, True),
        (np.int8(3), True, True, True),
        (2.5, False, True, True),
        (np.float32(2.5), False, True, True),
        (math.nan, False, True, False),
        (1e39, False, True, False),
        (10**400, True, True, False),
        (True, False, False, False),
        (np.True_, False, False, False),
        ("3", False, False, False),
        (None, False, False, False),
    ],
)
def test_what_counts_as_a_number(value, whole, real, finite):
    assert checks.is_whole(value) is whole
    assert checks.is_real(value) is real
    assert checks.is_finite(value) is finite


@pytest.mark.parametrize(("value", "number"), [(3, 3), (np.int64(5), 5), (" +4 ", 4), ("-1", -1)])
def test_whole_numbers_may_be_text(value, number):
    found = checks.read_whole("spacing", value, -1, 8)
    assert found == number
    assert type(found) is int


@pytest.mark.parametrize("value", [0, 9, 3.0, "3.0", "three", True, None])
def test_other_values_are_refused_by_name(value):
    problems = Problems()
    assert checks.whole(problems, "spacing", value, 1, 8, "Use 3.") == 1
    (problem,) = problems.found
    assert (problem.name, problem.rule) == ("spacing", "must be a whole number in 1..8")
    assert (problem.value, problem.remedy) == (value, "Use 3.")
    with pytest.raises(InputError, match="must be a whole number of at least 10"):
        checks.read_whole("spacing", value, 10)


def test_a_strict_whole_number_is_no_text():
    problems = Problems()
    assert checks.read_whole_number(problems, "steps", 5, 1, 10) == 5
    assert checks.read_whole_number(problems, "steps", 10**9, 1) == 10**9
    assert not problems.found
    for value in ("5", 0, True, 2.0, 11):
        assert checks.read_whole_number(problems, "steps", value, 1, 10) == 1
    assert [problem.rule for problem in problems.found] == [
        *["must be a whole number of at least 1"] * 4,
        "must be at most 10",
    ]


def test_numbers_in_a_range():
    problems = Problems()
    assert checks.real(problems, "share", "0.25", 0.0, 1.0) == 0.25
    assert checks.real(problems, "share", np.float32(0.5), 0.0, 1.0) == 0.5
    assert not problems.found
    for value in (1.5, math.nan, "half", True, 10**400):
        assert checks.real(problems, "share", value, 0.0, 1.0) == 0.0
    assert {problem.rule for problem in problems.found} == {"must be a number from 0 to 1"}
    assert len(problems.found) == 5


def test_numbers_above_zero():
    assert checks.above_zero("beta", np.int64(4)) == 4.0
    for value in (0, -1.0, math.inf, math.nan, "4", True):
        with pytest.raises(InputError, match=r"^beta must be a finite number above 0; got "):
            checks.above_zero("beta", value)


def test_numpy_numbers_become_plain():
    assert type(checks.plain(np.float32(0.5))) is float
    assert checks.plain(np.arange(3)) == [0, 1, 2]
    assert checks.plain("word") == "word"


def test_unknown_options_are_refused_all_at_once():
    def make(source, *, spacing=1, colour=0): ...

    checks.check_option_names("set", make, ["spacing"], positional="source")
    with pytest.raises(InputError) as caught:
        checks.check_option_names("set", make, ["spacin", "source"], positional="source")
    assert [problem.value for problem in caught.value.problems] == ["spacin", "source"]
    assert "did you mean 'spacing'?" in str(caught.value)
    checks.check_option_names("set", lambda **options: None, ["anything"])


@pytest.mark.parametrize(
    ("count", "last"), [(10, "9"), (11, "1 more such problem"), (30, "20 more")]
)
def test_thousands_of_problems_are_shortened(count, last):
    problems = Problems()
    for nth in range(count):
        problems.add(f"file {nth}", "must be readable", nth)
    with pytest.raises(InputError) as caught:
        checks.raise_shortened(problems)
    lines = str(caught.value).splitlines()
    assert len(lines) == min(count, 11)
    assert last in lines[-1]
    checks.raise_shortened(Problems())
