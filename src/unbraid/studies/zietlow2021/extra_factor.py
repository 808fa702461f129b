# SPDX-License-Identifier: Apache-2.0
"""From which ε on VAEs encode an independent factor s, and prefer it (figure 4c).

s counts as encoded where one latent holds a tenth of its entropy; it is preferred where that latent
is the least noisy of all.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import mean_of, share_of
from unbraid.studies.study import Analysis
from unbraid.studies.zietlow2021.pools import FACTOR

ENCODED = 0.1
"""Share of the entropy of s in one latent."""
NEEDED = ("information", "factors", "variance_by_latent", "information_level")
SMALLEST = 0.075
"""Up to this ε the paper finds s not to be encoded."""


def preference(table: pd.DataFrame) -> Finding | None:
    """ZIE-F4c: how s is encoded as ε grows."""
    rows = preferring(table, FACTOR)
    return None if rows is None or len({*rows["epsilon"]}) < 2 else _found(rows)


def _found(rows: pd.DataFrame) -> Finding:
    grid = sorted({*rows["epsilon"]})
    turns, never = [], 0
    for _, own in rows.groupby("seed"):
        preferred = own.loc[own["preferred"], "epsilon"]
        never += preferred.empty
        turns.append(float(preferred.min()) if len(preferred) else grid[-1] + grid[0])
    low, top = rows.loc[rows["epsilon"] <= SMALLEST], rows.loc[rows["epsilon"] == grid[-1]]
    low = low.groupby("seed")["encoded"].any()
    told = f"{never} of {len(turns)} restarts never prefer s: told as above the largest epsilon."
    stand_in = str(rows["data"].iloc[0]).startswith("sprites")
    small = "Measured on sprites instead of dsprites." if stand_in else ""
    return Finding(
        (
            mean_of("epsilon from which s is the least noisy", turns, 0.1),
            _share("share of restarts that encode s at 0.075 or less", low, 0.0),
            _share(f"share of restarts that prefer s at {grid[-1]:g}", top["preferred"], 1.0),
        ),
        _levels(rows),
        " ".join(filter(None, (small, told if never else ""))),
    )


def _share(name: str, hits: pd.Series, paper: float) -> Estimate:
    return share_of(name, int(hits.to_numpy(dtype=bool).sum()), len(hits), paper)


def preferring(table: pd.DataFrame, pool: str) -> pd.DataFrame | None:
    """Trained models of a *pool* on data with s, and what is asked of them: `epsilon`, `encoded`,
    `preferred`; None where there are none.
    """
    if table.empty or not {*NEEDED} <= {*table.columns}:
        return None
    here = (table["pool"] == pool) & table["data"].str.contains("_s_", regex=False)
    rows = table.loc[here & (table["status"] == "trained")]
    rows = rows.loc[rows[[*NEEDED]].notna().all(axis=1)].reset_index(drop=True)
    if rows.empty:
        return None
    shares, preferred = [], []
    for one in rows.to_dict("records"):
        names = [*one["factors"]]
        share = np.asarray(one["information"], dtype=float).reshape(len(names), -1)
        own = share[names.index("s")]
        shares.append(own.max())
        quiet = int(np.argmin(np.asarray(one["variance_by_latent"], dtype=float)))
        preferred.append(own.max() >= ENCODED and quiet == int(own.argmax()))
    return rows.assign(
        epsilon=[float(str(name).rpartition("_")[2]) for name in rows["data"]],
        encoded=np.array(shares) >= ENCODED,
        preferred=preferred,
    )


def _levels(rows: pd.DataFrame) -> Exhibit:
    """Information level of every factor's latent over ε, mean over restarts."""
    lines = []
    for epsilon, part in rows.groupby("epsilon", sort=True):
        names = [*part["factors"].iloc[0]]
        levels = np.stack([np.asarray(one, dtype=float) for one in part["information_level"]])
        for name, values in zip(names, levels.T, strict=True):
            # Where s is not encoded the latent that shares most with it belongs to another factor.
            if name == "s":
                values = np.where(part["encoded"].to_numpy(), values, 0.0)
            one = mean_of("", values)
            lines.append((epsilon, one.value, name, one.low, one.high))
    return Exhibit(
        "lines",
        pd.DataFrame(lines, columns=["x", "y", "group", "low", "high"]),
        "epsilon",
        "information level of the factor's latent",
        "How well each factor is encoded as the pattern of s grows; 0 where s is not encoded.",
    )


ANALYSES: Mapping[str, Analysis] = {"ZIE-F4c": preference}
