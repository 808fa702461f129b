# SPDX-License-Identifier: Apache-2.0
"""What makes the published setting of figure 11 lose seeds: one change of it at a time.

The arms and the rule are in `pools.ARMS`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import fall_of_share, share_of
from unbraid.studies.michlo2023.models import COLLAPSED
from unbraid.studies.michlo2023.pools import ARMS, COLLAPSE

if TYPE_CHECKING:
    from collections.abc import Mapping

BASE = "published"
WORDS = {
    "published": "figure 11 from Glorot-uniform weights",
    "rate": "learning rate 3e-4",
    "start": "Xavier-normal weights",
    "weight": "KL of 9/25 the weight",
    "latents": "9 latents",
    "average": "disent's averaging",
}
LEVEL = 0.99
"""Of each of five intervals, so that all five hold with 95%."""


def causes_of_collapse(table: pd.DataFrame) -> Finding | None:
    """MIC-C: which of five changes keeps most seeds from collapsing."""
    lost = _lost(table)
    if lost is None:
        return None
    falls = {
        arm: fall_of_share(
            f"fall of the collapsed share: {WORDS[arm]}",
            (int(lost[BASE].sum()), len(lost[BASE])),
            (int(own.sum()), len(own)),
            level=LEVEL,
        )
        for arm, own in lost.items()
        if arm != BASE
    }
    arm = max(falls, key=lambda one: falls[one].value)
    most = falls[arm]
    largest = Estimate("largest fall by one change", most.value, most.low, most.high, most.count)
    shares = [
        share_of(f"collapsed share: {WORDS[arm]}", int(own.sum()), len(own))
        for arm, own in lost.items()
    ]
    told = _verdict(arm, most) if lost[BASE].any() else _NOTHING_LOST
    return Finding((largest, *falls.values(), *shares), _by_steps(table), told)


_NOTHING_LOST = (
    "No seed of the setting collapsed here, so that no change can keep one from it; of five seeds"
    " in the run before this study, twice as long, two had."
)


def _verdict(arm: str, most: Estimate) -> str:
    if most.low > 0:
        return f"What makes the setting collapse is undone by: {WORDS[arm]}."
    told = "None of the five changes keeps seeds from collapsing beyond doubt"
    return f"{told}: so far this is the setting's own spread (most: {WORDS[arm]})."


def _lost(table: pd.DataFrame) -> Mapping[str, pd.Series] | None:
    """By arm, whether each seed is collapsed at the last step; None unless all arms are there.

    A model that diverged is lost as well.
    """
    rows = _rows(table)
    if rows is None:
        return None
    diverged = rows["status"] != "trained"
    rows = rows.loc[diverged | (rows["steps"] == rows["steps"].max())]
    found = {}
    for arm in ARMS:
        own = rows.loc[rows["arm"] == arm].groupby("seed")[["active_units"]].last()
        if own.empty:
            return None
        found[arm] = ~(own["active_units"] >= COLLAPSED)
    return found


def _rows(table: pd.DataFrame) -> pd.DataFrame | None:
    if table.empty or "active_units" not in table:
        return None
    rows = table.loc[table["pool"] == COLLAPSE]
    if rows.empty or not np.isfinite(rows["active_units"].to_numpy(dtype=float)).any():
        return None
    return rows.assign(arm=rows["slice"].str.partition("-")[0])


def _by_steps(table: pd.DataFrame) -> Exhibit:
    """Share of seeds that are collapsed as training goes on, by arm."""
    rows = _rows(table)
    assert rows is not None
    whole = rows.loc[rows["status"] == "trained"]
    lines = [
        (steps, float((part["active_units"] < COLLAPSED).mean()), WORDS[str(arm)])
        for (arm, steps), part in whole.groupby(["arm", "steps"], sort=True)
        if str(arm) in WORDS and not math.isnan(part["active_units"].mean())
    ]
    return Exhibit(
        "lines",
        pd.DataFrame(lines, columns=["x", "y", "group"]),
        "updates",
        "share of seeds that are collapsed",
        "When seeds are lost, and under which change they are not.",
    )
