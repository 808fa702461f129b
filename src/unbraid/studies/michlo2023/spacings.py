# SPDX-License-Identifier: Apache-2.0
"""How disentangled models are at each spacing of XYSquares (figure 9)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, spearman
from unbraid.studies.michlo2023.models import NAMES, Models, models
from unbraid.studies.michlo2023.pools import SPACINGS
from unbraid.studies.michlo2023.published import BY_SPACING

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCORES = ("mig", "dci")
NEEDED = {1.0, 4.0, 8.0}
"""Spacings without which nothing is judged."""


def ada_by_spacing(table: pd.DataFrame) -> Finding | None:
    """MIC-F9a: Ada-GVAE."""
    return _by_spacing(table, "ada")


def beta_by_spacing(table: pd.DataFrame) -> Finding | None:
    """MIC-F9b: β-VAE, and how far it is below Ada-GVAE at spacing 1."""
    return _by_spacing(table, "beta")


def _by_spacing(table: pd.DataFrame, kind: str) -> Finding | None:
    found = models(table, [SPACINGS], SCORES)
    if found is None or any(
        not NEEDED <= {*found.rows.loc[found.rows["kind"] == one, "spacing"]} for one in NAMES
    ):
        return None
    paper = {
        f"{score.upper()} at spacing {spacing}": value
        for score in SCORES
        for spacing, value in enumerate(BY_SPACING[kind, score], start=1)
    }
    statistics = partial(_statistics, kind=kind)
    return Finding(
        leave_out_seeds(found.rows, statistics, paper=paper, within=(-1.0, 1.0)),
        _lines(found, kind),
        found.remark,
    )


def _statistics(rows: pd.DataFrame, kind: str) -> Mapping[str, float]:
    own = rows.loc[rows["kind"] == kind]
    told: dict[str, float] = {}
    for score in SCORES:
        name = score.upper()
        means = own.groupby("spacing")[score].mean()
        told |= {
            f"{name} at spacing 1 less at 8": means[1.0] - means[8.0],
            f"{name} at spacing 1 less at 4": means[1.0] - means[4.0],
            f"{name} at spacing 4 less at 8": means[4.0] - means[8.0],
            f"rank correlation of spacing and {name}": spearman(own["spacing"], own[score]),
        }
        told |= {f"{name} at spacing {at:g}": value for at, value in means.items()}
    first = rows.loc[rows["spacing"] == 1.0].groupby("kind")["mig"].mean()
    return told | {"MIG at spacing 1, Ada-GVAE less β-VAE": first["ada"] - first["beta"]}


def _lines(found: Models, kind: str) -> Exhibit:
    """Mean, least and most of the runs of both β, beside the paper's medians."""
    rows, own = [], found.rows.loc[found.rows["kind"] == kind]
    for score in SCORES:
        for spacing, part in own.groupby("spacing")[score]:
            values: NDArray[np.float64] = part.to_numpy()
            rows.append((spacing, values.mean(), f"here, {score}", values.min(), values.max()))
        rows += [
            (spacing, value, f"paper, {score}", np.nan, np.nan)
            for spacing, value in enumerate(BY_SPACING[kind, score], start=1)
        ]
    return Exhibit(
        "lines",
        pd.DataFrame(rows, columns=["x", "y", "group", "low", "high"]),
        "spacing, pixels",
        "score",
        f"Mean scores of {NAMES[kind]} on XYSquares by spacing; bands hold all runs.",
    )
