# SPDX-License-Identifier: Apache-2.0
"""Seeds and learning rates of a request, as a plan takes them."""

from __future__ import annotations

from typing import Any

from unbraid.core.checks import is_finite
from unbraid.core.errors import Problems, Shown
from unbraid.objectives.schedule import Schedule

MOST_SEEDS = 1_000_000


def read_seeds(given: Any, problems: Problems) -> list[int]:
    """Seeds 0..n-1 of a count, or the ones given."""
    if isinstance(given, bool) or not isinstance(given, (int, list, tuple, range)):
        problems.add("seeds", "must be how many seeds, or a list of them", given)
        return []
    if isinstance(given, int):
        if given < 1:
            problems.add("seeds", "must be at least 1", given)
        elif given > MOST_SEEDS:
            problems.add("seeds", f"must be at most {MOST_SEEDS}", given)
        return list(range(min(given, MOST_SEEDS)))
    listed = list(given)
    if not listed:
        problems.add("seeds", "needs at least one", given)
    if any(
        isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63
        for seed in listed
    ):
        problems.add("seeds", "must be whole numbers of at most 64 bits", listed)
    if len(set(listed)) != len(listed):
        problems.add("seeds", "must differ from each other", listed)
    return listed


def read_rates(given: Any, problems: Problems) -> list[Any]:
    """The learning rates, each checked."""
    rates = list(given) if isinstance(given, (list, tuple)) else [given]
    if not rates:
        problems.add("learning_rate", "needs at least one", given)
    return [_rate(rate, problems) for rate in rates]


def _rate(rate: Any, problems: Problems) -> Any:
    """A learning rate as a member stores it: a number above 0, or the spelling of a schedule."""
    if isinstance(rate, str) and Schedule.looks_like(rate):
        rate = problems.collect(lambda: Schedule.parse(rate, "learning_rate")) or 1.0
    ends: tuple[Any, ...] = (rate.start, rate.end) if isinstance(rate, Schedule) else (rate,)
    # A schedule may end at 0, where training stands still.
    least_ok = [
        is_finite(end) and (end > 0 or (isinstance(rate, Schedule) and end == 0)) for end in ends
    ]
    if not all(least_ok) or (isinstance(rate, Schedule) and not any(ends)):
        problems.add(
            "learning_rate",
            "must be a finite number above 0",
            Shown(str(rate)) if isinstance(rate, Schedule) else rate,
        )
    if isinstance(rate, Schedule):
        return str(rate)
    return float(rate) if is_finite(rate) else rate
