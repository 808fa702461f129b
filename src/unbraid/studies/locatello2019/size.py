# SPDX-License-Identifier: Apache-2.0
"""How large the study is (slide 35)."""

from __future__ import annotations

import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import exactly
from unbraid.studies.locatello2019.models import models
from unbraid.studies.locatello2019.pools import GRIDS, PAPER_SEEDS, SIX, STRENGTHS
from unbraid.studies.locatello2019.published import DATA

_SETTINGS = sum(len(values) for _, values in STRENGTHS.values())


def size(table: pd.DataFrame) -> Finding | None:
    """LOC-N: models with all six scores, once all that the paper trained have been tried."""
    found = models(table, SIX, at_least=len(DATA))
    if found is None or not {*DATA} <= {*found.data}:
        return None
    tried = (table["data"].isin(DATA) & table["pool"].isin(GRIDS)).to_numpy().sum()
    if tried < len(DATA) * _SETTINGS * PAPER_SEEDS:
        return None
    counts = [[*found.rows["data"]].count(data) for data in DATA]
    bars = pd.DataFrame({"x": DATA, "y": counts, "group": "models"})
    return Finding(
        (exactly("models with six scores", float(sum(counts)), sum(counts), 12_600),),
        Exhibit("bars", bars, "data", "models", "Models with all six scores, by data."),
        found.remark,
    )
