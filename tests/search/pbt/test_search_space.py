# SPDX-License-Identifier: Apache-2.0
"""Hyperparameters that evolve: every spelling, what is drawn, where a move ends, and what is
refused by name.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from unbraid.core.errors import InputError
from unbraid.search.pbt.exploit import Rule
from unbraid.search.pbt.search_space import (
    PUBLISHED_BATCHES,
    PUBLISHED_BETAS,
    PUBLISHED_RATES,
    SearchDimension,
    fixed_value,
    read_dimension,
)

FACTORS = Rule.factors
JUST_BELOW_ONE = 1 - 2.0**-24
"""The largest number that is ever drawn (`random.uniform`)."""


def evolved(given: Any, name: str = "beta", *, whole: bool = False) -> SearchDimension:
    found = read_dimension(name, given, whole=whole)
    assert found is not None
    return found


def test_a_range_is_drawn_log_uniformly_and_bounds_its_moves():
    rate = evolved("1e-4..3e-3", "learning_rate")
    assert rate == SearchDimension(1e-4, 3e-3)
    assert rate.draw(0.0) == 1e-4
    assert rate.draw(0.5) == pytest.approx(math.sqrt(1e-4 * 3e-3), rel=1e-12)
    assert rate.draw(JUST_BELOW_ONE) == pytest.approx(3e-3, rel=1e-6)
    assert rate.draw(JUST_BELOW_ONE) <= 3e-3
    assert [rate.move(1e-3, factor) for factor in FACTORS] == [2e-3, 1.2e-3, 8e-4, 5e-4]
    assert [rate.move(2.9e-3, factor) for factor in FACTORS] == [3e-3, 3e-3, 2.9e-3 * 0.8, 1.45e-3]
    assert [rate.move(1.1e-4, factor) for factor in FACTORS] == [2.2e-4, 1.1e-4 * 1.2, 1e-4, 1e-4]


def test_equal_chances_are_equal_ratios():
    drawn = [evolved("2..32").draw(chance) for chance in (0.0, 0.25, 0.5, 0.75)]
    assert drawn == pytest.approx([2, 4, 8, 16], rel=1e-12)


@pytest.mark.parametrize("spelled", [" 1 .. 60 ", "1..60", "1.0..6e1"])
def test_spaces_and_exponents_do_not_matter(spelled: str):
    assert evolved(spelled) == SearchDimension(1, 60)


@pytest.mark.parametrize(
    "spelled",
    [
        "64,32,128",
        " 32, 64 , 128,",
        [32, 64, 128, 64],
        (128, 64, 32),
        np.array([32, 64, 128]),
        [np.int64(32), np.int64(64), 128],
    ],
)
def test_lists_in_every_spelling_are_the_same_sorted_list(spelled: Any):
    assert evolved(spelled, "batch_size", whole=True) == SearchDimension(
        32, 128, (32, 64, 128), keeps_to_list=True, whole=True
    )


def test_a_list_is_drawn_evenly_to_its_last_value():
    sizes = evolved([8, 16, 32, 64], "batch_size", whole=True)
    drawn = [sizes.draw(chance) for chance in (0.0, 0.25 - 1e-6, 0.25, 0.5, 0.75, JUST_BELOW_ONE)]
    assert drawn == [8, 8, 16, 32, 64, 64]
    assert all(isinstance(size, int) for size in drawn)
    for length in (3, 23, 30):
        assert (
            SearchDimension(1, length, tuple(range(1, length + 1))).draw(JUST_BELOW_ONE) == length
        )


def test_a_move_within_a_list_ends_at_the_nearest_by_ratio():
    sizes = evolved([32, 64, 128, 256], "batch_size", whole=True)
    assert [sizes.move(64, factor) for factor in FACTORS] == [128, 64, 64, 32]
    assert [sizes.move(32, factor) for factor in FACTORS] == [64, 32, 32, 32]
    assert [sizes.move(256, factor) for factor in FACTORS] == [256, 256, 256, 128]
    # 2 times 5 is 10: as a difference it is nearer to 5 than to 17, as a ratio nearer to 17 (1.7
    # against 2).
    assert evolved([1, 5, 17]).move(5, 2.0) == 17


def test_halfway_between_two_listed_values_a_move_leaves():
    """Four times apart, doubling and halving end exactly between two; a rule that takes the lower
    one could only ever fall.
    """
    strengths = evolved([1, 4, 16])
    assert [strengths.move(1, factor) for factor in FACTORS] == [4, 1, 1, 1]
    assert [strengths.move(4, factor) for factor in FACTORS] == [16, 4, 4, 1]
    assert [strengths.move(16, factor) for factor in FACTORS] == [16, 16, 16, 4]
    tenths = evolved([0.1, 0.4, 1.6])
    assert [tenths.move(0.4, factor) for factor in FACTORS] == [1.6, 0.4, 0.4, 0.1]


@pytest.mark.parametrize(
    ("size", "moved"),
    [
        (8, (16, 10, 7, 4)),
        (64, (128, 77, 52, 32)),
        (5, (10, 6, 4, 3)),
        (100, (200, 120, 80, 50)),
        (1024, (1024, 1024, 820, 512)),
    ],
)
def test_whole_numbers_are_rounded_up_once(size: int, moved: tuple[int, ...]):
    """64 times 1.2 is 76.8 and so 77, 100 times 1.2 is 120."""
    sizes = evolved("2..1024", "batch_size", whole=True)
    found = [sizes.move(size, factor) for factor in FACTORS]
    assert found == list(moved)
    assert all(isinstance(one, int) for one in found)


@given(
    some.integers(2, 1024),
    some.sampled_from([(2, 1), (6, 5), (4, 5), (1, 2), (11, 10), (7, 5), (7, 10)]),
)
@example(50, (11, 10))  # the product of floats is 55.00000000000001
def test_a_whole_move_is_the_exact_fraction_rounded_up_within_the_bounds(
    size: int, fraction: tuple[int, int]
):
    above, below = fraction
    sizes = SearchDimension(2, 1024, whole=True)
    assert sizes.move(size, above / below) == min(max(-(-size * above // below), 2), 1024)


@given(
    some.floats(1e-6, 1e3),
    some.floats(1.01, 1e4),
    some.floats(0, JUST_BELOW_ONE),
    some.lists(some.sampled_from(FACTORS), max_size=40),
)
def test_no_walk_leaves_its_range(low: float, ratio: float, chance: float, walk: list[float]):
    space = SearchDimension(low, low * ratio)
    value = space.draw(chance)
    for factor in (1.0, *walk):
        value = space.move(value, factor)
        assert space.low <= value <= space.high


@given(
    some.lists(some.integers(1, 500), min_size=2, max_size=6, unique=True),
    some.lists(some.sampled_from(FACTORS), max_size=20),
)
def test_no_walk_leaves_its_list(values: list[int], walk: list[float]):
    space = evolved(values, whole=True)
    value = space.draw(0.5)
    for factor in walk:
        moved = space.move(value, factor)
        assert moved in values
        assert (moved - value) * (factor - 1.0) >= 0, (
            "a factor above 1 never lowers a value, nor one below 1 raises it"
        )
        value = moved


@pytest.mark.parametrize(
    "single", [4, 4.0, "4", [4], (4, 4), "4,4", "4,", np.float64(4), np.int64(4), np.array([4, 4])]
)
def test_a_single_value_does_not_evolve(single: Any):
    assert read_dimension("beta", single) is None
    assert fixed_value(single) == 4
    assert isinstance(fixed_value(single), (int, float))


@pytest.mark.parametrize("word", ["linear(0, 4, 10000)", "recovering", ""])
def test_words_and_schedules_do_not_evolve_and_stay_as_they_are(word: str):
    assert read_dimension("beta", word) is None
    assert fixed_value(word) == word


def test_what_is_refused_elsewhere_is_handed_on_as_it_is():
    """A request with several problems asks for the fixed value of each; none of them may end in a
    traceback.
    """
    assert fixed_value([[1, 2], [3, 4]]) == [[1, 2], [3, 4]]
    assert fixed_value("1..x") == "1..x"
    assert fixed_value(None) is None


def test_an_evolved_is_taken_as_it_is():
    space = SearchDimension(1, 2)
    assert read_dimension("anything", space) is space


@pytest.mark.parametrize(
    "range_", ["5..1", "2..2", "0..1", "-1..1", "a..b", "1..", "..1", "1..2..3", "1..inf", "nan..1"]
)
def test_a_bad_range_is_refused_by_name(range_: str):
    with pytest.raises(InputError) as caught:
        read_dimension("learning_rate", range_)
    (problem,) = caught.value.problems
    rule = "must be two numbers above 0, the smaller first, as in 1e-4..3e-3"
    assert (problem.name, problem.rule, problem.value) == ("learning_rate", rule, range_)


@pytest.mark.parametrize(
    ("listed", "shown"),
    [
        ([], "[]"),
        (",", "[]"),
        ([0, 1], "[0, 1]"),
        ("1,-2", "[1, -2]"),
        ("1,x", "[1, 'x']"),
        ([1, math.inf], "[1, inf]"),
        ([1, math.nan], "[1, nan]"),
        ([True, 2], "[True, 2]"),
        ([[1, 2], [3, 4]], "[[1, 2], [3, 4]]"),
        (np.array([-1.0, 2.0]), "[-1.0, 2.0]"),
    ],
)
def test_a_bad_list_is_refused_by_name(listed: Any, shown: str):
    with pytest.raises(InputError) as caught:
        read_dimension("beta", listed)
    (problem,) = caught.value.problems
    rule = "must be a list of numbers above 0 to evolve"
    assert (problem.name, problem.rule, problem.value) == ("beta", rule, shown)


@pytest.mark.parametrize(
    ("spelled", "shown"), [("2.5..8", "2.5, 8"), ("2,4.5", "2, 4.5"), ([0.5, 1], "0.5, 1")]
)
def test_fractions_of_what_must_be_whole_are_refused(spelled: Any, shown: str):
    with pytest.raises(InputError) as caught:
        read_dimension("batch_size", spelled, whole=True)
    (problem,) = caught.value.problems
    found = (problem.name, problem.rule, problem.value)
    assert found == ("batch_size", "must be whole numbers", shown)


def test_only_three_have_a_published_range():
    with pytest.raises(InputError) as caught:
        read_dimension("gamma", "published")
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("gamma", "has no published range")


def test_the_published_draws_are_those_of_the_authors():
    assert len(PUBLISHED_RATES) == 30
    assert pytest.approx([10 ** (-5 + 5 * k / 29) for k in range(30)], rel=1e-12) == list(
        PUBLISHED_RATES
    )
    assert PUBLISHED_BATCHES == (8, 16, 32, 64, 128, 256, 512, 1024)
    assert (
        len(PUBLISHED_BETAS),
        PUBLISHED_BETAS[0],
        PUBLISHED_BETAS[-1],
        sum(PUBLISHED_BETAS),
    ) == (23, 1, 437, 1983)
    # Each of the larger ones is the one before times about 1.28, rounded: what a list typed with a
    # slip would not be.
    for lower, upper in itertools.pairwise(PUBLISHED_BETAS[8:]):
        assert upper / lower == pytest.approx(1.28, abs=0.05)


def test_the_published_moves_are_those_of_the_authors():
    rate, size, beta = (
        evolved("published", name) for name in ("learning_rate", "batch_size", "beta")
    )
    assert (rate.draw(0.0), rate.draw(JUST_BELOW_ONE)) == pytest.approx((1e-5, 1.0), rel=1e-12)
    assert (
        size.draw(0.0),
        size.draw(JUST_BELOW_ONE),
        beta.draw(0.0),
        beta.draw(JUST_BELOW_ONE),
    ) == (8, 1024, 1, 437)
    # They leave the lists: batch sizes stay at most 1024, and beta and the learning rate have no
    # upper end.
    assert [size.move(1024, factor) for factor in FACTORS] == [1024, 1024, 820, 512]
    assert [beta.move(437, factor) for factor in FACTORS] == [874, 525, 350, 219]
    assert [rate.move(1.0, factor) for factor in FACTORS] == list(FACTORS)
    # A batch of one has no covariance and a KL weight of 0 no meaning here: the least are 2 and 1.
    assert (size.move(2, 0.5), beta.move(1, 0.5)) == (2, 1)


SPACES = [
    SearchDimension(1e-4, 3e-3),
    evolved([1, 2.5, 4]),
    evolved("1..60"),
    evolved([32, 64, 128], whole=True),
    evolved("2..1024", whole=True),
    *(evolved("published", name) for name in ("learning_rate", "batch_size", "beta")),
]


@pytest.mark.parametrize("space", SPACES)
@given(
    chance=some.floats(0, JUST_BELOW_ONE),
    factors=some.lists(some.sampled_from(FACTORS), max_size=9),
)
def test_all_values_of_a_dimension_are_of_one_type(
    space: SearchDimension, chance: float, factors: list[float]
):
    """Or a column of a lineage, from which a lost winner is made again, would not tell which."""
    value = space.draw(chance)
    values = [value] + [value := space.move(value, factor) for factor in factors]
    assert {type(one) for one in values} == {int if space.whole else float}


@pytest.mark.parametrize("space", SPACES)
def test_a_record_survives_json(space: SearchDimension):
    text = json.dumps(space.record(), allow_nan=False)
    assert SearchDimension.from_record(json.loads(text)) == space


def test_no_upper_end_is_recorded_as_none():
    assert evolved("published").record() == {
        **{"low": 1, "high": None, "listed": list(PUBLISHED_BETAS)},
        **{"keeps_to_list": False, "whole": True},
    }
