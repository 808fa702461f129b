# SPDX-License-Identifier: Apache-2.0
"""Claims about data sets: whether the order of values can be seen, and what each factor weighs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import exactly, spearman
from unbraid.studies.michlo2023.measured import OURS, XYSQUARES, distances_of
from unbraid.studies.michlo2023.models import STAND_INS
from unbraid.studies.michlo2023.pools import PUBLISHED
from unbraid.studies.michlo2023.published import A1, RANDOM

ORDERED = (
    *(("dsprites", name) for name in ("x", "y", "scale")),
    ("shapes3d_drawn", "scale"),
)
"""Factors whose distances resemble the truth in figure 3, by the data they are measured on here."""
UNORDERED = ("cars3d", "object")
ERRORS = 1.96
"""Standard errors to either side of a mean that hold 95%."""
STAND_IN = "shapes3d_drawn is a drawn stand-in for 3D Shapes"


def ordered_factors(table: pd.DataFrame) -> Finding | None:
    """MIC-F3a: rank correlations of the factors that figure 3 shows in order."""
    return order_of(ORDERED)


def order_of(factors: Sequence[tuple[str, str]]) -> Finding:
    """The same for any *factors*, each with its data."""
    estimates = [_correlation(_rows(data), data, factor) for data, factor in factors]
    least = min(estimates, key=lambda one: one.value)
    lowest = Estimate("least rank correlation", least.value, least.low, least.high, len(estimates))
    return Finding((lowest, *estimates), _all_data(), f"{STAND_IN}.")


def _rows(data: str) -> pd.DataFrame:
    found = distances_of(data)
    assert found is not None
    return found


def _correlation(rows: pd.DataFrame, data: str, factor: str) -> Estimate:
    """Mean rank correlation over traversals with its 95% interval."""
    one = rows.loc[factor].to_dict()
    known = int(one["traversals"] - one["undefined"])
    width = ERRORS * one["spearman_std"] / math.sqrt(max(1, known))
    value = float(one["spearman"])
    return Estimate(f"{data}: {factor}", value, value - width, value + width, known)


def _all_data() -> Exhibit:
    """Every factor of all data that are here: what it weighs, and whether its order is seen. Those
    of XYSquares are alike.
    """
    shown = {}
    for data in (*OURS, *PUBLISHED):
        rows = distances_of(data)
        if rows is None:
            continue
        random = rows.loc[RANDOM, "mean"]
        alike = data in XYSQUARES
        for factor, one in rows.drop(index=RANDOM)[: 1 if alike else None].iterrows():
            name = f"{data}: {'all' if alike else factor}"
            shown[name] = (one["mean"] / random, one["spearman"])
    columns = ["distance, share of random pairs'", "rank correlation with the truth"]
    return Exhibit(
        "matrix",
        pd.DataFrame.from_dict(shown, orient="index", columns=columns),
        "by squared error, before any training",
        "data set and factor",
        "What a squared error sees of every factor; no correlation where all distances are equal.",
    )


def unordered_kinds(table: pd.DataFrame) -> Finding | None:
    """MIC-F3b: rank correlation of the kinds of cars, where their file is."""
    return no_order_of(*UNORDERED)


def no_order_of(data: str, factor: str) -> Finding | None:
    """The same for any *factor* of any *data*; None where they are not here."""
    rows = distances_of(data)
    if rows is None:
        return None
    found = _correlation(rows, data, factor)
    name = "rank correlation of the kinds"
    return Finding((Estimate(name, found.value, found.low, found.high, found.count),))


def importances(table: pd.DataFrame) -> Finding | None:
    """MIC-A1: distances by factor of every data set of the paper's table that is here."""
    return against_table(A1)


def against_table(table: Mapping[str, Mapping[str, float]]) -> Finding:
    """Distances here beside those of *table*, by data and factor."""
    estimates, worst, orders = [], [], []
    for data, printed in table.items():
        spelled = _here(data)
        rows = distances_of(spelled)
        if rows is None:
            continue
        own = [_estimate(rows, spelled, factor, paper) for factor, paper in printed.items()]
        estimates += own
        if spelled in STAND_INS:
            continue
        worst += [_relative(one) for one in own]
        if len({*printed.values()}) > 2:
            factors = [(one.value, one.paper) for one in own if not one.name.endswith(RANDOM)]
            orders.append(spearman(*zip(*factors, strict=True)))
    gap, low, high = max(worst)
    return Finding(
        (
            Estimate("largest relative difference from the table", gap, low, high, len(worst)),
            exactly("rank correlation with the table's order, least", min(orders), len(orders)),
            *estimates,
        ),
        _bars(estimates),
        f"Pairs of equal value are not counted, as in the authors' code. {STAND_IN} and is not"
        " judged.",
    )


def _here(data: str) -> str:
    """The paper's *data* as they are spelled here, a drawn stand-in where their file is missing."""
    drawn = {paper: own for own, paper in STAND_INS.items()}
    if data in drawn and distances_of(data) is None:
        return drawn[data]
    return "xysquares:spacing=8" if data == "xysquares" else data


def _estimate(rows: pd.DataFrame, data: str, factor: str, paper: float) -> Estimate:
    one = rows.loc[factor].to_dict()
    error = one["standard_error"] if math.isfinite(one["standard_error"]) else 0.0
    low, high = one["mean"] - ERRORS * error, one["mean"] + ERRORS * error
    return Estimate(f"{data}: {factor}", one["mean"], low, high, int(one["pairs"]), paper)


def _relative(one: Estimate) -> tuple[float, float, float]:
    """How far it is from the paper's number, as a share of that, with the interval's ends."""
    assert one.paper is not None
    gap, width = abs(one.value / one.paper - 1), (one.high - one.low) / 2 / one.paper
    return gap, max(0.0, gap - width), gap + width


def _bars(estimates: Sequence[Estimate]) -> Exhibit:
    """Table A1 as bars; of the factors of XYSquares, which are alike, one."""
    alike = [f"xysquares:spacing=8: {name}" for name in ("y_R", "x_G", "y_G", "x_B", "y_B")]
    shown = [one for one in estimates if one.name not in alike]
    names = [one.name.replace(RANDOM, "random") for one in shown]
    rows = [(name, one.value, "here") for name, one in zip(names, shown, strict=True)]
    rows += [(name, one.paper, "paper") for name, one in zip(names, shown, strict=True)]
    return Exhibit(
        "bars",
        pd.DataFrame(rows, columns=["x", "y", "group"]),
        "data set and factor",
        "mean squared distance",
        "Table A1 beside what is measured here; the six factors of XYSquares are alike.",
    )
