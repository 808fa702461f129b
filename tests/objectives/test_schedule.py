# SPDX-License-Identifier: Apache-2.0
"""Schedules against closed forms at many steps, their spelling back and forth, and every refusal in
full.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.objectives.schedule import (
    KINDS,
    Schedule,
    ScheduledNumber,
    bounds,
    constant,
    cosine,
    cyclic,
    linear,
    number_at,
    stacked_number,
    step,
)

ENDS = st.floats(-1e6, 1e6)
LENGTHS = st.floats(1, 1e6)
MANY = sorted(
    {*range(0, 60), 99, 100, 101, 149, 150, 199, 200, 250, 999, 1000, 12345, 999_999, 1_000_000}
)


@st.composite
def schedules(draw) -> Schedule:
    kind = draw(st.sampled_from(KINDS))
    start, end, steps = draw(ENDS), draw(ENDS), draw(LENGTHS)
    if kind == "constant":
        return constant(start)
    if kind == "step":
        return step(start, end, draw(st.floats(0, 1e6)))
    if kind == "cyclic":
        return cyclic(start, end, steps, draw(st.floats(1e-3, 1)))
    return Schedule(kind, start, end, steps, draw(st.floats(0, 1e6)))


def by_hand(schedule: Schedule, t: float) -> float:
    """The table in the module's docstring, in plain Python."""
    a, b, steps, extra = schedule.start, schedule.end, schedule.steps, schedule.extra
    if schedule.kind == "constant":
        return a
    if schedule.kind == "step":
        return a if t <= steps else b
    u = (
        min(math.fmod(t, steps) / (extra * steps), 1.0)
        if schedule.kind == "cyclic"
        else min(max((t - extra) / steps, 0.0), 1.0)
    )
    if schedule.kind == "cosine":
        u = (1.0 - math.cos(math.pi * u)) / 2.0
    return (1.0 - u) * a + u * b


@pytest.mark.parametrize(
    "schedule",
    [
        constant(3),
        constant(-0.25),
        linear(0, 4, 100),
        linear(4, 0, 100, wait=50),
        linear(-1, 1, 7, 1.5),
        linear(2, 2, 1),
        cosine(0, 1, 100),
        cosine(1e-3, 0, 1000, wait=100),
        cyclic(0, 1, 100),
        cyclic(2, -1, 50, share=0.25),
        cyclic(0, 4, 10, 1),
        cyclic(0, 1, 2.5, 0.5),
        step(0, 4, 1000),
        step(1, 0, 0),
        step(5, 7, 99.5),
    ],
    ids=str,
)
def test_closed_forms_at_many_steps(schedule):
    for t in MANY:
        assert schedule.value(t) == pytest.approx(by_hand(schedule, t), rel=1e-12, abs=1e-12), t


def test_values_worked_out_by_hand():
    assert [linear(0, 4, 100, wait=20).value(t) for t in (0, 20, 45, 120, 500)] == [0, 0, 1, 4, 4]
    assert [cosine(0, 2, 90).value(t) for t in (0, 30, 45, 60, 90)] == pytest.approx(
        [0, 0.5, 1, 1.5, 2], abs=1e-12
    )
    # A cycle of 8 rises for 2 steps and stays for 6.
    assert [cyclic(0, 1, 8, share=0.25).value(t) for t in range(10)] == [
        0,
        0.5,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        0.5,
    ]
    assert [step(0, 4, 2).value(t) for t in range(5)] == [0, 0, 0, 4, 4]


def test_golden_annealers_of_disentanglement_lib():
    # shared/golden/golden_open.json, open/losses/s2_anneal and s2_fine_tune: commit 86a644d, c_max
    # = 4, threshold 1,000.
    annealed = {0: 0.0, 250: 1.0, 1000: 4.0, 5000: 4.0}
    fine_tuned = {0: 0.0, 999: 0.0, 1000: 0.0, 1001: 4.0, 5000: 4.0}
    assert {t: linear(0, 4, 1000).value(t) for t in annealed} == annealed
    assert {t: step(0, 4, 1000).value(t) for t in fine_tuned} == fine_tuned


