# SPDX-License-Identifier: Apache-2.0
"""Papers re-run: one folder a study, one line here.

`unbraid.studies.table("locatello2019")` is every model of a study with all its scores.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.core.registry import Registry

if TYPE_CHECKING:
    import pandas as pd

STUDIES = Registry(
    "study",
    "unbraid.studies",
    {
        "locatello2019": "unbraid.studies.locatello2019:STUDY",
        "estermann2020": "unbraid.studies.estermann2020:STUDY",
        "mathieu2019": "unbraid.studies.mathieu2019:STUDY",
        "michlo2023": "unbraid.studies.michlo2023:STUDY",
        "zietlow2021": "unbraid.studies.zietlow2021:STUDY",
    },
    base="unbraid.studies.study:Study",
    objects=True,
)


def table(name: str, *, scale: str = "gpu", results: str | Path | None = None) -> pd.DataFrame:
    """Every model of the study *name* at a *scale* (small, gpu, paper) with all its scores.

    The tables are those that come with Unbraid, or lie in the folder *results*;
    `unbraid.studies.results` says what the columns mean.
    """
    from unbraid.studies.results import Results

    return Results(STUDIES.load(name), scale, results).table()
