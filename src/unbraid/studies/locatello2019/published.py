# SPDX-License-Identifier: Apache-2.0
"""The tables that the slides on Locatello et al. (2019) print, in percent, as shares."""

from __future__ import annotations

import pandas as pd

from unbraid.studies.locatello2019.models import SCORES

DATA = (
    *("dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites"),
    *("cars3d", "shapes3d", "smallnorb"),
)
_PRINTED = ("beta_vae_score", "dci", "factor_vae_score", "mig", "modularity", "sap")
"""The order of metrics on slide 48."""

Table = dict[tuple[str, str], float]
"""A number for each row and column."""


def _table(rows: dict[str, str], columns: tuple[str, ...]) -> Table:
    return {
        (row, column): int(percent) / 100
        for row, percents in rows.items()
        for column, percent in zip(columns, percents.split(), strict=True)
    }


def as_matrix(table: Table) -> pd.DataFrame:
    """*table* with its rows and columns, as a figure shows it.

    >>> as_matrix({("a", "x"): 0.5, ("b", "x"): 0.25})["x"].tolist()
    [0.5, 0.25]
    """
    return pd.Series(table).unstack()


def _with_stand_in(table: Table) -> Table:
    """The same with the numbers of 3D Shapes for the drawn data that stand in for it."""
    drawn = {
        ("shapes3d_drawn", column): share
        for (row, column), share in table.items()
        if row == "shapes3d"
    }
    return table | drawn


BY_OBJECTIVE = _with_stand_in(
    _table(
        {
            "cars3d": "1 36 26 34 37 13",
            "color_dsprites": "30 39 52 26 23 29",
            "noisy_dsprites": "17 21 17 11 41 6",
            "scream_dsprites": "89 50 76 45 60 56",
            "shapes3d": "31 21 14 20 26 10",
            "smallnorb": "68 71 58 71 62 62",
            "dsprites": "29 41 47 26 29 31",
        },
        _PRINTED,
    )
)
"""Variance of each metric that the objective explains, by data and metric (slide 48)."""
BY_SETTING = _with_stand_in(
    _table(
        {
            "cars3d": "4 69 42 59 51 17",
            "color_dsprites": "69 80 61 76 40 56",
            "noisy_dsprites": "26 42 25 29 50 20",
            "scream_dsprites": "93 74 83 66 68 75",
            "shapes3d": "61 78 53 59 49 35",
            "smallnorb": "87 89 81 88 72 82",
            "dsprites": "59 77 54 72 39 56",
        },
        _PRINTED,
    )
)
"""The same by objective and strength together (slide 48)."""
UNSUPERVISED = _table(
    {
        "reconstruction": "-30 -4 59 22 -21 27",
        "total_correlation_sampled": "1 5 -11 -8 -11 -2",
        "kl": "-14 -1 -38 -31 -11 -29",
        "negative_elbo": "-38 -9 48 9 -25 15",
    },
    SCORES,
)
"""Rank correlation of unsupervised scores with metrics on 3D Shapes (slide 49). The slide calls the
columns (A) to (F); that they are the metrics in this order is inferred.
"""
DOWNSTREAM = _table(
    {
        "beta_vae_score": "18 65 28 28 67 78 75 76 50 50",
        "factor_vae_score": "13 49 13 12 58 73 71 71 43 46",
        "mig": "18 63 20 -1 71 86 86 87 62 47",
        "dci": "19 65 18 4 75 94 94 94 62 54",
        "modularity": "-3 -9 15 18 -6 -17 -19 -13 -19 -14",
        "sap": "12 64 20 12 71 77 74 75 56 49",
    },
    (
        *("logistic_10", "logistic_100", "logistic_1000", "logistic_10000"),
        *("trees_10", "trees_100", "trees_1000", "trees_10000"),
        *("logistic_efficiency_100", "trees_efficiency_100"),
    ),
)
"""Rank correlation of metrics with downstream accuracy and efficiency on dSprites (slide 50)."""
_TRANSFER = {
    ("dsprites", "color_dsprites"): 95,
    ("dsprites", "noisy_dsprites"): 65,
    ("dsprites", "scream_dsprites"): 65,
    ("dsprites", "smallnorb"): 34,
    ("dsprites", "cars3d"): 64,
    ("dsprites", "shapes3d"): 46,
    ("color_dsprites", "noisy_dsprites"): 61,
    ("color_dsprites", "scream_dsprites"): 60,
    ("color_dsprites", "smallnorb"): 21,
    ("color_dsprites", "cars3d"): 63,
    ("color_dsprites", "shapes3d"): 47,
    ("noisy_dsprites", "scream_dsprites"): 68,
    ("noisy_dsprites", "smallnorb"): 17,
    ("noisy_dsprites", "cars3d"): 64,
    ("noisy_dsprites", "shapes3d"): 59,
    ("scream_dsprites", "smallnorb"): 36,
    ("scream_dsprites", "cars3d"): 93,
    ("scream_dsprites", "shapes3d"): 69,
    ("smallnorb", "cars3d"): 21,
    ("smallnorb", "shapes3d"): -9,
    ("cars3d", "shapes3d"): 85,
}


def transfer(first: str, second: str) -> float | None:
    """Rank correlation of DCI over settings between two data sets (slide 49), if it is printed.

    >>> transfer("color_dsprites", "dsprites"), transfer("dsprites", "sprites")
    (0.95, None)
    """
    pair = [name.removesuffix("_drawn") for name in (first, second)]
    found = [_TRANSFER.get((one, other)) for one, other in (pair, pair[::-1])]
    percent = next((value for value in found if value is not None), None)
    return None if percent is None else percent / 100
