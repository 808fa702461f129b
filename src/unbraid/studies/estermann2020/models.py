# SPDX-License-Identifier: Apache-2.0
"""Which rows of the study's table an analysis looks at: winners of searches, by arm or stage.

A recursion that came to no final population, or whose root found nothing, counts with a score of 0:
it is a failure of the method, and left out it would flatter it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from unbraid.studies.estermann2020.pools import (
    ARMS,
    CEILING,
    EVERY_FINAL,
    FINALS,
    LEAF_RUNS,
    RPU,
    SMALL,
    SUPERVISED,
)
from unbraid.studies.finding import Estimate
from unbraid.studies.intervals import leave_out_seeds

Frame = Any
"""A pandas DataFrame, or a row of one: a type checker cannot follow what is done with them."""
SCORES = ("mig", "dci")
LABELS = {"mig": "MIG", "dci": "DCI"}
_NEEDED = ("stage", "row", "score", "chosen", *SCORES)


def has_searches(table: Frame) -> bool:
    """Whether a table has the columns of searches."""
    return not table.empty and {*_NEEDED} <= {*table.columns}


def stand_in(found: Sequence[str], wanted: Sequence[str]) -> str:
    """What must be said of the data that were *found* in the place of those *wanted*."""
    said = []
    if SMALL in found and SMALL not in wanted:
        said.append(f"Measured on {SMALL} instead of {', '.join(wanted)}.")
    if "shapes3d_drawn" in found:
        said.append("shapes3d_drawn is a drawn stand-in for 3D Shapes.")
    return " ".join(said)


def arms(table: Frame) -> Frame | None:
    """Scores of the winners of supervised searches: a row a seed and arm, where all arms are."""
    if not has_searches(table):
        return None
    rows = table.loc[(table["pool"] == SUPERVISED) & (table["row"] != "individual")]
    arm = [name.partition("-seed-")[0] for name in rows["slice"]]
    rows = rows.assign(
        arm=[max((one for one in ARMS if whole.endswith(f"-{one}")), key=len) for whole in arm]
    )
    rows = rows.assign(**{name: rows[name].fillna(0.0) for name in SCORES})
    whole = rows.groupby("seed")["arm"].nunique() == len(ARMS)
    rows = rows.loc[rows["seed"].map(whole).to_numpy(dtype=bool)]
    return rows[["data", "seed", "arm", *SCORES]].reset_index(drop=True) if len(rows) else None


def finals(table: Frame, pool: str = RPU) -> Frame:
    """Scores of final populations, a row a seed, data set and number of leaf-runs, with what they
    know; of the pool *pool* (and `finals`, which completes `rpu`).
    """
    if not has_searches(table):
        return pd.DataFrame(columns=["data", "seed", "leaf_runs", *SCORES, "failed"])
    pools = (RPU, FINALS) if pool == RPU else (pool,)
    rows = table.loc[table["pool"].isin(pools)]
    last = rows.loc[rows["stage"].str.startswith("final-") & (rows["row"] != "individual")]
    made = {*zip(last["pool"], last["slice"], strict=True)}
    lost = rows.loc[[key not in made for key in zip(rows["pool"], rows["slice"], strict=True)]]
    lost = lost.drop_duplicates(["pool", "slice"]).assign(
        stage=f"final-{LEAF_RUNS}", row="none", mig=np.nan, dci=np.nan
    )
    found = pd.concat([last, lost], ignore_index=True)
    return found.assign(
        leaf_runs=[int(stage.removeprefix("final-")) for stage in found["stage"]],
        failed=found["row"] == "none",
        **{name: found[name].fillna(0.0) for name in SCORES},
    )


def whole_finals(table: Frame, numbers: Sequence[int] = EVERY_FINAL) -> Frame:
    """Those of seeds that have a final population with each of *numbers* of leaf-runs."""
    rows = finals(table)
    rows = rows.loc[rows["leaf_runs"].isin(numbers)]
    if rows.empty:
        return rows
    count = rows.groupby(["data", "seed"])["leaf_runs"].transform("nunique")
    return rows.loc[(count == len(numbers)).to_numpy()].reset_index(drop=True)


def failures(rows: Frame) -> str:
    """How many recursions came to nothing, as a sentence."""
    count = int(rows["failed"].sum()) if "failed" in rows else 0
    return f"Final populations that never came to be and count as 0: {count}." if count else ""


def ceiling(table: Frame) -> Frame:
    """Scores of searches by MIG that train as long as final populations."""
    if not has_searches(table):
        return pd.DataFrame(columns=["data", "seed", *SCORES])
    rows = table.loc[(table["pool"] == CEILING) & (table["row"] != "individual")]
    return rows.assign(**{name: rows[name].fillna(0.0) for name in SCORES}).reset_index(drop=True)


def labellers(table: Frame, pool: str = RPU) -> Frame:
    """The models whose latents are labels: of the root and of every level of leaf-runs."""
    if not has_searches(table):
        return pd.DataFrame(columns=["data", "seed", "stage"])
    searched = table["stage"].eq("root") | table["stage"].astype(str).str.startswith("leaf-")
    searched |= table["stage"].eq("search") & table["pool"].eq(pool)
    rows = table.loc[
        (table["pool"] == pool) & searched & (table["row"] == "winner") & (table["chosen"] == 1)
    ]
    return rows.reset_index(drop=True)


def present(rows: Frame, data: Sequence[str]) -> list[str]:
    """Those of *data* that *rows* have; the small sprites where they have none."""
    there = {*rows["data"]}
    return [name for name in data if name in there] or [name for name in (SMALL,) if name in there]


def paired(
    rows: Frame,
    statistics: Callable[[Frame], Mapping[str, float]],
    paper: Mapping[str, float] | None = None,
) -> tuple[Estimate, ...]:
    """Estimates with seeds left out, each from all arms at once."""
    return leave_out_seeds(rows, statistics, paper=paper)


def ratio(one: float, other: float) -> float:
    """*one* over *other*; NaN where that is nothing."""
    return one / other if other > 0 else float("nan")
