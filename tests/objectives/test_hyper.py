# SPDX-License-Identifier: Apache-2.0
"""Fields that check themselves: numbers, counts, choices and vectors, on schedules, swept, stacked
and told apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.core.registry import Registry
from unbraid.objectives.hyper import Configured, choice, count, number, stack, structure, vector
from unbraid.objectives.schedule import ScheduledNumber, cosine, linear, step


@dataclass(frozen=True)
class Dish(Configured):
    """Something of every kind of field."""

    registry: ClassVar[Registry] = Registry("dish", "unbraid.dishes", {})
    salt: float = number(1.0, "a number in a range", at_least=0, at_most=10)
    heat: float = number(2.0, "a number above a limit", above=1)
    minutes: int = number(3, "a whole number", at_least=1, whole=True)
    pots: int = count(2, "how many", at_most=5)
    style: str = choice("plain", "a word", ("plain", "very_hot"))
    parts: tuple[float, ...] = vector(
        "numbers that belong together", above=0, words=("pca", "learned")
    )
    free: Any = field(default=None)


KEY = Dish().key


def refusal(**given) -> str:
    with pytest.raises(InputError) as told:
        Dish(**given)
    return str(told.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"salt": -1}, "salt must be at least 0; got -1."),
        ({"salt": 11}, "salt must be at most 10; got 11."),
        ({"salt": "linear(0, 11, 5)"}, "salt must be at most 10; got 11.0."),
        ({"salt": linear(-1, 5, 5)}, "salt must be at least 0; got -1.0."),
        ({"heat": 1}, "heat must be above 1; got 1."),
        (
            {"heat": 1e39},
            (
                "heat must be at most 3.4e+38 in size, the largest number of training's precision;"
                " got 1e+39."
            ),
        ),
        ({"heat": "linear(1, 2, 5)"}, "heat must be above 1; got 1.0."),
        # A spelling that cannot be read is one problem: its place is not taken by a number that
        # breaks the field's rule.
        (
            {"heat": "step(2, 4)"},
            (
                "heat needs 3 numbers for the schedule step; got step(2, 4), with 2. For example"
                " step(0, 4, 10000)."
            ),
        ),
        (
            {"heat": "lineal(2, 4, 5)"},
            (
                "heat: schedule 'lineal' is unknown; did you mean 'linear'? Known: constant,"
                " cosine, cyclic, linear, step."
            ),
        ),
        (
            {"heat": "linear(2, nan, 5)"},
            "heat: schedule linear: end must be a finite number; got nan.",
        ),
        ({"minutes": 0}, "minutes must be at least 1; got 0."),
        ({"minutes": 1.5}, "minutes must be a whole number; got 1.5."),
        (
            {"minutes": "linear(0.5, 2, 9)"},
            "minutes cannot be on a schedule; got linear(0.5, 2, 9). Give a whole number.",
        ),
        ({"pots": 0}, "pots must be at least 1; got 0."),
        ({"pots": 6}, "pots must be at most 5; got 6."),
        ({"pots": 2.5}, "pots must be a whole number; got 2.5."),
        ({"pots": "2"}, "pots must be a number; got '2'."),
        ({"pots": True}, "pots must be a number; got True."),
        (
            {"pots": step(1, 3, 9)},
            "pots cannot be on a schedule; got step(1, 3, 9). Give a whole number.",
        ),
        (
            {"style": "very_hat"},
            "style 'very_hat' is unknown; did you mean 'very_hot'? Known: plain, very_hot.",
        ),
        ({"style": "x"}, "style 'x' is unknown. Known: plain, very_hot."),
        ({"style": 3}, "style must be one of plain, very_hot; got 3."),
        ({"style": None}, "style must be one of plain, very_hot; got None."),
        ({"style": []}, "style needs at least one value; got []."),
        (
            {"parts": "a/b"},
            "parts must be numbers with slashes between them, or pca, learned; got 'a/b'.",
        ),
        ({"parts": (1, 0)}, "parts must be above 0; got 0."),
        ({"parts": "4/-1"}, "parts must be above 0; got -1.0."),
        ({"parts": [1, None]}, "parts must be a number; got None."),
        ({"parts": None}, "parts must be numbers; got None."),
        ({"parts": True}, "parts must be numbers; got True."),
        ({"parts": "1/nan"}, "parts must be a finite number; got nan."),
        (
            {"parts": ["1/2", "x"]},
            "parts must be numbers with slashes between them, or pca, learned; got 'x'.",
        ),
        (
            {"salt": [1, -1, "linear(0, 20, 5)"]},
            f"salt must be at least 0; got -1.\n{KEY}: salt must be at most 10; got 20.0.",
        ),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    assert refusal(**given) == f"{KEY}: {told}"


def test_every_problem_is_told_at_once():
    assert refusal(salt=-1, pots=9, style="odd", parts=(-1,)).splitlines() == [
        f"{KEY}: salt must be at least 0; got -1.",
        f"{KEY}: pots must be at most 5; got 9.",
        f"{KEY}: style 'odd' is unknown. Known: plain, very_hot.",
        f"{KEY}: parts must be above 0; got -1.",
    ]


def test_values_are_stored_in_one_form():
    dish = Dish(salt=np.float32(2), minutes=4.0, pots=np.int64(3), style="very-hot", parts="4/2 1")
    assert dish == Dish(salt=2.0, minutes=4, pots=3, style="very_hot", parts=(4.0, 2.0, 1.0))
    assert type(dish.minutes) is int
    assert type(dish.pots) is int
    assert Dish(parts=[4, 2, 1]).parts == Dish(parts=np.array([4, 2, 1])).parts == (4.0, 2.0, 1.0)
    assert Dish(parts=3).parts == (3.0,)
    assert Dish(parts="pca").parts == "pca"
    assert Dish().parts == Dish(parts="").parts == ()
    assert Dish(salt="linear(0, 4, 10)").salt == linear(0, 4, 10)


def test_sweeps_of_every_kind_the_first_field_slowest():
    swept = Dish(
        salt=[1, "linear(0, 4, 10)"],
        pots=(1, 2),
        style=["plain", "very-hot"],
        parts=["4/2", (1, 1), "pca"],
        free=["left", "alone"],
    ).sweep()
    assert len(swept) == 2 * 2 * 2 * 3
    assert [one.parts for one in swept[:3]] == [(4.0, 2.0), (1.0, 1.0), "pca"]
    assert [one.style for one in swept[::3]] == ["plain", "very_hot"] * 4
    assert [one.pots for one in swept[::6]] == [1, 2, 1, 2]
    assert [one.salt for one in swept[::12]] == [1.0, linear(0, 4, 10)]
    assert all(one.free == ["left", "alone"] for one in swept)
    assert swept[0].sweep() == [swept[0]]
    assert Dish(parts=(4, 2)).sweep() == [Dish(parts=(4, 2))]


def test_hyper_spells_schedules_in_sweeps_too():
    dish = Dish(salt=[1, linear(0, 4, 10)], heat=cosine(2, 3, 5), parts=(4, 2))
    told = dish.hyper()
    assert told["salt"] == (1.0, "linear(0, 4, 10)")
    assert told["heat"] == "cosine(2, 3, 5)"
    assert told["parts"] == (4.0, 2.0)
    assert Dish(**told) == dish


@given(
    salt=st.one_of(
        st.floats(0, 10),
        st.builds(linear, st.floats(0, 10), st.floats(0, 10), st.integers(1, 1000)),
    ),
    pots=st.integers(1, 5),
    style=st.sampled_from(["plain", "very_hot"]),
    parts=st.one_of(st.just("pca"), st.lists(st.floats(1e-6, 1e6), max_size=4)),
)
def test_hyper_makes_the_same_object_again(salt, pots, style, parts):
    dish = Dish(salt=salt, pots=pots, style=style, parts=parts)
    assert Dish(**dish.hyper()) == dish


def test_stack_puts_a_member_axis_on_numbers_and_vectors():
    stacked = stack(
        [Dish(salt=1, minutes=2, parts=(4, 2)), Dish(salt=3, minutes=5, parts=(1, 0.5))],
        dtype=torch.float64,
    )
    assert isinstance(stacked, Dish)
    assert stacked.salt.tolist() == [1.0, 3.0]
    assert stacked.minutes.tolist() == [2.0, 5.0]
    assert stacked.parts.tolist() == [[4.0, 2.0], [1.0, 0.5]]
    assert (stacked.pots, stacked.style, stacked.free) == (2, "plain", None)
    assert stacked.at(torch.tensor(3)) is stacked


def test_at_gives_the_numbers_of_a_step():
    members = [
        Dish(salt=linear(0, 4, 8), heat=2),
        Dish(salt=5, heat=step(3, 4, 2)),
        Dish(salt="cyclic(0, 1, 4)", heat=2),
    ]
    stacked = stack(members, dtype=torch.float64)
    assert isinstance(stacked.salt, ScheduledNumber)
    for t, salt, heat in (
        (0, [0, 5, 0], [2, 3, 2]),
        (2, [1, 5, 1], [2, 3, 2]),
        (5, [2.5, 5, 0.5], [2, 4, 2]),
    ):
        now = stacked.at(torch.tensor(t))
        assert isinstance(now, Dish)
        assert now.salt.tolist() == salt
        assert now.heat.tolist() == heat
        assert now.minutes is stacked.minutes
    assert isinstance(stacked.salt, ScheduledNumber)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (({"pots": 1}, {"pots": 2}), "pots must agree within a kind; got [1, 2]."),
        (
            ({"style": "plain"}, {"style": "very_hot"}),
            "style must agree within a kind; got ['plain', 'very_hot'].",
        ),
        (
            ({"parts": (1, 2)}, {"parts": 3}),
            "parts must have one length within a kind; got [(1.0, 2.0), (3.0,)].",
        ),
    ],
)
def test_stack_refuses_what_cannot_be_together(given, told):
    members = [Dish(**one) for one in given]
    assert structure(members[0]) != structure(members[1])
    with pytest.raises(InputError) as caught:
        stack(members)
    assert str(caught.value) == told


def test_structure_ignores_numbers():
    assert structure(Dish(salt=1, minutes=1)) == structure(
        Dish(salt=linear(0, 4, 8), minutes=9, heat=5)
    )
    assert structure(Dish(parts=(1, 2))) == structure(Dish(parts=(3, 4)))
    assert structure(Dish(parts="pca")) != structure(Dish(parts="learned"))
