# SPDX-License-Identifier: Apache-2.0
"""The lineage of population-based training: a table, and the ancestry of one individual.

The scheme is that of Jaderberg et al. (2017) and Estermann et al. (2020): after every epoch the
worst individuals take weights and hyperparameters of good ones and change the latter. A row of the
table is one individual after one epoch:

    epoch, individual   from 0; pages and progress count epochs from 1
    parent              individual of the epoch before whose weights it started from: its own where
                        it went on, -1 where it has none
    copied              whether it took them from another
    score, diverged     NaN where there is no score
    images              images seen so far
    active_latents      the fewest that a model of it uses
    collapsed           whether these are too few; tables of earlier versions have neither
    any other number    an evolved hyperparameter, with the value of this epoch
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Problems, Shown, invalid
from unbraid.report.train.settings import shown, symbol

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("epoch", "individual", "parent", "copied", "score", "diverged", "images")
ACTIVE, COLLAPSED = "active_latents", "collapsed"


def check_lineage(lineage: pd.DataFrame) -> None:
    """Refuse a table that lacks a column, has no row, or has an individual twice."""
    problems = Problems()
    missing = [name for name in COLUMNS if name not in lineage.columns]
    if missing:
        problems.add(
            "lineage",
            f"must have the columns {', '.join(COLUMNS)}",
            Shown(f"a table without {', '.join(missing)}"),
        )
    elif len(lineage) == 0:
        problems.add("lineage", "must have a row for each individual and epoch", Shown("no row"))
    else:
        twice = lineage[lineage.duplicated(["epoch", "individual"])]
        if len(twice):
            first = twice.iloc[0]
            rule = "must have one row for an individual and epoch"
            problems.add(
                "lineage",
                rule,
                Shown(
                    f"two for individual {int(first['individual'])} in epoch {int(first['epoch'])}"
                ),
            )
    problems.raise_if_any()


def hyper_columns(lineage: pd.DataFrame) -> list[str]:
    """The evolved hyperparameters: all numbers that are not part of the bookkeeping."""
    return [
        name
        for name in lineage.columns
        if name not in (*COLUMNS, ACTIVE) and lineage[name].dtype.kind in "iuf"
    ]


def collapsed_rows(lineage: pd.DataFrame) -> NDArray[np.bool_]:
    """Which rows are those of individuals that are collapsed, and have a score all the same."""
    if COLLAPSED not in lineage:
        return np.zeros(len(lineage), dtype=bool)
    return lineage[COLLAPSED].to_numpy(bool) & lineage["score"].notna().to_numpy()


def ancestry(lineage: pd.DataFrame, epoch: int, individual: int) -> list[tuple[int, int]]:
    """The individual and all it came from as (epoch, individual), the oldest first."""
    check_lineage(lineage)
    keys = zip(lineage["epoch"].astype(int), lineage["individual"].astype(int), strict=True)
    parents = dict(zip(keys, lineage["parent"].astype(int), strict=True))
    if (epoch, individual) not in parents:
        epochs = lineage["epoch"].astype(int).tolist()
        remedy = f"The table's epochs are {min(epochs)} to {max(epochs)}."
        raise invalid(
            "individual", "must be in the lineage", Shown(f"{individual} of epoch {epoch}"), remedy
        )
    line = [(epoch, individual)]
    while (parent := parents[line[-1]]) >= 0:
        before = (line[-1][0] - 1, parent)
        if before not in parents:
            child = f"individual {line[-1][1]} of epoch {line[-1][0]}"
            value = Shown(f"individual {parent} of epoch {before[0]}")
            raise invalid(f"parent of {child}", "must be in the lineage", value)
        line.append(before)
    return line[::-1]


def changes(lineage: pd.DataFrame) -> list[str]:
    """What each row changed against its parent, such as "β 4 → 4.8"; empty where nothing."""
    place = {
        key: at for at, key in enumerate(zip(lineage["epoch"], lineage["individual"], strict=True))
    }
    values = {name: lineage[name].astype(float).tolist() for name in hyper_columns(lineage)}
    found = []
    for at, (epoch, parent) in enumerate(zip(lineage["epoch"], lineage["parent"], strict=True)):
        before = place.get((epoch - 1, parent))
        pairs = (
            []
            if before is None
            else [(name, column[before], column[at]) for name, column in values.items()]
        )
        parts = [
            f"{symbol(name)} {value_shown(old)} → {value_shown(new)}"
            for name, old, new in pairs
            if old != new and (old == old or new == new)
        ]
        found.append(", ".join(parts))
    return found


def value_shown(value: float) -> str:
    """A hyperparameter's value with four digits, a stroke where there is none."""
    return shown(float(f"{value:.4g}")) if math.isfinite(value) else "–"
