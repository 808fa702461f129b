# SPDX-License-Identifier: Apache-2.0
"""Which stage of a discovery has to be done when, and what counts as late."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from unbraid.search.discover import clock as discovery_clock
from unbraid.search.discover.clock import Clock, share_done
from unbraid.search.rpu.stages import ROOT, Stage, StageKind


def leaf(number: int) -> Stage:
    return Stage(StageKind.LEAF, leaf=number, level=2)


def test_stages_end_in_order_and_the_last_at_the_end():
    stages = [ROOT, leaf(0), leaf(1), Stage(StageKind.FINAL, leaf_runs=2)]
    assert [share_done(stage, 2) for stage in stages] == pytest.approx([0.5, 0.6, 0.7, 1.0])


def clock(
    monkeypatch: pytest.MonkeyPatch, minutes: float | None, leaf_runs: int = 0
) -> tuple[Clock, list[float]]:
    """A clock that began 10 seconds after the discovery, and the time it reads."""
    now = [110.0]
    monkeypatch.setattr(discovery_clock, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return Clock(minutes, leaf_runs, 100.0), now


def test_each_stage_has_its_share_of_what_is_left(monkeypatch):
    made, _ = clock(monkeypatch, 10.0, leaf_runs=1)
    end = 100.0 + 600.0 * 0.92
    assert made.due(Stage(StageKind.FINAL, leaf_runs=1)) == pytest.approx(end)
    assert made.due(ROOT) == pytest.approx(110.0 + (end - 110.0) * 0.5)
    assert made.due(leaf(0)) == pytest.approx(110.0 + (end - 110.0) * 0.7)


def test_an_epoch_that_would_end_late_is_not_begun(monkeypatch):
    made, now = clock(monkeypatch, 1.0)  # ends at 155.2
    late = made.late(ROOT)
    answers = []
    for moment in (120.0, 130.0, 142.0, 149.0):
        now[0] = moment
        answers.append(late())
    # Epochs of 10, 10, 12 and 7 seconds: 142 + 12 is in time, 149 + 7 is not.
    assert answers == [False, False, False, True]


def test_without_minutes_nothing_is_late(monkeypatch):
    made, now = clock(monkeypatch, None)
    late = made.late(ROOT)
    now[0] = 1e9
    assert not late()
