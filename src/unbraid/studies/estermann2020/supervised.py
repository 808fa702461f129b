# SPDX-License-Identifier: Apache-2.0
"""Population-based training by labels (sections 3.1 and 3.2, figure 1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from unbraid.studies.estermann2020.models import (
    LABELS,
    SCORES,
    Frame,
    arms,
    paired,
    stand_in,
)
from unbraid.studies.estermann2020.pools import ARMS, FEW
from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import ratio_of_spreads

NAMES = {
    "mig": "PBT by MIG",
    "dci": "PBT by DCI",
    "mig-1000": "PBT by 1,000 labels",
    "random": "random search",
    "chosen-1000": "chosen by 1,000 labels",
    "few": "few-label baseline",
}
DSPRITES = ("dsprites",)


def judges(table: Frame) -> Finding | None:
    """EST-F1a: searches by MIG against searches by DCI."""
    rows = _rows(table)
    if rows is None:
        return None
    return Finding(
        (
            *paired(rows, _judges),
            _spreads("spread of MIG, judged by MIG over by DCI", rows, "mig", "dci"),
        ),
        _violins(rows, ("mig", "dci")),
        stand_in([*rows["data"]], DSPRITES),
    )


def _judges(rows: Frame) -> Mapping[str, float]:
    by_mig, by_dci = (rows.loc[rows["arm"] == arm] for arm in ("mig", "dci"))
    return {
        "MIG, judged by MIG less by DCI": by_mig["mig"].mean() - by_dci["mig"].mean(),
        "DCI, judged by MIG less by DCI": by_mig["dci"].mean() - by_dci["dci"].mean(),
    }


def _spreads(name: str, rows: Frame, one: str, other: str) -> Estimate:
    """Spread of MIG over seeds of one arm over that of another."""
    own, theirs = ([rows.loc[rows["arm"] == arm, "mig"].to_numpy()] for arm in (one, other))
    return ratio_of_spreads(name, own, theirs)


def sensitivity(table: Frame) -> Finding | None:
    """EST-F1c: population-based training against random search with as many images."""
    rows = _rows(table)
    if rows is None:
        return None
    return Finding(
        (
            *paired(rows, _sensitivity),
            _spreads("spread of MIG, PBT over random search", rows, "mig", "random"),
        ),
        _violins(rows, ("mig", "random")),
        stand_in([*rows["data"]], DSPRITES),
    )


def _sensitivity(rows: Frame) -> Mapping[str, float]:
    pbt, other = (rows.loc[rows["arm"] == arm] for arm in ("mig", "random"))
    return {
        "MIG, PBT less random search": pbt["mig"].mean() - other["mig"].mean(),
        "DCI, PBT less random search": pbt["dci"].mean() - other["dci"].mean(),
    }


def few_labels(table: Frame) -> Finding | None:
    """EST-F1b: all labels, 1,000 for the search, 1,000 to train with, 1,000 to choose by."""
    rows = _rows(table)
    baseline = _baseline(table)
    if rows is None or baseline is None:
        return None
    both = pd.concat([rows, baseline], ignore_index=True)
    both = both.loc[both["seed"].isin(sorted({*rows["seed"]} & {*baseline["seed"]}))]
    weight = best_weight(both)
    best = both.loc[(both["arm"] != "few") | (both["weight"] == weight)]
    remark = f"Of the six weights of the few-label baseline the best is shown, {weight:g}."
    return Finding(
        (
            *paired(both, _few_labels),
            _spreads(
                "spread of MIG, all labels over choosing by 1,000", both, "mig", "chosen-1000"
            ),
        ),
        _violins(best, ("chosen-1000", "few", "mig-1000", "mig")),
        f"{remark} {stand_in([*rows['data']], DSPRITES)}".strip(),
    )


def _baseline(table: Frame) -> Frame | None:
    """Rows of the few-label baseline, with the weight of its labels."""
    if "supervision_weight" not in table:
        return None
    rows = table.loc[(table["pool"] == FEW) & (table["status"] == "trained")]
    if rows.empty:
        return None
    found = rows[["data", "seed", *SCORES]].assign(arm="few", weight=rows["supervision_weight"])
    return found.dropna(subset=[*SCORES])


def best_weight(rows: Frame) -> float:
    """The weight of labels with the highest mean MIG."""
    own = rows.loc[rows["arm"] == "few"]
    return float(own.groupby("weight")["mig"].mean().idxmax())


def _few_labels(rows: Frame) -> Mapping[str, float]:
    weight = best_weight(rows)
    kept = rows.loc[(rows["arm"] != "few") | (rows["weight"] == weight)]
    own = {arm: kept.loc[kept["arm"] == arm] for arm in (*ARMS, "few")}
    told = {}
    for name in SCORES:
        mean = {arm: float(part[name].mean()) for arm, part in own.items()}
        told |= {
            f"{LABELS[name]}, all labels less 1,000": mean["mig"] - mean["mig-1000"],
            f"{LABELS[name]}, 1,000 labels less few-label baseline": mean["mig-1000"] - mean["few"],
            f"{LABELS[name]}, 1,000 labels less choosing by them": (
                mean["mig-1000"] - mean["chosen-1000"]
            ),
        }
    return told


def _rows(table: Frame) -> Frame | None:
    found = arms(table)
    return None if found is None or found["seed"].nunique() < 2 else found


def _violins(rows: Frame, which: tuple[str, ...]) -> Exhibit:
    kept = rows.loc[rows["arm"].isin(which)]
    kept = kept.iloc[np.argsort([which.index(arm) for arm in kept["arm"]], kind="stable")]
    parts = [
        pd.DataFrame(
            {"x": [NAMES[arm] for arm in kept["arm"]], "y": kept[name], "group": LABELS[name]}
        )
        for name in SCORES
    ]
    shown = pd.concat(parts, ignore_index=True)
    return Exhibit("violins", shown, "search", "score", "Scores of the winners, a seed each.")
