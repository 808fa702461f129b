# SPDX-License-Identifier: Apache-2.0
"""The sliding pattern: by hand, against exact fractions, and the bound that float32 keeps."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.data.perturbed.pattern import (
    PACES,
    Pattern,
    amplitude,
    half_rows,
    make_pattern,
    standardised,
    steps_of,
    usual_shift_scale,
)

TINY = Pattern(
    signs=np.array([[1, 1], [-1, 1], [1, -1], [-1, -1], [1, 1]], dtype=np.int8),
    paces=np.array([1, 2], dtype=np.int8),
    origin=1,
    height=2,
)


def test_a_tiny_pattern_by_hand():
    # f(s)[i, j] = p[round(s / c_j) + i, j] with row 0 of p stored as row 1 and c = (1, 2).
    assert TINY.frames(half_rows(0.0)).tolist() == [[-1, 1], [1, -1]]
    assert TINY.frames(half_rows(1.0)).tolist() == [
        [1, -1],
        [-1, -1],
    ]  # round(1/2) = 1: halves go up
    assert TINY.frames(half_rows(2.0)).tolist() == [[-1, -1], [1, -1]]
    assert TINY.frames(half_rows(-1.0)).tolist() == [[1, 1], [-1, -1]]  # round(-1/2) = 0
    assert TINY.frames(half_rows([0.0, 2.0])).shape == (2, 2, 2)


@given(st.floats(-16000, 16000, width=32), st.sampled_from(PACES))
def test_half_rows_hold_all_that_rounding_can_see(s, pace):
    pattern = Pattern(np.ones((1, 1), dtype=np.int8), np.array([pace], dtype=np.int8), 0, 1)
    assert pattern.first_rows(half_rows(s)).item() == math.floor(
        Fraction(s) / pace + Fraction(1, 2)
    )


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**62),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(-90, 90),
    st.integers(0, 90),
)
def test_a_made_pattern_reaches_as_far_as_it_must(seed, height, width, lowest, span):
    pattern = make_pattern(seed, height, width, lowest, lowest + span)
    halves = np.arange(lowest, lowest + span + 1)
    first = pattern.first_rows(halves)
    assert first.min() >= 0
    assert first.max() + height <= len(pattern.signs)
    frames = pattern.frames(halves)
    assert frames.shape == (span + 1, height, width)
    assert set(np.unique(frames)) <= {-1, 1}
    assert set(pattern.paces.tolist()) <= set(PACES)
    for column, pace in enumerate(pattern.paces):
        for row, half in enumerate(halves):
            top = math.floor(Fraction(int(half), 2) / int(pace) + Fraction(1, 2)) + pattern.origin
            assert np.array_equal(frames[row, :, column], pattern.signs[top : top + height, column])


def test_seeds_decide():
    one, again, other = (make_pattern(seed, 16, 16, -50, 50) for seed in (0, 0, 1))
    assert np.array_equal(one.signs, again.signs)
    assert np.array_equal(one.paces, again.paces)
    assert not np.array_equal(one.signs, other.signs)
    assert not np.array_equal(one.paces, other.paces)


def test_no_two_rows_of_s_look_alike():
    frames = make_pattern(3, 16, 16, -100, 100).frames(np.arange(-100, 101, 2))
    assert len(np.unique(frames.reshape(len(frames), -1), axis=0)) == len(frames)


def test_four_rows_replace_every_column():
    pattern = make_pattern(0, 64, 64, -400, 400)
    halves = np.arange(-400, 400 - 8)
    apart = (pattern.frames(halves) != pattern.frames(halves + 8)).mean(axis=(1, 2))
    assert apart.mean() == pytest.approx(0.5, abs=0.01)
    assert apart.min() > 0.45
    one_row = (pattern.frames(halves) != pattern.frames(halves + 2)).mean()
    assert one_row == pytest.approx(0.5 * np.mean(1 / pattern.paces), abs=0.01)


def test_the_scale_of_s():
    assert usual_shift_scale(32, 1.0) == pytest.approx(9.2376, abs=1e-4)
    dsprites = steps_of((3, 6, 40, 32, 32), 64, 64)
    assert dsprites == 40
    a_position_step = 2 * math.sqrt(3) / 32
    assert usual_shift_scale(dsprites) * a_position_step >= 4
    assert steps_of((), 64, 64) == 32
    assert steps_of((5000, 3), 32, 64) == 64
    assert steps_of((1,), 32, 32) == 2


def test_s_is_standardised():
    s, mean, deviation = standardised(np.array([1.0, 3.0], dtype=np.float32))
    assert (s.tolist(), mean, deviation) == ([-1.0, 1.0], 2.0, 1.0)
    for values in ([2.0, 2.0], [0.1] * 7):
        with pytest.raises(
            InputError,
            match=(r"^s must vary over the data; got mean .*\. Choose another member\.$"),
        ):
            standardised(values)


def test_rows_beyond_16_bits_are_refused():
    assert half_rows([16383.5, -16384.0]).tolist() == [32767, -32768]
    with pytest.raises(InputError) as caught:
        half_rows([0.0, 20000.0])
    told = (
        "s times shift_scale must stay within 16,383 rows; got rows from 0 to 20000. Give a smaller"
        " shift_scale."
    )
    assert str(caught.value) == told
    with pytest.raises(InputError):
        half_rows([np.nan])


LEVELS = np.arange(256, dtype=np.float32) / np.float32(255.0)


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 1, exclude_min=True), st.lists(st.floats(0, 1, width=32), max_size=20))
def test_no_float32_passes_the_bound(epsilon, others):
    """Every grey level and any other float32: in exact arithmetic |x~ - x| <= ε, clipped or not."""
    size = np.float32(amplitude(epsilon))
    x = np.concatenate([LEVELS, np.array(others, dtype=np.float32)])
    for changed in (x + size, x - size):
        for shown in (changed, np.clip(changed, 0.0, 1.0)):
            assert shown.dtype == np.float32
            # Grey levels are multiples of 2^-32 or so, whose differences float64 holds without
            # rounding; fractions hold the rest.
            assert (np.abs(shown[:256].astype(np.float64) - LEVELS) <= epsilon).all()
            worst = max(
                (
                    abs(Fraction(float(a)) - Fraction(float(b)))
                    for a, b in zip(shown[256:], x[256:], strict=True)
                ),
                default=0,
            )
            assert worst <= Fraction(epsilon)
    assert epsilon - 2.0**-22 <= size <= epsilon
