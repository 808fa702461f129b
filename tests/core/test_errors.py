# SPDX-License-Identifier: Apache-2.0
"""What the user is told: the house form, the nearest spelling, all problems at once."""

from __future__ import annotations

import pytest

from unbraid.core.errors import (
    DamagedFileError,
    InputError,
    Problem,
    Problems,
    Shown,
    UnbraidError,
    unknown,
)


def test_problem_is_name_rule_value_remedy():
    assert Problem("steps", "must be at least 1", 0) == "steps must be at least 1; got 0."
    assert (
        Problem("name", "must be short", "abc", "Cut it.")
        == "name must be short; got 'abc'. Cut it."
    )
    assert (
        Problem("codes", "must be numbers", Shown("dtype object"))
        == "codes must be numbers; got dtype object."
    )


def test_unknown_offers_the_nearest_word():
    known = ["pinwheel", "dsprites", "sprites"]
    assert (
        unknown("dataset", "dsprite", known)
        == "dataset 'dsprite' is unknown; did you mean 'dsprites'? Known: dsprites, pinwheel,"
        " sprites."
    )
    assert (
        unknown("dataset", "zzz", known)
        == "dataset 'zzz' is unknown. Known: dsprites, pinwheel, sprites."
    )
    assert (
        unknown("dataset", 3, known)
        == "dataset '3' is unknown. Known: dsprites, pinwheel, sprites."
    )  # type: ignore[arg-type]


def test_problems_are_told_together_in_order_and_once():
    problems = Problems()
    problems.raise_if_any()
    problems.add("steps", "must be at least 1", 0)
    problems.say("something else is wrong.")
    problems.add("steps", "must be at least 1", 0)
    with pytest.raises(InputError) as told:
        problems.raise_if_any()
    assert str(told.value) == "steps must be at least 1; got 0.\nsomething else is wrong."


def test_kinds_of_errors():
    assert issubclass(InputError, UnbraidError)
    assert issubclass(InputError, ValueError)
    assert issubclass(DamagedFileError, UnbraidError)
    assert not issubclass(DamagedFileError, InputError)