def test_cyclic_is_that_of_fu_et_al():
    # Their T = 40,000 iterations in M = 4 cycles with R = 0.5; t counts from 1: τ = mod(t − 1, T /
    # M) / (T / M).
    ours = cyclic(0, 1, 40_000 / 4, share=0.5)
    for t in (1, 2, 2501, 5001, 5002, 10_000, 10_001, 12_501, 39_999, 40_000):
        tau = ((t - 1) % 10_000) / 10_000
        assert ours.value(t - 1) == pytest.approx(min(tau / 0.5, 1.0), abs=1e-12)


@given(schedules())
def test_spelling_reads_back_as_the_same_schedule(schedule):
    spelled = str(schedule)
    assert Schedule.looks_like(spelled)
    again = Schedule.parse(spelled)
    assert again == schedule
    assert str(again) == spelled


@pytest.mark.parametrize(
    ("schedule", "spelled"),
    [
        (constant(4), "constant(4)"),
        (linear(0, 4, 10_000), "linear(0, 4, 10000)"),
        (linear(0, 4, 10_000, wait=500), "linear(0, 4, 10000, 500)"),
        (cosine(0.1 + 0.2, 1e-9, 100), "cosine(0.30000000000000004, 1e-09, 100)"),
        (cyclic(0, 1, 100), "cyclic(0, 1, 100)"),
        (cyclic(0, 1, 100, share=0.25), "cyclic(0, 1, 100, 0.25)"),
        (step(0, -4, 10), "step(0, -4, 10)"),
    ],
)
def test_spelling(schedule, spelled):
    assert str(schedule) == spelled
    assert Schedule.parse(spelled) == schedule


def test_spelling_may_have_blanks_and_capitals():
    assert Schedule.parse("  Linear ( 0 ,4, 1e4 ) ") == linear(0, 4, 10_000)
    assert Schedule.looks_like(" linear (0, 4, 10)")
    assert not any(
        Schedule.looks_like(text) for text in ("4", "much", "linear", "linear(0, 4, 10", "1,4", "")
    )


@given(schedules(), st.integers(0, 2_000_000))
def test_values_stay_between_the_ends(schedule, t):
    least, largest = bounds(schedule)
    margin = 1e-9 * max(abs(least), abs(largest))
    assert least - margin <= schedule.value(t) <= largest + margin


@given(schedules())
def test_first_and_last_values_are_exact(schedule):
    assert schedule.value(0) == schedule.start
    last = schedule.end if schedule.kind != "cyclic" else None
    if last is not None:
        assert schedule.value(1e7) == last


@settings(max_examples=30)
@given(st.lists(st.one_of(schedules(), ENDS), min_size=1, max_size=6), st.integers(0, 1_000_000))
def test_members_of_all_kinds_side_by_side(values, t):
    stacked = ScheduledNumber(values, "cpu", torch.float64)
    together = stacked.at(torch.tensor(t))  # the device's clock counts in whole numbers
    assert together.shape == (len(values),)
    assert together.dtype == torch.float64
    alone = [value.value(t) if isinstance(value, Schedule) else value for value in values]
    assert together.tolist() == alone


def test_float32_keeps_a_small_end_and_late_cycles():
    small_end = ScheduledNumber([linear(1e6, 1e-3, 10)], "cpu", torch.float32).at(
        torch.tensor(10.0)
    )
    assert small_end.item() == pytest.approx(1e-3, rel=1e-6)
    # After three million cycles of 3 steps: a third of the way, twice as much as the share of 2/3
    # has risen.
    late = ScheduledNumber([cyclic(0, 1, 3, share=2 / 3)], "cpu", torch.float32)
    assert [late.at(torch.tensor(9_000_000.0 + t)).item() for t in range(4)] == pytest.approx(
        [0, 0.5, 1, 0], abs=1e-6
    )


def test_stacked_number_is_a_tensor_unless_something_is_on_a_schedule():
    plain = stacked_number([1.0, 4.0], "cpu", torch.float32)
    assert isinstance(plain, torch.Tensor)
    assert number_at(plain, torch.tensor(7)) is plain
    mixed = stacked_number([1.0, linear(0, 4, 8)], "cpu", torch.float32)
    assert isinstance(mixed, ScheduledNumber)
    assert number_at(mixed, torch.tensor(2)).tolist() == [1.0, 1.0]


def test_bounds():
    assert bounds(3.0) == (3.0, 3.0)
    assert bounds(linear(4, 1, 10)) == (1.0, 4.0)
    assert bounds(constant(2)) == (2.0, 2.0)


