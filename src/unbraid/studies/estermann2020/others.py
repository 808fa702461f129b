# SPDX-License-Identifier: Apache-2.0
"""A recursion on data without factors (CelebA)."""

from __future__ import annotations

import pandas as pd

from unbraid.studies.estermann2020.models import Frame, labellers
from unbraid.studies.estermann2020.pools import CELEBA
from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import exactly


def celeba_labels(table: Frame) -> Finding | None:
    """EST-F13: how many factors a recursion on CelebA labels, level by level, and how surely."""
    rows = labellers(table, CELEBA)
    if rows.empty:
        return None
    root, leaves = rows.loc[rows["stage"] == "root"], rows.loc[rows["stage"] != "root"]
    shown = pd.DataFrame({"x": rows["stage"], "y": rows["labels"], "group": "labels"})
    return Finding(
        (
            exactly("labels of the root", float(root["labels"].sum()), len(root)),
            exactly("labels of leaf-runs", float(leaves["labels"].sum()), len(leaves)),
            exactly("least agreement of a level", float(rows["score"].min()), len(rows)),
        ),
        Exhibit("bars", shown, "stage", "labels", "Active latents of the best model of a stage."),
        "What they mean must be looked at: `unbraid rpu celeba` writes their pages.",
    )
