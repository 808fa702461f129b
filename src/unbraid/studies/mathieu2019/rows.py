# SPDX-License-Identifier: Apache-2.0
"""Which rows of the study's table an analysis looks at: trained models of seeds that have all
settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from unbraid.studies.finding import Estimate
from unbraid.studies.intervals import mean_of

STAND_INS = {
    "sprites": "Measured on small sprites instead of dSprites.",
    "species": "Measured on drawn species instead of Fashion-MNIST.",
}


@dataclass(frozen=True)
class Rows:
    """Models that have every column asked for, and what a reader must know of them."""

    rows: pd.DataFrame
    remark: str

    def where(self, keep: Callable[[pd.DataFrame], pd.Series]) -> pd.DataFrame:
        """Those that *keep* says."""
        return self.rows.loc[keep(self.rows)]


def rows_of(
    table: pd.DataFrame, pool: str, columns: Sequence[str], settings: Sequence[str]
) -> Rows | None:
    """Models of *pool* after their last update that have all *columns*; None where there are none.

    A seed counts once it was tried with every combination of *settings* that any seed has, so that
    no half of a grid is judged. Models that diverged or lack a number are left out.
    """
    needed = {*columns, *settings}
    if table.empty or not needed <= {*table.columns}:
        return None
    own = table.loc[table["pool"] == pool]
    if own.empty or own[[*columns]].isna().all().any():
        return None
    diverged = own["status"] != "trained"  # before the last update
    own = own.loc[diverged | (own["steps"] == own.groupby("slice")["steps"].transform("max"))]
    told = [str(one) for one in zip(*(own[name] for name in settings), strict=True)]
    tried = pd.Series(told, index=own.index)
    every = tried.nunique()
    whole = tried.groupby(own["seed"]).transform("nunique") == every
    own = own.loc[whole]
    fine = np.isfinite(own[[*columns]].to_numpy(dtype=float)).all(axis=1)
    kept = own.loc[fine & (own["status"] == "trained").to_numpy()]
    if kept.empty:
        return None
    left = len(own) - len(kept)
    remark = f"Models left out, since they diverged or lack a number: {left}." if left else ""
    return Rows(kept.sort_values(["seed", "slice"], kind="stable").reset_index(drop=True), remark)


def stand_in(found: Rows, wanted: str) -> str:
    """The remark, and what was measured instead of the data *wanted*."""
    there = found.rows["data"].iloc[0]
    told = [] if there == wanted else [STAND_INS.get(there, f"Measured on {there}.")]
    return " ".join([*told, *([found.remark] if found.remark else [])])


def paired(
    name: str,
    one: pd.DataFrame,
    other: pd.DataFrame,
    column: str,
    by: Sequence[str] = (),
    share: bool = False,
) -> Estimate:
    """Mean over seeds of what *one* has more of *column* than *other*, averaged over what else they
    share (*by*); as a *share* of the other's where asked.
    """
    keys = ["seed", *by]
    means: list[Any] = [part.groupby(keys)[[column]].mean() for part in (one, other)]
    both = pd.concat(means, axis=1, join="inner").set_axis(["one", "other"], axis=1)
    gain = both["one"] - both["other"]
    if share:
        gain = gain / both["other"]
    seeds = both.index.get_level_values("seed").to_numpy()
    values = gain.to_numpy(dtype=float)
    fine = np.isfinite(values)
    return mean_of(name, [values[fine & (seeds == one)].mean() for one in np.unique(seeds[fine])])


def seed_means(name: str, rows: pd.DataFrame, column: str) -> Estimate:
    """Mean over seeds of *column*, with Student's interval."""
    means: Any = rows.groupby("seed")[[column]].mean()
    return mean_of(name, means[column].to_numpy(dtype=float))
