# SPDX-License-Identifier: Apache-2.0
"""How much of each metric's variance objectives explain, and how much settings do (slide 48).

R² is adjusted for its degrees of freedom. Beside it stands what shuffled scores give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import (
    leave_out_seeds,
    permutation_null,
    spearman,
    variance_explained,
)
from unbraid.studies.locatello2019.models import OBJECTIVES, PLACES, SCORES, models
from unbraid.studies.locatello2019.published import BY_OBJECTIVE, BY_SETTING, Table, as_matrix

if TYPE_CHECKING:
    from collections.abc import Mapping

OBJECTIVE = ("objective",)
SETTING = ("objective", "position")
GAIN = "gain over the objective alone"


def variance_by_objective(table: pd.DataFrame) -> Finding | None:
    """LOC-Ta: the share that the objective alone explains."""
    return _finding(table, OBJECTIVE, BY_OBJECTIVE, "objective")


def variance_by_setting(table: pd.DataFrame) -> Finding | None:
    """LOC-Tb: the share that objective and strength explain; what remains is the seed's."""
    return _finding(table, SETTING, BY_SETTING, "objective and strength")


def shares(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Adjusted R² of the groups that *columns* make: a row for each data set, a column a metric."""
    names, scores = rows["data"].to_numpy(), rows[[*SCORES]].to_numpy(dtype=float)
    group = np.array([OBJECTIVES.index(name) for name in rows["objective"]])
    if "position" in columns:
        group = PLACES * group + rows["position"].to_numpy()
    found = {
        data: [
            variance_explained(column, group[names == data]) for column in scores[names == data].T
        ]
        for data in dict.fromkeys(names)
    }
    return pd.DataFrame.from_dict(found, orient="index", columns=[*SCORES])


def _mean(cells: pd.DataFrame) -> float:
    """Over data and metrics; those that do not vary are left out."""
    known = cells.to_numpy(dtype=float)
    known = known[np.isfinite(known)]
    return float(known.mean()) if known.size else np.nan


def _finding(
    table: pd.DataFrame, columns: Sequence[str], published: Table, what: str
) -> Finding | None:
    found = models(table, SCORES)
    if found is None:
        return None
    paper = {f"{data}: {metric}": share for (data, metric), share in published.items()}
    shared = [share for (data, _), share in published.items() if data in found.data]
    if shared:
        paper["mean share"] = float(np.mean(shared))
        paper["remainder of the seed"] = 1.0 - paper["mean share"]

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        return _statistics(rows, columns, published)

    null = permutation_null(
        "mean share of shuffled scores",
        found.rows,
        SCORES,
        lambda rows: _mean(shares(rows, columns)),
    )
    percent = (100 * shares(found.rows, columns)).round(1)
    return Finding(
        (
            *leave_out_seeds(
                found.rows, statistics, paper=paper, within=(-1.0, 1.0), differences=[GAIN]
            ),
            null,
        ),
        Exhibit(
            "matrix",
            percent,
            "metric",
            "data",
            f"Variance explained by {what}, % (adjusted R²).",
            paper=100 * as_matrix(published),
        ),
        found.remark,
    )


def _statistics(
    rows: pd.DataFrame, columns: Sequence[str], published: Table
) -> Mapping[str, float]:
    ours = shares(rows, columns)
    cells = {(str(data), metric): ours.loc[data, metric] for data in ours.index for metric in ours}
    both = [cell for cell in cells if cell in published]
    mean = _mean(ours)
    told = {
        "mean share": mean,
        "rank correlation with the paper's table": spearman(
            [cells[cell] for cell in both], [published[cell] for cell in both]
        ),
    }
    if tuple(columns) == SETTING:
        told[GAIN] = _mean(ours - shares(rows, OBJECTIVE))
        told["remainder of the seed"] = 1.0 - mean
    return told | {f"{data}: {metric}": float(share) for (data, metric), share in cells.items()}
