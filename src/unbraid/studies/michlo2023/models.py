# SPDX-License-Identifier: Apache-2.0
"""Which rows of the study's table an analysis looks at, and what it calls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.objectives.conventions import beta_of_means
from unbraid.studies.michlo2023.pools import VALUES

if TYPE_CHECKING:
    import pandas as pd

KINDS = {"ada_gvae": "ada", "beta_vae": "beta"}
NAMES = {"ada": "Ada-GVAE", "beta": "β-VAE"}
STAND_INS = {"shapes3d_drawn": "shapes3d"}
"""Drawn data in place of published ones."""
SMALL = "sprites"
"""Data of the scale `small`, where they take the place of dSprites."""
COLLAPSED = 3
"""A model of XYSquares with fewer active latents knows less than half of its six factors."""
OVERLAP = "distances.overlap"
"""Share of draws that decode to a neighbour; every model has it whose distances were measured."""
_DIGITS = 3
"""Of β as the paper prints it."""


@dataclass(frozen=True)
class Models:
    """Models of some pools, each with its scores."""

    rows: pd.DataFrame
    """With `kind` (ada or beta), `beta` as the paper states it and `loss` (mse or blur); `data` of
    XYSquares tells the spacing, so that each is a data set of its own.
    """
    remark: str


def models(table: pd.DataFrame, pools: Sequence[str], columns: Sequence[str]) -> Models | None:
    """Models of *pools* at their last step; None where one of *columns* is missing or none is left.

    Models that diverged or lack one of *columns* are left out.
    """
    wanted = {*columns, "latents", "likelihood", "spacing"}
    if table.empty or not wanted <= {*table.columns}:
        return None
    rows = table.loc[table["pool"].isin([*pools])]
    if rows.empty:
        return None
    last = rows.groupby(["pool", "slice"])["steps"].transform("max")
    diverged = rows["status"] != "trained"
    rows = rows.loc[diverged | (rows["steps"] == last)]
    scored = np.isfinite(rows[[*columns]].to_numpy(dtype=float)).all(axis=1)
    kept = rows.loc[scored & (rows["status"] == "trained")].reset_index(drop=True)
    if kept.empty:
        return None
    return Models(_named(kept), _remark(kept, len(rows) - len(kept)))


def by(
    rows: pd.DataFrame, columns: Sequence[str], score: str
) -> dict[tuple[Any, ...], NDArray[np.float64]]:
    """The values of *score* by those of *columns*, in the order in which they first appear."""
    found: dict[tuple[Any, ...], list[float]] = {}
    keys = zip(*(rows[name].tolist() for name in columns), strict=True)
    for key, value in zip(keys, rows[score].to_numpy(dtype=float), strict=True):
        found.setdefault(key, []).append(float(value))
    return {key: np.array(values) for key, values in found.items()}


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    sums, latents = rows["strength"].to_numpy(), rows["latents"].to_numpy()
    values = [VALUES.get(data, 64 * 64 * 3) for data in rows["data"]]
    betas = [
        float(f"{beta_of_means(float(beta), value, int(count)):.{_DIGITS}g}")
        for beta, value, count in zip(sums, values, latents, strict=True)
    ]
    spaced = [
        f"{data}:spacing={int(spacing)}" if np.isfinite(spacing) else data
        for data, spacing in zip(rows["data"], rows["spacing"].astype(float), strict=True)
    ]
    return rows.assign(
        kind=[KINDS[name] for name in rows["objective"]],
        beta=betas,
        loss=["blur" if "+" in one else "mse" for one in rows["likelihood"]],
        data=spaced,
    )


def _remark(rows: pd.DataFrame, left_out: int) -> str:
    told = []
    if SMALL in {*rows["data"]}:
        told.append("Measured on small sprites in place of dSprites.")
    told += [
        f"{name} is a drawn stand-in for 3D Shapes."
        for name in STAND_INS
        if name in {*rows["data"]}
    ]
    if left_out:
        told.append(f"Models left out, since they diverged or lack a score: {left_out}.")
    return " ".join(told)


def paper_name(data: str) -> str:
    """What the paper calls *data* that stand in for others, its spacing left out.

    >>> paper_name("shapes3d_drawn"), paper_name("xysquares:spacing=8"), paper_name("sprites")
    ('shapes3d', 'xysquares', 'dsprites')
    """
    name = data.partition(":")[0]
    return "dsprites" if name == SMALL else STAND_INS.get(name, name)
