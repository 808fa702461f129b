# SPDX-License-Identifier: Apache-2.0
"""A progress bar with throughput and time left; plain lines where the output is not a terminal."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Any

from unbraid.core.words import count, spoken

_LINE_EVERY_SECONDS = 15.0


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _clock(seconds: float) -> str:
    """As hours, minutes and seconds.

    >>> _clock(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class Progress:
    """Counts units of work done; shows a bar on a terminal and a line now and then elsewhere,
    nothing when quiet.
    """

    def __init__(
        self, what: str, unit: str, total: int, quiet: bool = False, ends: float = math.inf
    ) -> None:
        """*ends* is when it has to be over, done or not, by `time.monotonic`."""
        self.what, self.unit, self.quiet, self.ends = what, unit, quiet, ends
        self._total, self._done, self._known = total, 0, 0
        self._bar: Any = None
        self._task: Any = None
        self._began = self._shown = self._drawn = time.monotonic()

    def __enter__(self) -> Progress:
        """Start the clock and the bar."""
        self._began = self._shown = time.monotonic()
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as RichProgress

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[speed]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
            )
            self._bar = RichProgress(*columns, console=Console(stderr=True), transient=False)
            self._bar.start()
            self._task = self._bar.add_task(self.what, total=self._total, speed="", left="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the bar; elsewhere say how it ended."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif not self.quiet and kind is None and self._done:
            seconds = time.monotonic() - self._began
            took = (
                f"in {seconds:.0f} s ({self._speed()})"
                if self._done > self._known
                else "found done"
            )
            self._print(f"{self.what}: {count(self._done, self.unit.removesuffix('s'))} {took}")

    def total(self, units: int) -> None:
        """Set how much work there is, when it becomes known."""
        self._total = units
        if self._bar is not None:
            self._bar.update(self._task, total=units)

    def advance(self, units: int, found_done: bool = False) -> None:
        """Note that so many more units are done; what was *found_done* rather than done now does
        not count as speed.
        """
        now = time.monotonic()
        self._known += units if found_done else 0
        self._done += units
        if self._bar is not None:
            if now - self._drawn > 0.2 or self._done >= self._total:
                self._drawn = now
                left = f"{_clock(self._left(now))} left" if self._done > self._known else ""
                self._bar.update(self._task, completed=self._done, speed=self._speed(), left=left)
        elif not self.quiet and now - self._shown > _LINE_EVERY_SECONDS:
            self._shown = now
            line = f"{self.what}: {self._done:,} of {self._total:,} {self.unit}"
            if self._done > self._known:
                line += f", {self._speed()}, {spoken(self._left(now))} left"
            self._print(line)

    def _left(self, now: float) -> float:
        """Seconds until all is done at the speed so far, or until it has to be over."""
        fresh = max(1, self._done - self._known)
        return max(
            0.0, min((self._total - self._done) * (now - self._began) / fresh, self.ends - now)
        )

    def _speed(self) -> str:
        seconds = max(1e-9, time.monotonic() - self._began)
        return f"{_rate((self._done - self._known) / seconds)} {self.unit}/s"

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.console.print(line, style="yellow", highlight=False, soft_wrap=True)
        elif not self.quiet:
            self._print(line)

    @staticmethod
    def _print(line: str) -> None:
        print(line, file=sys.stderr, flush=True)
