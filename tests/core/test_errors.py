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
    StoppedError,
    UnbraidError,
    invalid,
    unknown,
)

FLAGS = {"batch_size", "latents", "quick"}


def test_a_problem_is_name_rule_value_and_remedy():
    error = invalid("steps", "must be at least 1", 0, "Try {steps=1}.")
    (problem,) = error.problems
    assert problem == Problem("steps", "must be at least 1", 0, "Try {steps=1}.")
    assert Problem.of(problem) is problem
    assert Problem.of("all is lost.").sentence == "all is lost."


@pytest.mark.parametrize(
    ("problem", "in_python", "typed"),
    [
        (Problem("steps", "is odd", 3), "steps is odd; got 3.", None),
        (Problem("steps", "is odd", Shown("three")), "steps is odd; got three.", None),
        (
            Problem("batch_size", "is odd", "a"),
            "batch_size is odd; got 'a'.",
            "--batch-size is odd; got 'a'.",
        ),
        (Problem("", "", sentence="No."), "No.", None),
        (
            Problem(
                "x",
                "",
                sentence="No.",
                remedy="Use {batch_size='8'} or {latents=} or {quick=True}.",
            ),
            "No. Use batch_size='8' or latents or quick=True.",
            "No. Use --batch-size 8 or --latents or --quick.",
        ),
        (
            Problem("x", "", sentence="No.", remedy="Use {resize=64}, {'a': 1}."),
            "No. Use resize=64, {'a': 1}.",
            None,
        ),
    ],
)
def test_a_problem_is_rendered_for_python_and_for_a_command_line(problem, in_python, typed):
    assert str(problem) == problem.render() == in_python
    assert problem.render(FLAGS) == (typed or in_python)
    assert InputError(problem, problem).render(FLAGS) == "\n".join([typed or in_python] * 2)


def test_unknown_offers_the_nearest_word():
    known = ["pinwheel", "dsprites", "sprites"]
    found = unknown("dataset", "dsprite", known, "Or a path.")
    assert (found.name, found.value) == ("dataset", "dsprite")
    assert found.sentence == "dataset 'dsprite' is unknown; did you mean 'dsprites'?"
    assert found.remedy == "Known: dsprites, pinwheel, sprites. Or a path."
    assert unknown("dataset", "zzz", known).sentence == "dataset 'zzz' is unknown."


def test_problems_come_together_in_order_and_once():
    problems = Problems()
    problems.raise_if_any()
    problems.add("steps", "must be at least 1", 0)
    problems.say("something else is wrong.")
    problems.add("steps", "must be at least 1", 0)
    with pytest.raises(InputError) as told:
        problems.raise_if_any()
    assert str(told.value) == "steps must be at least 1; got 0.\nsomething else is wrong."
    assert problems.collect(lambda: 3) == 3
    assert problems.collect(lambda: problems.raise_if_any()) is None
    assert len(problems.found) == 2


def test_kinds_of_errors():
    assert issubclass(InputError, UnbraidError)
    assert issubclass(InputError, ValueError)
    assert issubclass(DamagedFileError, UnbraidError)
    assert not issubclass(DamagedFileError, InputError)
    assert issubclass(StoppedError, UnbraidError)
    assert issubclass(StoppedError, KeyboardInterrupt)
    assert StoppedError("stopped.").render(FLAGS) == "stopped."
