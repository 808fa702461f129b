# SPDX-License-Identifier: Apache-2.0
"""Which rows of the study's table an analysis looks at: trained models of whole grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unbraid.studies.locatello2019.pools import DRAWN, GRIDS, PUBLISHED, SIX, STRENGTHS

if TYPE_CHECKING:
    import pandas as pd

SCORES = SIX
"""The six metrics of the study."""
OBJECTIVES = tuple(STRENGTHS)
PLACES = 6
"""Strengths in a sweep."""
STAND_INS = {"shapes3d_drawn": "a drawn stand-in for 3D Shapes"}
SMALL = "sprites"
"""Data of the scale `small`, where they take the place of any other."""
ORDER = (*DRAWN, *PUBLISHED, SMALL)
"""In which data are told, whatever the order of the rows."""


@dataclass(frozen=True)
class Models:
    """Rows of models that have every score asked for, and what a reader must know of them."""

    rows: pd.DataFrame
    """With `position`, the place of the strength in its sweep, from 0."""
    remark: str

    @property
    def data(self) -> list[str]:
        """Names of the data."""
        return list(dict.fromkeys(self.rows["data"]))


def models(
    table: pd.DataFrame, columns: Sequence[str], *, data: Sequence[str] = (), at_least: int = 1
) -> Models | None:
    """Models with all of *columns*, on *at_least* so many data sets; None where they are missing.

    Of *data*, where given, the first is taken that there is. A seed counts on a data set once it
    has been trained with every setting (of the scale `small`, whose grid has three strengths, with
    the first and the last), so that no half of a grid is judged. Models that diverged or lack a
    score are left out.
    """
    if table.empty or not {*columns} <= {*table.columns}:
        return None
    rows = table.loc[table["pool"].isin(GRIDS)].reset_index(drop=True)
    if rows.empty:
        return None
    whole = rows.groupby(["data", "seed"])[["data", "objective", "strength"]].apply(_is_whole)
    rows = rows.loc[[bool(whole[key]) for key in zip(rows["data"], rows["seed"], strict=True)]]
    if data:
        there = [name for name in (*data, SMALL) if name in {*rows["data"]}]
        rows = rows[rows["data"].isin(there[:1])]
    scored = np.isfinite(rows[[*columns]].to_numpy(dtype=float)).all(axis=1)
    kept = rows.loc[scored & (rows["status"] == "trained")]
    if len({*kept["data"]}) < at_least:
        return None
    place = {name: number for number, name in enumerate(ORDER)}
    order = np.argsort([place.get(name, len(place)) for name in kept["data"]], kind="stable")
    kept = kept.iloc[order].reset_index(drop=True)
    kept = kept.assign(position=_positions(kept))
    return Models(kept, _remark(list(dict.fromkeys(kept["data"])), data, len(rows) - len(kept)))


def cubes(
    rows: pd.DataFrame, columns: Sequence[str]
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """By data set: *columns* as `(columns, objectives, places, seeds)`, and the seeds.

    NaN where there is no such model.
    """
    objective = np.array([OBJECTIVES.index(name) for name in rows["objective"]])
    place, seed = rows["position"].to_numpy(), rows["seed"].to_numpy()
    names, values = rows["data"].to_numpy(), rows[[*columns]].to_numpy(dtype=float)
    found = {}
    for data in dict.fromkeys(names):
        here = names == data
        seeds, which = np.unique(seed[here], return_inverse=True)
        cube = np.full((len(columns), len(OBJECTIVES), PLACES, len(seeds)), np.nan)
        cube[:, objective[here], place[here], which] = values[here].T
        found[data] = (cube, seeds)
    return found


def _is_whole(rows: pd.DataFrame) -> bool:
    """Whether every objective has all of its strengths, on small data the first and the last."""
    small = rows["data"].iloc[0] == SMALL
    there = {*zip(rows["objective"], rows["strength"], strict=True)}
    return all(
        (objective, value) in there
        for objective, (_, values) in STRENGTHS.items()
        for value in (values[:: len(values) - 1] if small else values)
    )


def _positions(rows: pd.DataFrame) -> NDArray[np.int64]:
    pairs = zip(rows["objective"], rows["strength"], strict=True)
    return np.array([STRENGTHS[objective][1].index(strength) for objective, strength in pairs])


def _remark(found: list[str], wanted: Sequence[str], left_out: int) -> str:
    told = []
    if wanted and found[0] != wanted[0]:
        told.append(f"Measured on {found[0]} instead of {wanted[0]}.")
    told += [f"{name} is {what}." for name, what in STAND_INS.items() if name in found]
    if left_out:
        told.append(f"Models left out, since they diverged or lack a score: {left_out}.")
    return " ".join(told)
