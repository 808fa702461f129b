# SPDX-License-Identifier: Apache-2.0
"""Total correlation of sampled and of mean codes against the strength (slide 45, figure 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, mean_of, spearman
from unbraid.studies.locatello2019.models import models

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CODES = {"mean codes": "total_correlation", "sampled codes": "total_correlation_sampled"}
SIGNS = {"mean codes": 1, "sampled codes": -1}
"""Of the trends that the paper shows."""
JUDGED = ("beta_vae", "factor_vae", "beta_tcvae", "dip_vae_ii")
"""DIP-VAE-I penalises correlations of the means themselves, and is reported beside them."""
SHOWN = (*JUDGED, "dip_vae_i")


def total_correlation(table: pd.DataFrame) -> Finding | None:
    """LOC-K1: with more strength sampled codes depend less on each other, mean codes more."""
    found = models(table, [*CODES.values()], data=["color_dsprites"])
    if found is None:
        return None
    rows = found.rows.loc[found.rows["objective"].isin(SHOWN)]
    if {*rows["objective"]} != {*SHOWN}:
        return None
    exception = "DIP-VAE-I penalises correlations of the means and is not part of the verdict."
    estimates = leave_out_seeds(rows, _trends, within=(-1.0, 1.0))
    told = [found.remark, exception, _against(estimates)]
    return Finding(estimates, _exhibit(rows), " ".join(filter(None, told)))


def _against(estimates: Iterable[Estimate]) -> str:
    """Which of the objectives that are judged have a trend the other way, hidden by the mean."""
    value = {one.name: one.value for one in estimates}
    told = [
        f"{codes} of {objective} ({value[name]:+.2f})"
        for codes, sign in SIGNS.items()
        for objective in JUDGED
        if sign * value[name := f"{objective}: {codes}"] < 0
    ]
    return f"Against the mean goes the trend of {', '.join(told)}." if told else ""


def _trends(rows: pd.DataFrame) -> Mapping[str, float]:
    """Rank correlations of strength and total correlation, and their means over objectives."""
    trend = {
        (codes, objective): spearman(part["strength"], part[column])
        for objective, part in rows.groupby("objective", sort=False)
        for codes, column in CODES.items()
    }
    means = {
        f"trend of {codes}": float(np.mean([trend.get((codes, one), np.nan) for one in JUDGED]))
        for codes in CODES
    }
    each = {f"{objective}: {codes}": value for (codes, objective), value in trend.items()}
    return means | each


def _exhibit(rows: pd.DataFrame) -> Exhibit:
    lines = []
    for _, part in rows.groupby(["objective", "position"], sort=False):
        objective, position = part["objective"].iloc[0], part["position"].iloc[0]
        for codes, column in CODES.items():
            one = mean_of("", part[column])
            lines.append((position + 1, one.value, f"{objective}, {codes}", one.low, one.high))
    table = pd.DataFrame(lines, columns=["x", "y", "group", "low", "high"])
    return Exhibit(
        "lines",
        table.sort_values(["group", "x"], ignore_index=True),
        "strength, weakest to strongest of the sweep",
        "Gaussian total correlation, nats",
        "Total correlation of mean and of sampled codes as the strength grows.",
        logarithmic=("y",),
    )
