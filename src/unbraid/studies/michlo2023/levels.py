# SPDX-License-Identifier: Apache-2.0
"""Distances inside models, level by level (figures 4 and 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.analysis.distances.learnt import LEVELS as PLACES
from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.michlo2023.models import OVERLAP, by, models
from unbraid.studies.michlo2023.pools import BLUR, LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence

INPUTS = "distances.inputs_with_truth"
WITH_INPUTS = [f"distances.{level}_with_inputs" for level in PLACES]
WITH_TRUTH = [f"distances.{level}_with_truth" for level in PLACES]
LEAST_GAIN = "blur less squared error, least over levels"


def levels_follow_inputs(table: pd.DataFrame) -> Finding | None:
    """MIC-F4: rank correlation of what each level of a β-VAE has with what its loss perceives."""
    found = models(_equal_as_none(table, WITH_INPUTS), [LEVELS], WITH_INPUTS)
    if found is None:
        return None
    return Finding(
        leave_out_seeds(found.rows, _with_inputs, within=(-1.0, 1.0)),
        _violins(found.rows, WITH_INPUTS, "data", "rank correlation with perceived distances"),
        found.remark,
    )


def _equal_as_none(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The *table* with 0 where a level of a model has no correlation, since all its distances are
    equal: that of a collapsed model follows nothing, and left out would make the others look good.

    Of models whose distances were measured, which have an overlap.
    """
    if not {*columns, OVERLAP} <= {*table.columns}:
        return table
    measured = (table["status"] == "trained") & table[OVERLAP].notna()
    return table.assign(
        **{name: table[name].mask(measured & table[name].isna(), 0.0) for name in columns}
    )


def _with_inputs(rows: pd.DataFrame) -> Mapping[str, float]:
    """Means over data sets, of which one may have more models left than another."""
    further = [name for name in (*WITH_TRUTH, INPUTS) if name in rows]
    parts = {name: by(rows, ["data"], name).values() for name in (*WITH_INPUTS, *further)}
    return {
        f"{_level(name)} with {'inputs' if name in WITH_INPUTS else 'the truth'}": float(
            np.mean([values.mean() for values in own])
        )
        for name, own in parts.items()
    }


def _level(column: str) -> str:
    return column.removeprefix("distances.").partition("_")[0]


def blur_orders_levels(table: pd.DataFrame) -> Finding | None:
    """MIC-F10: rank correlations with the truth at each level of β-VAEs with both losses."""
    found = models(_equal_as_none(table, WITH_TRUTH), [BLUR], WITH_TRUTH)
    if found is None:
        return None
    rows = found.rows.loc[found.rows["kind"] == "beta"].reset_index(drop=True)
    if {*rows["loss"]} != {"mse", "blur"}:
        return None
    return Finding(
        (
            *leave_out_seeds(rows, _by_loss, within=(-1.0, 1.0)),
            *leave_out_seeds(rows, _gain, within=(-1.0, 1.0), differences=[LEAST_GAIN]),
        ),
        _violins(rows, WITH_TRUTH, "loss", "rank correlation with the true distance"),
        " ".join(
            [
                "Inputs under squared error are all equally far apart and have no correlation.",
                found.remark,
            ]
        ).strip(),
    )


def _by_loss(rows: pd.DataFrame) -> Mapping[str, float]:
    told = {
        f"{_level(name)} with the truth, {loss}": float(by(rows, ["loss"], name)[(loss,)].mean())
        for loss in ("blur", "mse")
        for name in WITH_TRUTH
    }
    inputs = by(rows, ["loss"], INPUTS)[("mse",)]
    ordered = float(np.isfinite(inputs).mean())
    return told | {"share of models whose inputs have an order under squared error": ordered}


def _gain(rows: pd.DataFrame) -> Mapping[str, float]:
    told = _by_loss(rows)
    names = [f"{_level(name)} with the truth" for name in WITH_TRUTH]
    gaps = [told[f"{name}, blur"] - told[f"{name}, mse"] for name in names]
    return {LEAST_GAIN: min(gaps)}


def _violins(rows: pd.DataFrame, columns: Sequence[str], group: str, y: str) -> Exhibit:
    parts = [
        pd.DataFrame({"x": _level(name), "y": rows[name], "group": rows[group]}) for name in columns
    ]
    caption = f"Every model at every level, by {group}."
    return Exhibit("violins", pd.concat(parts, ignore_index=True), "level", y, caption)
