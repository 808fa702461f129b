# SPDX-License-Identifier: Apache-2.0
"""Which rows of the study's table an analysis looks at, and what is said beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unbraid.studies.finding import Estimate
from unbraid.studies.zietlow2021.pools import GRIDS, PUBLISHED, SCALED_METHODS
from unbraid.studies.zietlow2021.settings import (
    DSPRITES,
    SHAPES,
    SMALL,
    STRENGTH,
    VERSIONS,
    Originals,
    data_name,
)

AUTOENCODER = "ae"
METHODS = (AUTOENCODER, *SCALED_METHODS)
ON_DSPRITES = (DSPRITES, SMALL)
"""In order of preference; the sprites of the scale `small` take the place of dSprites."""
ON_SHAPES = (SHAPES.on(PUBLISHED), SHAPES)
"""The published file where there are models of it, else the drawn stand-in."""
_APART = 0.4
"""Share of the range that a gap between two groups of scores has at least."""


@dataclass(frozen=True)
class Models:
    """Models of one data set in its versions."""

    own: Originals
    rows: pd.DataFrame
    """With `version` and `scale`, the strength as a multiple of the stated one (1 without)."""
    remark: str

    def of(self, version: str, method: str, scale: float | None = None) -> pd.DataFrame:
        """Models of one version and method, at one scale where it is given."""
        rows = self.rows
        keep = (rows["version"] == version) & (rows["objective"] == method)
        return rows.loc[keep if scale is None else keep & (rows["scale"] == scale)]


def models(
    table: pd.DataFrame,
    among: Sequence[Originals],
    versions: Sequence[str],
    methods: Sequence[str],
    columns: Sequence[str] = ("mig",),
) -> Models | None:
    """Trained models of the first of *among* that has all *methods* at the stated strength on all
    *versions*, with *columns*; None where none has.
    """
    if table.empty or not {*columns} <= {*table.columns}:
        return None
    for own in among:
        found = _on(table, own, versions, methods, columns)
        if found is not None:
            return found
    return None


def _on(
    table: pd.DataFrame,
    own: Originals,
    versions: Sequence[str],
    methods: Sequence[str],
    columns: Sequence[str],
) -> Models | None:
    names = {data_name(own.data, version): version for version in versions}
    here = table["pool"].isin(GRIDS) & table["data"].isin([*names])
    rows = table.loc[here & table["objective"].isin([*methods])]
    fine = rows["status"] == "trained"
    for column in columns:
        fine &= rows[column].notna()
    kept = rows.loc[fine]
    kept = kept.assign(
        version=[names[name] for name in kept["data"]],
        scale=[
            round(strength / own.stated[method], 6) if method in own.stated else 1.0
            for method, strength in zip(kept["objective"], kept["strength"], strict=True)
        ],
    )
    found = Models(own, kept.reset_index(drop=True), _remark(own, among_rows=len(rows) - len(kept)))
    whole = all(len(found.of(version, one, 1.0)) for version in versions for one in methods)
    return found if whole else None


def _remark(own: Originals, *, among_rows: int) -> str:
    told = []
    if own.data == SHAPES.data:
        told.append("shapes3d_drawn is a drawn stand-in for 3D Shapes.")
    if own.data == SMALL.data:
        told.append("Measured on sprites instead of dsprites.")
    if among_rows:
        told.append(f"Models left out, since they diverged or lack a score: {among_rows}.")
    return " ".join(told)


def strength_words(own: Originals, method: str, scale: float = 1.0) -> str:
    """A method's strength as people write it, such as beta = 8; empty for an autoencoder.

    >>> strength_words(DSPRITES, "factor_vae", 2.0)
    'gamma = 70'
    """
    if method not in own.stated:
        return ""
    return f"{STRENGTH[method]} = {scale * own.stated[method]:g}"


def at_best(rows: pd.DataFrame, column: str = "scale") -> pd.DataFrame:
    """Each half of the seeds at the value of *column* that is best on average for the other half,
    so that luck that helps a choice does not count; nothing where a half is empty.
    """
    _, place = np.unique(rows["seed"].to_numpy(), return_inverse=True)
    even = place % 2 == 0
    if even.all() or not even.any():
        return rows.iloc[:0]
    return pd.concat(
        [
            rows.loc[own & (rows[column] == best_scale(rows.loc[~own], column))]
            for own in (even, ~even)
        ]
    )


def of_halves(estimates: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """*estimates* of rows `at_best`, their intervals √2 as wide.

    Seeds of a half are independent, given the choice of the other half. The two halves are not, and
    may be as alike as one: their mean is then as uncertain as that of one half.
    """
    return tuple(
        replace(
            one,
            low=one.value - math.sqrt(2) * (one.value - one.low),
            high=one.value + math.sqrt(2) * (one.high - one.value),
        )
        for one in estimates
    )


def mean_mig(rows: pd.DataFrame) -> float:
    """Mean MIG, NaN of no models."""
    values = rows["mig"].to_numpy(dtype=float)
    return float(values.mean()) if len(values) else math.nan


def best_scale(rows: pd.DataFrame, column: str = "scale") -> float:
    """The scale, or what else stands in *column*, with the highest mean MIG."""
    values = np.unique(rows[column].to_numpy(dtype=float))
    return float(max(values, key=lambda one: mean_mig(rows.loc[rows[column] == one])))


def two_groups(values: ArrayLike) -> bool:
    """Whether sorted *values* fall into two groups of two or more with a wide gap between them.

    >>> two_groups([0.1, 0.12, 0.11, 0.4, 0.42]), two_groups([0.1, 0.2, 0.3, 0.4])
    (True, False)
    """
    ordered: NDArray[np.float64] = np.sort(np.asarray(values, dtype=float))
    if len(ordered) < 4 or not ordered[-1] > ordered[0]:
        return False
    return bool(np.diff(ordered)[1:-1].max() >= _APART * (ordered[-1] - ordered[0]))


def split_remark(found: Models, scale: float | None = 1.0) -> str:
    """Which cells have two groups of seeds, so that their mean describes neither."""
    split = [
        f"{method} on {data_name(found.own.data, version)}"
        for version in VERSIONS
        for method in METHODS
        if two_groups(found.of(version, method, scale)["mig"])
    ]
    if not split:
        return ""
    return (
        f"The seeds of {', '.join(split)} fall into two groups, and a mean describes neither:"
        " look at the figure, where each is a dot."
    )