def test_numbers_are_stored_as_floats_and_what_is_not_used_is_dropped():
    schedule = linear(np.int64(0), np.float32(4), 10**3)
    assert schedule == linear(0.0, 4.0, 1000.0)
    assert all(
        type(getattr(schedule, name)) is float for name in ("start", "end", "steps", "extra")
    )
    assert Schedule("constant", 3, 3, steps=50, extra=2) == constant(3)
    assert Schedule("step", 0, 1, steps=50, extra=2) == step(0, 1, 50)


def refusal(make) -> str:
    with pytest.raises(InputError) as told:
        make()
    return str(told.value)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (
            ("liner", 0, 1, 2),
            (
                "schedule 'liner' is unknown; did you mean 'linear'? Known: constant, cosine,"
                " cyclic, linear, step."
            ),
        ),
        (("linear", math.nan, 1, 2), "schedule linear: start must be a finite number; got nan."),
        (("linear", 0, math.inf, 2), "schedule linear: end must be a finite number; got inf."),
        (("linear", 0, True, 2), "schedule linear: end must be a finite number; got True."),
        (("linear", 0, "4", 2), "schedule linear: end must be a finite number; got '4'."),
        (
            ("cosine", 0, 1, 10**400),
            f"schedule cosine: steps must be a finite number; got 1{'0' * 199}...{'0' * 200}.",
        ),
        (("linear", 0, 1, 0.5), "schedule linear: steps must be at least 1; got 0.5."),
        (("cosine", 0, 1, 0), "schedule cosine: steps must be at least 1; got 0.0."),
        (("cyclic", 0, 1, -5, 0.5), "schedule cyclic: steps must be at least 1; got -5.0."),
        (("step", 0, 1, -1), "schedule step: steps must be at least 0; got -1.0."),
        (("linear", 0, 1, 10, -1), "schedule linear: wait must be at least 0; got -1.0."),
        (("cosine", 0, 1, 10, None), "schedule cosine: wait must be a finite number; got None."),
        (("cyclic", 0, 1, 10, 0), "schedule cyclic: share must be above 0 and at most 1; got 0.0."),
        (
            ("cyclic", 0, 1, 10, 1.5),
            "schedule cyclic: share must be above 0 and at most 1; got 1.5.",
        ),
        (
            ("cyclic", 0, 1, 10, math.nan),
            "schedule cyclic: share must be a finite number; got nan.",
        ),
        (("constant", 1, 2), "schedule constant: end must be its start, 1; got 2.0."),
    ],
)
def test_nonsense_is_refused_in_full(made, told):
    assert refusal(lambda: Schedule(*made)) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("4", "beta must be a schedule; got '4'. For example linear(0, 4, 10000)."),
        (
            "ramp(0, 4)",
            "beta: schedule 'ramp' is unknown. Known: constant, cosine, cyclic, linear, step.",
        ),
        (
            "linear(0, x, 3)",
            (
                "beta must be a schedule of numbers; got 'linear(0, x, 3)'. For example linear(0,"
                " 4, 10000)."
            ),
        ),
        (
            "constant()",
            "beta must be a schedule of numbers; got 'constant()'. For example constant(4).",
        ),
        (
            "constant(1, 2)",
            (
                "beta needs 1 number for the schedule constant; got constant(1, 2), with 2. For"
                " example constant(4)."
            ),
        ),
        (
            "step(1, 2)",
            (
                "beta needs 3 numbers for the schedule step; got step(1, 2), with 2. For example"
                " step(0, 4, 10000)."
            ),
        ),
        (
            "cyclic(0, 1)",
            (
                "beta needs 3 or 4 numbers for the schedule cyclic; got cyclic(0, 1), with 2. For"
                " example cyclic(0, 4, 10000)."
            ),
        ),
        ("linear(nan, 4, 10)", "beta: schedule linear: start must be a finite number; got nan."),
        (
            "cyclic(0, 1, 10, 2)",
            "beta: schedule cyclic: share must be above 0 and at most 1; got 2.0.",
        ),
        ("constant(inf)", "beta: schedule constant: start must be a finite number; got inf."),
    ],
)
def test_bad_spelling_is_refused_in_full(text, told):
    assert refusal(lambda: Schedule.parse(text, "beta")) == told
