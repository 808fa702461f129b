# SPDX-License-Identifier: Apache-2.0
"""Beyond the paper: a prior of the data's own form beside objectives that ask for independence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import mean_of
from unbraid.studies.mathieu2019.pools import SPECIES, USES
from unbraid.studies.mathieu2019.rows import rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

MATCHED = "decomposition"
SETTING = "setting"
NAMES = {"clustering": "clustering", "few_shot": "few-shot classification"}


def matched_prior(table: pd.DataFrame) -> Finding | None:
    """MAT-B1: what the codes are good for, matched prior less the best that asks independence."""
    found = rows_of(table, SPECIES, USES, ("objective", "strength", "beta"))
    if found is None:
        return None
    rows = found.rows.assign(**{SETTING: _settings(found.rows)})
    matched = (rows["objective"] == MATCHED).to_numpy(dtype=bool)
    if matched.all() or not matched.any():
        return None
    estimates, cells = [], {}
    for use in USES:
        ours, theirs = (chosen(rows.loc[one], use) for one in (matched, ~matched))
        told = f"{NAMES[use]}: matched prior less the best objective for independence"
        estimates.append(_difference(told, ours, theirs))
        cells[NAMES[use]] = {
            str(name): mean_of("", [*chosen(part, use).values()]).value
            for name, part in rows.groupby("objective", sort=True)
        }
    shown = pd.DataFrame(cells)
    shown = shown.sort_values(by=[*cells], ascending=False)
    return Finding(
        tuple(estimates),
        Exhibit("matrix", shown, "use of the codes", "objective",
                "What codes of species are good for, each objective at its best setting."),
        found.remark,
    )  # fmt: skip


def _settings(rows: pd.DataFrame) -> list[str]:
    pairs = zip(rows["objective"], rows["strength"], rows["beta"], strict=True)
    return [f"{one} {strength:g} {beta}" for one, strength, beta in pairs]


def chosen(rows: pd.DataFrame, use: str) -> dict[int, float]:
    """By seed: the score of the setting that is the best by all other seeds, so that luck gains
    nothing.
    """
    table = rows.pivot_table(index=SETTING, columns="seed", values=use)
    scores, seeds = table.to_numpy(), [int(one) for one in table.columns]
    found = {}
    for place, seed in enumerate(seeds):
        others = np.delete(scores, place, axis=1)
        means = _means(others)
        if np.isfinite(means).any():
            found[seed] = float(scores[int(np.nanargmax(means)), place])
    return {seed: value for seed, value in found.items() if np.isfinite(value)}


def _means(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over known ones; NaN where there is none."""
    known = np.isfinite(scores)
    counts = known.sum(axis=1)
    totals = np.where(known, scores, 0.0).sum(axis=1)
    return np.divide(totals, counts, out=np.full(len(scores), np.nan), where=counts > 0)


def _difference(name: str, ours: dict[int, float], theirs: dict[int, float]) -> Estimate:
    both: Sequence[int] = sorted(ours.keys() & theirs.keys())
    return mean_of(name, [ours[seed] - theirs[seed] for seed in both])
