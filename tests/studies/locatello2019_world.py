# SPDX-License-Identifier: Apache-2.0
"""A results folder of Locatello et al. 2019 with models that never were, for looking at pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from unbraid.studies.locatello2019.models import SCORES
from unbraid.studies.results import ABOUT_THE_MODEL, Results

from . import locatello2019_tables as tables

PROVENANCE: dict[str, Any] = {
    "versions": {"unbraid": "0.1.0", "torch": "2.6.0", "numpy": "2.0.0"},
    "device": "a GPU",
    "precision": "bfloat16",
    "date": "2026-11-16T12:00:00+00:00",
    "training_seconds": 360.0,
    "scoring_seconds": 90.0,
}


def world(true: bool = True) -> pd.DataFrame:
    """Five seeds of all settings on five data sets, and Burgess's; most claims are *true*."""
    table = tables.by_objective(true)
    draw = tables.normal(table, 9)
    sign = 1.0 if true else -1.0
    table = table.assign(
        total_correlation=10 + sign * tables.place(table) + draw(),
        total_correlation_sampled=10 - sign * tables.place(table) + draw(),
        **{"elbo.reconstruction": draw(), "elbo.kl": draw(), "elbo": draw()},
        udr=draw(),
    )
    own = {
        "noisy_dsprites": tables.metric_agreement(true),
        "shapes3d_drawn": tables.unsupervised(true),
        "dsprites": tables.downstream(true).query("seed < 5"),
    }
    for data, part in own.items():
        here = (table["data"] == data).to_numpy()
        for name in part.columns.difference([*ABOUT_THE_MODEL]):
            if name not in table:
                table[name] = np.nan
            table.loc[here, name] = part[name].to_numpy()
    for name in SCORES:
        table[name] = 0.5 + 0.1 * table[name]
    burgess = pd.concat([tables.position(true), tables.capacity(true)], ignore_index=True)
    burgess["strength_name"] = np.where(burgess["objective"] == "beta_vae", "beta", "max_capacity")
    burgess.loc[burgess["objective"] == "beta_vae", "data"] = "sprites"
    both = pd.concat([tables.WORLDS.spoiled(table), burgess], ignore_index=True)
    return both.fillna({"learning_rate": 1e-4, "slice": "x"})


def write_world(results: Results, true: bool = True) -> None:
    """The tables of every slice that `world` has the models of."""
    table = world(true)
    again = table.loc[(table["pool"] == "main") & (table["data"] == "dsprites")]
    table = pd.concat([table, again.assign(seed=again["seed"] + 5)], ignore_index=True)
    for pool, one in results.slices():
        rows = table.loc[(table["pool"] == pool.name) & (table["data"] == one.plan["data"])]
        rows = rows.loc[rows["seed"].isin(one.plan["seeds"])]
        if pool.name == "main":
            place = int(one.name.split("strengths-")[1][0]) - 1
            rows = rows.loc[np.isin(tables.place(rows), (place, place + 1))]
        if rows.empty:
            continue
        steps = one.plan["steps"] * rows["steps"].to_numpy() // 1000
        kept = rows.assign(slice=one.name, steps=steps).dropna(axis=1, how="all")
        kept = kept.sort_values("steps", kind="stable")  # one stage below the other, as slices are
        results.write(pool, one, kept.reset_index(drop=True), PROVENANCE)
