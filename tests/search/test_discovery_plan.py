# SPDX-License-Identifier: Apache-2.0
"""What a discovery plans: the range of β for pictures of a size, and which stage has to be done when."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from unbraid import discovering
from unbraid.population.space import read_evolved
from unbraid.search.discovery_plan import beta_range, share_done


def pictures(*shape: int) -> Any:
    return SimpleNamespace(image_shape=shape)


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        ((32, 32, 1), 2.0, 32.0),
        ((16, 16, 1), 2.0, 32.0),
        ((64, 64, 1), 4.0, 128.0),
        ((64, 64, 3), 2 * math.sqrt(12), 384.0),
        ((128, 128, 3), 2 * math.sqrt(48), 1536.0),
    ],
)
def test_beta_grows_with_the_values_of_a_picture(shape, low, high):
    space = read_evolved("beta", beta_range(pictures(*shape)))
    assert space is not None
    assert (space.low, space.high) == (pytest.approx(low, rel=1e-3), high)


def test_stages_end_in_order_and_the_last_at_the_end():
    names = ["root", "leaf-0/level-2", "leaf-1/level-2", "final-2"]
    assert [share_done(name, 2) for name in names] == pytest.approx([0.5, 0.6, 0.7, 1.0])


def clock(monkeypatch: pytest.MonkeyPatch, minutes: float | None, recursion: Any, *, kept: bool = True) -> tuple[Any, list[float]]:
    """A clock that began 10 seconds after the discovery, and the time it reads."""
    now = [110.0]
    monkeypatch.setattr(discovering.time, "monotonic", lambda: now[0])
    plan = cast("Any", SimpleNamespace(minutes=minutes, recursion=recursion))
    return discovering._Clock(plan, 100.0, kept), now


def test_each_stage_has_its_share_of_what_is_left(monkeypatch):
    made, _ = clock(monkeypatch, 10.0, SimpleNamespace(leaf_runs=1))
    end = 100.0 + 600.0 * 0.92
    assert made.due("final-1") == pytest.approx(end)
    assert made.due("root") == pytest.approx(110.0 + (end - 110.0) * 0.5)
    assert made.due("leaf-0/level-2") == pytest.approx(110.0 + (end - 110.0) * 0.7)


def test_an_epoch_that_would_end_late_is_not_begun(monkeypatch):
    made, now = clock(monkeypatch, 1.0, None)  # ends at 155.2
    late = made.late("searching")
    answers = []
    for moment in (120.0, 130.0, 142.0, 149.0):
        now[0] = moment
        answers.append(late())
    # Epochs of 10, 10, 12 and 7 seconds: 142 + 12 is in time, 149 + 7 is not.
    assert answers == [False, False, False, True]


@pytest.mark.parametrize(("minutes", "kept"), [(None, True), (1.0, False)])
def test_by_steps_and_after_an_interruption_nothing_is_late(monkeypatch, minutes, kept):
    made, now = clock(monkeypatch, minutes, None, kept=kept)
    late = made.late("searching")
    now[0] = 1e9
    assert not late()
