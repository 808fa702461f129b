# SPDX-License-Identifier: Apache-2.0
"""When each stage of a discovery has to end, so that the last has its share of the minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from unbraid.search.rpu.stages import Stage, StageKind

SHARES = (0.5, 0.2, 0.3)
"""Of the training time with a recursion: root, leaf-runs, final population."""
LATE_SHARE = 0.92
"""Of the minutes: an epoch that would end later is not begun; the rest is for encoding and the
report.
"""


class Clock:
    """Says when a stage of a discovery is due, and whether it is late."""

    def __init__(self, minutes: float | None, leaf_runs: int, start: float) -> None:
        """*minutes* began at *start* by `time.monotonic`; without minutes nothing is ever late."""
        self.leaf_runs = leaf_runs
        self.begins = time.monotonic()
        self.ends = math.inf if minutes is None else start + 60 * minutes * LATE_SHARE

    def due(self, stage: Stage) -> float:
        """When *stage* has to end."""
        if self.leaf_runs == 0 or math.isinf(self.ends):
            return self.ends
        return self.begins + (self.ends - self.begins) * share_done(stage, self.leaf_runs)

    def late(self, stage: Stage) -> Callable[[], bool]:
        """Says after each epoch of *stage* whether another of that length would be late."""
        due, asked = self.due(stage), time.monotonic()

        def late() -> bool:
            nonlocal asked
            now = time.monotonic()
            took, asked = now - asked, now
            return now + took > due

        return late


def share_done(stage: Stage, leaf_runs: int) -> float:
    """The share of the training time at whose end *stage* of a recursion has to be done."""
    if stage.kind is StageKind.FINAL:
        return 1.0
    if stage.kind is StageKind.ROOT:
        return SHARES[0]
    return SHARES[0] + SHARES[1] * (stage.leaf + 1) / leaf_runs
