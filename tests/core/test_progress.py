# SPDX-License-Identifier: Apache-2.0
"""Progress in plain lines and as a bar: what was found done is no speed, and quiet is quiet."""

from __future__ import annotations

import io
import sys

import pytest

from unbraid.core import progress as module
from unbraid.core.progress import Progress


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def test_lines_where_there_is_no_terminal(clock: Clock, capsys: pytest.CaptureFixture[str]):
    with Progress("training", "model-steps", 10_000) as progress:
        progress.advance(1000)
        assert capsys.readouterr().err == ""
        clock.now += 20
        progress.advance(3000)
        assert (
            capsys.readouterr().err
            == "training: 4,000 of 10,000 model-steps, 200 model-steps/s, 30 s left\n"
        )
        clock.now += 10
        progress.advance(5990)
        assert capsys.readouterr().err == ""
        clock.now += 10
        progress.say("a warning")
        progress.advance(10)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "a warning",
        "training: 10,000 of 10,000 model-steps, 250 model-steps/s, 0 s left",
        "training: 10,000 model-steps in 40 s (250 model-steps/s)",
    ]


def test_hours_that_are_left_are_told_as_such(clock: Clock, capsys: pytest.CaptureFixture[str]):
    with Progress("training", "model-steps", 300_000_000) as progress:
        for minutes, left in ((1, "4.1 h"), (223, "24 min")):
            clock.now += 60 * minutes
            progress.advance(20_161 * 60 * minutes)
            assert capsys.readouterr().err.endswith(f", 20,161 model-steps/s, {left} left\n")


def test_what_has_to_be_over_is_not_said_to_last_longer(
    clock: Clock, capsys: pytest.CaptureFixture[str]
):
    with Progress("searching", "images", 10_000, ends=1045.0) as progress:
        clock.now += 20
        progress.advance(1000)
        assert (
            capsys.readouterr().err
            == "searching: 1,000 of 10,000 images, 50.0 images/s, 25 s left\n"
        )
        clock.now += 30
        progress.advance(10)
        assert capsys.readouterr().err.endswith(", 0 s left\n")


def test_what_was_found_done_is_no_speed(clock: Clock, capsys: pytest.CaptureFixture[str]):
    with Progress("training", "model-steps", 10_000) as progress:
        progress.advance(9000, True)
        clock.now += 50
        progress.advance(500)
        assert (
            capsys.readouterr().err
            == "training: 9,500 of 10,000 model-steps, 10.0 model-steps/s, 50 s left\n"
        )
        progress.advance(500)
    assert capsys.readouterr().err == "training: 10,000 model-steps in 50 s (20.0 model-steps/s)\n"


def test_work_in_large_units_counts_as_speed(clock: Clock, capsys: pytest.CaptureFixture[str]):
    with Progress("encoding", "images", 600) as progress:
        for _ in range(4):
            clock.now += 0.1
            progress.advance(150)
    assert capsys.readouterr().err == "encoding: 600 images in 0 s (1,500 images/s)\n"


def test_quiet_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]):
    with Progress("training", "steps", 10, quiet=True) as progress:
        progress.say("a warning")
        clock.now += 100
        progress.advance(10)
    assert capsys.readouterr() == ("", "")


def test_no_last_line_after_an_error_or_without_work(
    clock: Clock, capsys: pytest.CaptureFixture[str]
):
    with Progress("training", "steps", 10):
        pass
    with pytest.raises(RuntimeError), Progress("training", "steps", 10) as progress:  # noqa: PT012
        progress.advance(1)
        raise RuntimeError
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Progress("scoring", "scores", 0) as progress:
        progress.total(4)
        progress.advance(2)
        progress.say("member 3: mig has no value")
        progress.advance(2)
    shown = screen.getvalue()
    assert "scoring" in shown
    assert "100%" in shown
    assert "scores/s" in shown
    assert "member 3: mig has no value" in shown


def test_where_all_was_found_done_no_speed_is_told(
    clock: Clock, capsys: pytest.CaptureFixture[str]
):
    with Progress("scoring", "scores", 12) as progress:
        progress.advance(12, True)
    assert capsys.readouterr().err == "scoring: 12 scores found done\n"
    with Progress("scoring", "scores", 1) as progress:
        progress.advance(1, True)
    assert capsys.readouterr().err == "scoring: 1 score found done\n"


def test_nothing_is_said_of_the_time_left_before_anything_is_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
):
    with Progress("slices", "slices", 4) as progress:
        clock.now += 20
        progress.advance(0)
        assert capsys.readouterr().err == "slices: 0 of 4 slices\n"
        clock.now += 5980
        progress.advance(1)
        told = "slices: 1 of 4 slices, 0.0 slices/s, 5.0 h left\n"
        assert capsys.readouterr().err == told
