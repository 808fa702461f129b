# SPDX-License-Identifier: Apache-2.0
"""rPU-VAE against the six methods of Locatello et al. 2019, read from that study's tables: the same
data, network, latents, batches and scores, 40,000 updates each (figure 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pandas as pd

from unbraid.studies.estermann2020.models import (
    LABELS,
    SCORES,
    Frame,
    failures,
    finals,
    stand_in,
)
from unbraid.studies.estermann2020.pools import LEAF_RUNS
from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import exactly, leave_out_seeds, ratio_of_spreads
from unbraid.studies.locatello2019.models import models

OURS = "rPU-VAE"


@cache
def six_methods(data: str) -> Frame:
    """Every trained model of the six methods on *data* with its scores; whole grids of settings."""
    from unbraid.studies import table

    found = models(table("locatello2019"), SCORES)
    if found is None:
        return pd.DataFrame(columns=["data", "objective", "seed", *SCORES])
    rows = found.rows.loc[found.rows["data"] == data, ["objective", "seed", *SCORES]]
    return rows.reset_index(drop=True)


def against_six_methods(table: Frame, data: str, others: Frame | None = None) -> Finding | None:
    """EST-F4a, EST-F4b: means and spread of final models against those of the six methods."""
    methods: Frame = six_methods(data) if others is None else others
    rows = finals(table)
    if len(rows):
        rows = rows.loc[(rows["leaf_runs"] == LEAF_RUNS) & (rows["data"] == data)]
    if rows.empty or methods.empty or rows["seed"].nunique() < 2:
        return None
    # Seeds of the two studies have nothing to do with each other, whatever their numbers.
    ours = rows[["seed", *SCORES]].assign(objective=OURS, data=OURS, seed=-1 - rows["seed"])
    both = pd.concat([ours, methods.assign(data="baselines")], ignore_index=True)
    medians = methods.groupby("objective")[[*SCORES]].median().max()
    above = {
        f"share of seeds with {LABELS[name]} above the best median": exactly(
            f"share of seeds with {LABELS[name]} above the best median",
            float((rows[name] > medians[name]).mean()),
            len(rows),
        )
        for name in SCORES
    }
    parts = [
        pd.DataFrame({"x": both["objective"], "y": both[name], "group": LABELS[name]})
        for name in SCORES
    ]
    remark = f"{len(methods)} models of locatello2019, {methods['seed'].nunique()} seeds a setting."
    return Finding(
        (*leave_out_seeds(both, _against), *_spreads(rows, methods), *above.values()),
        Exhibit(
            "violins",
            pd.concat(parts, ignore_index=True),
            "method",
            "score",
            "Final models without labels, and all models of the six methods.",
        ),
        " ".join(filter(None, (remark, failures(rows), stand_in([data], [data])))),
    )


def _against(rows: Frame) -> Mapping[str, float]:
    ours = rows.loc[rows["objective"] == OURS]
    others = rows.loc[rows["objective"] != OURS].groupby("objective")
    told = {}
    for name in SCORES:
        told[f"{LABELS[name]} less the best method's mean"] = float(
            ours[name].mean() - others[name].mean().max()
        )
    return told


def _spreads(rows: Frame, methods: Frame) -> list[Estimate]:
    """Spread of final models over that of a method's models, of all its strengths and seeds."""
    return [
        ratio_of_spreads(
            f"spread of {LABELS[name]} over that of the methods",
            [rows[name].to_numpy()],
            [part[name].to_numpy() for _, part in methods.groupby("objective")],
        )
        for name in SCORES
    ]
